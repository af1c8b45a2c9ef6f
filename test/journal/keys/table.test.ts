import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { type Entry, hashKey, KeyTable } from '../../../src/journal/keys/table.ts';
import { processorMs } from '../../support/processor-time.ts';

test('the hash is the first 8 bytes of SHA-256', () => {
  for (const key of ['a', 'run-7/12', '~'.repeat(255)]) {
    const digest = createHash('sha256').update(key).digest();
    assert.deepEqual(hashKey(key), { text: key, high: digest.readInt32BE(0), low: digest.readInt32BE(4) });
  }
});

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Bytes of all arrays in use. The second collection starts after the first has freed its garbage. */
function arrayBytes(): number {
  collect();
  collect();
  return process.memoryUsage().arrayBuffers;
}

test('a table uses no memory before its first key, little for few keys, and none after its last', () => {
  const before = arrayBytes();
  const tables = Array.from({ length: 100 }, () => new KeyTable());
  assert.ok(arrayBytes() - before < 100_000);
  const [table] = tables as [KeyTable];
  for (let seq = 1; seq <= 100_000; seq += 1) table.add(hashKey(`k${seq}`), { seq, offset: 0 }, 0);
  assert.ok(arrayBytes() - before > 2_000_000);
  while (table.size > 10) table.removeOldest();
  assert.ok(arrayBytes() - before < 100_000, 'for 10 keys');
  for (let seq = 99_991; seq <= 100_000; seq += 1) assert.equal(table.find(hashKey(`k${seq}`)).length, 1);
  while (table.size > 0) table.removeOldest();
  assert.ok(arrayBytes() - before < 100_000, 'for none');
  table.removeOldest();
  assert.equal(table.size, 0);
});

test('a million keys take at most 34 MB, and a table that always forgets its oldest key stays as fast', () => {
  const before = arrayBytes();
  const table = new KeyTable();
  for (let seq = 1; seq <= 1_000_000; seq += 1) table.add(spread(seq), { seq, offset: seq }, 0);
  const bytes = arrayBytes() - before;
  assert.ok(bytes <= 34e6, `${bytes} bytes`);
  let fastest = Number.POSITIVE_INFINITY;
  for (let seq = 1_000_001; seq <= 3_000_000; ) {
    const startedMs = processorMs();
    for (const end = seq + 100_000; seq < end; seq += 1) {
      table.removeOldest();
      table.add(spread(seq), { seq, offset: seq % 1000 }, 0);
    }
    const ms = processorMs() - startedMs;
    if (seq > 2_500_000) assert.ok(ms < 20 * fastest + 200, `${ms} ms for 100,000 keys, ${fastest} ms at first`);
    fastest = Math.min(fastest, ms);
  }
  assert.equal(table.size, 1_000_000);
  assert.deepEqual(table.find(spread(2_000_001)), [{ seq: 2_000_001, offset: 1 }]);
  assert.deepEqual(table.find(spread(2_000_000)), []);
});

test('keys whose hashes a client chose do not slow a table down', () => {
  const add = (hashOf: (seq: number) => { high: number; low: number }) => {
    const table = new KeyTable();
    const startedMs = processorMs();
    for (let seq = 1; seq <= 30_000; seq += 1) {
      assert.equal(table.find(hashOf(seq)).length, 0);
      table.add(hashOf(seq), { seq, offset: 0 }, 0);
    }
    return processorMs() - startedMs;
  };
  const usualMs = Math.max(20, add(spread));
  for (const [bits, hashOf] of Object.entries({
    'the same low word': (seq: number) => ({ high: seq, low: 0x5bd1e995 }),
    'the same low bits': (seq: number) => ({ high: Math.imul(seq, 0x9e3779b1), low: seq << 17 }),
    'the same high word': (seq: number) => ({ high: 7, low: seq << 8 }),
  })) {
    const ms = add(hashOf);
    assert.ok(ms < 10 * usualMs, `${ms} ms with ${bits}, ${usualMs} ms with usual hashes`);
  }
});

/** Few hashes, so that some repeat, and searches pass other keys. */
const HASHES_MAX = 100;
const hashNumber = fc.nat(HASHES_MAX - 1);
const change = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('add' as const), hash: hashNumber, more: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('older' as const), hash: hashNumber }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('remove' as const), count: fc.integer({ min: 1, max: 3 }) }) },
);

test('a table finds the same lines as a plain list of its keys, after any changes and with colliding hashes', () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 400, size: 'max' }), (changes) => {
      const table = new KeyTable();
      const model: Entry[] = [];
      let newest = 1_000_000;
      let oldest = 1_000_000;
      for (const made of changes) {
        if (made.kind === 'add') {
          newest += made.more;
          const entry = { ...spread(made.hash), seq: newest, offset: newest % 4096, seconds: newest };
          table.add(entry, entry, entry.seconds);
          model.push(entry);
        } else if (made.kind === 'older') {
          oldest -= 1;
          const entry = { ...spread(made.hash), seq: oldest, offset: 2 ** 32 - 1, seconds: 7 };
          table.addOldest(entry, entry, entry.seconds);
          model.unshift(entry);
        } else {
          for (let count = 0; count < made.count; count += 1) table.removeOldest();
          model.splice(0, made.count);
          oldest = Math.max(oldest, (model[0]?.seq ?? newest + 1) - 1);
          newest = Math.max(newest, oldest);
        }
      }
      assert.equal(table.size, model.length);
      assert.deepEqual(
        model,
        model.map((_, index) => table.at(index)),
      );
      for (let number = 0; number < HASHES_MAX; number += 1) {
        const hash = spread(number);
        const same = model.filter(({ high, low }) => high === hash.high && low === hash.low);
        const expected = same.map(({ seq, offset }) => ({ seq, offset })).reverse();
        assert.deepEqual(table.find(hash), expected);
      }
      assert.equal(table.countBefore(1_000_020), model.filter(({ seq }) => seq < 1_000_020).length);
      assert.equal(table.oldestSeconds, model[0]?.seconds ?? Number.POSITIVE_INFINITY);
    }),
    { numRuns: 300 },
  );
});

/** As evenly spread as a hash, and cheaper. */
function spread(number: number) {
  return { high: number, low: Math.imul(number, 0x9e3779b1) };
}
