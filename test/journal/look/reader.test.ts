/** A journal as a reader meets it: whole, damaged, and while a service writes it. */

import assert from 'node:assert/strict';
import { renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Defect } from '../../../src/config/defect.ts';
import { differences, type Filter } from '../../../src/event/search.ts';
import { type Disk, openDisk } from '../../../src/journal/disk.ts';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import type { Durable } from '../../../src/journal/lock/protocol.ts';
import { readJournal } from '../../../src/journal/look/reader.ts';
import type { Remark } from '../../../src/journal/look/reading.ts';
import { OwnProgress } from '../../../src/journal/progress.ts';
import { goneName, segmentName } from '../../../src/journal/segments.ts';
import { encodeMembers } from '../../support/plain-event.ts';
import { newFolder } from '../../support/program.ts';
import { progressOf, readerLimits, readLines, type Seen } from '../../support/read-lines.ts';
import { diskWith, FIRST, type Files, flip, makeLines, START, segment, timed } from '../../support/segments.ts';
import { verify } from '../../support/standard-limits.ts';
import { HANG_MS, upTo } from '../../support/tools.ts';

const failOn = ({ text }: Remark) => assert.fail(text);
const kindsOf = ({ remarks }: Seen) => remarks.map(({ kind }) => kind);

test('each line is returned as it is in the file, and can be kept', async () => {
  const files = { [FIRST]: segment(1, 10), [segmentName(11)]: segment(11, 5), [segmentName(16)]: Buffer.alloc(0) };
  const { seqs, texts, remarks } = await readLines(diskWith({ ...files, 'notes.txt': Buffer.from('not ours') }));
  assert.deepEqual(seqs, upTo(15));
  assert.equal(`${texts.join('\n')}\n`, Buffer.concat(Object.values(files)).toString());
  assert.deepEqual(remarks, []);
});

test('afterSeq and untilSeq are found without a reading of the segments before and after', async () => {
  const disk = diskWith({
    [FIRST]: segment(1, 10),
    [segmentName(11)]: segment(11, 10),
    [segmentName(21)]: segment(21, 5),
  });
  assert.deepEqual((await readLines(disk, { afterSeq: 12, untilSeq: 17 })).seqs, upTo(17, 13));
  assert.deepEqual(
    new Set(disk.calls.filter((call) => call.startsWith('read '))),
    new Set([`read ${segmentName(11)}`]),
  );
  assert.deepEqual((await readLines(disk, { afterSeq: 10 })).seqs, upTo(25, 11));
  assert.deepEqual((await readLines(disk, { afterSeq: 99 })).seqs, []);
});

test('since and until choose lines, also after the clock went back, and segments outside of them are not read', async () => {
  const disk = diskWith({
    [FIRST]: timed(1, '2026-01-01', '2026-01-02'),
    [segmentName(3)]: timed(3, '2026-01-03', '1970-01-01', '2026-02-01'),
    [segmentName(6)]: timed(6, '1970-01-01', '2026-02-02'),
    [segmentName(8)]: timed(8, '2026-03-01'),
    [segmentName(9)]: timed(9, '2026-03-02'),
  });
  const found = await readLines(disk, { since: '2026-01-03T00:00:00.000Z', until: '2026-03-01T00:00:00.000Z' });
  assert.deepEqual([found.seqs, found.remarks], [[3, 5, 7], []]);
  const wholly = disk.calls.filter((call) => call === `read ${FIRST}`).length;
  assert.equal(wholly, 2, 'its first line and its last one');
  assert.deepEqual((await readLines(disk, { since: '2026-03-01T00:00:00.000Z' })).seqs, [8, 9]);
});

