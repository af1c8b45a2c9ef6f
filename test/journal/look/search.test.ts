/** A search, which verifies only what it shows, and the newest lines, which are read from the end of the journal. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import type { Filter } from '../../../src/event/search.ts';
import type { ReadableDisk } from '../../../src/journal/disk.ts';
import { readNewest } from '../../../src/journal/look/reader.ts';
import type { Remark } from '../../../src/journal/look/reading.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { damaged } from '../../support/damage.ts';
import { rounds } from '../../support/long.ts';
import { randomFrom } from '../../support/random.ts';
import { countedDisk, progressOf, readLines } from '../../support/read-lines.ts';
import { diskWith, FIRST, flip, makeLines, plainEvent, START, segment } from '../../support/segments.ts';
import { verify } from '../../support/standard-limits.ts';
import { upTo } from '../../support/tools.ts';

async function newest(disk: ReadableDisk, filter: Filter, count: number, bytesMax = 1e9, progress = progressOf()) {
  const remarks: string[] = [];
  const onRemark = ({ kind, text }: Remark) => remarks.push(`${kind}: ${text}`);
  const found = await readNewest(disk, { filter, progress, limits }, onRemark, count, bytesMax);
  return { seqs: found.map(({ seq }) => seq), found, remarks };
}

/** Events of a rare key, some of a common one, long ones, and metadata that looks like the rare key. */
function mixedEvent(seq: number) {
  const rare = { ...plainEvent(seq), assetKey: ['rare'] };
  if (seq % 700 === 3) return rare;
  if (seq % 900 === 5) return { ...rare, description: 'x'.repeat(150_000) };
  if (seq % 50 === 7) return { ...plainEvent(seq), metadata: '{"asset_key":["rare"]}' };
  return plainEvent(seq);
}

const RARE = { assetKey: ['rare'] };

function mixedFiles(): Record<string, Buffer> {
  const starts = [1, 1_001, 1_004, 2_500];
  const counts = [1_000, 3, 1_496, 700];
  const files = starts.map((seq, at) => [segmentName(seq), makeLines(counts[at]!, { seq, crc: 0 }, mixedEvent).bytes]);
  return Object.fromEntries(files);
}

test('a search shows the same lines as a full reading, byte for byte', async () => {
  const disk = diskWith(mixedFiles());
  const filters: readonly Filter[] = [
    RARE,
    { keyPrefix: ['a'] },
    { assetKey: ['a', '2'] },
    { ...RARE, afterSeq: 800, untilSeq: 2_600 },
    { type: 'AssetObservation' },
    { ...RARE, since: '2000-01-01T00:00:00.000Z' },
  ];
  for (const filter of filters) {
    const { lines: _, ...shown } = await readLines(disk, filter);
    const { lines: __, ...found } = await readLines(disk, filter, { isSearch: true });
    assert.deepEqual(found, shown, JSON.stringify(filter));
  }
  assert.equal((await readLines(disk, RARE, { isSearch: true })).seqs.length, 9);
});

test('a search shows no line that does not verify: it reads the file line by line and reports the damage', async () => {
  const { bytes, lines } = makeLines(40, START, (seq) => ({
    ...plainEvent(seq),
    assetKey: [seq % 10 === 0 ? 'ten' : 'a'],
  }));
  const at = (line: number) => Buffer.concat(lines.slice(0, line - 1)).length;
  const ten = { assetKey: ['ten'] };
  const inDescription = (line: number) => bytes.indexOf('xxxx', at(line));
  const crcOf = (line: number) => at(line + 1) - 5;
  const table: readonly (readonly [string, Buffer, number[], RegExp | undefined])[] = [
    ['whole', bytes, [10, 20, 30, 40], undefined],
    [
      'a flipped bit in a line that matches',
      flip(bytes, inDescription(20)),
      [10, 30, 40],
      /line 20, .* reading continues with seq 21/,
    ],
    [
      'in the crc of the line before it',
      flip(bytes, crcOf(19)),
      [10, 20, 30, 40],
      /line 19, .* reading continues with seq 20/,
    ],
    ['in another line', flip(bytes, inDescription(15)), [10, 20, 30, 40], undefined],
    [
      'a lost line before it',
      Buffer.concat(lines.filter((_, index) => index !== 18)),
      [10, 30, 40],
      /line 19, .* seq 21/,
    ],
    [
      'lines that were moved',
      Buffer.concat([...lines.slice(24), ...lines.slice(0, 24)]),
      [30, 40],
      /line 1, byte 0: .*/,
    ],
    ['a line twice', Buffer.concat([bytes, ...lines.slice(18, 20)]), [10, 20, 30, 40], /line 41/],
    ['no newline at the end', bytes.subarray(0, -1), [10, 20, 30], /^note: .*it ends without a newline/],
  ];
  for (const [what, damagedBytes, seqs, problem] of table) {
    const disk = diskWith({ [FIRST]: damagedBytes });
    const seen = await readLines(disk, ten, { isSearch: true });
    assert.deepEqual(seen.seqs, seqs, what);
    const remarks = seen.remarks.map(({ kind, text }) => `${kind}: ${text}`).join('\n');
    assert.equal(remarks !== '', problem !== undefined, `${what}: ${remarks}`);
    if (problem !== undefined) assert.match(remarks, problem, what);
    const last = await newest(disk, ten, 3);
    assert.deepEqual(last.seqs, seqs.slice(-3), what);
  }
  const whole = diskWith({ [FIRST]: flip(bytes, inDescription(15)) });
  const [remark] = (await readLines(whole, {}, { isSearch: true })).remarks;
  assert.match(remark?.text ?? '', /line 15/, 'without a member to look for, each line is verified');
});

