/** The journals of deployments without the listener, so that a report arrives when the test appends it. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Limits, limits as standardLimits } from '../../src/config/limits.ts';
import { retainClosed } from '../../src/deployments/closed-journals.ts';
import {
  type DeploymentJournal,
  DeploymentJournals,
  type DeploymentJournalsOptions,
} from '../../src/deployments/journals.ts';
import { type Disk, openDisk as openRealDisk } from '../../src/journal/disk.ts';
import { createLockRota, lockFolder } from '../../src/journal/lock/lock.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import type { Retain } from '../../src/journal/retention.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { eventOf, type PlainEvent } from '../support/plain-event.ts';
import { eventsIn, newFolder } from '../support/program.ts';
import { aged } from '../support/segments.ts';
import { eventually } from '../support/tools.ts';
import { gate } from '../world/gate.ts';
import { systemError } from '../world/simulated-disk.ts';

function journals(
  t: TestContext,
  parts: { limits?: Partial<Limits>; openDisk?: (folder: string) => Disk } & Pick<
    DeploymentJournalsOptions,
    'followingOf' | 'commitDelayMs'
  >,
  retain: Retain = {},
): { hosted: DeploymentJournals; data: string; progress: OwnProgress } {
  const data = newFolder(t);
  const { limits, openDisk: open = openRealDisk, followingOf, commitDelayMs } = parts;
  const progress = new OwnProgress();
  const hosted = new DeploymentJournals({
    onDefect: () => {},
    segmentBytes: Object.keys(retain).length === 0 ? 1_000_000 : 1_000,
    ...{ retainOf: () => retain, limits: { ...standardLimits, ...limits }, commitDelayMs },
    followingOf: (name) => ({ followers: [progress.follow(join(data, name))], ...followingOf?.(name) }),
    openDisk: (name) => open(join(data, name)),
    lockFolder,
    locks: createLockRota(standardLimits),
    answerOf: () => async () => '',
    metrics: new Metrics(),
    notices: createNotices('error', false, () => {}),
  });
  const alive = setInterval(() => {}, 1_000); // in a service its listener keeps the process alive
  t.after(async () => {
    await hosted.close();
    clearInterval(alive);
  });
  return { hosted, data, progress };
}

/** @returns why the report was refused, or undefined; `answered` is set when that is known */
function append(journal: DeploymentJournal, description: string): Promise<string | undefined> & { answered: boolean } {
  const event: PlainEvent = { type: 'AssetMaterialization', assetKey: ['a'], description };
  let answered = false;
  const answer = new Promise<string | undefined>((resolve) => {
    journal.append([eventOf(event)], (result) => {
      answered = true;
      resolve(result.kind === 'refused' ? result.reason : undefined);
    });
  });
  return Object.defineProperty(answer, 'answered', { get: () => answered }) as never;
}

function descriptionsIn(folder: string): unknown[] {
  return eventsIn(folder).map((event) => event['description']);
}

/** Disks on which no journal can be opened until `release` is called. */
function heldDisks(t: TestContext): { openDisk: (folder: string) => Disk; release: () => void } {
  const { opened: released, open: release } = gate();
  const open = (folder: string): Disk => {
    const disk = openRealDisk(folder);
    return { ...disk, prepare: () => released.then(disk.prepare) };
  };
  t.after(release);
  return { openDisk: open, release };
}

test('on a disk with too little free space the journal with the most files loses its oldest files first', async (t) => {
  let freeBytes = 1_000_000;
  const removed: string[] = [];
  const openDisk = (folder: string): Disk => {
    const disk = openRealDisk(folder);
    return {
      ...disk,
      space: async () => ({ freeBytes, usableBytes: freeBytes, totalBytes: 2 * freeBytes }),
      remove: async (name) => {
        if (name.endsWith('.jsonl')) {
          removed.push(`${basename(folder)} ${name}`);
          freeBytes += await disk.size(name);
        }
        await disk.remove(name);
      },
    };
  };
  const { hosted } = journals(t, { openDisk }, { keepFree: 1_000_000 });
  const [small, large] = [hosted.journalOf('small'), hosted.journalOf('large')];
  for (const [journal, files] of [
    [small, 2],
    [large, 4],
  ] as const) {
    for (let count = 0; count < files; count += 1) assert.equal(await append(journal, 'x'.repeat(1_000)), undefined);
    assert.equal(journal.files, files);
  }
  freeBytes = 999_999;
  await hosted.makeSpace();
  assert.deepEqual(removed, [`large ${segmentName(1)}`]);
  freeBytes = 0;
  await hosted.makeSpace();
  assert.deepEqual(removed.slice(1), [...[2, 3].map((seq) => `large ${segmentName(seq)}`), `small ${segmentName(1)}`]);
});