test('a filter finds its value however it is escaped, and not in metadata', async () => {
  const odd = ['a"b\\', 'c\u0085d\u2028', 'e/f', '[x', '😀'];
  const decoy = JSON.stringify({
    asset_key: odd,
    description: odd[0],
    tags: { data_version: odd[1] },
    severity: 'ERROR',
    partition: odd[1],
    check_name: 'c',
    passed: true,
    type: 'AssetMaterialization',
    event_time: '2026-11-20T15:19:45.250Z',
    idempotency_key: '"k"\\',
  });
  const eventTime = '2026-11-20T15:19:45.250Z';
  const events = [
    {
      type: 'AssetMaterialization',
      assetKey: odd,
      partition: odd[1],
      description: odd[0],
      dataVersion: odd[1],
      eventTime,
    },
    { type: 'AssetObservation', assetKey: ['other'], metadata: decoy, idempotencyKey: '"k"\\' },
    { type: 'AssetCheckEvaluation', assetKey: [...odd, 'more'], checkName: 'c', passed: true, severity: 'WARN' },
    {
      type: 'AssetCheckEvaluation',
      assetKey: ['a'],
      checkName: 'cc',
      passed: false,
      severity: 'ERROR',
      metadata: decoy,
    },
  ] as const;
  const disk = diskWith({ [FIRST]: encodeBatch(events.map(encodeMembers), START, new Date()).bytes });
  const table: readonly (readonly [Filter, number[]])[] = [
    [{}, [1, 2, 3, 4]],
    [{ assetKey: odd }, [1]],
    [{ keyPrefix: odd }, [1, 3]],
    [{ keyPrefix: ['a'] }, [4]],
    [{ keyStart: odd }, [1, 3]],
    [{ keyStart: [...odd, ''] }, [1, 3]],
    [{ keyStart: [...odd, 'mo'] }, [3]],
    [{ keyStart: ['a"b\\', 'c\u0085d'] }, [1, 3]],
    [{ keyStart: ['a'] }, [1, 3, 4]],
    [{ keyStart: ['a', ''] }, [4]],
    [{ keyStart: ['oth'] }, [2]],
    [{ keyStart: [''] }, [1, 2, 3, 4]],
    [{ partition: odd[1] }, [1]],
    [{ checkName: 'c' }, [3]],
    [{ passed: true }, [3]],
    [{ passed: false }, [4]],
    [{ type: 'AssetMaterialization' }, [1]],
    [{ type: 'AssetObservation', assetKey: ['other'] }, [2]],
    [{ type: 'AssetObservation', assetKey: odd }, []],
    [{ description: odd[0] }, [1]],
    [{ dataVersion: odd[1] }, [1]],
    [{ severity: 'ERROR' }, [4]],
    [{ severity: 'WARN', passed: false }, []],
    [{ eventTime: '2026-11-20T15:19:45.25' }, [1]],
    [{ eventTime: '2026-11-20T15:19:45.2' }, []],
    [{ idempotencyKey: '"k"\\' }, [2]],
    [{ idempotencyKey: '"k"' }, []],
    [{ passed: true, afterSeq: 3 }, []],
    [{ afterSeq: 1, untilSeq: 3 }, [2, 3]],
  ];
  for (const [wanted, expected] of table) {
    const { seqs, remarks } = await readLines(disk, wanted);
    assert.deepEqual([seqs, remarks], [expected, []], JSON.stringify(wanted));
    const search = await readLines(disk, wanted, { isSearch: true });
    assert.deepEqual([search.seqs, search.remarks], [expected, []], JSON.stringify(wanted));
    const alike: number[] = [];
    for await (const lines of readJournal(disk, { progress: progressOf(), limits: readerLimits }, failOn)) {
      alike.push(...lines.filter((line) => differences(line, wanted).length === 0).map(({ seq }) => seq));
    }
    assert.deepEqual(alike, expected, JSON.stringify(wanted));
  }
});

