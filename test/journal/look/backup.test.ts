/** A backup of a journal: what it copies beside a writer, and what is left of it when the power goes at any step. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import type { Durable } from '../../../src/journal/lock/protocol.ts';
import { type Backup, backUp, OtherJournalError } from '../../../src/journal/look/backup.ts';
import { markCleanStop } from '../../../src/journal/open/clean-stop.ts';
import { DamagedError } from '../../../src/journal/open/recovery.ts';
import { goneName, segmentName } from '../../../src/journal/segments.ts';
import { openJournal } from '../../support/journal.ts';
import { rounds } from '../../support/long.ts';
import { diskWith, FIRST, filesOf, flip, makeLines, segment, splitLines } from '../../support/segments.ts';
import { verify } from '../../support/standard-limits.ts';
import { eachCall, remainsOf, type Trial } from '../../world/power.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

const FOURTH = segmentName(4);
const SEVENTH = segmentName(7);
const five = segment(7, 5);
const files = { [FIRST]: segment(1, 3), [FOURTH]: segment(4, 3), [SEVENTH]: firstLines(five, 2) };
const REMOVED_3 = goneName({ first: 1, last: 3 }, 'removed');

/** As a journal that is forwarded to a hub, and is a hub itself, has them beside its events. */
const forwarded = {
  '.journal-id': Buffer.from('0193e0c2-7f3a-7000-8000-000000000000\n'),
  '.journal-begin': Buffer.from('3 0193e0c2-7f3a-7000-8000-000000000000\n'),
  '.forwarded-hub': Buffer.alloc(0),
  'dead-hub.jsonl': Buffer.from(
    '{"time":"2026-11-20T15:19:45.266Z","outcome":"refused","reason":"no","line":{"seq":1}}\n',
  ),
  'forward-sources.json': Buffer.from('{"seq":8}'),
  'forward-hub.cursor': Buffer.from('{"seq":8}'),
  'forward-hub.state': Buffer.from('{}'),
};
const { 'forward-hub.cursor': _cursor, 'forward-hub.state': _state, ...carried } = forwarded;

function firstLines(bytes: Buffer, count: number): Buffer {
  return Buffer.concat(splitLines(bytes).slice(0, count));
}

/** @param answers what the writer says to each question; the last answer is repeated */
function run(source: SimulatedDisk, target: SimulatedDisk, ...answers: Durable[]): Promise<Backup> {
  let asked = 0;
  const progress = {
    durable: async (): Promise<Durable> => answers[Math.min(asked++, answers.length - 1)] ?? { kind: 'unsaid' },
    more: async () => {},
  };
  return backUp({ source, target, progress, limits });
}

/** What a start would refuse. */
async function refusals(disk: SimulatedDisk): Promise<string[]> {
  const { findings } = await verify(disk);
  return findings.filter(({ decision }) => decision === 'refuse').map(({ problem }) => problem);
}

/** The target as the next run may find it: after a power cut or a crash of this one, or after its end. */
function leftOf(target: SimulatedDisk, { struck }: Trial): SimulatedDisk[] {
  if (!struck) return [target];
  return [target.afterCrash(), ...remainsOf([0, 0.5, 1]).map((remains) => target.afterPowerCut(remains))];
}

test('a backup copies the whole journal, and the next one only what is new [journal-backup-3]', async () => {
  const [source, target] = [diskWith(files), new SimulatedDisk()];
  const first = await run(source, target);
  assert.deepEqual(first, {
    events: 8,
    bytes: Buffer.concat(Object.values(files)).length,
    seqs: { first: 1, last: 8 },
    remarks: [],
    isComplete: true,
  });
  assert.deepEqual(filesOf(target), files);

  const cut = target.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' });
  assert.deepEqual(filesOf(cut), filesOf(target), 'all of it is durable when the run has ended');
  target.calls.length = 0;
  assert.equal((await run(source, target)).events, 0);
  assert.deepEqual([target.count('write'), target.count('create')], [0, 0], 'nothing is written again');

  source.put(SEVENTH, five);
  source.put(segmentName(12), segment(12, 1));
  const { events, seqs } = await run(source, target);
  assert.deepEqual([events, seqs], [4, { first: 1, last: 12 }]);
  assert.ok(
    !target.calls.some((call) => /^(create|write) /.test(call) && call.includes(FIRST)),
    'closed files are not',
  );
});

