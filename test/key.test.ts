import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyText, readKey } from '../src/key.ts';

test('every key can be written, and is read as it was', () => {
  for (const key of [['a'], ['a', 'b'], ['a/b'], ['a', 'b/c'], ['[a'], ['a', '[b'], ['"'], ['["a"]'], ['ä', '😀']]) {
    assert.deepEqual(readKey([keyText(key)]), key, keyText(key));
  }
  assert.deepEqual(readKey(['a', 'b/c']), ['a', 'b', 'c']);
});

test('what is no key is refused', () => {
  for (const text of ['', '/a', 'a/', 'a//b', '[', '[]', '[1]', '[""]', '["a"', '{"a":1}/']) {
    assert.throws(() => readKey([text]), /is not a key; write warehouse\/orders, or /, text);
  }
});
