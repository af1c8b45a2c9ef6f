/**
 * A power cut: the file system is cut off from its disk under load, the service is killed, and the file system is mounted
 * again in the state of the disk. All events acknowledged before the cut have to be there. A client can read a 200 that is
 * newer than the cut, so the set of acknowledged events is read just before.
 *
 * A disk that loses what it reported as synced cannot be shown in this way: the image file keeps all that was sent to it.
 */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { rounds } from '../support/long.ts';
import { withoutPowerCut, withoutXfs } from '../support/machine.ts';
import { eventsIn, launch, type RunOptions, startService } from '../support/program.ts';
import { eventually, HANG_MS } from '../support/tools.ts';
import { assertOnce, compare, report, startLoad } from './load.ts';
import { type Kind, type Mount, mountNew } from './mounts.ts';

const MIB = 1024 * 1024;
const ROUNDS = 5;
const ARGS = ['--segment-bytes', '65536'];
/** More than one file holds. */
const EVENTS_OF_FILE = 120;

for (const kind of (['ext4', 'xfs'] as const).slice(0, rounds({ long: 2, short: 1 }))) {
  const skip = withoutPowerCut || (kind === 'xfs' && withoutXfs);

  test(`after each of ${ROUNDS} power cuts on ${kind} all acknowledged events are recorded once, and seq has no gap`, {
    skip,
  }, async (t) => {
    const { mount, data } = newJournal(t, kind);
    const acknowledged = new Set<string>();
    for (let round = 0; round < ROUNDS; round += 1) {
      const delayMs = Math.round(50 + Math.random() * 500);
      t.diagnostic(`round ${round}: cut ${delayMs} ms after the first 200`);
      const before = await cutUnderLoad(t, { mount, data, name: `r${round}`, delayMs, flush: round % 2 === 1 });
      for (const key of before) acknowledged.add(key);
      mount.remount();
      const next = await startService(t, { data, args: ARGS });
      assertOnce(next.events(), acknowledged);
      assert.equal(await report(next.port, `after${round}`), 200);
      acknowledged.add(`after${round}`);
      await next.kill(round % 2 === 0 ? 'SIGKILL' : 'SIGTERM');
    }
    const files = readdirSync(data).filter((name) => name.endsWith('.jsonl'));
    assert.ok(files.length > ROUNDS, `only ${files.length} files: no power cut was near a new one`);
    assert.ok(acknowledged.size > 50 * ROUNDS, `only ${acknowledged.size} acknowledged`);
  });

  test(`a power cut on ${kind} removes events that a service without its sync acknowledged`, { skip }, async (t) => {
    const { mount, data } = newJournal(t, kind);
    const acknowledged = await cutUnderLoad(t, { mount, data, name: 'a', delayMs: 300, ...withoutSync('file') });
    mount.remount();
    const { lost } = compare(eventsIn(data), acknowledged);
    assert.ok(lost.length > 0, 'nothing was lost, so the tests above show nothing');
  });
}

/**
 * ext4 and XFS make the entry of a new file durable with the file, so a missing sync of the folder loses none here. A removed
 * entry shows it: without a journal of the file system it stays on the disk until the folder is synced.
 */
test('after a power cut the marker of a clean stop does not return, since the folder was synced', {
  skip: withoutPowerCut,
}, async (t) => {
  for (const { options, returns } of [
    { options: {}, returns: false },
    { options: withoutSync('folder'), returns: true },
  ]) {
    const { mount, data } = newJournal(t, 'plain ext4');
    await (await startService(t, { data })).kill('SIGTERM');
    mount.remount(); // everything is on the disk
    const service = await startService(t, { data, ...options });
    assert.equal(await report(service.port, 'a'), 200);
    assert.ok(!existsSync(join(data, '.stopped-cleanly')));
    const disk = mount.copyOfDisk();
    // Listed, as in a start: the entry that returns might have no file.
    assert.equal(readdirSync(join(disk.folder, 'data')).includes('.stopped-cleanly'), returns);
    await service.kill('SIGKILL');
  }
});

test('a power cut in the middle of a start leaves a journal that the next start accepts', {
  skip: withoutPowerCut,
}, async (t) => {
  const { mount, data } = newJournal(t, 'ext4');
  const acknowledged = await cutUnderLoad(t, { mount, data, name: 'a', delayMs: 200, flush: true });
  for (let round = 0; round < ROUNDS; round += 1) {
    mount.remount();
    const { child, finished } = launch(['serve', '--port', '0', '--data', data]);
    t.after(() => child.kill('SIGKILL'));
    await sleep(30 + 15 * Math.random() * round); // somewhere between its first and its last step
    mount.cutPower();
    child.kill('SIGKILL');
    await finished;
  }
  mount.remount();
  const next = await startService(t, { data });
  assertOnce(next.events(), acknowledged);
  await next.kill();
});

function newJournal(t: TestContext, kind: Kind): { mount: Mount; data: string } {
  const mount = mountNew(t, kind, { bytes: 64 * MIB });
  const data = join(mount.folder, 'data');
  mkdirSync(data);
  return { mount, data };
}

interface Cut extends RunOptions {
  readonly mount: Mount;
  readonly data: string;
  readonly name: string;
  /** The minimum time from the first 200 to the cut. */
  readonly delayMs: number;
  readonly flush?: boolean;
}

/** @returns the keys acknowledged before the power cut; afterwards no process uses the file system */
async function cutUnderLoad(
  t: TestContext,
  { mount, data, name, delayMs, flush, ...options }: Cut,
): Promise<ReadonlySet<string>> {
  const service = await startService(t, { data, args: ARGS, ...options });
  const load = startLoad(service.port, { clients: 8, name, bodyBytes: 400 });
  t.after(load.stop);
  const reach = (count: number) =>
    eventually(`${count} acknowledged events`, () => load.acknowledged.size >= count, HANG_MS);
  await reach(1);
  await sleep(delayMs);
  await reach(EVENTS_OF_FILE); // on a slow machine too
  const acknowledged = new Set(load.acknowledged);
  mount.cutPower(flush); // blocks, so that no further 200 is read
  await sleep(50); // the service might use the dead disk
  await service.kill('SIGKILL');
  await load.stop();
  return acknowledged;
}

/** Makes the process believe that it synced, which the tests above have to detect. */
function withoutSync(what: 'file' | 'folder'): RunOptions {
  const code =
    what === 'file'
      ? `import fs from 'node:fs'; import promises from 'node:fs/promises'; const { open } = promises; fs.fdatasync = (file, done) => setImmediate(done, null); promises.open = (path, flags, mode) => open(path, flags & ~fs.constants.O_DSYNC, mode);`
      : `import { open } from 'node:fs/promises'; const file = await open('/'); Object.getPrototypeOf(file).sync = async () => {}; await file.close();`;
  const hook = `data:text/javascript,${encodeURIComponent(`${code} import { syncBuiltinESMExports } from 'node:module'; syncBuiltinESMExports();`)}`;
  return { env: { NODE_OPTIONS: `--import=${hook}` } };
}