test('damage is reported with its position, and later lines whose crc continues the chain are read', async () => {
  const { bytes, lines } = makeLines(10);
  const at = (line: number) => Buffer.concat(lines.slice(0, line - 1)).length;
  const without = (number: number) => Buffer.concat(lines.filter((_, index) => number !== index + 1));
  const withByte = (at: number, byte: number) => Buffer.from(bytes).fill(byte, at, at + 1);
  const swapped = Buffer.concat([...lines.slice(0, 3), lines[4]!, lines[3]!, ...lines.slice(5)]);
  const doubled = Buffer.concat([...lines.slice(0, 4), ...lines.slice(3)]);
  const foreign = Buffer.concat([...lines.slice(0, 3), Buffer.from('what?\n'), ...lines.slice(3)]);
  const crcByte = at(5) - 5;
  const next = { [segmentName(11)]: segment(11, 2) };
  const table: Readonly<Record<string, readonly [Files, seqs: number[], ...RegExp[]]>> = {
    'a flipped bit': [
      { [FIRST]: flip(bytes, at(4) + 99), ...next },
      [1, 2, 3, ...upTo(12, 5)],
      /^events-0+1\.jsonl, line 4, byte \d+: its crc is \w{8}, computed \w{8}; 1 line is skipped, reading continues with seq 5$/,
    ],
    'a flipped bit in a crc': [
      { [FIRST]: withByte(crcByte, bytes[crcByte] === 0x30 ? 0x31 : 0x30), ...next },
      [1, 2, 3, ...upTo(12, 5)],
      /line 4, .*: its crc is .* 1 line is skipped/,
    ],
    'a crc that is none': [
      { [FIRST]: withByte(crcByte, 0x7a), ...next },
      [1, 2, 3, ...upTo(12, 5)],
      /line 4, .*: it is not of the form .* 1 line is skipped/,
    ],
    'a lost line': [
      { [FIRST]: without(4), ...next },
      [1, 2, 3, ...upTo(12, 6)],
      /line 4, .*; 1 line is skipped, reading continues with seq 6$/,
    ],
    'a doubled line': [{ [FIRST]: doubled }, upTo(10), /line 5, .*; 1 line is skipped, reading continues with seq 5$/],
    'swapped lines': [
      { [FIRST]: swapped, ...next },
      [1, 2, 3, 4, ...upTo(12, 7)],
      /line 4, .* continues with seq 4$/,
      /line 6, .*; 1 line is skipped, reading continues with seq 7$/,
    ],
    'a foreign line': [{ [FIRST]: foreign }, upTo(10), /line 4, .*: it is not of the form .*continues with seq 4$/],
    'a lost beginning': [{ [FIRST]: without(1) }, upTo(10, 3), /line 1, byte 0: .* continues with seq 3$/],
    'a torn end that is not the end': [
      { [FIRST]: bytes.subarray(0, -9), ...next },
      [...upTo(9), 11, 12],
      /line 10, byte \d+: it ends without a newline; the rest of this file cannot be verified/,
    ],
    'an empty file that is not the last': [
      { [FIRST]: Buffer.alloc(0), ...next },
      [11, 12],
      /^events-0+1\.jsonl, line 1, byte 0: it is empty$/,
      /^events-0+11\.jsonl: the events 1 to 10 before it are missing$/,
    ],
    'a missing file': [
      { [FIRST]: bytes, [segmentName(15)]: segment(15, 1) },
      [...upTo(10), 15],
      /^events-0+15\.jsonl: the events 11 to 14 before it are missing$/,
    ],
    'a missing beginning': [next, [11, 12], /the events 1 to 10 before it are missing$/],
    'a file twice': [
      { [FIRST]: bytes, [segmentName(8)]: segment(8, 5) },
      upTo(12),
      /^events-0+8\.jsonl: it starts at seq 8, but the file before it continues to 10$/,
    ],
    'a bad line at the end, with a seq that no crash explains': [
      { [FIRST]: bytes, [segmentName(11)]: flip(lines[0]!, 100) },
      upTo(10),
      /^events-0+11\.jsonl, line 1, byte 0: its crc is .*; the rest of this file cannot be verified and is skipped$/,
    ],
    'a renamed file': [
      { [segmentName(2)]: bytes },
      upTo(10),
      /the events 1 to 1 before it are missing/,
      /line 1, byte 0: its seq is 1, expected 2; reading continues with seq 1$/,
    ],
  };
  for (const [what, [files, seqs, ...problems]] of Object.entries(table)) {
    const seen = await readLines(diskWith(files));
    assert.deepEqual(seen.seqs, seqs, what);
    const kinds = problems.map(() => 'damage');
    assert.deepEqual(kindsOf(seen), kinds, `${what}: ${seen.remarks.map(({ text }) => text)}`);
    for (const [index, problem] of problems.entries()) assert.match(seen.remarks[index]?.text ?? '', problem, what);
  }
});