test('reports that wait for their journal to open share the limits of the queue, and are recorded in order', async (t) => {
  const { openDisk, release } = heldDisks(t);
  const limits = { queueBytesMax: 10_000, backlogBytesMax: 14_000 };
  const { hosted, data } = journals(t, { limits, openDisk });
  const [first, second, third] = ['first', 'second', 'third'].map((name) => hosted.journalOf(name));
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  assert.equal(first.refusal(7_000), undefined);
  const waiting = ['a', 'b', 'c', 'd'].map((name) => append(first, name));
  assert.deepEqual(
    waiting.map(({ answered }) => answered),
    [false, false, false, false],
  );
  const reason = 'the disk does not keep up: too many reports are waiting for it';
  assert.equal(first.refusal(7_000), reason, 'known before the upload');
  const late = append(first, 'late');
  assert.ok(late.answered, 'refused at once');
  assert.equal(await late, reason);
  const others = ['e', 'f', 'g', 'h'].map((name) => append(second, name));
  assert.deepEqual(
    others.map(({ answered }) => answered),
    [false, false, true, true],
    'the cap of all deployments together',
  );
  assert.equal(third.refusal(7_000), reason, 'also of a deployment without a report');
  assert.equal(first.trouble, undefined);
  release();
  assert.deepEqual(await Promise.all(waiting), Array(4).fill(undefined));
  assert.deepEqual(await Promise.all(others), [undefined, undefined, reason, reason]);
  assert.equal(await append(first, 'again'), undefined);
  assert.deepEqual(descriptionsIn(join(data, 'first')), ['a', 'b', 'c', 'd', 'again']);
  assert.deepEqual(descriptionsIn(join(data, 'second')), ['e', 'f']);
});

test('a report for a journal that is closing waits until it is open again, and is refused at a stop', async (t) => {
  const { hosted, data } = journals(t, {});
  const journal = hosted.journalOf('a');
  assert.equal(await append(journal, '1'), undefined);
  const [closed, next] = [journal.close(), append(journal, '2')];
  assert.ok(!next.answered);
  await closed;
  assert.equal(await next, undefined);
  const closing = journal.close();
  const waiting = append(journal, '3');
  await hosted.close();
  await closing;
  assert.equal(await waiting, 'the service is stopping');
  assert.deepEqual(descriptionsIn(join(data, 'a')), ['1', '2']);
});

/** Real disks; writes to the journal `slow` wait for `release`. */
function slowDisk(t: TestContext, slow: string): { openDisk: (folder: string) => Disk; release: () => void } {
  const { opened: released, open: release } = gate();
  t.after(release);
  const open = (folder: string): Disk => {
    const disk = openRealDisk(folder);
    if (!folder.endsWith(slow)) return disk;
    const createLog: Disk['createLog'] = async (name) => {
      const file = await disk.createLog(name);
      return { ...file, append: (bytes, end) => released.then(() => file.append(bytes, end)) };
    };
    return { ...disk, createLog };
  };
  return { openDisk: open, release };
}

test('a busy journal is not closed for another one, and waiting journals are opened in order', async (t) => {
  const { openDisk, release } = slowDisk(t, 'busy');
  const { hosted, data } = journals(t, { limits: { openJournalsMax: 1 }, openDisk });
  const done: string[] = [];
  const report = async (name: string, description: string) => {
    assert.equal(await append(hosted.journalOf(name), description), undefined);
    done.push(`${name} ${description}`);
  };
  const first = report('busy', '1');
  await eventually('its file is there', () => existsSync(join(data, 'busy', segmentName(1))));
  const others = ['z', 'a', 'm'].map((name) => report(name, '1'));
  const second = report('busy', '2');
  release();
  await Promise.all([first, second, ...others]);
  assert.deepEqual(done, ['busy 1', 'busy 2', 'z 1', 'a 1', 'm 1']);
  assert.deepEqual(descriptionsIn(join(data, 'busy')), ['1', '2']);
});

test('a journal that waits for a slot ends the commit delays of the open journals', async (t) => {
  const { hosted } = journals(t, {
    limits: { openJournalsMax: 2, openWaitMs: 3_600_000 },
    commitDelayMs: () => 3_600_000,
  });
  const open = ['a', 'b'].map((name) => append(hosted.journalOf(name), name));
  await eventually('both are open', () => ['a', 'b'].every((name) => hosted.journalOf(name).files === 1));
  const third = append(hosted.journalOf('c'), 'c');
  assert.deepEqual(await Promise.all(open), [undefined, undefined]);
  await eventually('the third is open', () => hosted.journalOf('c').files === 1);
  assert.equal(third.answered, false);
  hosted.hurry();
  assert.equal(await third, undefined);
});