test('a backup beside a writer copies only durable lines [journal-backup-4]', async () => {
  const { lines, bytes } = makeLines(9);
  const source = diskWith({ [FIRST]: Buffer.concat([bytes, Buffer.from('{"seq":10,"torn')]) });
  const target = new SimulatedDisk();
  assert.equal((await run(source, target, { kind: 'before', seq: 4 })).events, 3);
  assert.equal(target.text(FIRST), Buffer.concat(lines.slice(0, 3)).toString());
  assert.equal((await run(source, target, { kind: 'before', seq: 4 })).events, 0);
  assert.equal((await run(source, target, { kind: 'before', seq: 10 })).events, 6);
  assert.equal(target.text(FIRST), bytes.toString());
});

test('a service that starts during a backup decides which lines are durable', async () => {
  const { lines, bytes } = makeLines(5);
  const target = new SimulatedDisk();
  const result = await run(diskWith({ [FIRST]: bytes }), target, { kind: 'unsaid' }, { kind: 'before', seq: 3 });
  assert.equal(result.events, 2);
  assert.equal(target.text(FIRST), Buffer.concat(lines.slice(0, 2)).toString());
  assert.deepEqual(target.names(), [FIRST]);
});

test('a torn end after a crash is left out and reported, and an end that no crash explains is damage', async () => {
  const whole = segment(1, 3);
  const torn = Buffer.concat([whole, Buffer.from('{"seq":4,"id')]);
  const target = new SimulatedDisk();
  const { events, remarks } = await run(diskWith({ [FIRST]: torn }), target);
  assert.equal(events, 3);
  assert.match(
    remarks.join(),
    /^events-0{19}1\.jsonl, line 4, byte \d+: it ends without a newline; this end was left out/,
  );
  assert.equal(target.text(FIRST), whole.toString());
});

test('damage is reported with file, line and byte, and the events before it are kept', async () => {
  const [one = Buffer.alloc(0), two = Buffer.alloc(0), three = Buffer.alloc(0)] = splitLines(segment(4, 3));
  const damages: [Buffer, RegExp, number][] = [
    [Buffer.concat([one, flip(two, 40), three]), /events-0{19}4\.jsonl, line 2, byte \d+: its crc is/, 4],
    [Buffer.concat([one, two]), /events-0{19}7\.jsonl, line 1, byte 0: the events 6 to 6 before it are missing/, 5],
    [
      Buffer.concat([one, two, three.subarray(0, 30)]),
      /events-0{19}4\.jsonl, line 3, byte \d+: it ends without a newline/,
      5,
    ],
    [Buffer.alloc(0), /events-0{19}4\.jsonl, line 1, byte 0: it is empty/, 3],
  ];
  for (const [bytes, expected, last] of damages) {
    const target = new SimulatedDisk();
    const source = diskWith({ ...files, [FOURTH]: bytes });
    await assert.rejects(run(source, target), (error) => error instanceof DamagedError && expected.test(error.message));
    const verdict = await verify(target);
    assert.deepEqual([verdict.findings, verdict.last?.seq], [[], last]);
    await assert.rejects(run(source, target), DamagedError);
    assert.deepEqual([(await verify(target)).last?.seq, target.names().length], [last, last === 3 ? 1 : 2]);
  }
  const short = run(diskWith({ [FIRST]: segment(1, 3) }), new SimulatedDisk(), { kind: 'before', seq: 9 });
  await assert.rejects(short, /the events 4 to 8 are missing/);
});

test('lines that are missing since the last clean stop are damage', async () => {
  const source = diskWith({ [FIRST]: segment(1, 3) });
  const { bytes, chain } = makeLines(4);
  await markCleanStop(source, { file: FIRST, bytes: bytes.length, chain });
  await assert.rejects(run(source, new SimulatedDisk()), /the events 4 to 4 are missing/);
});

