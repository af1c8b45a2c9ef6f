import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readKey } from '../src/key.ts';

test('each word and each slash begins another part, and a JSON array says any key', () => {
  const table: readonly (readonly [readonly string[], readonly string[]])[] = [
    [['orders'], ['orders']],
    [['warehouse/orders'], ['warehouse', 'orders']],
    [
      ['warehouse', 'orders/2026'],
      ['warehouse', 'orders', '2026'],
    ],
    [['a%2Fb c'], ['a%2Fb c']],
    [['["warehouse", "orders/2026"]'], ['warehouse', 'orders/2026']],
    [
      ['["a/b",', '"c\\n"]'],
      ['a/b', 'c\n'],
    ],
    [
      ['x', '[y'],
      ['x', '[y'],
    ],
    [['["[x"]'], ['[x']],
  ];
  for (const [words, parts] of table) assert.deepEqual(readKey(words), parts, words.join(' '));
});

test('a key that can not be is told with how to write one', () => {
  for (const words of [[''], ['a/'], ['/a'], ['a', ''], ['a//b'], ['[]'], ['["a", ""]']]) {
    assert.throws(() => readKey(words), /^Error: the key .* has an empty part; write .*/, words.join(' '));
  }
  for (const words of [['['], ['[a]'], ['[1]'], ['["a"', 'b]']]) {
    assert.throws(() => readKey(words), /^Error: the key .* is no JSON array of strings; write .*/, words.join(' '));
  }
});