test('an end that a crash or a writer explains is a note, and so are events that are known to be removed or lost', async () => {
  const { bytes, lines } = makeLines(5);
  const ends = [bytes.subarray(0, -1), Buffer.concat([bytes, Buffer.alloc(500)]), flip(bytes, bytes.length - 60)];
  for (const [index, end] of ends.entries()) {
    const seen = await readLines(diskWith({ [FIRST]: end }));
    assert.deepEqual([kindsOf(seen), seen.seqs.length], [['note'], index === 1 ? lines.length : lines.length - 1]);
    assert.match(
      seen.remarks[0]?.text ?? '',
      /^events-0+1\.jsonl, line \d, byte \d+: .*; this end is skipped: a crash or a copy/,
    );
  }
  const gone = diskWith({
    [goneName({ first: 1, last: 4 }, 'lost')]: Buffer.alloc(0),
    [segmentName(5)]: segment(5, 2),
  });
  const seen = await readLines(gone);
  assert.deepEqual(seen.seqs, [5, 6]);
  assert.deepEqual(seen.remarks, [
    {
      kind: 'note',
      text: 'the events 1 to 4 are no longer there: an earlier repair could not find all of them',
      gone: { first: 1, last: 4, why: 'lost' },
    },
  ]);
  assert.deepEqual((await readLines(gone, { afterSeq: 4 })).remarks, []);
  const [lost, removed] = [goneName({ first: 3, last: 4 }, 'lost'), goneName({ first: 7, last: 8 }, 'removed')];
  const later = { [segmentName(5)]: segment(5, 2), [removed]: Buffer.alloc(0), [segmentName(9)]: segment(9, 1) };
  const restored = diskWith({ [FIRST]: segment(1, 2), [lost]: Buffer.alloc(0), ...later });
  assert.deepEqual(
    (await readLines(restored)).remarks.map(({ gone }) => gone),
    [
      { first: 3, last: 4, why: 'lost' },
      { first: 7, last: 8, why: 'removed' },
    ],
  );
});

test('segments that vanish during a reading are reported, and the reading continues with those that are left', async () => {
  for (const marked of [true, false]) {
    const disk = diskWith({
      [FIRST]: segment(1, 3),
      [segmentName(4)]: segment(4, 3),
      [segmentName(7)]: segment(7, 3),
      [segmentName(10)]: segment(10, 1),
    });
    disk.fault = (call, name) => {
      if (call !== 'size' || name !== segmentName(4)) return undefined;
      for (const gone of [FIRST, segmentName(4), segmentName(7)]) disk.drop(gone);
      if (marked) disk.put(goneName({ first: 1, last: 9 }, 'removed'), Buffer.alloc(0));
      return Object.assign(new Error('ENOENT'), { code: 'ENOENT' });
    };
    const { seqs, remarks } = await readLines(disk);
    const missing = { first: 4, last: 9, why: marked ? 'removed' : 'lost' };
    assert.deepEqual(seqs, [1, 2, 3, 10]);
    assert.deepEqual(
      remarks,
      marked
        ? [{ kind: 'note', text: 'the events 4 to 9 are no longer there: retention removed them', gone: missing }]
        : [{ kind: 'damage', text: `${segmentName(10)}: the events 4 to 9 before it are missing`, gone: missing }],
    );
  }
  const failing = diskWith({ [FIRST]: segment(1, 3) });
  failing.fault = (call) => (call === 'read' ? Object.assign(new Error('EIO'), { code: 'EIO' }) : undefined);
  await assert.rejects(readLines(failing), /EIO/);
});

