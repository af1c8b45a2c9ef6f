/** The files that retention removes; the journal is valid after an interruption at any step. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits as standardLimits } from '../../src/config/limits.ts';
import { planRepair } from '../../src/journal/look/repair.ts';
import { type Retain, Retention } from '../../src/journal/retention.ts';
import { contentsOf, goneName, segmentName } from '../../src/journal/segments.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { createJournal, openJournal } from '../support/journal.ts';
import { aged, diskWith, type Files, flip, makeLines, quiet, segment, timed } from '../support/segments.ts';
import { carryOut, recover, verify } from '../support/standard-limits.ts';
import { eventually } from '../support/tools.ts';
import { gate } from '../world/gate.ts';
import { eachCall, settled } from '../world/power.ts';
import { type SimulatedDisk, systemError } from '../world/simulated-disk.ts';

const DAY_MS = 24 * 3_600_000;
const removed = (last: number) => goneName({ first: 1, last }, 'removed');

/** Four files of ten events each: from 5, 3 and 2 days ago, and from now. */
function fourFiles(): Files {
  return Object.fromEntries(
    [5, 3, 2, 0].map((days, at) => [segmentName(10 * at + 1), aged(10 * at + 1, 10, days * DAY_MS)]),
  );
}

const FREE_BYTES = 1_000_000;
const FILE_BYTES = aged(1, 10, 0).length; // more digits of a seq do not matter here

function journalNames(disk: SimulatedDisk): string[] {
  return disk
    .names()
    .filter((name) => /^events-/.test(name))
    .sort();
}

interface Ran {
  readonly notices: Record<string, unknown>[];
  readonly retention: Retention;
  readonly journal: { files: number };
  /** Messages of the syncs that failed. */
  readonly failedSyncs: readonly string[];
}

/** Waits for the end of one run. */
async function retain(disk: SimulatedDisk, limit: Retain): Promise<Ran> {
  const lines: string[] = [];
  const notices = createNotices('info', false, (line) => lines.push(line));
  const journal = { files: contentsOf(disk.names()).segments.length };
  const failedSyncs: string[] = [];
  const onSyncFailed = ({ message }: Error) => void failedSyncs.push(message);
  const options = { disk, retain: limit, limits: standardLimits, notices };
  const retention = new Retention(options, journal, onSyncFailed);
  retention.start();
  await settled();
  return {
    retention,
    journal,
    failedSyncs,
    get notices() {
      return lines.map((line) => JSON.parse(line));
    },
  };
}

test('the oldest segments beyond any limit are removed, and never the newest', async () => {
  const all = [1, 11, 21, 31];
  const table: readonly (readonly [limit: Retain, stay: readonly number[], why?: string])[] = [
    [{}, all],
    [{ retainBytes: 10 * FILE_BYTES, retainDays: 10 }, all],
    [{ retainBytes: 3.5 * FILE_BYTES }, [11, 21, 31], '--retain-bytes'],
    [{ retainBytes: 2.5 * FILE_BYTES }, [21, 31], '--retain-bytes'],
    [{ retainBytes: 1 }, [31], '--retain-bytes'],
    [{ retainDays: 4 }, [11, 21, 31], '--retain-days'],
    [{ retainDays: 1 }, [31], '--retain-days'],
    [{ retainBytes: 2.5 * FILE_BYTES, retainDays: 4 }, [21, 31], '--retain-bytes'],
    [{ retainBytes: 10 * FILE_BYTES, retainDays: 1 }, [31], '--retain-days'],
    [{ keepFree: FREE_BYTES }, all],
    [{ keepFree: FREE_BYTES + 1 }, [11, 21, 31], '--keep-free'],
    [{ keepFree: FREE_BYTES + 1.5 * FILE_BYTES }, [21, 31], '--keep-free'],
    [{ keepFree: 10 * FREE_BYTES }, [31], '--keep-free'],
    [{ keepFree: FREE_BYTES + 1, retainBytes: 3.5 * FILE_BYTES }, [11, 21, 31], '--retain-bytes'],
  ];
  for (const [limit, stay, why] of table) {
    const disk = diskWith(fourFiles());
    disk.freeSpace = { freeBytes: FREE_BYTES, usableBytes: FREE_BYTES, totalBytes: 10 * FREE_BYTES };
    const { notices, journal } = await retain(disk, limit);
    const gone = all.filter((firstSeq) => !stay.includes(firstSeq));
    const marker = gone.length > 0 ? [removed(10 * gone.length)] : [];
    assert.deepEqual(journalNames(disk), [...marker, ...stay.map(segmentName)].sort(), JSON.stringify(limit));
    assert.ok(notices.every(({ bytes }) => Number(bytes) > 1_000));
    const rest = { level: 'info', message: 'segment removed', why };
    assert.deepEqual(
      notices.map(({ time: _, bytes: __, ...fields }) => fields),
      gone.map((first) => ({ ...rest, file: segmentName(first), first_seq: first, last_seq: first + 9 })),
      JSON.stringify(limit),
    );
    assert.equal(journal.files, stay.length);
    const { findings, removedLast, first, lost } = await verify(disk);
    assert.deepEqual([findings, removedLast, first?.seq, lost], [[], 10 * gone.length, stay[0], []]);
    assert.equal((await recover(disk, quiet)).chain.seq, 41);
  }
});