test('a backup of another journal is refused and left unchanged', async () => {
  const others: Record<string, Buffer>[] = [
    { [FIRST]: segment(1, 2) },
    { [FIRST]: segment(1, 9) },
    { ...files, [segmentName(9)]: segment(9, 1) },
    { [FIRST]: files[FIRST] as Buffer, [segmentName(3)]: segment(3, 1) },
    { [FIRST]: firstLines(files[FIRST] as Buffer, 2), [FOURTH]: segment(4, 3) },
    { [FIRST]: Buffer.from('not a line\n') },
  ];
  for (const other of others) {
    const target = diskWith(other);
    await assert.rejects(run(diskWith(files), target), OtherJournalError);
    assert.deepEqual(filesOf(target), other);
  }
  const damaged = diskWith({ ...files, [FOURTH]: flip(files[FOURTH] as Buffer, 40) });
  const target = diskWith({ [FIRST]: files[FIRST] as Buffer, [FOURTH]: segment(4, 3) });
  await assert.rejects(run(damaged, target), DamagedError, 'damage decides, since its events may be those of the copy');
  const own = { [FIRST]: segment(1, 3), '.journal-id': Buffer.from('its own\n') };
  const withId = diskWith(own);
  await assert.rejects(run(diskWith({ ...files, ...forwarded }), withId), OtherJournalError);
  assert.deepEqual(filesOf(withId), own);
  const kept = diskWith({ [FIRST]: segment(1, 5) });
  const source = diskWith({ [REMOVED_3]: Buffer.alloc(0), [FOURTH]: segment(4, 3) });
  await assert.rejects(run(source, kept), /holds the events to 5, and \S+ has those from 4 on in other files/);
});

test('events that retention removed stay in the backup, and those never copied are marked and reported', async () => {
  const target = new SimulatedDisk();
  await run(diskWith({ [FIRST]: files[FIRST] as Buffer }), target);
  const later = diskWith({ [REMOVED_3]: Buffer.alloc(0), [FOURTH]: files[FOURTH] as Buffer });
  const second = await run(later, target);
  assert.deepEqual([second.remarks, second.seqs], [[], { first: 1, last: 6 }]);
  assert.deepEqual(target.names(), [FIRST, FOURTH], 'no marker: the backup has all events');

  const removed = goneName({ first: 1, last: 9 }, 'removed');
  const third = await run(diskWith({ [removed]: Buffer.alloc(0), [segmentName(10)]: segment(10, 2) }), target);
  assert.deepEqual(third.remarks, [
    'retention removed the events 7 to 9 before they were copied; back up more often to keep them',
  ]);
  assert.ok(target.names().includes(goneName({ first: 7, last: 9 }, 'removed')), 'it names what the backup lacks');
  assert.deepEqual((await verify(target)).findings, []);
  const kept = target.names().filter((name) => name.startsWith('events-'));
  for (let start = 1; start <= 2; start += 1) {
    const { journal } = await openJournal(target, { retain: { retainBytes: 1_000_000 } });
    await journal.close();
    assert.deepEqual(
      target.names().filter((name) => name.startsWith('events-')),
      kept,
      `start ${start}: retention takes no file of a restored backup for one that it was removing`,
    );
  }

  const fresh = new SimulatedDisk();
  assert.deepEqual((await run(later, fresh)).remarks, []);
  assert.deepEqual(fresh.names().sort(), [REMOVED_3, FOURTH].sort());
  assert.deepEqual((await verify(fresh)).findings, []);
});

test('an empty last file is copied only if the backup lacks the event before it', async () => {
  const empty = Buffer.alloc(0);
  const began = { [FIRST]: files[FIRST] as Buffer, [FOURTH]: empty };
  for (const answers of [[{ kind: 'before', seq: 4 } as const], []]) {
    const target = new SimulatedDisk();
    assert.deepEqual((await run(diskWith(began), target, ...answers)).seqs, { first: 1, last: 3 });
    assert.deepEqual(target.names(), [FIRST]);
    await run(diskWith({ [REMOVED_3]: empty, [FOURTH]: empty }), target, ...answers);
    assert.deepEqual(target.names(), [FIRST], 'the backup has all events before it');
    const only = new SimulatedDisk();
    await run(diskWith({ [REMOVED_3]: empty, [FOURTH]: empty }), only, ...answers);
    assert.deepEqual(only.names().sort(), [REMOVED_3, FOURTH].sort());
    assert.deepEqual(await refusals(only), []);
    const gap = diskWith({ [goneName({ first: 1, last: 6 }, 'removed')]: empty, [SEVENTH]: empty });
    for (let round = 1; round <= 2; round += 1) {
      await run(gap, target, ...answers.map(({ kind }) => ({ kind, seq: 7 })));
      assert.deepEqual(target.names(), [FIRST, goneName({ first: 4, last: 6 }, 'removed'), SEVENTH]);
    }
    assert.deepEqual(await refusals(target), [], 'after a restore the seqs of removed events are not used again');
  }
});

