/** JSON in pieces. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { Semaphore } from '../../src/reading/semaphore.ts';
import { inPieces, jsonTexts } from '../../src/reading/texts.ts';
import { Turns } from '../../src/reading/turns.ts';

const values = [
  'x'.repeat(100),
  '\u{1f600}'.repeat(50),
  `a\ud800${'\udc00'.repeat(30)}`,
  {
    key: ['a', 'b'.repeat(40)],
    none: undefined,
    nothing: null,
    empty: {},
    list: [],
    text: '"\\\n'.repeat(30),
    flag: true,
  },
  [1, [2, [{ deep: 'ж'.repeat(99) }]], -1.5],
];

test('a value is split into JSON texts of bounded length', () => {
  for (const value of values) {
    for (const charactersMax of [2, 3, 10, 1_000]) {
      const texts = [...jsonTexts(value, charactersMax)];
      assert.equal(texts.join(''), JSON.stringify(value));
      for (const text of texts) assert.ok(text.length <= 6 * charactersMax + 10, `${text.length} of ${charactersMax}`);
    }
  }
});

test('texts are sent in pieces, and hold a share of the reading memory until the end', async () => {
  const buffers = new Semaphore(1);
  const pieces: string[] = [];
  const texts = ['one ', 'two ', 'three ', 'four'];
  const turns = new Turns({ ...limits, readTimePercent: 5, readIdlePercent: 50, readIdleMs: 0 }, { recordedMs: 0 });
  for await (const piece of inPieces(
    texts,
    { buffers, turns },
    { ...limits, readTurnBytes: 10 },
    new AbortController().signal,
  )) {
    pieces.push(piece.toString());
    assert.ok(buffers.isExhausted);
  }
  assert.deepEqual(pieces, ['one two ', 'three four']);
  assert.ok(!buffers.isExhausted);
});
