/** What is read of a journal while something else is sent: how much, and what becomes of it after a move or an error. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Backlog } from '../../../src/forward/sender/backlog.ts';
import { OwnProgress } from '../../../src/journal/progress.ts';
import { diskWith, FIRST, segment } from '../../support/segments.ts';
import { type SimulatedDisk, systemError } from '../../support/simulated-disk.ts';
import { limits } from '../scripted.ts';

const LAST = 100;
/** More than all lines have. */
const ANY_BYTES = 1_000_000;

function backlogOf(disk: SimulatedDisk): { backlog: Backlog; close: () => void } {
  const progress = new OwnProgress();
  progress.recorded(disk.folder, LAST + 1);
  const closing = new AbortController();
  const source = { disk, progress: () => progress.of(disk.folder), limits, signal: closing.signal };
  return { backlog: new Backlog(source, 0), close: () => closing.abort() };
}

/** @returns the seqs of the lines at hand */
function atHand(backlog: Backlog, after?: number): number[] {
  const head = backlog.head(ANY_BYTES, after);
  if (head === undefined) return [];
  assert.ok(head.kind === 'lines', JSON.stringify(head));
  return head.lines.map(({ seq }) => seq);
}

async function firstPage(backlog: Backlog): Promise<number> {
  while (atHand(backlog).length === 0) await backlog.more();
  return atHand(backlog).at(-1)!;
}

test('while lines are sent, the next ones are read, as many as a request has, or all there are [backlog-1]', async (t) => {
  const { backlog, close } = backlogOf(diskWith({ [FIRST]: segment(1, LAST) }));
  t.after(close);
  const sent = await firstPage(backlog);
  await backlog.readAhead(sent, LAST, 3_000);
  const ahead = atHand(backlog, sent);
  assert.ok(ahead.length > 7 && ahead.length < 20, `${ahead.length} lines of about 300 bytes`);
  await backlog.readAhead(sent, LAST, 3_000);
  assert.deepEqual(atHand(backlog, sent), ahead, 'it is enough already');
  await backlog.readAhead(sent, LAST, ANY_BYTES);
  assert.equal(atHand(backlog).length, LAST);
  await backlog.readAhead(sent, LAST, ANY_BYTES); // does not wait for later events
  backlog.pass(sent);
  assert.equal(atHand(backlog)[0], sent + 1);
});

test('a move ends a wait for events', { timeout: 5_000 }, async (t) => {
  const { backlog, close } = backlogOf(diskWith({ [FIRST]: segment(1, LAST) }));
  t.after(close);
  await backlog.readAhead(0, LAST, ANY_BYTES);
  const waiting = backlog.more();
  await sleep(10);
  await backlog.moveTo(3);
  await waiting;
  await firstPage(backlog);
  assert.equal(atHand(backlog)[0], 4);
});

test('what was being read when it was moved does not come after the move', async (t) => {
  const { backlog, close } = backlogOf(diskWith({ [FIRST]: segment(1, LAST) }));
  t.after(close);
  const sent = await firstPage(backlog);
  const reading = backlog.readAhead(sent, LAST, ANY_BYTES);
  await backlog.moveTo(0);
  await reading;
  await firstPage(backlog);
  assert.equal(atHand(backlog)[0], 1);
});

test('an error while it reads ahead is met again by the next read, and is gone when the disk works', async (t) => {
  const disk = diskWith({ [FIRST]: segment(1, LAST) });
  const { backlog, close } = backlogOf(disk);
  t.after(close);
  disk.fault = (call) => (call === 'read' ? systemError('EIO', FIRST) : undefined);
  await backlog.readAhead(0, LAST, ANY_BYTES);
  await assert.rejects(backlog.more(), /EIO/);
  disk.fault = () => undefined;
  await firstPage(backlog);
  assert.equal(atHand(backlog)[0], 1);
});
