import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { seedOf } from '../../../src/journal/line/crc.ts';

test('bytes and their crc determine the seed', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 5_000 }), fc.integer({ min: 0, max: 2 ** 32 - 1 }), (bytes, seed) => {
      assert.equal(seedOf(crc32(bytes), bytes.length, crc32(bytes, seed)), seed);
    }),
  );
  const large = Buffer.alloc(4 * 1024 * 1024, 'x');
  assert.equal(seedOf(crc32(large), large.length, crc32(large, 0xdeadbeef)), 0xdeadbeef);
});
