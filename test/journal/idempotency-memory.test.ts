import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { KeyMemory } from '../../src/journal/idempotency-memory.ts';
import { hashKey, type KeyTable } from '../../src/journal/idempotency-table.ts';

function holds(table: KeyTable, key: string): boolean {
  return table.find(hashKey(key)).length === 1;
}

test('the oldest key of all journals is forgotten first, and what is recorded later is forgotten later', () => {
  const memory = new KeyMemory(3);
  const [a, b] = [memory.open(), memory.open()];
  memory.add(a, hashKey('a1'), { seq: 1, offset: 0 }, 100);
  memory.add(b, hashKey('b1'), { seq: 1, offset: 0 }, 200);
  memory.add(a, hashKey('a2'), { seq: 2, offset: 0 }, 50); // the clock was set back
  assert.equal(memory.oldestSeconds, 100);
  memory.add(b, hashKey('b2'), { seq: 2, offset: 0 }, 60);
  assert.deepEqual([holds(a, 'a1'), holds(b, 'b1'), holds(a, 'a2'), holds(b, 'b2')], [false, true, true, true]);
  memory.add(b, hashKey('b3'), { seq: 3, offset: 0 }, 300);
  assert.ok(memory.held === 3 && holds(b, 'b3') && holds(b, 'b2'));
});

test('what a start reads is remembered only if it is newer than what is forgotten for it', () => {
  const memory = new KeyMemory(2);
  const [a, b] = [memory.open(), memory.open()];
  memory.add(a, hashKey('a1'), { seq: 1, offset: 0 }, 100);
  memory.add(a, hashKey('a2'), { seq: 2, offset: 0 }, 200);
  assert.equal(memory.addOldest(b, hashKey('b9'), { seq: 9, offset: 0 }, 150), true);
  assert.equal(memory.addOldest(b, hashKey('b8'), { seq: 8, offset: 0 }, 140), false);
  assert.deepEqual([holds(a, 'a1'), holds(a, 'a2'), holds(b, 'b9')], [false, true, true]);
  memory.close(b);
  assert.equal(memory.held, 1);
  memory.close(b);
  assert.equal(memory.held, 1);
  assert.equal(memory.free, 1);
});

test('the keys of lines that retention removed are forgotten', () => {
  const memory = new KeyMemory(10);
  const table = memory.open();
  assert.equal(memory.oldestSeconds, undefined);
  for (const seq of [1, 4, 5, 9]) memory.add(table, hashKey(`k${seq}`), { seq, offset: 0 }, seq);
  memory.forgetBefore(table, 5);
  assert.deepEqual([memory.held, holds(table, 'k4'), holds(table, 'k5')], [2, false, true]);
  memory.forgetBefore(table, 100);
  assert.equal(memory.held, 0);
});

const change = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('add' as const), table: fc.nat(3), later: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reopen' as const), table: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), table: fc.nat(3), count: fc.nat(4) }) },
);

test('at most so many keys are held, and they are those that a list of all keys in their order keeps', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), fc.array(change, { maxLength: 200 }), (keysMax, changes) => {
      const memory = new KeyMemory(keysMax);
      const tables = Array.from({ length: 4 }, () => memory.open());
      let model: { table: number; seq: number; seconds: number }[] = [];
      let [seq, seconds] = [0, 1000];
      for (const made of changes) {
        const table = tables[made.table] as KeyTable;
        if (made.kind === 'add') {
          [seq, seconds] = [seq + 1, seconds + made.later + 1];
          memory.add(table, hashKey(`${seq}`), { seq, offset: 0 }, seconds);
          model = [...model, { table: made.table, seq, seconds }].slice(-keysMax);
        } else if (made.kind === 'reopen') {
          memory.close(table);
          tables[made.table] = memory.open();
          model = model.filter((key) => key.table !== made.table);
        } else {
          const before = model.filter((key) => key.table === made.table)[made.count]?.seq ?? seq + 1;
          memory.forgetBefore(table, before);
          model = model.filter((key) => key.table !== made.table || key.seq >= before);
        }
        assert.equal(memory.held, model.length);
        assert.equal(memory.oldestSeconds, model[0]?.seconds);
      }
      for (const key of model) assert.ok(holds(tables[key.table] as KeyTable, `${key.seq}`));
      assert.equal(
        tables.reduce((sum, table) => sum + table.size, 0),
        model.length,
      );
    }),
    { numRuns: 1_000 },
  );
});
