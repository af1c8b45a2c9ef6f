/** A journal with hooks of forwarding: it holds files back, and reports removed and closed files. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { limits as standardLimits } from '../../src/config/limits.ts';
import type { HeldBack, JournalHooks } from '../../src/journal/hooks.ts';
import { CLEAN_STOP } from '../../src/journal/open/clean-stop.ts';
import type { Retain } from '../../src/journal/retention.ts';
import { contentsOf, goneName, goneRange, segmentName } from '../../src/journal/segments.ts';
import { openJournal, type TestJournal } from '../support/journal.ts';
import { diskWith, FIRST, segment } from '../support/segments.ts';
import { verify } from '../support/standard-limits.ts';
import { eventually } from '../support/tools.ts';
import { gate } from '../world/gate.ts';
import { eachCall, settled } from '../world/power.ts';
import { SimulatedDisk, systemError } from '../world/simulated-disk.ts';

const limits = { ...standardLimits, spaceCheckMs: 20 };
/** The size of two events. */
const SEGMENT_BYTES = 500;
const RETAIN: Retain = { retainBytes: 2_000 };
const REASON = 'the destination hub has not received event';

class Calls implements JournalHooks {
  readonly log: string[] = [];
  fromSeq = Number.POSITIVE_INFINITY;
  onRemoving: (lastSeq: number) => Promise<void> = async () => {};
  onClosed: (lastSeq: number) => Promise<void> = async () => {};

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
  async closed(lastSeq: number): Promise<void> {
    this.log.push(`closed ${lastSeq}`);
    await this.onClosed(lastSeq);
  }
}

const TEXT = 'x'.repeat(100);