test('a power cut at any call leaves a journal that the next run completes, without stale empty segments', async () => {
  const [empty, REMOVED_6] = [Buffer.alloc(0), goneName({ first: 1, last: 6 }, 'removed')];
  const seventh = segment(7, 2);
  const after = { [REMOVED_6]: empty, [SEVENTH]: seventh, [segmentName(9)]: segment(9, 1) };
  const bytes = segment(1, 5);
  const first = { [FIRST]: firstLines(bytes, 3) };
  const begun = { [FIRST]: files[FIRST] as Buffer, [FOURTH]: firstLines(files[FOURTH] as Buffer, 2) };
  const trimmed = { [REMOVED_3]: empty, [FOURTH]: segment(4, 3), [SEVENTH]: segment(7, 2) };
  const copies: [string, Record<string, Buffer>, number, Record<string, Buffer>][] = [
    ['begun', begun, 8, files],
    ['new', {}, 5, trimmed],
    ['an empty file after others', { ...first, [FOURTH]: empty }, 6, after],
    ['only an empty file', { [REMOVED_3]: empty, [FOURTH]: empty }, 3, after],
    ['an empty first file', { [FIRST]: empty }, 3, after],
    ['an empty file before others', { ...first, [FOURTH]: empty, [REMOVED_6]: empty, [SEVENTH]: seventh }, 6, after],
    ['complete', { ...first, [FOURTH]: empty, ...after }, 6, after],
  ];
  for (const [what, copy, events, whole] of copies) {
    const source = diskWith(whole);
    const isJournal = what !== 'new' && (await refusals(diskWith(copy))).length === 0;
    const { last } = await verify(diskWith(copy));
    for (const trial of eachCall('power', undefined, rounds({ long: 1, short: 3 }))) {
      const target = diskWith(copy);
      await trial.run(target, () => run(source, target));
      const when = `${what}, ${trial.when}`;
      for (const left of leftOf(target, trial)) {
        if (isJournal) assert.deepEqual(await refusals(left), [], when);
        assert.ok(((await verify(left)).last?.seq ?? 0) >= (last?.seq ?? 0), `${when}: it holds less than before`);
        await run(source, left);
        assert.deepEqual(await refusals(left), [], when);
        assert.equal((await verify(left)).events, events, when);
        for (const name of source.names().filter((name) => name.endsWith('.jsonl')))
          assert.deepEqual(left.bytes(name), source.bytes(name), when);
      }
    }
  }
  const grown = diskWith({ [FIRST]: bytes });
  const target = diskWith({ ...first, [FOURTH]: empty });
  assert.deepEqual((await run(grown, target)).seqs, { first: 1, last: 5 });
  assert.deepEqual(target.names(), [FIRST]);
});

test('segments that retention removes at any call of the backup are skipped', async () => {
  const withLines: [number, ...Durable[]][] = [[0], [2], [3], [2, { kind: 'before', seq: 9 }]];
  for (const [lines, ...answers] of withLines) {
    for (let number = 1, isRemoved = true; isRemoved; number += 1) {
      const source = diskWith({ ...files, ...forwarded });
      isRemoved = false;
      source.fault = () => {
        if (source.calls.length !== number) return undefined;
        isRemoved = true;
        source.put(goneName({ first: 1, last: 6 }, 'removed'), Buffer.alloc(0));
        for (const name of [FIRST, FOURTH, 'dead-hub.jsonl']) source.drop(name);
        return undefined;
      };
      const target = diskWith(lines === 0 ? {} : { [FIRST]: firstLines(files[FIRST] as Buffer, lines) });
      const { seqs } = await run(source, target, ...answers);
      const when = `${lines} lines, call ${number}, ${source.calls[number - 1]}`;
      assert.deepEqual([seqs?.last, await refusals(target)], [8, []], when);
      assert.deepEqual(
        target.names().filter((name) => name.endsWith('.partial')),
        [],
        when,
      );
      const { events } = await verify(target);
      assert.ok(isRemoved ? events >= lines + 2 : events === 8, when);
    }
  }
  const gone = diskWith(files);
  gone.fault = (call, name) => {
    if (call === 'read' && name === FIRST) gone.drop(FIRST);
    return undefined;
  };
  await assert.rejects(run(gone, new SimulatedDisk()), /the events 1 to 3 before it are missing/, 'without a marker');
});