/** Follows a folder, and waits for what it hands over. */
function follow(t: TestContext, folder: string, progress = progressOf(), filter: Filter = {}) {
  const ending = new AbortController();
  const disk = openDisk(folder);
  let looks = 0;
  const counted: Disk = { ...disk, list: () => disk.list().finally(() => (looks += 1)) };
  const seen: Omit<Seen, 'lines'> = { seqs: [], texts: [], remarks: [] };
  let look = () => {};
  const done = (async () => {
    const journal = readJournal(
      counted,
      { filter, follow: ending.signal, progress, limits: readerLimits },
      (remark) => {
        seen.remarks.push(remark);
        look();
      },
    );
    for await (const lines of journal) {
      seen.seqs.push(...lines.map(({ seq }) => seq));
      seen.texts.push(...lines.map(({ text }) => text));
      look();
    }
  })();
  const stop = () => {
    ending.abort();
    return done;
  };
  t.after(stop);
  const until = (there: (seen: Omit<Seen, 'lines'>) => boolean) =>
    new Promise<void>((resolve, reject) => {
      const tooLate = setTimeout(() => reject(new Error(`saw only ${JSON.stringify(seen)}`)), HANG_MS);
      look = () => {
        if (!there(seen)) return;
        clearTimeout(tooLate);
        resolve();
      };
      look();
    });
  /** Resolves when all that is there was read to its end. */
  const idle = async () => {
    for (const before = looks; looks < before + 2; ) await sleep(10);
  };
  return { seen, stop, until, idle };
}

test('a follower waits for the folder, for complete lines and for new segments, and shows each line once', async (t) => {
  const folder = join(newFolder(t), 'later');
  const { seen, stop, until } = follow(t, folder);
  const { lines, chain } = makeLines(6);
  const disk = openDisk(folder);
  await disk.prepare();
  const file = join(folder, FIRST);
  writeFileSync(file, Buffer.concat([...lines.slice(0, 2), lines[2]!.subarray(0, 30)]));
  await until(({ seqs }) => seqs.length === 2);
  // A start replaces it by a copy, without what was torn.
  writeFileSync(`${file}.rewrite`, Buffer.concat(lines.slice(0, 2)));
  renameSync(`${file}.rewrite`, file);
  writeFileSync(file, lines[2]!, { flag: 'a' });
  await until(({ seqs }) => seqs.length === 3);
  writeFileSync(file, Buffer.concat(lines.slice(3)), { flag: 'a' });
  writeFileSync(join(folder, segmentName(chain.seq)), segment(chain.seq, 2));
  await until(({ seqs }) => seqs.length === 8);
  await stop();
  assert.deepEqual([seen.seqs, seen.remarks], [upTo(8), []]);
});

test('lines that the writer might take back are held back, and shown once when they are durable [reader-3]', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, FIRST);
  const { lines } = makeLines(8);
  const upToLine = (count: number) => Buffer.concat(lines.slice(0, count)).length;
  writeFileSync(file, Buffer.concat(lines.slice(0, 3)));
  let said: Durable = { kind: 'before', seq: 3 };
  const progress = progressOf(() => said);
  const { seen, stop, until, idle } = follow(t, folder, progress);
  await until(({ seqs }) => seqs.length === 2);
  // A failed write is cut off, and other events get its seqs.
  writeFileSync(file, Buffer.concat([...lines.slice(3, 5), Buffer.from('{"seq":6,')]), { flag: 'a' });
  await idle();
  truncateSync(file, upToLine(2));
  await idle();
  writeFileSync(file, Buffer.concat(lines.slice(2, 6)), { flag: 'a' });
  await idle();
  assert.deepEqual(seen.seqs, [1, 2]);
  said = { kind: 'before', seq: 6 };
  await until(({ seqs }) => seqs.length === 5);
  said = { kind: 'unanswered' };
  writeFileSync(file, lines[6]!, { flag: 'a' });
  await until(({ remarks }) => remarks.length > 0);
  await idle();
  assert.deepEqual(seen.seqs, upTo(5));
  said = { kind: 'unsaid' };
  await until(({ seqs }) => seqs.length === 7);
  said = { kind: 'unanswered' };
  writeFileSync(file, lines[7]!, { flag: 'a' });
  await stop();
  assert.deepEqual(seen.seqs, upTo(7));
  assert.ok(
    seen.remarks.every(({ kind, text }) => kind === 'note' && /does not answer: its newest lines are held/.test(text)),
    JSON.stringify(seen.remarks),
  );
});