test('a search reports segments that are missing or end too early, whatever its filter', async () => {
  const whole = { [FIRST]: segment(1, 10), [segmentName(11)]: segment(11, 5), [segmentName(16)]: segment(16, 5) };
  const without = (name: string) => Object.fromEntries(Object.entries(whole).filter(([one]) => one !== name));
  const table: readonly Record<string, Buffer>[] = [
    without(FIRST),
    without(segmentName(11)),
    { ...whole, [segmentName(11)]: segment(11, 5).subarray(0, -3) },
    { ...whole, [segmentName(11)]: segment(11, 4) },
    { ...whole, [segmentName(11)]: Buffer.alloc(0) },
    { ...whole, [segmentName(11)]: segment(1, 5) },
    { ...whole, [segmentName(11)]: Buffer.concat([segment(11, 5), Buffer.from('what?\n')]) },
    { ...whole, [segmentName(16)]: segment(16, 5).subarray(0, -3) },
    { ...whole, [segmentName(16)]: Buffer.alloc(0) },
  ];
  for (const files of table) {
    const disk = diskWith(files);
    const all = await readLines(disk, { assetKey: ['none'] });
    assert.deepEqual(
      (await readLines(disk, { assetKey: ['none'] }, { isSearch: true })).remarks,
      all.remarks,
      Object.keys(files).join(),
    );
  }
});

test('after any damage a reader and a search show only written lines in order, and a search all that a reader shows', async () => {
  const first = makeLines(12);
  const second = makeLines(6, { seq: 13, crc: 0 });
  const written = new Set([...first.lines, ...second.lines].map((line) => line.toString().trimEnd()));
  const random = randomFrom(11);
  const attempt = async (round: number) => {
    const both = [first.bytes, second.bytes];
    const at = random() < 0.5 ? 0 : 1;
    both[at] = damaged(both[at]!, random);
    const disk = diskWith({ [FIRST]: both[0]!, [segmentName(13)]: both[1]! });
    const { findings, events } = await verify(disk);
    const isDamaged = findings.some(({ decision }) => decision === 'refuse');
    for (const filter of [{}, { keyPrefix: ['a'] }, { assetKey: ['a', `${1 + (round % 18)}`] }]) {
      const [all, seen] = [await readLines(disk, filter), await readLines(disk, filter, { isSearch: true })];
      const last = await newest(disk, filter, 4);
      const when = `round ${round}: ${JSON.stringify([filter, findings, all.seqs, all.remarks, seen.seqs, last])}`;
      for (const { text } of [...all.lines, ...seen.lines, ...last.found]) assert.ok(written.has(text), when);
      for (const seqs of [all.seqs, seen.seqs, last.seqs]) {
        for (const [index, seq] of seqs.entries()) assert.ok(seq > (seqs[index - 1] ?? 0), when);
      }
      for (const seq of all.seqs) assert.ok(seen.seqs.includes(seq), when);
      // A reader reports damage where `verify` finds it.
      assert.equal(
        all.remarks.some(({ kind }) => kind === 'damage'),
        isDamaged,
        when,
      );
      if (!isDamaged) assert.equal(all.remarks.length, findings.length, when);
      if (!isDamaged && !('assetKey' in filter)) assert.equal(all.seqs.length, events, when);
    }
  };
  // Side by side, since a reader looks twice at what may be an end that is being written.
  await Promise.all(Array.from({ length: rounds({ long: 2_000, short: 150 }) }, (_, round) => attempt(round)));
});