test('a backup of a restored journal with a gap keeps lost events lost, and removed events removed', async () => {
  const [lost, removed] = [goneName({ first: 4, last: 6 }, 'lost'), goneName({ first: 10, last: 12 }, 'removed')];
  const later = { [SEVENTH]: segment(7, 3), [removed]: Buffer.alloc(0), [segmentName(13)]: segment(13, 2) };
  const first = { [FIRST]: segment(1, 3) };
  const restored = { ...first, [lost]: Buffer.alloc(0), ...later };
  const target = diskWith(first);
  const { remarks } = await run(diskWith(restored), target);
  assert.deepEqual(filesOf(target), restored);
  assert.deepEqual(remarks, [
    'retention removed the events 10 to 12 before they were copied; back up more often to keep them',
  ]);
});

test('an error of the disk at any call fails the backup, and the next run completes it durably', async () => {
  const source = diskWith(files);
  for (const code of ['EIO', 'ENOSPC']) {
    for (const trial of eachCall('once', code)) {
      const target = diskWith({ [FIRST]: firstLines(files[FIRST] as Buffer, 2) });
      const { kind } = await trial.run(target, () => run(source, target));
      target.fault = () => undefined;
      assert.deepEqual((await verify(target)).findings, []);
      assert.equal(kind, trial.struck ? 'failed' : 'done', trial.when);
      await run(source, target);
      assert.deepEqual(filesOf(target), files);
      const cut = target.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' });
      assert.deepEqual(filesOf(cut), files, `${code}, ${trial.when}: also after a power cut`);
    }
  }
});

test('an error of the source is not taken for a removed segment', async () => {
  const source = diskWith(files);
  source.fault = (call, name) => (call === 'read' && name === FOURTH ? systemError('EIO', name) : undefined);
  await assert.rejects(run(source, new SimulatedDisk()), { code: 'EIO' });
});

test('a backup of a journal that is forwarded has its id, its marks and its dead letters, and no cursor', async () => {
  const [source, target] = [diskWith({ ...files, ...forwarded }), new SimulatedDisk()];
  await run(source, target);
  const all = { ...files, ...carried };
  assert.deepEqual(filesOf(target), all);
  assert.deepEqual((await verify(target)).findings, [], 'none of them is foreign');

  const otherId = Buffer.from('0193e0c2-7f3a-7000-8000-000000000001\n');
  source.put('.journal-id', otherId);
  await run(source, target);
  assert.deepEqual(filesOf(target), { ...all, '.journal-id': otherId });
});

test('after a power cut at any call no backup forwards from the beginning or counts missing events [journal-backup-9]', async () => {
  const source = diskWith({ ...files, ...forwarded });
  for (const trial of eachCall('power')) {
    const target = new SimulatedDisk();
    await trial.run(target, () => run(source, target));
    for (const left of leftOf(target, trial)) {
      const names = left.names();
      const when = `${trial.when}: ${names}`;
      if (names.some((name) => name.startsWith('events-') && name.endsWith('.jsonl'))) {
        assert.ok(names.includes('.forwarded-hub') && names.includes('.journal-id'), when);
      }
      if (names.includes('.journal-id')) assert.ok(names.includes('.forwarded-hub'), when);
      if (names.includes('forward-sources.json')) assert.equal((await verify(left)).last?.seq, 8, when);
      await run(source, left);
      assert.deepEqual(filesOf(left), { ...files, ...carried }, when);
    }
  }
});
