/** Followers of a journal, and a destination that holds files back. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Defect } from '../../src/config/defect.ts';
import { limits as standardLimits } from '../../src/config/limits.ts';
import { type Committed, type Follower, Followers, type HeldBack } from '../../src/journal/follower.ts';
import { CLEAN_STOP } from '../../src/journal/open/clean-stop.ts';
import type { Segment } from '../../src/journal/open/recovery.ts';
import type { Retain } from '../../src/journal/retention.ts';
import { contentsOf, goneName, goneRange, segmentName } from '../../src/journal/segments.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { openJournal, type TestJournal } from '../support/journal.ts';
import { diskWith, FIRST, segment } from '../support/segments.ts';
import { verify } from '../support/standard-limits.ts';
import { eventually } from '../support/tools.ts';
import { gate } from '../world/gate.ts';
import { settled } from '../world/power.ts';
import { SimulatedDisk, systemError } from '../world/simulated-disk.ts';

const limits = { ...standardLimits, spaceCheckMs: 20 };
/** The size of two events. */
const SEGMENT_BYTES = 500;
const RETAIN: Retain = { retainBytes: 2_000 };
const REASON = 'the destination hub has not received event';

class Calls implements Follower {
  readonly log: string[] = [];
  fromSeq = Number.POSITIVE_INFINITY;
  onRemoving: (lastSeq: number) => Promise<void> = async () => {};
  onClosing = async (): Promise<void> => {};

  heldBack(): HeldBack | undefined {
    return this.fromSeq === Number.POSITIVE_INFINITY
      ? undefined
      : { fromSeq: this.fromSeq, reason: `${REASON} ${this.fromSeq}` };
  }
  opened(lastSeq: number): void {
    this.log.push(`opened ${lastSeq}`);
  }
  async removing(lastSeq: number): Promise<void> {
    this.log.push(`removing ${lastSeq}`);
    await this.onRemoving(lastSeq);
  }
  removed(lastSeq: number): void {
    this.log.push(`removed ${lastSeq}`);
  }
  rotated({ chain }: Segment): void {
    this.log.push(`rotated ${chain.seq - 1}`);
  }
  async closing(lastSeq: number): Promise<void> {
    this.log.push(`closing ${lastSeq}`);
    await this.onClosing();
  }
}

const TEXT = 'x'.repeat(100);

function open(disk: SimulatedDisk, calls: Calls, retain: Retain = RETAIN): Promise<TestJournal> {
  const heldBack = () => calls.heldBack();
  return openJournal(disk, { followers: [calls], heldBack, retain, limits, segmentBytes: SEGMENT_BYTES });
}

function firstSeqs(disk: SimulatedDisk): number[] {
  return contentsOf(disk.names()).segments.map(({ firstSeq }) => firstSeq);
}

/** Appends until an event is refused. @returns the reason, and the number of recorded events */
async function fill({ report }: TestJournal): Promise<{ reason: string; count: number }> {
  for (let count = 0; count < 100; count += 1) {
    const reason = await report(TEXT);
    await settled();
    if (reason !== undefined) return { reason, count };
  }
  throw new Error('nothing was refused');
}

test('at the limit of retention a segment that is held back stays, and reports are refused until it may go [hooks-1]', async () => {
  const disk = new SimulatedDisk();
  const calls = new Calls();
  calls.fromSeq = 4;
  const opened = await open(disk, calls);
  const { reason, count } = await fill(opened);
  assert.equal(reason, `${REASON} 4`);
  assert.ok(count > 6, `${count} events`);
  assert.equal(opened.journal.trouble, reason);
  assert.equal(opened.journal.refusal(10), reason);
  assert.deepEqual(
    firstSeqs(disk).slice(0, 2),
    [3, 5],
    'the file with events 1 and 2 is removed, the file with event 4 stays',
  );
  calls.fromSeq = 5;
  await opened.journal.makeSpace();
  await eventually('reports are recorded again', () => opened.journal.trouble === undefined);
  assert.equal(firstSeqs(disk)[0], 5);
  assert.equal(await opened.report(TEXT), undefined);
  const texts = opened.notices
    .map((line) => JSON.parse(line))
    .filter(({ level, problem }) => problem || level !== 'info');
  assert.deepEqual(
    texts.map(({ level, problem }) => [level, problem]),
    [['error', reason]],
    'logged once',
  );
  await opened.journal.close();
  assert.deepEqual((await verify(disk)).findings, []);
});

test('events that a repair marked as lost at the end of the journal do not hold back earlier segments [hooks-6]', async () => {
  const lost = goneName({ first: 3, last: 4 }, 'lost');
  const disk = diskWith({ [FIRST]: segment(1, 2), [lost]: Buffer.alloc(0), [segmentName(5)]: Buffer.alloc(0) });
  const calls = new Calls();
  calls.fromSeq = 3; // the destination passes lost events only with the next event
  const opened = await open(disk, calls, { retainBytes: 1 });
  await settled();
  assert.deepEqual(firstSeqs(disk), [5]);
  assert.equal(await opened.report(TEXT), undefined);
  await opened.journal.close();
  assert.deepEqual((await verify(disk)).findings, []);
});

