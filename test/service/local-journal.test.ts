import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Disk, openDisk } from '../../src/journal/disk.ts';
import { LocalJournal } from '../../src/service/local-journal.ts';
import { createJournal } from '../support/journal.ts';
import { eventOf } from '../support/plain-event.ts';
import { newFolder, type Scope } from '../support/program.ts';

/** A journal whose disk fails to remove files while `removes` is false. */
async function openLocal(t: Scope, onFailed = (error: Error) => assert.ifError(error)) {
  const state = { removes: true };
  const real = openDisk(newFolder(t));
  const disk: Disk = {
    ...real,
    remove: async (name) => {
      if (!state.removes && name.endsWith('.jsonl')) throw new Error('EIO: i/o error, unlink');
      await real.remove(name);
    },
  };
  await disk.prepare();
  const create = (waiting: { openWaitMs?: number }) =>
    createJournal(disk, { segmentBytes: 1_000, onFailed, ...waiting }).journal;
  const local = new LocalJournal({ disk, create, openWaitMs: 5_000, onFailed });
  await local.open(Promise.resolve());
  t.after(() => local.close());
  const { recorder } = local;
  const record = () =>
    new Promise<string>((resolve) => {
      recorder.append(
        [eventOf({ type: 'AssetObservation', assetKey: ['a'] })],
        (result) => resolve(result.kind === 'refused' ? result.reason : result.kind),
        'refuse all',
      );
    });
  return { local, record, state };
}

/** @returns after the new journal accepts reports; `done` resolves when the old one is removed */
async function startReset(local: LocalJournal): Promise<{ done: Promise<void> }> {
  const old = local.current;
  const done = local.startOver();
  while (local.current === old) await null;
  return { done };
}

test('a journal that cannot be emptied continues with its events', async (t) => {
  const { local, record, state } = await openLocal(t);
  for (let n = 0; n < 10; n += 1) assert.equal(await record(), 'recorded');
  state.removes = false;
  const { done } = await startReset(local);
  const meanwhile = record();
  await assert.rejects(done, /EIO/);
  assert.equal(await meanwhile, 'recorded');
  assert.equal(local.current.lastSeq, 11);
  state.removes = true;
  await local.startOver();
  assert.equal(local.current.lastSeq, 0);
});

test('a report in progress at a reset is answered, and one that arrives during the reset is in the new journal', async (t) => {
  const { local, record } = await openLocal(t);
  const before = [record(), record(), record()];
  const { done } = await startReset(local);
  const after = [record(), record()];
  assert.deepEqual(await Promise.all(before), ['recorded', 'recorded', 'recorded']);
  await done;
  assert.deepEqual(await Promise.all(after), ['recorded', 'recorded']);
  assert.equal(local.current.lastSeq, 2);
});

test('closing waits for a reset in progress, and a reset after it is refused', async (t) => {
  const { local, record } = await openLocal(t);
  await record();
  const { done } = await startReset(local);
  const waiting = record();
  await local.close();
  await done;
  assert.equal(await waiting, 'recorded');
  await assert.rejects(local.startOver(), /the service is stopping/);
  assert.equal(await record(), 'the service is stopping');
});
