/** What is read of a journal while something else is sent: how much, and what becomes of it after a move or an error. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Backlog } from '../../../src/forward/pipe/backlog.ts';
import { OwnProgress } from '../../../src/journal/progress.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { diskWith, FIRST, segment } from '../../support/segments.ts';
import { HANG_MS } from '../../support/tools.ts';
import type { SimulatedDisk } from '../../world/simulated-disk.ts';
import { gone, limits } from '../scripted.ts';

const LAST = 100;
/** More than all lines have. */
const ANY_BYTES = 1_000_000;

function unsentOf(disk: SimulatedDisk): { unsent: Backlog; close: () => void } {
  const progress = new OwnProgress();
  progress.recorded(disk.folder, LAST + 1);
  const closing = new AbortController();
  const source = { disk, progress: () => progress.of(disk.folder), limits, signal: closing.signal };
  return { unsent: new Backlog(source), close: () => closing.abort() };
}

/** @returns the seqs of the lines at hand */
function atHand(unsent: Backlog, after?: number): number[] {
  const head = unsent.head(ANY_BYTES, after);
  if (head === undefined) return [];
  assert.ok(head.kind === 'lines', JSON.stringify(head));
  return head.lines.map(({ seq }) => seq);
}

async function firstPage(unsent: Backlog): Promise<number> {
  while (atHand(unsent).length === 0) await unsent.more();
  return atHand(unsent).at(-1)!;
}

test('while lines are sent the next ones are read, as many as one request takes, or all [unsent-1]', async (t) => {
  const { unsent, close } = unsentOf(diskWith({ [FIRST]: segment(1, LAST) }));
  t.after(close);
  const sent = await firstPage(unsent);
  await unsent.readAhead(sent, LAST, 3_000);
  const ahead = atHand(unsent, sent);
  assert.ok(ahead.length > 7 && ahead.length < 20, `${ahead.length} lines of about 300 bytes`);
  await unsent.readAhead(sent, LAST, 3_000);
  assert.deepEqual(atHand(unsent, sent), ahead, 'it is enough already');
  await unsent.readAhead(sent, LAST, ANY_BYTES);
  assert.equal(atHand(unsent).length, LAST);
  await unsent.readAhead(sent, LAST, ANY_BYTES); // does not wait for later events
  unsent.pass(sent);
  assert.equal(atHand(unsent)[0], sent + 1);
});

test('a move of the position ends a wait for events', { timeout: HANG_MS }, async (t) => {
  const { unsent, close } = unsentOf(diskWith({ [FIRST]: segment(1, LAST) }));
  t.after(close);
  await unsent.readAhead(0, LAST, ANY_BYTES);
  const waiting = unsent.more();
  await sleep(10);
  await unsent.moveTo(3);
  await waiting;
  await firstPage(unsent);
  assert.equal(atHand(unsent)[0], 4);
});

test('events that a repair lost at the end are reported before a line follows them', {
  timeout: HANG_MS,
}, async (t) => {
  const empty = { [segmentName(LAST + 1)]: Buffer.alloc(0) };
  const disk = diskWith({ [FIRST]: segment(1, LAST - 1), ...gone(LAST, LAST, 'lost'), ...empty });
  const { unsent, close } = unsentOf(disk);
  t.after(close);
  await unsent.moveTo(LAST - 1);
  while (unsent.head(0) === undefined) await unsent.more();
  const head = unsent.head(0);
  assert.deepEqual(head?.kind === 'gap' && head.gone, { first: LAST, last: LAST });
});

test('lines that were being read do not arrive after a move of the position', async (t) => {
  const { unsent, close } = unsentOf(diskWith({ [FIRST]: segment(1, LAST) }));
  t.after(close);
  const sent = await firstPage(unsent);
  const reading = unsent.readAhead(sent, LAST, ANY_BYTES);
  await unsent.moveTo(0);
  await reading;
  await firstPage(unsent);
  assert.equal(atHand(unsent)[0], 1);
});