test('reports are accepted again soon after space is free', async () => {
  const disk = new SimulatedDisk();
  const calls = new Calls();
  calls.fromSeq = 1;
  const opened = await open(disk, calls, { keepFree: 1_000 });
  for (let count = 0; count < 5; count += 1) assert.equal(await opened.report(TEXT), undefined);
  disk.freeSpace = { ...disk.freeSpace, freeBytes: 10 };
  await opened.journal.makeSpace();
  assert.deepEqual(await fill(opened), { reason: `${REASON} 1`, count: 0 });
  disk.freeSpace = { ...disk.freeSpace, freeBytes: 10_000 };
  await eventually('reports are recorded again', () => opened.journal.trouble === undefined);
  await opened.journal.close();
});

test('no segment is removed before the hook resolves, and after it rejects none before a later call resolves [hooks-3]', async () => {
  const disk = new SimulatedDisk();
  const calls = new Calls();
  const removing = gate();
  calls.onRemoving = () => removing.opened;
  const opened = await open(disk, calls);
  const files = () =>
    disk
      .names()
      .filter((name) => goneRange(name, 'removed') || name.endsWith('.jsonl'))
      .sort();
  while (!calls.log.includes('removing 2')) {
    assert.equal(await opened.report(TEXT), undefined);
    await settled();
  }
  const before = files();
  assert.deepEqual(firstSeqs(disk).slice(0, 2), [1, 3]);
  removing.open();
  await settled();
  assert.notDeepEqual(files(), before);
  calls.onRemoving = () => Promise.reject(systemError('ENOSPC'));
  const [kept] = firstSeqs(disk);
  for (let count = 0; count < 6; count += 1) assert.equal(await opened.report(TEXT), undefined);
  await settled();
  assert.equal(firstSeqs(disk)[0], kept);
  assert.ok(opened.notices.some((line) => /old segments could not be removed.*ENOSPC/.test(line)));
  calls.onRemoving = async () => {};
  await opened.journal.makeSpace();
  await settled();
  assert.ok((firstSeqs(disk)[0] ?? 0) > (kept ?? 0));
  await opened.journal.close();
  assert.deepEqual((await verify(disk)).findings, []);
});

test('every follower is notified even if another one throws, and a Defect ends the batch', () => {
  const log: string[] = [];
  const notices: string[] = [];
  const follower = (name: string, error?: Error): Follower => {
    const hear = (fact: string) => () => {
      log.push(`${name} ${fact}`);
      if (error !== undefined) throw error;
    };
    return {
      ...{ opened: hear('opened'), committed: hear('committed'), rotated: hear('rotated'), removed: hear('removed') },
      removing: async () => hear('removing')(),
      closing: async () => void log.push(`${name} closing`),
    };
  };
  const tell = (error: Error) => {
    const all = new Followers(
      [follower('a', error), {}, follower('b')],
      createNotices('error', false, (line) => void notices.push(line)),
    );
    return {
      opened: () => all.tell('opened', 1),
      committed: () => all.tell('committed', {} as Committed),
      rotated: () => all.tell('rotated', {} as Segment),
      removed: () => all.tell('removed', 1),
    };
  };
  for (const [name, fact] of Object.entries(tell(new Error('one fails')))) {
    fact();
    assert.deepEqual(log.splice(0), [`a ${name}`, `b ${name}`]);
    assert.match(`${notices.splice(0)}`, /this is a defect of the service.*one fails/);
  }
  for (const [name, fact] of Object.entries(tell(new Defect('keys')))) {
    assert.throws(fact, Defect);
    assert.deepEqual(log.splice(0), [`a ${name}`]);
  }
});

test('segments are removed one by one after all followers have resolved, and a clean stop is marked after them', async () => {
  const disk = new SimulatedDisk();
  const calls = new Calls();
  let isMarkedBefore: boolean | undefined;
  calls.onClosing = async () => {
    isMarkedBefore = disk.names().includes(CLEAN_STOP);
    await settled();
    isMarkedBefore ||= disk.names().includes(CLEAN_STOP);
  };
  const opened = await open(disk, calls, { retainBytes: 1 });
  for (let count = 0; count < 5; count += 1) assert.equal(await opened.report(TEXT), undefined);
  await settled();
  await opened.journal.close();
  assert.deepEqual(calls.log, [
    'opened 0',
    ...['rotated 2', 'removing 2', 'removed 2', 'rotated 4', 'removing 4', 'removed 4', 'closing 5'],
  ]);
  assert.equal(isMarkedBefore, false);
  assert.ok(disk.names().includes(CLEAN_STOP));
});