test('without --follow only durable lines are shown, and all lines with a note if no process answers', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 10), [segmentName(11)]: segment(11, 5) });
  for (const seq of [11, 13, 16]) {
    const progress = progressOf(() => ({ kind: 'before', seq }));
    const { seqs, remarks } = await readLines(disk, {}, { progress });
    assert.deepEqual([seqs, remarks], [upTo(seq - 1), []]);
  }
  const unanswered = progressOf(() => ({ kind: 'unanswered' }));
  const { seqs, remarks } = await readLines(disk, {}, { progress: unanswered });
  assert.deepEqual([seqs, remarks.map(({ kind }) => kind)], [upTo(15), ['note']]);
});

test('lines added after no writer was found are left for the next reading', async () => {
  const { bytes, lines } = makeLines(4);
  const disk = diskWith({ [FIRST]: Buffer.concat(lines.slice(0, 3)) });
  const durable = (): Durable => {
    disk.put(FIRST, bytes);
    return { kind: 'unsaid' };
  };
  assert.deepEqual((await readLines(disk, {}, { progress: progressOf(durable) })).seqs, upTo(3));
});

test('a follower shows lines again that were truncated and recorded again, and starts again with another journal', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, FIRST);
  const { lines } = makeLines(6);
  writeFileSync(file, Buffer.concat(lines.slice(0, 3)));
  const { seen, until, idle } = follow(t, folder);
  await until(({ seqs }) => seqs.length === 3);
  await idle();
  writeFileSync(file, Buffer.concat(lines.slice(3, 5)), { flag: 'a' });
  await until(({ seqs }) => seqs.length === 5);
  // The disk refused a part of the batch: all of it is cut off, and others get those seqs.
  truncateSync(file, Buffer.concat(lines.slice(0, 3)).length);
  writeFileSync(file, makeLines(1, { seq: 4, crc: Number.parseInt(lines[2]!.toString().slice(-11, -3), 16) }).bytes, {
    flag: 'a',
  });
  await until(({ seqs }) => seqs.length === 6);
  assert.deepEqual(seen.seqs, [1, 2, 3, 4, 5, 4]);
  assert.deepEqual(
    seen.remarks.map(({ text }) => text),
    [`${FIRST} was truncated or replaced while it was read; from seq 4 on it is read again`],
  );

  const other = makeLines(2).bytes;
  writeFileSync(`${file}.new`, other);
  renameSync(`${file}.new`, file);
  await until(({ seqs }) => seqs.length === 8);
  assert.deepEqual(seen.texts.slice(-2).join('\n'), other.toString().trimEnd());

  rmSync(file);
  await until(({ remarks }) =>
    remarks.some(({ text }) => text === `${FIRST} is gone; the next file is read from its start`),
  );
  writeFileSync(file, makeLines(1).bytes);
  await until(({ seqs }) => seqs.length === 9);
  assert.deepEqual(seen.seqs.slice(-3), [1, 2, 1]);
  assert.ok(seen.remarks.every(({ kind }) => kind === 'note'));
});

