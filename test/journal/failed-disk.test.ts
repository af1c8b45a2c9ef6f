/** Writes and syncs that fail or hang, a file that another program changes, and a lost lock: a 200 is always durable. */

import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { openDisk } from '../../src/journal/disk.ts';
import { openJournal, openSimulated, quickLimits, recorded } from '../support/journal.ts';
import { newFolder } from '../support/program.ts';
import { FIRST } from '../support/segments.ts';
import { eventually } from '../support/tools.ts';
import { hold } from '../world/gate.ts';
import { SimulatedDisk, systemError } from '../world/simulated-disk.ts';

test('a failed write is truncated and refused, and the next one is recorded without a gap', async () => {
  for (const fault of [systemError('ENOSPC'), { shortBy: 1 }, { shortBy: 100 }]) {
    const { disk, report, journal, notices } = await openSimulated();
    await report('a');
    disk.fault = (call) => (call === 'write' ? fault : undefined);
    assert.equal(await report('lost'), 'the disk refuses writes; send the report again later');
    assert.equal(journal.trouble, 'the disk refuses writes; send the report again later');
    assert.deepEqual(await recorded(disk), ['a']);
    disk.fault = () => undefined;
    assert.equal(await report('b'), undefined);
    assert.equal(journal.trouble, undefined);
    assert.deepEqual(await recorded(disk), ['a', 'b']);
    await journal.close();
    assert.equal(notices.filter((line) => line.includes('the disk refuses writes')).length, 1);
    assert.equal(notices.filter((line) => line.includes('writes to the disk succeed again')).length, 1);
  }
});

test('the end of a disk failure is noticed without a report', async () => {
  const { disk, report, journal } = await openSimulated();
  disk.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
  await report('lost');
  await eventually('a test write', () => disk.count('write') > 1);
  assert.notEqual(journal.trouble, undefined);
  disk.fault = () => undefined;
  await eventually('writes succeed again', () => journal.trouble === undefined);
  assert.equal(disk.text(FIRST), '', 'the test write left bytes behind');
  assert.equal(await report('a'), undefined);
  assert.deepEqual(await recorded(disk), ['a']);
});

test('a failed sync is never repeated: all waiting reports are refused and the journal has failed [journal-2]', async () => {
  const { disk, report, journal, failures } = await openSimulated();
  await report('a');
  let syncs = 0;
  disk.fault = (call) => {
    if (call === 'sync') syncs += 1;
    return call === 'sync' && syncs === 1 ? systemError('EIO') : undefined;
  };
  const during = report('b');
  await turn();
  const queued = report('c');
  const reason = 'the disk failed; send the report again when the service is back';
  assert.deepEqual(await Promise.all([during, queued]), [reason, reason]);
  assert.equal(await report('d'), reason);
  assert.equal(syncs, 1, 'the sync was repeated');
  await turn();
  assert.deepEqual(
    failures.map(({ message }) => message),
    ["EIO: simulated, 'file'"],
  );
  assert.equal(journal.trouble, reason);
  await journal.close();
  assert.equal(disk.names().includes('.stopped-cleanly'), false);
});

test('a failed allocation of memory is not a failed disk: the batch is refused, and the journal continues', async (t) => {
  const { disk, journal, report, notices, failures } = await openSimulated();
  // It allocates the buffer of a batch.
  const mocked = t.mock.method(Buffer, 'allocUnsafeSlow', () => {
    throw new RangeError('Array buffer allocation failed');
  });
  for (const name of ['a', 'b'])
    assert.equal(await report(name), 'the service is short of memory; send the report again later');
  mocked.mock.restore();
  assert.deepEqual([journal.trouble, journal.queueBytes, failures], [undefined, 0, []]);
  assert.equal(await report('after'), undefined);
  assert.deepEqual(await recorded(disk), ['after']);
  assert.equal(notices.filter((line) => line.includes('Array buffer allocation failed')).length, 1);
});

test('a failed write that cannot be truncated fails the journal like a failed sync', async () => {
  const { disk, report, failures } = await openSimulated();
  disk.fault = (call) => (call === 'write' || call === 'truncate' ? systemError('EIO') : undefined);
  assert.match((await report('a')) ?? '', /^the disk failed/);
  await turn();
  assert.equal(failures.length, 1);
});

test('a new file that cannot be created is refused and tried again; an unsynced entry is a failed disk', async () => {
  const { disk, report, failures } = await openSimulated({ segmentBytes: 100 });
  await report('a');
  disk.fault = (call) => (call === 'create' ? systemError('EMFILE') : undefined);
  assert.match((await report('lost')) ?? '', /^the disk refuses writes/);
  disk.fault = () => undefined;
  assert.equal(await report('b'), undefined);
  assert.deepEqual(await recorded(disk), ['a', 'b']);
  disk.fault = (call) => (call === 'syncFolder' ? systemError('EIO') : undefined);
  assert.match((await report('c')) ?? '', /^the disk failed/);
  await turn();
  assert.equal(failures.length, 1);
});

