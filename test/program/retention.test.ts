/** What retention removes, and that a journal is sound whatever was the last step of it. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { limits as standardLimits } from '../../src/config/limits.ts';
import { newToken } from '../../src/deployments/tokens.ts';
import type { Event } from '../../src/event/event.ts';
import { Journal } from '../../src/journal/journal.ts';
import { encodeBatch, encodeMembers } from '../../src/journal/record.ts';
import { recover } from '../../src/journal/recovery.ts';
import { carryOut, planRepair } from '../../src/journal/repair.ts';
import { type Retain, Retention } from '../../src/journal/retention.ts';
import { contentsOf, goneName, segmentFirstSeq, segmentName } from '../../src/journal/segments.ts';
import { verify } from '../../src/journal/verify.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { newFolder, run, startService } from '../support/program.ts';
import { diskWith, type Files, flip, makeLines, quiet, segment } from '../support/segments.ts';
import { type Call, failingCall, type Remains, type SimulatedDisk, systemError } from '../support/simulated-disk.ts';
import { eventually } from '../support/tools.ts';
import { ask, post } from '../support/wire.ts';

const DAY_MS = 24 * 3_600_000;
const removed = (last: number) => goneName({ first: 1, last }, 'removed');

/** The bytes of a file whose lines were recorded so long ago. */
function aged(firstSeq: number, count: number, ageMs: number): Buffer {
  const event: Event = { type: 'AssetObservation', assetKey: ['a'], description: 'x'.repeat(100) };
  const members = Array.from({ length: count }, () => encodeMembers(event));
  return encodeBatch(members, { seq: firstSeq, crc: 0 }, new Date(Date.now() - ageMs)).bytes;
}

/** Four files of ten events each, of 5, 3 and 2 days ago and of now. */
function fourFiles(): Files {
  return Object.fromEntries(
    [5, 3, 2, 0].map((days, at) => [segmentName(10 * at + 1), aged(10 * at + 1, 10, days * DAY_MS)]),
  );
}

const FREE_BYTES = 1_000_000;
const FILE_BYTES = aged(1, 10, 0).length; // a digit more of seq is nothing here

function journalNames(disk: SimulatedDisk): string[] {
  return disk
    .names()
    .filter((name) => /^events-/.test(name))
    .sort();
}

/** Resolves when everything that can still happen has: the simulated disk takes no time. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 200; turns += 1) await turn();
}

interface Ran {
  readonly notices: Record<string, unknown>[];
  readonly retention: Retention;
  readonly journal: { files: number };
  /** Messages of the syncs that failed. */
  readonly failedSyncs: readonly string[];
}

/** One run, to its end. */
async function retain(disk: SimulatedDisk, limit: Retain): Promise<Ran> {
  const lines: string[] = [];
  const notices = createNotices('info', false, (line) => lines.push(line));
  const journal = { files: contentsOf(disk.names()).segments.length };
  const failedSyncs: string[] = [];
  const onSyncFailed = ({ message }: Error) => void failedSyncs.push(message);
  const options = { disk, retain: limit, limits: standardLimits, notices };
  const retention = new Retention(options, journal, () => {}, onSyncFailed);
  retention.start(0);
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

test('the oldest files go, as many as either limit asks for, and never the newest [program-retention-1]', async () => {
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
    const told = notices.map(({ time: _, bytes, ...fields }) => {
      assert.ok(Number(bytes) > 1_000);
      return fields;
    });
    const [level, message] = ['info', 'journal file removed'];
    const expected = gone.map((first) => ({
      level,
      message,
      file: segmentName(first),
      first_seq: first,
      last_seq: first + 9,
      why,
    }));
    assert.deepEqual(told, expected, JSON.stringify(limit));
    assert.equal(journal.files, stay.length);
    const { findings, removedLast, first, lost } = await verify(disk);
    assert.deepEqual([findings, removedLast, first?.seq, lost], [[], 10 * gone.length, stay[0], []]);
    assert.equal((await recover(disk, quiet)).chain.seq, 41);
  }
});