test('a segment with one event within the age limit stays, and so do all later segments', async () => {
  const disk = diskWith({
    [segmentName(1)]: timed(1, Date.now() - 9 * DAY_MS, Date.now() - 9 * DAY_MS, Date.now()),
    [segmentName(4)]: aged(4, 3, 9 * DAY_MS),
    [segmentName(7)]: aged(7, 1, 0),
  });
  await retain(disk, { retainDays: 1 });
  assert.deepEqual(journalNames(disk), [1, 4, 7].map(segmentName));
});

test('an interrupted removal is completed under any limits, but only after its marker is durable', async () => {
  const disk = diskWith({ ...fourFiles(), [removed(10)]: Buffer.alloc(0), [removed(20)]: Buffer.alloc(0) });
  const { notices } = await retain(disk, { retainDays: 100 });
  assert.deepEqual(journalNames(disk), [removed(20), segmentName(21), segmentName(31)].sort());
  assert.deepEqual(
    notices.map(({ file, why }) => [file, why]),
    [1, 11].map((first) => [segmentName(first), 'interrupted']),
  );
  const order = disk.calls.filter((call) => /^(create|remove|syncFolder)/.test(call));
  assert.deepEqual(order, [
    'syncFolder ',
    ...[segmentName(1), segmentName(11), removed(10)].map((name) => `remove ${name}`),
    'syncFolder ',
  ]);
});

test('one marker remains after several removals, and the markers of lost events stay', async () => {
  const lost = goneName({ first: 11, last: 20 }, 'lost');
  const { [segmentName(11)]: _, ...files } = fourFiles();
  const disk = diskWith({ ...files, [lost]: Buffer.alloc(0) });
  await retain(disk, { retainDays: 4 });
  assert.deepEqual(journalNames(disk), [removed(10), lost, segmentName(21), segmentName(31)].sort());
  await retain(disk, { retainDays: 1 });
  assert.deepEqual(journalNames(disk), [removed(30), lost, segmentName(31)].sort());
  assert.deepEqual((await verify(disk)).findings, []);
  assert.equal((await recover(disk, quiet)).chain.seq, 41);
});

test('a segment that is back after its events were marked as lost is removed like any other [program-retention-8]', async () => {
  const lost = goneName({ first: 1, last: 20 }, 'lost');
  const disk = diskWith({ ...fourFiles(), [lost]: Buffer.alloc(0) });
  const { notices } = await retain(disk, { retainDays: 1 });
  assert.deepEqual(
    notices.map(({ first_seq, last_seq }) => [first_seq, last_seq]),
    [1, 11, 21].map((first) => [first, first + 9]),
  );
  assert.deepEqual(journalNames(disk), [removed(30), lost, segmentName(31)].sort());
});