test('a waiting reader gets a few new lines from memory, and all others from the file [reader-9]', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, FIRST);
  const { lines } = makeLines(6);
  const own = new OwnProgress();
  own.recorded(folder, 1);
  const progress = own.of(folder);
  let onWait = () => {};
  const more = (signal: AbortSignal) => {
    const waiting = progress.more(signal);
    onWait();
    return waiting;
  };
  const waits = () =>
    new Promise<void>((resolve) => {
      onWait = resolve;
    });
  const { seen, stop, until } = follow(t, folder, { ...progress, more });
  let bytes = 0;
  /** Records one line, of which the file might have something else. */
  const record = (seq: number, inFile = lines[seq - 1]!) => {
    const memory = Buffer.from(lines[seq - 1]!);
    writeFileSync(file, inFile, { flag: 'a' });
    own.recorded(folder, seq + 1, { file: FIRST, byte: bytes, bytes: memory });
    memory.fill('x'); // the journal uses it again
    bytes += memory.length;
  };
  record(1);
  await until(({ seqs }) => seqs.length === 1);
  await waits();
  // Zeros show that the file is not read.
  record(2, Buffer.alloc(lines[1]!.length));
  await until(({ seqs }) => seqs.length === 2);
  await new Promise(setImmediate);
  writeFileSync(file, Buffer.concat(lines.slice(0, 2)));
  record(3);
  record(4); // before the reader has looked: the file has both
  await until(({ seqs }) => seqs.length === 4);
  await waits();
  // These lines are not where the reader continues, and the file has line 5.
  writeFileSync(file, lines[4]!, { flag: 'a' });
  own.recorded(folder, 6, { file: FIRST, byte: bytes + 1, bytes: lines[5]! });
  await until(({ seqs }) => seqs.length === 5);
  await stop();
  assert.deepEqual([seen.seqs, seen.remarks], [upTo(5), []]);
  assert.deepEqual((await readLines(openDisk(folder), {}, { progress: own.of(folder) })).seqs, upTo(5));
});

test('a filter by seq is for one journal: of another one in the folder all seqs are read', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, FIRST);
  writeFileSync(file, segment(1, 3));
  const { seen, until } = follow(t, folder, progressOf(), { afterSeq: 2, keyPrefix: ['a'] });
  await until(({ seqs }) => seqs.length === 1);
  writeFileSync(`${file}.new`, makeLines(2).bytes);
  renameSync(`${file}.new`, file);
  await until(({ seqs }) => seqs.length === 3);
  assert.deepEqual(seen.seqs, [3, 1, 2]);
});

test('lines recorded during a reading are not waited for, and not missed when following ends', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, FIRST);
  const { lines } = makeLines(3);
  writeFileSync(file, lines[0]!);
  const own = new OwnProgress();
  own.recorded(folder, 2);
  const progress = own.of(folder);
  const ending = new AbortController();
  const record = (seq: number) => {
    writeFileSync(file, lines[seq - 1]!, { flag: 'a' });
    own.recorded(folder, seq + 1);
  };
  const seqs: number[] = [];
  const journal = readJournal(openDisk(folder), { follow: ending.signal, progress, limits: readerLimits }, failOn);
  for await (const some of journal) {
    seqs.push(...some.map(({ seq }) => seq));
    // The look that found the line is not over.
    if (some.at(-1)?.seq === 1) record(2);
    if (some.at(-1)?.seq === 2) {
      record(3);
      ending.abort();
    }
  }
  assert.deepEqual(seqs, upTo(3));
});

test('a folder in which only the marker of removed events is left is damaged, as for verify', async () => {
  const removed = goneName({ first: 1, last: 3 }, 'removed');
  const disk = diskWith({ [removed]: Buffer.alloc(0) });
  const { seqs, remarks } = await readLines(disk);
  const { file, problem } = (await verify(disk)).findings[0] as { file: string; problem: string };
  assert.deepEqual(seqs, []);
  assert.deepEqual(remarks, [{ kind: 'damage', text: `${file}: ${problem}` }]);
  assert.match(problem, /^all segments are missing: the events from 4 on, if not more$/);
});

test('a line that is not durable is not shown, although its segment counts as closed', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5), [segmentName(6)]: segment(6, 2) });
  const own = new OwnProgress();
  own.recorded(disk.folder, 8);
  assert.deepEqual((await readLines(disk, {}, { progress: own.of(disk.folder) })).seqs, upTo(7));
  own.recorded(disk.folder, 4);
  await assert.rejects(readLines(disk, {}, { progress: own.of(disk.folder) }), Defect);
  assert.deepEqual((await readLines(disk, { untilSeq: 3 }, { progress: own.of(disk.folder) })).seqs, upTo(3));
});
