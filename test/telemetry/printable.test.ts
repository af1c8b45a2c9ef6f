import assert from 'node:assert/strict';
import { test } from 'node:test';
import { platformOf } from '../../src/config/platform.ts';
import { shellWord } from '../../src/telemetry/printable.ts';

test('a word is quoted for the shell of its system if necessary', () => {
  const [linux, windows] = [platformOf('linux'), platformOf('win32')];
  for (const [word, posix, ofWindows] of [
    ['/srv/data', '/srv/data', '/srv/data'],
    ["it's here", "'it'\\''s here'", `"it's here"`],
    ['C:\\data', "'C:\\data'", 'C:\\data'],
    ['C:\\my data', "'C:\\my data'", '"C:\\my data"'],
    ['a&b', "'a&b'", '"a&b"'],
  ] as const) {
    assert.equal(shellWord(word, linux), posix);
    assert.equal(shellWord(word, windows), ofWindows);
  }
});
