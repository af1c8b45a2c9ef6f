/** How many bodies are unpacked at a time. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { limits } from '../../../src/config/limits.ts';
import { Unpacker } from '../../../src/http/socket/unpacker.ts';

test('two bodies are decompressed at a time, in order, also after a bad one', async () => {
  const unpacker = new Unpacker(limits);
  const running = new Set<number>();
  const started: number[] = [];
  let most = 0;
  const unpack = async (number: number) => {
    const packed = gzipSync(Buffer.alloc(500_000, `${number}`));
    if (number === 3) packed[packed.length - 5]! ^= 1;
    const allocate = (bytes: number) => {
      started.push(number);
      running.add(number);
      setImmediate(() => (most = Math.max(most, running.size))); // then the one before has left
      return Buffer.alloc(bytes);
    };
    try {
      const body = await unpacker.unpack(packed, limits, allocate);
      assert.equal(body.toString('latin1'), `${number}`.repeat(500_000));
    } finally {
      running.delete(number);
    }
  };
  const numbers = [1, 2, 3, 4, 5, 6, 7, 8];
  const ended = await Promise.allSettled(numbers.map(unpack));
  assert.deepEqual([most, started], [2, numbers]);
  assert.deepEqual(
    ended.flatMap(({ status }, at) => (status === 'rejected' ? [numbers[at]] : [])),
    [3],
  );
});
