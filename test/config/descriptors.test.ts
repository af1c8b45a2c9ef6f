import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openJournalsFor, readDescriptorsMax } from '../../src/config/descriptors.ts';
import { limits } from '../../src/config/limits.ts';

test('journals may use half of the file descriptors, four each, at any limit', () => {
  const table: readonly (readonly [number | undefined, number])[] = [
    [undefined, 1_000],
    [1_048_576, 1_000],
    [8_000, 1_000],
    [7_999, 999],
    [1_024, 128],
    [512, 64],
    [7, 1],
    [0, 1],
  ];
  for (const [descriptors, expected] of table) assert.equal(openJournalsFor(descriptors, limits), expected);
  const own = readDescriptorsMax();
  assert.ok(process.platform !== 'linux' || (own !== undefined && own > 64), `${own}`);
});
