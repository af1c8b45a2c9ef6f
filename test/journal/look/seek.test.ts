/** Finding a line inside a journal file by its seq. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { seekLine } from '../../../src/journal/look/seek.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { countedDisk, progressOf, readLines } from '../../support/read-lines.ts';
import { diskWith, FIRST, flip, makeLines, plainEvent, START } from '../../support/segments.ts';

/** Most lines are short, and some are larger than what the search reads at a time. */
function eventOf(seq: number): PlainEvent {
  const plain = plainEvent(seq);
  if (seq % 50 !== 0) return plain;
  return { ...plain, metadata: `{"long":"${'y'.repeat(seq % 100 === 0 ? 300_000 : 20_000)}"}` };
}

test('each line of a file is found by its seq, however long the lines are', async () => {
  const { lines, bytes } = makeLines(400, START, eventOf);
  const disk = diskWith({ [FIRST]: bytes });
  let end = 0;
  for (const [index, line] of lines.entries()) {
    end += line.length;
    const found = await seekLine(disk, FIRST, bytes.length, index + 1, limits);
    assert.deepEqual([found?.bytes, found?.chain.seq], [end, index + 2], `line ${index + 1}`);
  }
  assert.equal(await seekLine(disk, FIRST, bytes.length, 401, limits), undefined);
  assert.equal(await seekLine(disk, FIRST, bytes.length - 10, 400, limits), undefined, 'the last line is torn');
});

test('a reader that seeks yields the same lines, and reads little before them', async () => {
  const { lines, bytes } = makeLines(20_000);
  const text = lines.map((line) => line.toString().trimEnd());
  for (const afterSeq of [1, 9_999, 19_999, 20_000]) {
    const { disk, counted } = countedDisk({ [FIRST]: bytes });
    const progress = progressOf(() => ({ kind: 'before', seq: 20_001 }));
    const { texts, remarks } = await readLines(disk, { afterSeq }, { seek: true, progress });
    assert.deepEqual(remarks, []);
    assert.deepEqual(texts, text.slice(afterSeq));
    const needed = text.slice(afterSeq).join('\n').length;
    assert.ok(counted.bytes < needed + 400_000, `${counted.bytes} bytes were read for ${needed}`);
  }
});

test('after damage a reader that seeks yields the same lines as one that does not', async () => {
  const { bytes } = makeLines(1_000);
  for (const at of [100, Math.floor(bytes.length / 2), bytes.length - 400]) {
    const disk = diskWith({ [FIRST]: flip(bytes, at) });
    const progress = progressOf(() => ({ kind: 'before', seq: 1_001 }));
    const seqs = async (seek: boolean) => (await readLines(disk, { afterSeq: 300 }, { seek, progress })).seqs;
    assert.deepEqual(await seqs(true), await seqs(false), `byte ${at}`);
  }
});