test('forwarding and a hub open a journal without a report, in turn, and closing it keeps its durable position', async (t) => {
  const { openDisk, release } = slowDisk(t, 'busy');
  const limits = { openJournalsMax: 1, openWaitMs: 3_600_000 };
  const { hosted, data, progress } = journals(t, { limits, openDisk });
  const durable = async (name: string) => (await progress.of(join(data, name)).durable()).kind;
  assert.equal(await append(hosted.journalOf('a'), '1'), undefined);
  await hosted.journalOf('a').close();
  progress.forget(join(data, 'a'));
  const busy = append(hosted.journalOf('busy'), '1');
  await eventually('its file is there', () => existsSync(join(data, 'busy', segmentName(1))));
  hosted.journalOf('a').wake();
  hosted.journalOf('new').wake();
  hosted.journalOf('new').wake();
  hosted.journalOf('hub').begin();
  const names = ['a', 'new', 'hub'];
  assert.ok(
    (await Promise.all(names.map(durable))).every((kind) => kind === 'unsaid'),
    'a busy journal is not closed',
  );
  release();
  assert.equal(await busy, undefined);
  await eventually('all journals were open', async () => !(await Promise.all(names.map(durable))).includes('unsaid'));
  assert.equal(await append(hosted.journalOf('busy'), '2'), undefined, 'a woken journal returns its slot');
  await hosted.journalOf('a').close();
  assert.deepEqual(await progress.of(join(data, 'a')).durable(), { kind: 'before', seq: 2 });
  assert.deepEqual(await progress.of(join(data, 'new')).durable(), { kind: 'before', seq: 1 });
});

test('a journal that is being opened is not closed as idle, with or without a waiting report', async (t) => {
  const limits = { idleJournalMs: 20 };
  const { openDisk, release } = heldDisks(t);
  const { hosted, data, progress } = journals(t, { limits, openDisk });
  const answer = append(hosted.journalOf('reported'), 'first');
  hosted.journalOf('begun').begin();
  await sleep(10 * limits.idleJournalMs);
  assert.ok(!answer.answered);
  release();
  assert.equal(await answer, undefined);
  await eventually('the journal without a report is open', () => progress.nextSeq(join(data, 'begun')) === 1);
});

test('a journal that cannot be opened is tried again by a report and after a while, not at each wake-up', async (t) => {
  let prepared = 0;
  const openFailing = (folder: string): Disk => ({
    ...openRealDisk(folder),
    prepare: async () => {
      prepared += 1;
      throw systemError('EIO');
    },
  });
  const limits = { reopenMs: 1, forwardStoppedMs: 3_600_000 };
  const { hosted } = journals(t, { openDisk: openFailing, limits });
  const journal = hosted.journalOf('a');
  journal.wake();
  await eventually('it failed', () => journal.trouble !== undefined);
  await sleep(limits.reopenMs + 1);
  journal.wake();
  assert.deepEqual([prepared, journal.isBusy], [1, false]);
  assert.match((await append(journal, 'x')) ?? '', /the disk failed/);
  assert.equal(prepared, 2);
  const { hosted: sooner } = journals(t, { openDisk: openFailing, limits: { ...limits, forwardStoppedMs: 1 } });
  await eventually('it is tried again', () => {
    sooner.journalOf('a').wake();
    return prepared >= 5;
  });
});

test('a closed journal is opened once a day to remove old files, one journal at a time, and none is created for it', async (t) => {
  const opened: string[] = [];
  const openDisk = (folder: string): Disk => {
    const disk = openRealDisk(folder);
    const prepare = () => {
      opened.push(basename(folder));
      return disk.prepare();
    };
    return { ...disk, prepare };
  };
  const followingOf = (name: string) => ({
    heldBack: () => (name === 'held' ? { fromSeq: 1, reason: 'the destination hub needs event 1' } : undefined),
  });
  // A journal that is closed as idle before its retention has run waits for the next day: here as long as a busy machine needs.
  const limits = { ...standardLimits, retainCheckMs: 20, probeMs: 20, idleJournalMs: 3_000 };
  const retain = { retainDays: 10 };
  const { hosted, data } = journals(t, { limits, openDisk, followingOf }, retain);
  const ages = { held: 11, new: 0.5, old: 5, older: 11, removed: 11 };
  for (const [name, ageDays] of Object.entries(ages)) {
    mkdirSync(join(data, name));
    writeFileSync(join(data, name, segmentName(1)), aged(1, 3, ageDays * 24 * 3_600_000));
  }
  const files = (name: string) => readdirSync(join(data, name)).filter((file) => file.endsWith('.jsonl'));
  const [names, notices] = [['held', 'new', 'old', 'older', 'unused'], createNotices('error', false, () => {})];
  const deployments = new Map(names.map((name) => [name, []]));
  const openFolder = (name: string) => openRealDisk(join(data, name));
  const end = retainClosed({
    deployments: () => deployments,
    hosted,
    openDisk: openFolder,
    retainOf: () => retain,
    limits,
    notices,
  });
  t.after(end);
  const closed = segmentName(4);
  await eventually('a file is removed', () => files('older').join() === closed);
  await eventually('all are closed again', () => names.every((name) => hosted.journalOf(name).isIdle));
  await sleep(10 * limits.retainCheckMs);
  assert.deepEqual(opened, ['held', 'old', 'older']);
  const both = [segmentName(1), closed];
  assert.deepEqual(['held', 'new', 'old', 'removed'].map(files), [both, [segmentName(1)], both, [segmentName(1)]]);
  assert.ok(!existsSync(join(data, 'unused')));
  end();
  t.after(
    retainClosed({
      deployments: () => deployments,
      hosted,
      openDisk: openFolder,
      retainOf: () => retain,
      limits,
      notices,
    }),
  );
  await eventually('a file that is due is due the next day', () => opened.length === 4);
  assert.equal(opened[3], 'held');
});