function open(disk: SimulatedDisk, hooks: JournalHooks, retain: Retain = RETAIN): Promise<TestJournal> {
  return openJournal(disk, { hooks, retain, limits, segmentBytes: SEGMENT_BYTES });
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

test('at the limit of retention, a held back file stays, and reports are refused until it may be removed [hooks-1]', async () => {
  const disk = new SimulatedDisk();
  const hooks = new Calls();
  hooks.fromSeq = 4;
  const opened = await open(disk, hooks);
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
  hooks.fromSeq = 5;
  opened.journal.retain();
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

test('events that a repair gave up at the end of the journal do not hold back earlier files [hooks-6]', async () => {
  const lost = goneName({ first: 3, last: 4 }, 'lost');
  const disk = diskWith({ [FIRST]: segment(1, 2), [lost]: Buffer.alloc(0), [segmentName(5)]: Buffer.alloc(0) });
  const hooks = new Calls();
  hooks.fromSeq = 3; // the destination passes lost events only with the next event
  const opened = await open(disk, hooks, { retainBytes: 1 });
  await settled();
  assert.deepEqual(firstSeqs(disk), [5]);
  assert.equal(await opened.report(TEXT), undefined);
  await opened.journal.close();
  assert.deepEqual((await verify(disk)).findings, []);
});

test('the refusal ends soon after space is free again', async () => {
  const disk = new SimulatedDisk();
  const hooks = new Calls();
  hooks.fromSeq = 1;
  const opened = await open(disk, hooks, { keepFree: 1_000 });
  for (let count = 0; count < 5; count += 1) assert.equal(await opened.report(TEXT), undefined);
  disk.freeSpace = { ...disk.freeSpace, freeBytes: 10 };
  await opened.journal.makeSpace();
  assert.deepEqual(await fill(opened), { reason: `${REASON} 1`, count: 0 });
  disk.freeSpace = { ...disk.freeSpace, freeBytes: 10_000 };
  await eventually('reports are recorded again', () => opened.journal.trouble === undefined);
  await opened.journal.close();
});

test('no file is removed before the hook resolves; if it rejects, no file is removed before a later call resolves [hooks-3]', async () => {
  const disk = new SimulatedDisk();
  const hooks = new Calls();
  const removing = gate();
  hooks.onRemoving = () => removing.opened;
  const opened = await open(disk, hooks);
  const files = () =>
    disk
      .names()
      .filter((name) => goneRange(name, 'removed') || name.endsWith('.jsonl'))
      .sort();
  while (!hooks.log.includes('removing 2')) {
    assert.equal(await opened.report(TEXT), undefined);
    await settled();
  }
  const before = files();
  assert.deepEqual(firstSeqs(disk).slice(0, 2), [1, 3]);
  removing.open();
  await settled();
  assert.notDeepEqual(files(), before);
  hooks.onRemoving = () => Promise.reject(systemError('ENOSPC'));
  const [kept] = firstSeqs(disk);
  for (let count = 0; count < 6; count += 1) assert.equal(await opened.report(TEXT), undefined);
  await settled();
  assert.equal(firstSeqs(disk)[0], kept);
  assert.ok(opened.notices.some((line) => /old segments could not be removed.*ENOSPC/.test(line)));
  hooks.onRemoving = async () => {};
  opened.journal.retain();
  await settled();
  assert.ok((firstSeqs(disk)[0] ?? 0) > (kept ?? 0));
  await opened.journal.close();
  assert.deepEqual((await verify(disk)).findings, []);
});

test('the hook is called for closed files without delaying a batch, and before a clean stop is marked', async () => {
  const disk = new SimulatedDisk();
  const hooks = new Calls();
  let resolve = () => {};
  hooks.onClosed = () =>
    new Promise((done) => {
      resolve = done;
    });
  const opened = await open(disk, hooks, {});
  for (let count = 0; count < 9; count += 1) assert.equal(await opened.report(TEXT), undefined);
  assert.deepEqual(hooks.log, ['closed 2'], 'one call at a time');
  resolve();
  await settled();
  assert.deepEqual(hooks.log, ['closed 2', 'closed 8'], 'only the last file closed during the call');
  resolve();
  await settled();
  hooks.onClosed = () => Promise.reject(systemError('EIO'));
  assert.equal(await opened.report(TEXT), undefined);
  assert.equal(await opened.report(TEXT), undefined);
  await settled();
  assert.ok(opened.notices.some((line) => /could not record the last seq of the journal.*EIO/.test(line)));
  let isMarkedBefore: boolean | undefined;
  hooks.onClosed = async () => {
    isMarkedBefore = disk.names().includes(CLEAN_STOP);
    await settled();
    isMarkedBefore ||= disk.names().includes(CLEAN_STOP);
  };
  await opened.journal.close();
  assert.deepEqual([hooks.log.at(-1), isMarkedBefore], ['closed 11', false]);
  assert.ok(disk.names().includes(CLEAN_STOP));
});

for (const what of ['once', 'power'] as const) {
  test(`${what === 'once' ? 'a failure' : 'a power cut'} at any call: held back files stay, and the others are removed only after the hook`, async () => {
    for (const trial of eachCall(what)) {
      const disk = new SimulatedDisk();
      const hooks = new Calls();
      hooks.fromSeq = 6;
      let resolvedSeq = 0;
      hooks.onRemoving = async (lastSeq) => {
        await turn();
        resolvedSeq = lastSeq;
      };
      await trial.run(disk, async () => {
        for (let session = 0; session < 2; session += 1) {
          const opened = await open(disk, hooks);
          for (let count = 0; count < 8; count += 1) {
            await opened.report(TEXT);
            await turn();
          }
          await opened.journal.close();
        }
      });
      const cuts = (['none', 'half', 'all'] as const).map((entries) =>
        disk.afterPowerCut({ entries, share: 1, behind: 'zeros' }),
      );
      for (const after of [disk.afterCrash(), ...cuts]) {
        const { removedLast } = contentsOf(after.names());
        assert.ok(removedLast <= resolvedSeq && removedLast < 6, `${trial.when}: ${removedLast} of ${resolvedSeq}`);
        const again = await open(after, hooks);
        await again.journal.close();
        const { findings } = await verify(after);
        assert.deepEqual(
          findings.filter(({ kind }) => kind !== 'empty file'),
          [],
        );
        assert.ok((firstSeqs(after)[0] ?? 0) <= 6);
      }
    }
  });
}