test('a file of which one event is young enough stays, and so do all behind it', async () => {
  const old = makeLinesOf(1, [9, 9, 0]);
  const disk = diskWith({
    [segmentName(1)]: old,
    [segmentName(4)]: aged(4, 3, 9 * DAY_MS),
    [segmentName(7)]: aged(7, 1, 0),
  });
  await retain(disk, { retainDays: 1 });
  assert.deepEqual(journalNames(disk), [1, 4, 7].map(segmentName));
});

/** A line of each age in days. */
function makeLinesOf(firstSeq: number, ages: readonly number[]): Buffer {
  let chain = { seq: firstSeq, crc: 0 };
  return Buffer.concat(
    ages.map((days) => {
      const members = encodeMembers({ type: 'AssetObservation', assetKey: ['a'] });
      const { bytes, chain: next } = encodeBatch([members], chain, new Date(Date.now() - days * DAY_MS));
      chain = next;
      return Buffer.from(bytes);
    }),
  );
}

test('what an earlier run was about to remove goes, whatever the limits are now, and not before its marker is durable [program-retention-3]', async () => {
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

test('one marker remains, however often files go, and lost events before and between them stay accounted for', async () => {
  const lost = goneName({ first: 11, last: 20 }, 'lost');
  const { [segmentName(11)]: _, ...files } = fourFiles();
  const disk = diskWith({ ...files, [lost]: Buffer.alloc(0) });
  await retain(disk, { retainDays: 4 });
  assert.deepEqual(journalNames(disk), [removed(20), lost, segmentName(21), segmentName(31)].sort());
  await retain(disk, { retainDays: 1 });
  assert.deepEqual(journalNames(disk), [removed(30), lost, segmentName(31)].sort());
  assert.deepEqual((await verify(disk)).findings, []);
  assert.equal((await recover(disk, quiet)).chain.seq, 41);
});

test('without its marker a missing beginning is damage, and so is a missing middle with one', async () => {
  const { [segmentName(1)]: _, ...later } = fourFiles();
  await assert.rejects(recover(diskWith(later), quiet), /the events 1 to 10 before it are missing/);
  assert.equal((await recover(diskWith({ ...later, [removed(10)]: Buffer.alloc(0) }), quiet)).chain.seq, 41);
  await assert.rejects(
    recover(diskWith({ ...later, [removed(9)]: Buffer.alloc(0) }), quiet),
    /the events 10 to 10 before it/,
  );
  const { [segmentName(21)]: __, ...gap } = later;
  await assert.rejects(
    recover(diskWith({ ...gap, [removed(10)]: Buffer.alloc(0) }), quiet),
    /the events 21 to 30 before it/,
  );
  assert.equal((await verify(diskWith({ ...gap, [removed(10)]: Buffer.alloc(0) }))).findings[0]?.kind, 'missing file');
  // Retention never removes the newest file: a marker alone is not what it left.
  await assert.rejects(
    recover(diskWith({ [removed(40)]: Buffer.alloc(0) }), quiet),
    /all journal files are missing: the events from 41 on/,
  );
});

const REMAINS: readonly Remains[] = (['none', 'half', 'all'] as const).flatMap((entries) =>
  [0, 0.5, 1].map((share) => ({ entries, share, behind: 'nothing' }) as const),
);

/** Nothing is wrong with what is left, no event of the newest two files is gone, and another run comes to the same end. */
async function assertSound(disk: SimulatedDisk, when: string): Promise<void> {
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

/** Each removes all but the newest file: the simulated disk never has so much free space. */
const ALL_CLOSED: readonly Retain[] = [{ retainDays: 1 }, { keepFree: 2 ** 50 }];

for (const limit of ALL_CLOSED) {
  test(`the process dies or the power goes at any call: the next start goes well, and the next run finishes it: ${Object.keys(limit)}`, async () => {
    for (let cutting = 1; ; cutting += 1) {
      const disk = diskWith(fourFiles());
      await retain(disk, { retainDays: 4 }); // so that there is an older marker
      const { fault, struck } = failingCall(cutting, 'power');
      const before = disk.calls.length;
      disk.fault = fault;
      await retain(disk, limit);
      disk.fault = () => undefined;
      const when = `call ${cutting}, ${disk.calls[before + cutting - 1]}`;
      await assertSound(disk.afterCrash(), when);
      // What the next run finds may be in memory only.
      for (let again = 1, more = true; more; again += 1) {
        const second = disk.afterCrash();
        const next = failingCall(again, 'power');
        second.fault = next.fault;
        await retain(second, limit);
        more = next.struck() > 0;
        const cut = second.afterPowerCut({ entries: again % 2 === 0 ? 'none' : 'half', share: 0, behind: 'nothing' });
        await assertSound(cut, `${when}, then call ${again}, ${second.calls[again - 1]}`);
      }
      for (const remains of REMAINS)
        await assertSound(disk.afterPowerCut(remains), `${when}, ${JSON.stringify(remains)}`);
      if (struck() === 0) break;
      assert.ok(cutting < 50);
    }
  });
}

for (const what of ['once', 'always'] as const) {
  test(`a call that fails, ${what}, is reported and hurts nothing [program-retention-2]`, async () => {
    for (let failing = 1; ; failing += 1) {
      const disk = diskWith(fourFiles());
      const { fault, struck } = failingCall(failing, what);
      disk.fault = fault;
      const { notices, failedSyncs } = await retain(disk, { retainDays: 1 });
      disk.fault = () => undefined;
      if (struck() === 0) break;
      const when = `call ${failing}, ${disk.calls[failing - 1]}`;
      const warnings = notices.filter(({ level }) => level === 'warn').map(({ problem }) => String(problem));
      assert.ok(
        [...warnings, ...failedSyncs].some((problem) => problem.includes('EIO')),
        when,
      );
      await assertSound(disk.afterCrash(), when);
      await assertSound(disk.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' }), when);
    }
  });
}

test('after a failed sync nothing is removed, and no sync is made again', async () => {
  const disk = diskWith(fourFiles());
  disk.fault = (call) => (call === 'syncFolder' ? systemError('EIO') : undefined);
  const { notices, failedSyncs, retention } = await retain(disk, { retainDays: 1 });
  disk.fault = () => undefined;
  const syncs = disk.count('syncFolder');
  retention.run();
  await settled();
  assert.deepEqual([disk.count('remove'), disk.count('syncFolder')], [0, syncs]);
  assert.deepEqual([notices, failedSyncs], [[], ["EIO: simulated, 'file'"]]);
  await assertSound(disk.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' }), 'then a power cut');
});

test('a folder that can not be opened for a sync of retention is no failed sync', async () => {
  const disk = diskWith({ ...fourFiles(), [removed(10)]: Buffer.alloc(0) });
  const error = Object.assign(systemError('EMFILE'), { syscall: 'open' });
  disk.fault = (call) => (call === 'syncFolder' && disk.count('remove') > 0 ? error : undefined);
  const { notices, failedSyncs, retention } = await retain(disk, { retainDays: 1 });
  assert.deepEqual(failedSyncs, []);
  assert.ok(notices.some(({ problem, again }) => /EMFILE/.test(String(problem)) && again === 'later'));
  await retention.stop();
});

test('a failed sync of retention ends the journal: while it is idle, after the batch that is written, and at a start [program-retention-5]', async () => {
  const event: Event = { type: 'AssetObservation', assetKey: ['a'] };
  const retained = { retainDays: 1, retainBytes: undefined };
  for (const isWriting of [false, true]) {
    const disk = diskWith(fourFiles());
    const failures: string[] = [];
    const journal = new Journal({
      ...{ disk, notices: quiet, segmentBytes: 1_000_000, retain: retained, limits: standardLimits },
      onFailed: ({ message }) => failures.push(message),
    });
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
    const append = () => new Promise((resolve) => journal.append([event], 0, resolve));
    const first = isWriting ? append() : undefined;
    await settled();
    removing.open();
    await settled();
    assert.deepEqual(failures, isWriting ? [] : ["EIO: simulated, 'file'"]);
    writing.open();
    for (const result of [first, append()]) {
      if (result !== undefined) assert.match(JSON.stringify(await result), /refused.*the disk failed/);
    }
    await settled();
    assert.deepEqual(failures, ["EIO: simulated, 'file'"]);
    await journal.close();
    assert.ok(!disk.names().includes('.stopped-cleanly'));
  }
  const disk = diskWith(fourFiles());
  disk.freeSpace = { ...disk.freeSpace, usableBytes: 0 };
  disk.fault = (call) => (call === 'syncFolder' ? systemError('EIO') : undefined);
  const options = { disk, notices: quiet, segmentBytes: 1_000_000, retain: retained, limits: standardLimits };
  await assert.rejects(new Journal({ ...options, onFailed: assert.fail }).open(), /EIO/);
});

function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

test('a file that can not be removed keeps no other from going, and is tried again', async () => {
  const disk = diskWith(fourFiles());
  disk.fault = (call, name) => (call === 'remove' && name === segmentName(11) ? systemError('EPERM') : undefined);
  const { notices, retention } = await retain(disk, { retainDays: 1 });
  assert.deepEqual(journalNames(disk), [removed(30), segmentName(11), segmentName(31)].sort());
  const told = notices.filter(({ level }) => level === 'warn').map(({ file, again }) => [file, again]);
  assert.deepEqual(told, [[segmentName(11), 'later']]);
  disk.fault = () => undefined;
  retention.run();
  await settled();
  assert.deepEqual(journalNames(disk), [removed(30), segmentName(31)].sort());
});

test('a journal continues while files are removed, also by rotations, and its close waits for the step that is under way [program-retention-4]', async () => {
  const disk = diskWith(fourFiles());
  let release = () => {};
  const removing = new Promise<void>((resolve) => {
    release = resolve;
  });
  disk.fault = (call: Call, name) => (call === 'remove' && name.endsWith('.jsonl') ? removing : undefined);
  const retainBytes = 2.5 * FILE_BYTES;
  const retainOptions = { retainBytes, retainDays: undefined };
  const options = { disk, notices: quiet, segmentBytes: FILE_BYTES, retain: retainOptions, limits: standardLimits };
  const journal = new Journal({ ...options, onFailed: assert.fail });
  await journal.open();
  const append = () =>
    new Promise((resolve) => {
      journal.append([{ type: 'AssetObservation', assetKey: ['a'], description: 'x'.repeat(1_000) }], 0, resolve);
    });
  for (let count = 0; count < 10; count += 1) assert.deepEqual(await append(), { kind: 'recorded' });
  assert.ok(journalNames(disk).includes(segmentName(1)), 'its removal is under way');
  release();
  await settled();
  for (let count = 0; count < 10; count += 1) assert.deepEqual(await append(), { kind: 'recorded' });
  await settled();
  const left = journalNames(disk).filter((name) => name.endsWith('.jsonl'));
  const bytes = left.reduce((sum, name) => sum + (disk.bytes(name)?.length ?? 0), 0);
  assert.ok(bytes < 3.5 * FILE_BYTES && left.length >= 2, `${bytes} bytes in ${left}`);
  assert.equal(journal.files, left.length);

  let finish = () => {};
  const last = new Promise<void>((resolve) => {
    finish = resolve;
  });
  disk.fault = (call, name) => (call === 'remove' && name.endsWith('.jsonl') ? last : undefined);
  for (let count = 0; disk.calls.at(-1)?.startsWith('remove') !== true; count += 1) {
    assert.ok(count < 50, 'nothing is removed');
    assert.deepEqual(await append(), { kind: 'recorded' });
    await settled();
  }
  const closed = journal.close();
  await settled();
  assert.equal(disk.names().includes('.stopped-cleanly'), false);
  finish();
  await closed;
  assert.ok(disk.names().includes('.stopped-cleanly'));
  assert.deepEqual((await verify(disk)).findings, []);
});

test('days go by without a rotation', async () => {
  const files = { [segmentName(1)]: aged(1, 3, DAY_MS - 300), [segmentName(4)]: aged(4, 3, 0) };
  const disk = diskWith(files);
  const limits = { ...standardLimits, retainCheckMs: 20 };
  const retention = new Retention({ disk, retain: { retainDays: 1 }, limits, notices: quiet }, { files: 2 });
  retention.start(0);
  await settled();
  assert.deepEqual(journalNames(disk), Object.keys(files).sort());
  await eventually('the old file is removed', () => !disk.names().includes(segmentName(1)));
  await settled();
  assert.deepEqual(journalNames(disk), [removed(3), segmentName(4)].sort());
  await retention.stop();
});

test('verify begins again where retention removes what it was about to read', async () => {
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
  // A listing of a large folder is not of one moment: it may have neither the marker nor the file.
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
  await assert.rejects(verify(disk), { code: 'ENOENT' }, 'nobody said that this one may go');
});

test('verify keeps up with a retention that removes each file as it is about to be read', async () => {
  const disk = diskWith(
    Object.fromEntries(Array.from({ length: 8 }, (_, at) => [segmentName(10 * at + 1), segment(10 * at + 1, 10)])),
  );
  let newest = 71;
  let begun = 0;
  disk.fault = (call, name) => {
    const firstSeq = segmentFirstSeq(name) ?? 0;
    if (call !== 'read' || !disk.names().includes(name)) return undefined;
    if (firstSeq === newest && begun === 3) return undefined;
    if (firstSeq === newest) {
      newest += 10;
      begun += 1;
      disk.put(segmentName(newest), segment(newest, 10));
    }
    for (const old of disk.names().filter((each) => each.endsWith('.removed'))) disk.drop(old);
    disk.put(removed(firstSeq + 9), Buffer.alloc(0));
    disk.drop(name);
    return undefined;
  };
  const { findings, events, first, segments, removedLast } = await verify(disk);
  assert.deepEqual([findings, events, first?.seq, segments.length, removedLast], [[], 10, 101, 1, 100]);
});

test('repair of a journal that begins later calls nothing lost that retention removed', async () => {
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
    'no seq is given away twice',
  );
});

test('the program keeps to its budget under reports, and says what it removed; verify and the next start understand', async (t) => {
  const args = ['--segment-bytes', '4096', '--retain-bytes', '20000'];
  const service = await startService(t, { args });
  const body = JSON.stringify({ description: 'x'.repeat(900) });
  for (let count = 0; count < 60; count += 1)
    assert.equal((await ask(service.port, post('/report_asset_observation/a', body))).status, 200);
  const names = () => readdirSync(service.data).filter((name) => segmentFirstSeq(name) !== undefined);
  const total = () => names().reduce((sum, name) => sum + statSync(join(service.data, name)).size, 0);
  await eventually('it keeps to its budget', () => total() <= 24_096);
  const { stderr, code } = await service.kill();
  assert.equal(code, 0, stderr);
  assert.ok(total() <= 24_096 && total() > 10_000, `${total()} bytes`);

  const told = stderr
    .split('\n')
    .filter((line) => line.includes('journal file removed'))
    .map((line) => JSON.parse(line));
  const first = Math.min(...names().map((name) => segmentFirstSeq(name) ?? 0));
  assert.equal(told[0].first_seq, 1);
  assert.equal(told.at(-1).last_seq, first - 1);
  assert.ok(told.every(({ bytes, why }) => bytes > 4_000 && why === '--retain-bytes'));
  assert.deepEqual(
    readdirSync(service.data).filter((name) => name.endsWith('.removed')),
    [removed(first - 1)],
  );
  const verdict = await run(['verify', '--data', service.data, '--json']);
  const { good, first_seq, last_seq, removed_to_seq } = JSON.parse(verdict.stdout);
  assert.deepEqual([verdict.code, good, first_seq, last_seq, removed_to_seq], [0, true, first, 60, first - 1]);
  const text = await run(['verify', '--data', service.data]);
  assert.match(text.stdout, new RegExp(`\\n {2}removed up to seq ${first - 1}, by retention\\n`));
  const again = await startService(t, { data: service.data });
  assert.equal((await ask(again.port, post('/report_asset_observation/a'))).status, 200);
  assert.equal(again.events().at(-1)?.['seq'], 61);
});

test('below the space to keep free the only file is closed at 64 KiB, so that it can be removed, and else never early', async () => {
  for (const [keepFree, firstSeqs, closeAtBytes] of [
    [FREE_BYTES, [1], 1_000_000],
    [FREE_BYTES + 1, [1], 65_536],
    [10 * FREE_BYTES, [1, 11], 1_000_000],
    [undefined, [1], 1_000_000],
  ] as const) {
    const disk = diskWith(Object.fromEntries(firstSeqs.map((seq) => [segmentName(seq), segment(seq, 10)])));
    disk.freeSpace = { freeBytes: FREE_BYTES, usableBytes: FREE_BYTES, totalBytes: 10 * FREE_BYTES };
    const { retention } = await retain(disk, { keepFree, retainDays: 1 });
    assert.equal(retention.closeAtBytes(1_000_000), closeAtBytes);
    assert.equal(retention.closeAtBytes(4_096), 4_096);
  }
});

test('as a process: sizes that can not work are the end with 2, all of them, with what to do', async (t) => {
  const args = ['serve', '--port', '0', '--data', newFolder(t)];
  const contradiction = await run([
    ...args,
    '--retain-bytes',
    '1MB',
    '--segment-bytes',
    '64MiB',
    '--keep-free',
    '1MB',
    '--min-free-bytes',
    '1MB',
  ]);
  assert.equal(contradiction.code, 2);
  assert.match(
    contradiction.stderr,
    /^assetlog: --segment-bytes is 67108864, more than the 1000000 of --retain-bytes: .*give at most 250000\n/,
  );
  assert.match(
    contradiction.stderr,
    /\nassetlog: --keep-free is 1000000, not more than the 1000000 of --min-free-bytes: .*such as 2000000\n$/,
  );
  const least = await run([...args, '--retain-bytes', '1', '--keep-free', '300mb']);
  assert.equal(least.code, 2);
  assert.match(least.stderr, /^assetlog: --retain-bytes "1" is not from 16384 to /);
  assert.match(least.stderr, /\nassetlog: --keep-free "300mb" is not a size; .*such as 300MB\n$/);
});

test('by days at the start, and in hosted mode for each deployment by itself', async (t) => {
  const folder = newFolder(t);
  const { token, digest } = newToken();
  const tokens = [{ name: 'ci', sha256: digest }];
  const file = join(folder, 'deployments.json');
  writeFileSync(file, JSON.stringify({ deployments: ['old', 'young'].map((name) => ({ name, tokens })) }));
  for (const [name, days] of [
    ['old', 9],
    ['young', 1],
  ] as const) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, segmentName(1)), aged(1, 3, days * DAY_MS));
    writeFileSync(join(folder, name, segmentName(4)), aged(4, 3, days * DAY_MS));
  }
  const service = await startService(t, { data: folder, args: ['--deployments', file, '--retain-days', '5'] });
  const report = (name: string) =>
    ask(service.port, post(`/${name}/report_asset_observation/a`, undefined, [`Service-Cloud-Api-Token: ${token}`]));
  for (const name of ['old', 'young']) assert.equal((await report(name)).status, 200);
  await eventually('the old file is removed', () => !readdirSync(join(folder, 'old')).includes(segmentName(1)));
  const { stderr } = await service.kill();
  const list = (name: string) =>
    readdirSync(join(folder, name))
      .filter((one) => one.startsWith('events-'))
      .sort();
  assert.deepEqual(list('old'), [removed(3), segmentName(4)].sort(), 'the newest stays, old as it is');
  assert.deepEqual(list('young'), [segmentName(1), segmentName(4)]);
  assert.match(
    stderr,
    /"journal file removed","deployment":"old","file":"events-0+1\.jsonl","first_seq":1,"last_seq":3,"bytes":\d+,"why":"--retain-days"/,
  );
});
