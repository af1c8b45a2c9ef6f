/** Files that the service makes again, and what else can have their names. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { createSnapshot, readSnapshot, writeSnapshot } from '../../src/forward/hub/snapshot.ts';
import { openDisk } from '../../src/journal/disk.ts';
import { isMadeAgain, sidecarName } from '../../src/journal/segments.ts';
import { eventsIn, newFolder } from '../support/program.ts';
import { type Served, serve } from '../support/service.ts';

/** Each puts something else under a name. A hole has no blocks, and can be larger than the disk. */
const OTHERS: Readonly<Record<string, (path: string, target: string) => void>> = {
  link: (path, target) => symlinkSync(target, path),
  'link to nothing': (path) => symlinkSync('/nonexistent/file', path),
  folder: (path) => {
    mkdirSync(path);
    writeFileSync(join(path, 'inside'), 'kept');
  },
  FIFO: (path) => execFileSync('mkfifo', [path]),
  hole: (path) => {
    writeFileSync(path, '');
    truncateSync(path, 2 ** 40);
  },
};
const NAMES = [sidecarName(1), `${sidecarName(1)}.new`, 'assets.state', 'assets.state.new', '.stopped-cleanly'];

async function report({ port }: Pick<Served, 'port'>, key: string): Promise<void> {
  const { status } = await fetch(`http://127.0.0.1:${port}/report_asset_observation/${key}`, {
    method: 'POST',
    headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ description: 'x'.repeat(2_000) }),
  });
  assert.equal(status, 200);
}

async function assetsOf({ port }: Pick<Served, 'port'>): Promise<number> {
  const { assets } = (await (await fetch(`http://127.0.0.1:${port}/assets`)).json()) as { assets: readonly unknown[] };
  return assets.length;
}

test('an entry in the place of a file that is rebuilt delays no start, and is not lost', async (t) => {
  const args = ['--read', '--segment-bytes', '4096'];
  const first = await serve(t, { args });
  for (const key of ['a', 'b', 'c', 'd', 'e']) await report(first, key);
  assert.equal(await assetsOf(first), 5);
  await first.stop();
  const target = join(newFolder(t), 'target');
  writeFileSync(target, 'of the operator');
  for (const name of NAMES) {
    assert.ok(isMadeAgain(name), name);
    for (const [what, put] of Object.entries(OTHERS)) {
      const data = newFolder(t);
      const path = join(data, name);
      cpSync(first.data, data, { recursive: true });
      rmSync(path, { force: true });
      put(path, target);
      const service = await serve(t, { data, args });
      await report(service, 'a'); // its key is in the sidecar, or in the segment
      assert.equal(await assetsOf(service), 5, `${what} ${name}`);
      await service.stop();
      assert.equal(eventsIn(data).length, 5, `${what} ${name}`);
      const { size } = lstatSync(path, { throwIfNoEntry: false }) ?? { size: 0 };
      // What is left of an interrupted write goes with the next one.
      if (!name.endsWith('.new')) assert.ok(lstatSync(path).isFile() && size < 10_000, `${what} ${name}`);
      const kept = readdirSync(data).filter((one) => one.startsWith(`${name}.moved-`) || one === name);
      const isKept = kept.some((one) => lstatSync(join(data, one)).isDirectory());
      if (what === 'folder') assert.ok(isKept, name);
      if (what.startsWith('link'))
        assert.ok(
          service.notices.some((line) => line.includes('a link was removed')),
          name,
        );
      assert.equal(readFileSync(target, 'utf8'), 'of the operator');
    }
  }
});

test('the watermarks of a hub are rebuilt although a folder has their name', async (t) => {
  const disk = openDisk(newFolder(t));
  for (const name of ['forward-sources.json', 'forward-sources.json.new']) {
    assert.ok(isMadeAgain(name));
    OTHERS['folder']!(join(disk.folder, name), '');
  }
  assert.equal(await readSnapshot(disk, limits), 'bad');
  await writeSnapshot(disk, createSnapshot());
  assert.deepEqual(await readSnapshot(disk, limits), createSnapshot());
  assert.equal((await disk.list()).filter((name) => name.includes('.moved-')).length, 2);
});