test('a disk that does not answer is reported, new reports are refused, and waiting ones are still recorded', async () => {
  const { disk, report, journal, notices } = await openSimulated({ limits: { ...quickLimits, diskAnswerMs: 50 } });
  const release = hold(disk, 'sync');
  const first = report('a');
  await eventually('the sync', () => disk.count('sync') === 1);
  const waiting = report('b');
  await eventually('the delay is noticed', () => journal.trouble !== undefined);
  const reason = 'the disk has not answered for 0.05 s; send the report again later';
  assert.equal(journal.trouble, reason);
  assert.equal(await report('late'), reason);
  release();
  assert.deepEqual(await Promise.all([first, waiting]), [undefined, undefined]);
  assert.equal(journal.trouble, undefined);
  assert.equal(await report('c'), undefined);
  assert.deepEqual(await recorded(disk), ['a', 'b', 'c']);
  assert.equal(notices.filter((line) => line.includes('the disk does not answer')).length, 1);
});

test('a stop succeeds although its marker cannot be written', async () => {
  const { disk, report, journal, notices } = await openSimulated();
  await report('a');
  disk.fault = (call) => (call === 'create' ? systemError('ENOSPC') : undefined);
  await journal.close();
  assert.match(notices.at(-1) ?? '', /the stop could not be marked as clean/);
});

test('a segment that another program removes, replaces, moves or truncates is noticed before the next 200', async (t) => {
  const attacks: Record<string, (path: string) => void> = {
    removes: (path) => rmSync(path),
    replaces: (path) => {
      writeFileSync(`${path}.new`, '');
      renameSync(`${path}.new`, path);
    },
    moves: (path) => renameSync(path, `${path}.old`),
    truncates: (path) => truncateSync(path, 0),
    'truncates the last byte of': (path) => truncateSync(path, statSync(path).size - 1),
    'appends to': (path) => appendFileSync(path, 'x'.repeat(1000)),
    'removes the folder of': (path) => rmSync(dirname(path), { recursive: true }),
    'replaces the folder of': (path) => {
      renameSync(dirname(path), `${dirname(path)}-moved`);
      mkdirSync(dirname(path));
    },
  };
  for (const [verb, attack] of Object.entries(attacks)) {
    // With 100 bytes the next batch creates the next file.
    for (const segmentBytes of [64 * 1024 * 1024, 100]) {
      const folder = join(newFolder(t), 'data');
      mkdirSync(folder);
      const { report, failures, journal } = await openJournal(openDisk(folder), { segmentBytes });
      assert.equal(await report('a'), undefined);
      attack(join(folder, FIRST));
      assert.match((await report('b')) ?? 'acknowledged', /^the disk failed/, verb);
      await turn();
      assert.match(
        failures[0]?.message ?? '',
        /was removed or replaced by another program|another program changed it/,
        verb,
      );
      await journal.close();
    }
  }
});

test('a batch whose file is removed during the sync is not acknowledged', async () => {
  const { disk, report, failures } = await openSimulated();
  disk.fault = (call) => {
    if (call === 'sync') disk.drop(FIRST);
    return undefined;
  };
  assert.match((await report('a')) ?? 'acknowledged', /^the disk failed/);
  await turn();
  assert.match(failures[0]?.message ?? '', /was removed or replaced by another program/);
});

/** Like `Lock.checkHeld` once the lock file is gone. */
function failCheck(): never {
  throw new Error('the lock file was removed');
}

test('a batch is refused if the lock is lost during its sync, and the journal has failed [journal-6]', async () => {
  const disk = new SimulatedDisk();
  let checkHeld = () => {};
  const { report, failures, journal } = await openJournal(disk, { checkHeld: () => checkHeld() });
  assert.equal(await report('a'), undefined);
  disk.fault = (call) => {
    if (call === 'sync') checkHeld = failCheck;
    return undefined;
  };
  assert.match((await report('b')) ?? 'acknowledged', /^the disk failed/);
  await turn();
  assert.deepEqual(failures.map(String), ['Error: the lock file was removed']);
  journal.abandon(new Error('it is noticed again'));
  assert.equal(failures.length, 1);
});

test('without the lock no file is created and no clean stop is marked, since another process might have the folder', async () => {
  const disk = new SimulatedDisk();
  let checkHeld = () => {};
  const options = { checkHeld: () => checkHeld(), segmentBytes: 1 };
  const { report } = await openJournal(disk, options);
  assert.equal(await report('a'), undefined);
  checkHeld = failCheck;
  assert.match((await report('b')) ?? 'acknowledged', /^the disk failed/);
  assert.deepEqual(disk.names(), [FIRST]);

  checkHeld = () => {};
  const { journal, notices } = await openJournal(disk, options);
  checkHeld = failCheck;
  await journal.close();
  assert.deepEqual(disk.names(), [FIRST]);
  assert.match(notices.at(-1) ?? '', /the stop could not be marked as clean.*the lock file was removed/);
});

test('an idle journal fails when its lock is lost, and a batch in progress checks the lock itself', async () => {
  const error = new Error('the lock file was removed');
  const idle = await openJournal(new SimulatedDisk());
  idle.journal.abandon(error);
  assert.deepEqual(idle.failures, [error]);
  assert.match((await idle.report('a')) ?? 'acknowledged', /^the disk failed/);

  const disk = new SimulatedDisk();
  const busy = await openJournal(disk);
  const finish = hold(disk, 'sync');
  const appended = busy.report('a');
  await turn();
  busy.journal.abandon(error);
  assert.deepEqual(busy.failures, []);
  finish();
  assert.equal(await appended, undefined);
});
