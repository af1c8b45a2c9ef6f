/** Entries that root creates in the folder of another user belong to that user, and do not prevent the user's next start. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDisk } from '../../../src/journal/disk.ts';
import { basePath, openFolder } from '../../../src/journal/entry.ts';
import { copyFile } from '../../../src/journal/file-io.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { runAsUser, USER, userFolder, withoutBuilt } from '../../support/as-user.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { withoutRoot } from '../../support/machine.ts';
import { newFolder, run, startService } from '../../support/program.ts';
import { FIRST, flip, makeLines } from '../../support/segments.ts';
import { lockFolder } from '../../support/standard-limits.ts';
import { ask, post } from '../../support/wire.ts';

const TARGET = '/report_asset_materialization/';
/** A report that fills a file of 4096 bytes. */
const FILLING = JSON.stringify({ metadata: { filling: 'x'.repeat(5_000) } });

/** Each entry of the folder, with its owner. */
function readOwners(folder: string): Record<string, number> {
  // A sidecar that is being written might not be given away yet, or never after a kill; the next start removes it anyway.
  const entries = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => !name.endsWith('.idx.new'),
  );
  return Object.fromEntries(
    entries.map((entry) => {
      const { uid, gid } = lstatSync(join(folder, entry));
      assert.equal(uid === USER, gid === USER, entry);
      return [entry, uid];
    }),
  );
}

/** A kill can leave a file that was to replace another with its first owner: the next one is made anew. */
function assertUsers(folder: string): void {
  for (const [entry, uid] of Object.entries(readOwners(folder)))
    if (!entry.endsWith('.new')) assert.equal(uid, USER, entry);
}

test('files, folders and locks that root creates belong to the owner of the folder, a user or root', {
  skip: withoutRoot,
}, async (t) => {
  const own = openDisk(join(newFolder(t), 'data'));
  await own.prepare();
  await (await own.create('file')).close();
  assert.deepEqual(readOwners(own.folder), { file: 0 });

  const folder = userFolder(t);
  const disk = openDisk(folder);
  await (await disk.create('file')).close();
  await (await disk.createLog('log')).close();
  await disk.createFolder('side');
  await copyFile(disk, 'file', 'side/copy');
  await openDisk(join(folder, 'deployment')).prepare();
  const lock = await lockFolder(folder);
  assert.equal(Object.keys(readOwners(folder)).length, 6);
  assertUsers(folder);
  await lock.release();
});

test('root creates a file in the folder that it opened, even if its name is that of another folder by then', {
  skip: withoutRoot,
}, async (t) => {
  const folder = userFolder(t);
  const victim = newFolder(t);
  const entries = await openFolder(folder);
  renameSync(folder, `${folder}.moved`);
  t.after(() => rmSync(`${folder}.moved`, { recursive: true }));
  symlinkSync(victim, folder);
  writeFileSync(join(await basePath(folder, entries), 'file'), '');
  await entries.close();
  assert.deepEqual([readdirSync(victim), readdirSync(`${folder}.moved`)], [[], ['file']]);
  rmSync(folder);
});

test('files of a service and a repair by root belong to the user, even after a kill, and the user can start on them', {
  skip: withoutRoot || withoutBuilt,
}, async (t) => {
  const data = userFolder(t);
  const args = ['--segment-bytes', '4096'];
  const first = await startService(t, { data, args });
  for (const key of ['a', 'b']) assert.equal((await ask(first.port, post(TARGET + key, FILLING))).status, 200);
  assertUsers(data);
  await first.kill('SIGKILL');
  truncateSync(join(data, segmentName(2)), lstatSync(join(data, segmentName(2))).size - 10); // a torn end
  const second = await startService(t, { data, args });
  assert.equal((await second.kill('SIGTERM')).code, 0);
  const { bytes, lines } = makeLines(10);
  writeFileSync(join(data, FIRST), flip(bytes, lines.slice(0, 3).join('').length + 99));
  assert.equal((await run(['repair', '--data', data, '--yes'])).code, 0);
  const third = await startService(t, { data, args });
  assert.equal((await ask(third.port, post(`${TARGET}c`, FILLING))).status, 200);
  await third.kill('SIGKILL');
  for (const part of ['.lock-', '.torn', 'damaged-', '.lost'])
    assert.ok(
      readdirSync(data).some((name) => name.includes(part)),
      part,
    );
  assertUsers(data);

  const user = await runAsUser(t, data);
  assert.equal((await ask(user.port, post(`${TARGET}d`))).status, 200, user.stderr);
});

test('a lock that the user may not connect to prevents a start, but an unpublished lock does not', {
  skip: withoutRoot || withoutBuilt,
}, async (t) => {
  for (const [name, code] of [
    ['.lock-older', 4],
    ['.unlocked-older', null],
  ] as const) {
    const data = userFolder(t);
    const holder = createServer((asker) => asker.end('held 1')).listen(join(data, name));
    t.after(() => holder.close());
    await once(holder, 'listening');
    chmodSync(join(data, name), 0o755);
    const end = await runAsUser(t, data);
    assert.equal(end.code, code, end.stderr);
    if (code === 4)
      assert.match(end.stderr, /^assetlog: \S+ is in use by a process of another user, whose \.lock-older /);
    else assert.equal((await ask(end.port, post(`${TARGET}a`))).status, 200);
  }
});

test('the folder of a deployment belongs to the owner of the data folder', { skip: withoutRoot }, async (t) => {
  const data = userFolder(t);
  const { args, headerOf } = writeDeployments(t, ['prod']);
  const { port } = await startService(t, { data, args });
  const report = post(`/prod${TARGET}a`, undefined, [headerOf('prod')]);
  assert.equal((await ask(port, report)).status, 200);
  assert.ok(Object.keys(readOwners(data)).includes('prod'));
  assertUsers(data);
});

test('verify changes nothing', async (t) => {
  const data = newFolder(t);
  mkdirSync(join(data, 'damaged-before'));
  writeFileSync(join(data, FIRST), Buffer.concat([makeLines(3).bytes, Buffer.from('torn')]));
  const readTimes = () => {
    const names = ['.', ...readdirSync(data)];
    return names.map((name) => [name, lstatSync(join(data, name), { bigint: true }).ctimeNs]);
  };
  const before = readTimes();
  assert.equal((await run(['verify', '--data', data])).code, 0);
  assert.deepEqual(readTimes(), before);
});
