/** `--commit-delay`: the pause before a batch, what ends it, and what happens to the reports in it. Its clock is the test's. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { JournalOptions } from '../../src/journal/options.ts';
import { createJournal, described, nextSeqsTo, openSimulated, quickLimits, recorded } from '../support/journal.ts';
import { FIRST } from '../support/segments.ts';
import { hold } from '../world/gate.ts';
import { SimulatedDisk, systemError } from '../world/simulated-disk.ts';

const DELAY_MS = 1_000;
const DISK_FAILED = 'the disk failed; send the report again when the service is back';

/** Lets all that waits for nothing but the simulated disk happen. */
async function settle(): Promise<void> {
  for (let turns = 0; turns < 20; turns += 1) await turn();
}

/** A journal with a delay, whose `report` also notes the replies. */
async function openDelayed(t: TestContext, options: Partial<JournalOptions> = {}) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const opened = await openSimulated({ commitDelayMs: () => DELAY_MS, ...options });
  const replies: string[] = [];
  const report = async (name: string) => {
    const reason = await opened.report(name);
    replies.push(reason === undefined ? name : `${name}: ${reason}`);
  };
  const tick = async (ms: number) => {
    t.mock.timers.tick(ms);
    await settle();
  };
  return { ...opened, report, replies, tick };
}

test('reports of one pause share one write and one sync, and get their replies after the sync', async (t) => {
  const { disk, report, replies, tick } = await openDelayed(t);
  const release = hold(disk, 'sync');
  for (let count = 0; count < 20; count += 1) {
    void report(`${count}`);
    await tick(DELAY_MS / 20 - 1);
  }
  assert.deepEqual([disk.count('write'), disk.text(FIRST)], [0, '']);
  await tick(20);
  assert.deepEqual([disk.count('write'), disk.count('sync')], [1, 1]);
  assert.deepEqual(replies, [], 'a reply left before the sync');
  release();
  await settle();
  assert.equal(replies.length, 20);
  assert.deepEqual(await recorded(disk), replies);
});

test('a report that arrives during the write of a batch has a pause of its own', async (t) => {
  const { disk, report, replies, tick } = await openDelayed(t);
  const release = hold(disk, 'sync');
  void report('a');
  await tick(DELAY_MS);
  void report('b');
  await tick(DELAY_MS / 2);
  release();
  await settle();
  assert.deepEqual([replies, disk.count('write')], [['a'], 1]);
  await tick(DELAY_MS / 2 - 1);
  assert.equal(disk.count('write'), 1);
  await tick(1);
  assert.deepEqual([replies, disk.count('write')], [['a', 'b'], 2]);
});

const origin = { id: '01a1fb95-ce62-7e59-9364-000000000007', source: '0193e0c2-7f3a-7000-8000-000000000000', seq: 7 };
const endings = {
  'an event of another journal': ({ append }) =>
    void append({ ...described('forwarded'), origin: { ...origin, recorded: '2026-11-20T15:19:45.266Z' } }),
  'a report of 64 KiB': ({ report }) => void report('x'.repeat(quickLimits.commitDelayBytes)),
  'many reports of 64 KiB together': ({ report }) => {
    for (let count = 0; count < 64; count += 1) void report('x'.repeat(1024));
  },
  'a call of hurry': ({ journal }) => journal.hurry(),
  'a close': ({ journal }) => void journal.close(),
} satisfies Record<string, (opened: Awaited<ReturnType<typeof openDelayed>>) => void>;

for (const [what, end] of Object.entries(endings)) {
  test(`the pause ends at once with ${what}, and a later report has its own pause`, async (t) => {
    const nextSeqs: number[] = [];
    const opened = await openDelayed(t, {
      followers: [nextSeqsTo(nextSeqs)],
    });
    void opened.report('a');
    await settle();
    assert.equal(opened.replies.length, 0);
    end(opened);
    await settle();
    assert.equal(opened.replies[0], 'a');
    assert.deepEqual(nextSeqs, [1, (await recorded(opened.disk)).length + 1], 'all that waited is one batch');
    if (what === 'a close') return;
    void opened.report('b');
    await settle();
    assert.equal(opened.replies.includes('b'), false);
    await opened.tick(DELAY_MS);
    assert.equal(opened.replies.at(-1), 'b');
  });
}

test('without a delay, also if it is turned off later, no report waits', async (t) => {
  let delayMs = DELAY_MS;
  const { journal, report, replies } = await openDelayed(t, { commitDelayMs: () => delayMs });
  void report('a');
  delayMs = 0; // a stop
  journal.hurry();
  await settle();
  void report('b');
  await settle();
  assert.deepEqual(replies, ['a', 'b']);
});

test('reports that wait for the journal to open wait no longer than the commit delay', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const disk = new SimulatedDisk();
  const created = createJournal(disk, { commitDelayMs: () => DELAY_MS, openWaitMs: 60_000 });
  const { journal } = created;
  const early = created.report('early');
  await settle();
  t.mock.timers.tick(DELAY_MS);
  await journal.open();
  assert.equal(await early, undefined);
  const later = created.report('later');
  await journal.close();
  assert.equal(await later, undefined);
  assert.deepEqual(await recorded(disk), ['early', 'later']);
});

test('a failed sync refuses the reports in the next pause at once, and is reported once', async (t) => {
  const { disk, report, replies, tick, failures, journal } = await openDelayed(t);
  let fail = () => {};
  const failing = new Promise<void>((_resolve, reject) => {
    fail = () => reject(systemError('EIO'));
  });
  disk.fault = (call) => (call === 'sync' ? failing : undefined);
  void report('a');
  await tick(DELAY_MS);
  void report('b');
  await settle();
  assert.deepEqual([disk.count('sync'), replies], [1, []]);
  fail();
  await settle();
  assert.deepEqual(replies, [`a: ${DISK_FAILED}`, `b: ${DISK_FAILED}`]);
  await tick(DELAY_MS);
  assert.deepEqual([failures.length, journal.queueBytes], [1, 0]);
});

test('when the lock is lost the reports in a pause are refused and not written, and it is reported once', async (t) => {
  const { disk, journal, report, replies, failures, tick } = await openDelayed(t);
  for (const name of ['a', 'b']) void report(name);
  await settle();
  journal.abandon(new Error('the folder is not locked any more'));
  journal.abandon(new Error('it is noticed again'));
  await settle();
  assert.deepEqual(replies, [`a: ${DISK_FAILED}`, `b: ${DISK_FAILED}`]);
  assert.equal(disk.count('write'), 0);
  await tick(DELAY_MS);
  assert.deepEqual(
    failures.map(({ message }) => message),
    ['the folder is not locked any more'],
  );
  assert.equal(journal.queueBytes, 0);
});