test('the marker of a gap in a restored backup covers only its own events', async () => {
  const gap = goneName({ first: 11, last: 20 }, 'removed');
  const { [segmentName(11)]: _, ...files } = fourFiles();
  const restored = () => diskWith({ ...files, [gap]: Buffer.alloc(0) });
  const disk = restored();
  for (let run = 1; run <= 3; run += 1) {
    const { notices } = await retain(disk, { retainBytes: 10 * FILE_BYTES, retainDays: 10 });
    assert.deepEqual([journalNames(disk), notices], [[...Object.keys(files), gap].sort(), []], `run ${run}`);
  }
  const held = restored();
  const own = {
    heldBack: () => ({ fromSeq: 1, reason: 'not received yet' }),
    followers: { removing: () => assert.fail('nothing is removed'), tell: () => {} },
  };
  for (let run = 1; run <= 3; run += 1) {
    const options = { disk: held, retain: { retainBytes: 1 }, limits: standardLimits, notices: quiet, ...own };
    new Retention(options, { files: 3 }).start();
    await settled();
    assert.deepEqual(journalNames(held), [...Object.keys(files), gap].sort(), `held back, run ${run}`);
  }
  const lacking = restored();
  lacking.drop(segmentName(1));
  assert.match(`${(await verify(lacking)).findings[0]?.problem}`, /^the events 1 to 20 before it are missing$/);

  await retain(disk, { retainBytes: 2.5 * FILE_BYTES });
  assert.deepEqual(journalNames(disk), [removed(20), segmentName(21), segmentName(31)].sort());
  assert.deepEqual((await verify(disk)).findings, []);
});

/** Asserts that the journal is valid up to its last event, and that another run has the usual result. */
async function assertValid(disk: SimulatedDisk, when: string): Promise<void> {
  const { findings, last } = await verify(disk);
  assert.deepEqual(findings, [], when);
  assert.equal(last?.seq, 40, when);
  const { chain, file } = await recover(disk, quiet);
  assert.equal(chain.seq, 41, when);
  await file.close();
  const { notices } = await retain(disk, { retainDays: 1 });
  assert.deepEqual(journalNames(disk), [removed(30), segmentName(31)].sort(), when);
  for (const { level } of notices) assert.equal(level, 'info', when);
}

