import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyText, looksLike, otherSpelling, readKey, readKeyStart, shownKey } from '../../src/event/asset-key.ts';

test('words and slashes separate the parts of a key, and a JSON array can be any key', () => {
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

test('the text of a key is parsed as the same key', () => {
  for (const key of [['a'], ['a', 'b'], ['a/b'], ['a', 'b/c'], ['[a'], ['a', '[b'], ['"'], ['["a"]'], ['ä', '😀']]) {
    assert.deepEqual(readKey([keyText(key)]), key, keyText(key));
  }
});

test('a key that could be mistaken for another one is shown as JSON, which is parsed as the same key', () => {
  const table: readonly (readonly [key: readonly string[], shown: string])[] = [
    [['a', 'b'], 'a/b'],
    [['a/b'], '["a/b"]'],
    [['caf\u00e9'], 'caf\u00e9'],
    [['cafe\u0301'], '["cafe\\u0301"]'],
    [['a', 'b '], '["a","b "]'],
    [['\u3000a'], '["\u3000a"]'],
    [['a\u200bb'], '["a\\u200bb"]'],
    [['\u1100\u1161', 'b'], '["\\u1100\\u1161","b"]'],
  ];
  for (const [key, shown] of table) assert.deepEqual([shownKey(key), readKey([shownKey(key)])], [shown, key], shown);
  for (const [key, other] of [
    [['a', 'b'], ['a/b']],
    [['caf\u00e9'], ['cafe\u0301']],
    [['a '], ['a']],
    [
      ['a\u202e', 'b'],
      ['a', ' b'],
    ],
  ] as const) {
    assert.ok(looksLike(key, other), `${key}`);
  }
  assert.ok(!looksLike(['a', 'b'], ['a', 'c']));
});

test('a text that is not a key is refused with the form of a key', () => {
  const empty = [[''], ['a/'], ['/a'], ['a', ''], ['a//b'], ['[]'], ['["a", ""]']];
  const others = [['['], ['[a]'], ['[1]'], ['["a"', 'b]'], ['["a"'], ['[{}]']];
  for (const words of [...empty, ...others]) {
    assert.throws(() => readKey(words), /^Error: is not a key; write warehouse\/orders, or /, words.join(' '));
  }
});

test('the other spelling of a key with slashes joins its parts, or splits its only part', () => {
  for (const [text, other] of [
    ['a/b', '["a/b"]'],
    ['["a/b"]', 'a/b'],
    ['["a","b"]', '["a/b"]'],
    ['["a","b/c"]', '["a/b/c"]'],
    ['a/', '["a/"]'],
    ...['a', '["a"]', '["/a"]', '["a//b"]', '', '/', '[', '[]', '[1]'].map((one) => [one, undefined]),
  ] as const) {
    assert.equal(otherSpelling(text ?? ''), other, text);
    if (other !== undefined) assert.doesNotThrow(() => readKeyStart(other));
  }
});