test('a report that waits too long for a slot is refused, and its journal is not opened afterwards', async (t) => {
  const { openDisk, release } = slowDisk(t, 'busy');
  const limits = { openJournalsMax: 1, openWaitMs: 1_000 };
  const { hosted, data } = journals(t, { limits, openDisk });
  const busy = append(hosted.journalOf('busy'), '1');
  const late = hosted.journalOf('late');
  const reason = 'all 1 journals that may be open at a time are busy';
  assert.equal(await append(late, '1'), reason);
  const again = append(late, '2');
  assert.ok(again.answered, 'it does not wait again');
  assert.equal(await again, reason);
  assert.equal(late.trouble, reason);
  release();
  assert.equal(await busy, undefined);
  await eventually('the journal accepts reports', () => late.trouble === undefined);
  assert.equal(existsSync(join(data, 'late')), false);
  assert.equal(await append(late, '3'), undefined);
  assert.deepEqual(descriptionsIn(join(data, 'late')), ['3']);
});

test('without a free file descriptor the longest unused journal is closed, for an opening and a new segment', async (t) => {
  const isOpen = (name: string) => hosted.journalOf(name).files > 0;
  const openDisk = (folder: string): Disk => {
    const disk = openRealDisk(folder);
    const createLog: Disk['createLog'] = async (name) => {
      const isNext = name !== segmentName(1);
      if (basename(folder) === 'b' && isOpen(isNext ? 'c' : 'a')) throw systemError(isNext ? 'ENFILE' : 'EMFILE');
      return disk.createLog(name);
    };
    return { ...disk, createLog };
  };
  const limits = { reopenMs: 3_600_000, openWaitMs: 3_600_000, probeMs: 10 };
  const { hosted, data } = journals(t, { limits, openDisk }, { retainBytes: 1_000_000 });
  const [a, b, c] = ['a', 'b', 'c'].map((name) => hosted.journalOf(name));
  assert.ok(a !== undefined && b !== undefined && c !== undefined);
  assert.equal(await append(a, '1'), undefined);
  assert.equal(await append(b, 'x'.repeat(1_000)), undefined, 'it waits for the close of the other one');
  assert.deepEqual([isOpen('a'), isOpen('b')], [false, true]);
  assert.equal(await append(c, '1'), undefined);
  assert.match((await append(b, 'lost')) ?? '', /^the disk refuses writes/);
  await eventually('the next file is begun', () => b.trouble === undefined);
  assert.equal(isOpen('c'), false);
  assert.equal(await append(b, '2'), undefined);
  assert.deepEqual(descriptionsIn(join(data, 'b')), ['x'.repeat(1_000), '2']);
});

test('a journal without a file descriptor refuses reports that waited too long, and is tried again', async (t) => {
  let isLacking = true;
  const openDisk = (folder: string): Disk => {
    const disk = openRealDisk(folder);
    const createLog: Disk['createLog'] = (name) =>
      isLacking ? Promise.reject(systemError('EMFILE')) : disk.createLog(name);
    return { ...disk, createLog };
  };
  const limits = { reopenMs: 3_600_000, openWaitMs: 100, probeMs: 10 };
  const { hosted, data } = journals(t, { limits, openDisk });
  const [lacking, closed] = [hosted.journalOf('lacking'), hosted.journalOf('closed')];
  const reason = 'no file descriptor is free to open the journal; send the report again later';
  // On a slow disk the first reports hear that the journal is being opened.
  for (const journal of [lacking, closed])
    await eventually('the report is refused', async () => (await append(journal, '1')) === reason);
  assert.equal(lacking.trouble, reason);
  await closed.close();
  isLacking = false;
  await eventually('the journal is open', () => lacking.files === 1);
  assert.equal(await append(lacking, '2'), undefined);
  await eventually('the other one is open again', async () => (await append(closed, '2')) === undefined);
  assert.deepEqual(descriptionsIn(join(data, 'lacking')), ['2']);
});