for (const what of ['once', 'always'] as const) {
  test(`an error at any call, ${what}, is reported and leaves a valid journal [program-retention-2]`, async () => {
    for (const trial of eachCall(what)) {
      const disk = diskWith(fourFiles());
      const end = await trial.run(disk, () => retain(disk, { retainDays: 1 }));
      assert.equal(end.kind, 'done', trial.when);
      if (end.kind !== 'done' || !trial.struck) continue;
      const { notices, failedSyncs } = end.value;
      const warnings = notices.filter(({ level }) => level === 'warn').map(({ problem }) => String(problem));
      assert.ok(
        [...warnings, ...failedSyncs].some((problem) => problem.includes('EIO')),
        trial.when,
      );
      await assertValid(disk.afterCrash(), trial.when);
      await assertValid(disk.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' }), trial.when);
    }
  });
}

test('after a failed sync nothing is removed, and no sync is repeated', async () => {
  const disk = diskWith(fourFiles());
  disk.fault = (call) => (call === 'syncFolder' ? systemError('EIO') : undefined);
  const { notices, failedSyncs, retention } = await retain(disk, { retainDays: 1 });
  disk.fault = () => undefined;
  const syncs = disk.count('syncFolder');
  retention.run();
  await settled();
  assert.deepEqual([disk.count('remove'), disk.count('syncFolder')], [0, syncs]);
  assert.deepEqual([notices, failedSyncs], [[], ["EIO: simulated, 'file'"]]);
  await assertValid(disk.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' }), 'then a power cut');
});

test('a folder that cannot be opened for a sync is not a failed sync', async () => {
  const disk = diskWith({ ...fourFiles(), [removed(10)]: Buffer.alloc(0) });
  const error = Object.assign(systemError('EMFILE'), { syscall: 'open' });
  disk.fault = (call) => (call === 'syncFolder' && disk.count('remove') > 0 ? error : undefined);
  const { notices, failedSyncs, retention } = await retain(disk, { retainDays: 1 });
  assert.deepEqual(failedSyncs, []);
  assert.ok(notices.some(({ problem, again }) => /EMFILE/.test(String(problem)) && again === 'later'));
  await retention.stop();
});

test('a failed sync of retention fails the journal: when idle, after the batch, and at a start', async () => {
  const retained = { retainDays: 1, retainBytes: undefined };
  for (const isWriting of [false, true]) {
    const disk = diskWith(fourFiles());
    const { journal, report, failures } = createJournal(disk, { retain: retained });
    const [removing, writing] = [gate(), gate()];
    let isRemoving = false;
    disk.fault = (call, name) => {
      isRemoving ||= call === 'remove' && name === segmentName(1);
      if (!isRemoving) return undefined;
      if (call === 'remove') return removing.opened;
      if (call === 'write' && isWriting) return writing.opened;
      return call === 'syncFolder' ? systemError('EIO') : undefined;
    };
    await journal.open();
    await settled();
    const first = isWriting ? report('first') : undefined;
    await settled();
    removing.open();
    await settled();
    assert.deepEqual(failures.map(String), isWriting ? [] : ["Error: EIO: simulated, 'file'"]);
    writing.open();
    for (const reason of [first, report('second')]) {
      if (reason !== undefined) assert.match((await reason) ?? 'recorded', /^the disk failed/);
    }
    await settled();
    assert.deepEqual(failures.map(String), ["Error: EIO: simulated, 'file'"]);
    await journal.close();
    assert.ok(!disk.names().includes('.stopped-cleanly'));
  }
  const disk = diskWith(fourFiles());
  disk.freeSpace = { ...disk.freeSpace, usableBytes: 0 };
  disk.fault = (call) => (call === 'syncFolder' ? systemError('EIO') : undefined);
  await assert.rejects(openJournal(disk, { retain: retained }), /EIO/);
});

test('nothing is written after a sync of retention failed during a rotation', async () => {
  const disk = diskWith(fourFiles());
  const retain = { retainDays: 1, retainBytes: undefined };
  const { journal, report, failures } = createJournal(disk, { segmentBytes: FILE_BYTES, retain });
  const [removing, creating] = [gate(), gate()];
  let isRemoving = false;
  let isCreating = false;
  let syncs = 0;
  disk.fault = (call, name) => {
    isRemoving ||= call === 'remove' && name === segmentName(1);
    isCreating ||= call === 'create' && isRemoving && name.endsWith('.jsonl');
    if (call === 'create' && isCreating) return creating.opened;
    if (call === 'remove' && isRemoving) return removing.opened;
    return call === 'syncFolder' && isCreating && syncs++ === 0 ? systemError('EIO') : undefined;
  };
  await journal.open();
  await settled();
  const reported = report('a');
  await eventually('the next file is created', () => isCreating);
  const writes = disk.count('write');
  removing.open();
  await settled();
  creating.open();
  assert.match(`${await reported}`, /^the disk failed/);
  await journal.close();
  assert.deepEqual([disk.count('write'), failures.map(String)], [writes, ["Error: EIO: simulated, 'file'"]]);
});

test('a segment that cannot be removed does not keep the others, and is tried again', async () => {
  const disk = diskWith(fourFiles());
  disk.fault = (call, name) => (call === 'remove' && name === segmentName(11) ? systemError('EPERM') : undefined);
  const { notices, retention } = await retain(disk, { retainDays: 1 });
  assert.deepEqual(journalNames(disk), [removed(30), segmentName(11), segmentName(31)].sort());
  const found = notices.filter(({ level }) => level === 'warn').map(({ file, again }) => [file, again]);
  assert.deepEqual(found, [[segmentName(11), 'later']]);
  disk.fault = () => undefined;
  retention.run();
  await settled();
  assert.deepEqual(journalNames(disk), [removed(30), segmentName(31)].sort());
});

test('a segment that becomes too old is removed without a rotation', async (t) => {
  const files = { [segmentName(1)]: aged(1, 3, DAY_MS - 600_000), [segmentName(4)]: aged(4, 3, 0) };
  const disk = diskWith(files);
  const limits = { ...standardLimits, retainCheckMs: 20 };
  const retention = new Retention({ disk, retain: { retainDays: 1 }, limits, notices: quiet }, { files: 2 });
  retention.start();
  await settled();
  assert.deepEqual(journalNames(disk), Object.keys(files).sort());
  const later = Date.now() + 1_200_000;
  t.mock.method(Date, 'now', () => later);
  await eventually('the old file is removed', () => !disk.names().includes(segmentName(1)));
  await settled();
  assert.deepEqual(journalNames(disk), [removed(3), segmentName(4)].sort());
  await retention.stop();
});

test('with an age limit the newest segment is closed when its first event has a tenth of that age, and later removed', async () => {
  const days = (...ages: readonly number[]) => timed(1, ...ages.map((age) => Date.now() - age * DAY_MS));
  const rows: readonly (readonly [retainDays: number | undefined, newest: Buffer, files: readonly string[]])[] = [
    [undefined, days(400, 400), [segmentName(1)]],
    [10, days(0.99, 0.5), [segmentName(1)]],
    [10, days(1.01, 0), [segmentName(1), segmentName(3)]],
    [10, days(400, 9.9), [segmentName(1), segmentName(3)]],
    [10, days(11, 10.1), [removed(2), segmentName(3)]],
    [10, Buffer.alloc(0), [segmentName(1)]],
    [1, days(-400, 400), [segmentName(1)]],
  ];
  for (const [retainDays, newest, files] of rows) {
    const disk = diskWith({ [segmentName(1)]: newest });
    const { journal, report, failures } = await openJournal(disk, { retain: { retainDays } });
    await settled();
    assert.deepEqual(journalNames(disk), files);
    const { nextSeq } = journal;
    for (const what of ['a', 'b', 'c']) assert.equal(await report(what), undefined);
    await settled();
    assert.deepEqual([journalNames(disk), journal.nextSeq], [files, nextSeq! + 3], 'the next file is not closed');
    await journal.close();
    assert.deepEqual([failures, (await verify(disk)).findings], [[], []]);
    assert.equal((await recover(disk, quiet)).chain.seq, nextSeq! + 3);
  }
});

test('a report that waits for the journal to open is recorded in a new segment, and old events are removed', async () => {
  const disk = diskWith({ [segmentName(1)]: aged(1, 3, 11 * DAY_MS) });
  disk.fault = (call) => (call === 'read' || call === 'list' ? settled(20) : undefined); // batches are faster than retention
  const { journal, report } = createJournal(disk, { retain: { retainDays: 10 }, openWaitMs: 1_000_000 });
  const reported = report('early');
  await journal.open();
  assert.equal(await reported, undefined);
  await settled();
  assert.deepEqual(journalNames(disk), [removed(3), segmentName(4)]);
  await journal.close();
});

test('the newest segment of an idle journal is closed by the clock, but not while the journal stops or refuses reports', async (t) => {
  const limits = { ...standardLimits, retainCheckMs: 20, probeMs: 20 };
  const opened = async () => {
    const disk = diskWith({ [segmentName(1)]: aged(1, 3, 0.09 * DAY_MS) });
    return { disk, ...(await openJournal(disk, { retain: { retainDays: 1 }, limits })) };
  };
  const [idle, stopped, refusing] = [await opened(), await opened(), await opened()];
  await settled();
  refusing.disk.fault = (call) => (call === 'create' ? systemError('ENOSPC') : undefined);
  await stopped.journal.close();
  const later = Date.now() + 0.02 * DAY_MS;
  t.mock.method(Date, 'now', () => later);
  const both = [segmentName(1), segmentName(4)];
  await eventually('it is closed', () => idle.disk.names().includes(segmentName(4)));
  await eventually('no next file can be made', () => refusing.journal.trouble !== undefined);
  refusing.disk.fault = () => undefined;
  await eventually('reports are recorded again', () => refusing.journal.trouble === undefined);
  assert.deepEqual(journalNames(stopped.disk), [segmentName(1)]);
  for (const { disk, journal, report } of [idle, refusing]) {
    assert.equal(await report('next'), undefined);
    await journal.close();
    assert.deepEqual([journalNames(disk), (await verify(disk)).findings], [both, []]);
  }
});

test('verify starts again if retention removes the file that it is about to read', async () => {
  const disk = diskWith(fourFiles());
  disk.fault = (call, name) => {
    if (call === 'read' && name === segmentName(11) && disk.names().includes(name)) {
      disk.put(removed(20), Buffer.alloc(0));
      for (const firstSeq of [1, 11]) disk.drop(segmentName(firstSeq));
    }
    return undefined;
  };
  const { findings, events, first, removedLast } = await verify(disk);
  assert.deepEqual([findings, events, first?.seq, removedLast], [[], 20, 21, 20]);
  // The listing of a large folder is not atomic: it can have neither the marker nor the file.
  const list = disk.list.bind(disk);
  let listings = 0;
  disk.list = async () => {
    listings += 1;
    return (await list()).filter((name) => listings > 1 || !name.endsWith('.removed'));
  };
  assert.deepEqual((await verify(disk)).findings, []);
  disk.fault = (call, name) => {
    if (call === 'read' && name === segmentName(31)) disk.drop(name);
    return undefined;
  };
  await assert.rejects(verify(disk), { code: 'ENOENT' }, 'no marker explains the missing file');

  const gap = goneName({ first: 21, last: 30 }, 'removed');
  const restored = diskWith({ ...fourFiles(), [gap]: Buffer.alloc(0) });
  restored.drop(segmentName(21));
  restored.fault = (call, name) => {
    if (call === 'read' && name === segmentName(11)) restored.drop(name);
    return undefined;
  };
  await assert.rejects(verify(restored), { code: 'ENOENT' }, 'the marker is for events after the missing file');
});

test('a repair does not mark events as lost that retention removed', async () => {
  const lines = makeLines(10, { seq: 21, crc: 0 });
  const files = {
    [segmentName(21)]: flip(lines.bytes, 60),
    [segmentName(31)]: segment(31, 3),
    [removed(20)]: Buffer.alloc(0),
  };
  const disk = diskWith(files);
  const plan = await planRepair(disk, await verify(disk), standardLimits);
  assert.deepEqual(plan.lost, [{ first: 21, last: 21 }]);
  await carryOut(disk, plan, 'side', '');
  const { findings, events, removedLast } = await verify(disk);
  assert.deepEqual([findings, events, removedLast], [[], 12, 20]);

  const garbage = `${'{"seq":21,"x":1,"crc":"00000000"}\n'.repeat(2)}`;
  const hopeless = diskWith({ [segmentName(21)]: Buffer.from(garbage), [removed(20)]: Buffer.alloc(0) });
  const { runs, lost } = await planRepair(hopeless, await verify(hopeless), standardLimits);
  assert.ok(
    runs.every(({ firstSeq }) => firstSeq > 20) && lost.every(({ first }) => first > 20),
    'no seq is used twice',
  );
});

test('the only file is closed early, at 64 KiB, if and only if the free space is below keepFree', async () => {
  for (const [keepFree, firstSeqs, closeAtBytes] of [
    [FREE_BYTES, [1], 1_000_000],
    [FREE_BYTES + 1, [1], 65_536],
    [10 * FREE_BYTES, [1, 11], 1_000_000],
    [undefined, [1], 1_000_000],
  ] as const) {
    const disk = diskWith(Object.fromEntries(firstSeqs.map((seq) => [segmentName(seq), segment(seq, 10)])));
    disk.freeSpace = { freeBytes: FREE_BYTES, usableBytes: FREE_BYTES, totalBytes: 10 * FREE_BYTES };
    const { retention } = await retain(disk, { keepFree, retainDays: 1 });
    assert.equal(retention.closeAtBytes(1_000_000, segmentName(firstSeqs.at(-1)!)), closeAtBytes);
    assert.equal(retention.closeAtBytes(4_096, segmentName(firstSeqs.at(-1)!)), 4_096);
  }
});