test('a search finds only durable lines, and all lines of closed segments, also of one that closes meanwhile', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 10), [segmentName(11)]: segment(11, 5) });
  const filter = { keyPrefix: ['a'] };
  for (const seq of [11, 13, 16]) {
    const progress = progressOf(() => ({ kind: 'before', seq }));
    assert.deepEqual((await readLines(disk, filter, { isSearch: true, progress })).seqs, upTo(seq - 1));
    assert.deepEqual((await newest(disk, filter, 3, 1e9, progress)).seqs, upTo(seq - 1).slice(-3));
  }
  const { lines, chain } = makeLines(8);
  const growing = diskWith({ [FIRST]: Buffer.concat(lines.slice(0, 5)) });
  let looks = 0;
  growing.fault = (call) => {
    if (call !== 'list') return undefined;
    looks += 1;
    if (looks === 2) {
      growing.put(FIRST, Buffer.concat(lines));
      growing.put(segmentName(chain.seq), segment(chain.seq, 2));
    }
    return undefined;
  };
  const seen = await readLines(growing, filter, {
    isSearch: true,
    progress: progressOf(() => ({ kind: 'before', seq: 4 })),
  });
  assert.deepEqual([seen.seqs, seen.remarks], [[1, 2, 3, 4, 5, 6, 7, 8], []]);
});

test('the newest lines are the same as in a full reading, and each part of a file is read once', async () => {
  const files = mixedFiles();
  const size = Object.values(files).reduce((sum, { length }) => sum + length, 0);
  const { disk, counted } = countedDisk(files);
  for (const filter of [{}, RARE, { ...RARE, afterSeq: 1_500 }, { assetKey: ['a', '2'] }, { since: '2000-01-01' }]) {
    const all = await readLines(disk, filter);
    for (const count of [1, 3, 650, 5_000]) {
      counted.bytes = 0;
      const { seqs, found, remarks } = await newest(disk, filter, count);
      const when = JSON.stringify([filter, count]);
      assert.deepEqual([seqs, remarks], [all.seqs.slice(-count), []], when);
      assert.deepEqual(
        found.map(({ text }) => text),
        all.texts.slice(-count),
      );
      // Of a line that is longer than a block, the block is read again; of a bound of times, the ends of the files.
      assert.ok(counted.bytes < 1.6 * size, `${when}: ${counted.bytes} of ${size} bytes`);
    }
  }
  counted.bytes = 0;
  const { seqs } = await newest(disk, {}, 1);
  assert.deepEqual([seqs, counted.bytes <= 65_536], [[3_199], true], `${counted.bytes} bytes`);
  counted.bytes = 0;
  await newest(disk, { assetKey: ['a', '2'] }, 1);
  assert.ok(counted.bytes < 1.5 * size, `${counted.bytes} of ${size} bytes`);
});

test('newest lines that exceed the memory are dropped, and their seqs and times are kept', async () => {
  const disk = diskWith(mixedFiles());
  const { seqs, found } = await newest(disk, { keyPrefix: ['a'] }, 500, 10_000);
  assert.equal(seqs.length, 500);
  assert.ok(found.every(({ isDropped, time }) => isDropped && time !== ''));
  const few = await newest(disk, { keyPrefix: ['a'] }, 5, 10_000);
  assert.ok(few.found.every(({ isDropped }) => !isDropped));
});

test('segments that vanish while the newest lines are searched end the search', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 3), [segmentName(4)]: segment(4, 3), [segmentName(7)]: segment(7, 3) });
  disk.fault = (call, name) => {
    if (call !== 'size' || name !== segmentName(4)) return undefined;
    for (const gone of [FIRST, segmentName(4)]) disk.drop(gone);
    return Object.assign(new Error('ENOENT'), { code: 'ENOENT' });
  };
  assert.deepEqual((await newest(disk, {}, 5)).seqs, [7, 8, 9]);
});
