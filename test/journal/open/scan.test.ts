import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDisk } from '../../../src/journal/disk.ts';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { afterGone, contentsOf, goneName, segmentName } from '../../../src/journal/segments.ts';
import { encodeMembers } from '../../support/plain-event.ts';
import { newFolder } from '../../support/program.ts';
import { diskWith, FIRST, flip, makeLines, START, segment } from '../../support/segments.ts';
import { lastLine, scanSegment } from '../../support/standard-limits.ts';

/** Like a disk, it reuses the memory of a chunk when the next is requested. */
async function* inChunks(bytes: Buffer, length: number): AsyncIterable<Buffer> {
  for (let at = 0; at < bytes.length; at += length) {
    const chunk = Buffer.from(bytes.subarray(at, at + length));
    yield chunk;
    chunk.fill(0xff);
  }
}

test('lines are read across chunks of any length, and no chunk is kept in memory', async () => {
  const { bytes, chain } = makeLines(5);
  const torn = Buffer.concat([bytes, Buffer.alloc(300)]);
  const bad = Buffer.concat([makeLines(2).bytes, flip(makeLines(1).bytes, 40), bytes]);
  for (let length = 1; length < 1_000; length += length < 300 ? 1 : 97) {
    assert.deepEqual(await scanSegment(inChunks(bytes, length), 1), { bytes: bytes.length, lines: 5, chain });
    const { flaw, ...good } = await scanSegment(inChunks(torn, length), 1);
    assert.deepEqual(good, { bytes: bytes.length, lines: 5, chain });
    assert.equal(flaw?.kind, 'zeros at the end', `chunks of ${length}`);
    const third = await scanSegment(inChunks(bad, length), 1);
    assert.deepEqual([third.lines, third.flaw?.kind], [2, 'repeat'], `chunks of ${length}`);
  }
});

test('a torn end of 400 MiB is read without being held in memory', async (t) => {
  const disk = openDisk(newFolder(t));
  const { bytes } = makeLines(3);
  const file = await disk.createLog(FIRST);
  await file.append(bytes, 0);
  await file.truncate(bytes.length + 400 * 1024 * 1024); // a hole reads as zeros
  await file.close();
  const before = process.memoryUsage().arrayBuffers;
  let most = 0;
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage().arrayBuffers - before);
  }, 5);
  const scan = await scanSegment(disk.read(FIRST), 1);
  clearInterval(timer);
  assert.deepEqual([scan.bytes, scan.lines, scan.flaw?.kind], [bytes.length, 3, 'zeros at the end']);
  t.diagnostic(`${most} bytes`);
  assert.ok(most < 16 * 1024 * 1024, `${most} bytes at a time`);
});

test('a line of the largest report is read, and is found as the last line', async () => {
  const metadata = JSON.stringify({ a: '\u0085'.repeat(500_000) });
  const event = { type: 'AssetObservation', assetKey: ['a'], metadata } as const;
  const { bytes } = encodeBatch([encodeMembers(event)], START, new Date());
  assert.ok(bytes.length > 3_000_000);
  const scan = await scanSegment(inChunks(bytes, 100_000), 1);
  assert.deepEqual([scan.lines, scan.flaw], [1, undefined]);
  const disk = openDisk('/simulated');
  const found = await lastLine(
    { ...disk, read: (_, start, end) => inChunks(bytes.subarray(start, end), 100_000) },
    FIRST,
    bytes.length,
  );
  assert.equal(found?.seq, 1);
});

test('the last line is found at the end of a line, and only there', async () => {
  const { bytes, lines } = makeLines(3);
  const disk = diskWith({ [FIRST]: bytes, empty: Buffer.alloc(0), text: Buffer.from('no line\n') });
  let end = 0;
  for (const [index, line] of lines.entries()) {
    end += line.length;
    const found = await lastLine(disk, FIRST, end);
    assert.deepEqual([found?.seq, found?.line], [index + 1, line.subarray(0, -1)]);
    assert.equal(await lastLine(disk, FIRST, end - 1), undefined);
  }
  assert.equal(await lastLine(disk, 'empty', 0), undefined);
  assert.equal(await lastLine(disk, 'text', 8), undefined);
});

test('text in metadata with the form of a line does not count as a line after a bad one', async () => {
  const { lines } = makeLines(2);
  const bytes = Buffer.concat([lines[0]!, flip(lines[1]!, 100)]);
  assert.equal((await scanSegment(inChunks(bytes, 64), 1)).flaw?.kind, 'bad last line');
});

test('the contents of a folder are only its journal files, in order', () => {
  const own = [
    segmentName(100),
    segmentName(9),
    ...['torn', 'torn-2', 'rewrite'].map((end) => `${segmentName(9)}.${end}`),
  ];
  const names = [
    ...own,
    'x',
    'events-1.jsonl',
    `${segmentName(9)}.bak`,
    `${segmentName(50)}.gz`,
    `${segmentName(60)}.torn`,
  ];
  assert.deepEqual(contentsOf(names), {
    segments: [
      { name: segmentName(9), firstSeq: 9 },
      { name: segmentName(100), firstSeq: 100 },
    ],
    renamed: [{ name: `${segmentName(50)}.gz`, firstSeq: 50 }],
    lost: [],
    removed: [],
    removedLast: 0,
    clearedSeq: 0,
    gone: [],
  });
});

test('removed and lost events are distinguished, and adjoining ranges are skipped together', () => {
  const names = [
    goneName({ first: 9, last: 12 }, 'lost'),
    goneName({ first: 15, last: 15 }, 'lost'),
    goneName({ first: 1, last: 3 }, 'removed'),
    goneName({ first: 1, last: 8 }, 'removed'),
  ];
  const { lost, removedLast, gone } = contentsOf(names);
  assert.deepEqual(lost, [
    { first: 9, last: 12 },
    { first: 15, last: 15 },
  ]);
  assert.equal(removedLast, 8);
  const after = [1, 5, 8, 9, 13, 14, 15].map((seq) => afterGone(seq, gone));
  assert.deepEqual(after, [13, 13, 13, 13, 13, 14, 16]);
});

test('a scan from the middle of a journal continues its seqs', async () => {
  const scan = await scanSegment(inChunks(segment(1_000, 3), 50), 1_000);
  assert.deepEqual([scan.chain.seq, scan.flaw], [1_003, undefined]);
});
