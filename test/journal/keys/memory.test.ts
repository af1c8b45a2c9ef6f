import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { KeyMemory } from '../../../src/journal/keys/memory.ts';
import { hashKey, type KeyTable } from '../../../src/journal/keys/table.ts';
import { rounds } from '../../support/long.ts';

function holds(table: KeyTable, key: string): boolean {
  return table.find(hashKey(key)).length === 1;
}

/** The seqs of the keys in a table, the oldest first. */
function seqsOf(table: KeyTable): number[] {
  return Array.from({ length: table.size }, (_, index) => table.at(index).seq);
}

function addMany(memory: KeyMemory, table: KeyTable, count: number, seconds = 100): void {
  const next = table.size === 0 ? 1 : table.at(table.size - 1).seq + 1;
  for (let seq = next; seq < next + count; seq += 1) memory.add(table, hashKey(`${seq}`), { seq, offset: 0 }, seconds);
}

test('at a start each journal loads its share of the keys, whatever other journals hold', () => {
  const memory = new KeyMemory(4);
  const [a, b] = [memory.open('a'), memory.open('b')];
  addMany(memory, a, 4, 200);
  const addOldest = (seq: number) => memory.addOldest(b, hashKey(`b${seq}`), { seq, offset: 0 }, 100);
  assert.deepEqual([addOldest(9), addOldest(8), addOldest(7)], [true, true, false]);
  assert.deepEqual([seqsOf(a), seqsOf(b), holds(b, 'b9')], [[3, 4], [8, 9], true]);
  memory.close(a);
  assert.equal(addOldest(6), false, 'the key before it is missing');
  memory.close(b);
  memory.close(b);
  assert.equal(memory.held, 0);
  memory.add(b, hashKey('late'), { seq: 10, offset: 0 }, 100);
  assert.equal(memory.held, 0, 'a closed table is ignored');
});

test('the reported window is the shortest one of the journals that have forgotten keys', () => {
  const memory = new KeyMemory(4);
  const [slow, fast] = [memory.open('slow'), memory.open('fast')];
  addMany(memory, slow, 1, 100);
  addMany(memory, fast, 2, 200);
  assert.equal(memory.oldestSeconds, 100, 'nothing is forgotten');
  addMany(memory, fast, 1_000, 300);
  assert.equal(memory.oldestSeconds, 300);
});

const change = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('add' as const), table: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reopen' as const), table: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), table: fc.nat(3), count: fc.nat(4) }) },
);

const NAMES = ['c', 'a', 'd', 'b'];

/** The seqs that each journal remembers, the oldest first, found by a search through all journals. */
class Model {
  readonly seqs: number[][] = NAMES.map(() => []);

  forget(keysMax: number): void {
    while (this.seqs.flat().length > keysMax) {
      const sizes = this.seqs.map(({ length }) => length);
      const most = NAMES.filter((_, index) => sizes[index] === Math.max(...sizes))
        .sort()
        .at(-1) as string;
      this.seqs[NAMES.indexOf(most)]?.shift();
    }
  }
}

test('at most keysMax keys are held, and the journal with the most keys forgets its oldest one [idempotency-memory-1]', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), fc.array(change, { maxLength: 200 }), (keysMax, changes) => {
      const memory = new KeyMemory(keysMax);
      const tables = NAMES.map((name) => memory.open(name));
      const model = new Model();
      for (const [seq, made] of changes.entries()) {
        const [table, seqs] = [tables[made.table] as KeyTable, model.seqs[made.table] as number[]];
        if (made.kind === 'add') {
          memory.add(table, hashKey(`${seq}`), { seq, offset: 0 }, 100);
          seqs.push(seq);
          model.forget(keysMax);
        } else if (made.kind === 'reopen') {
          memory.close(table);
          tables[made.table] = memory.open(NAMES[made.table] as string);
          seqs.splice(0);
        } else {
          memory.forgetBefore(table, seqs[made.count] ?? seq);
          seqs.splice(0, made.count);
        }
        assert.deepEqual(tables.map(seqsOf), model.seqs);
        assert.equal(memory.held, model.seqs.flat().length);
      }
    }),
    { numRuns: rounds({ long: 1_000, short: 300 }) },
  );
});

test('after a restart the same keys are known, in whatever order the journals are opened', () => {
  const orders = fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 });
  const adds = fc.array(fc.nat(3), { maxLength: 100 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 30 }), adds, orders, (keysMax, added, order) => {
      const memory = new KeyMemory(keysMax);
      const tables = NAMES.map((name) => memory.open(name));
      for (const [seq, table] of added.entries()) {
        memory.add(tables[table] as KeyTable, hashKey(`${seq}`), { seq, offset: 0 }, 100);
      }
      const again = new KeyMemory(keysMax);
      const reopened = new Map(order.map((index) => [index, again.open(NAMES[index] as string)]));
      for (const [index, table] of reopened) {
        const seqs = added.flatMap((added, seq) => (added === index ? [seq] : [])).reverse();
        for (const seq of seqs) if (!again.addOldest(table, hashKey(`${seq}`), { seq, offset: 0 }, 100)) break;
      }
      assert.deepEqual(
        NAMES.map((_, index) => seqsOf(reopened.get(index) as KeyTable)),
        tables.map(seqsOf),
      );
    }),
    { numRuns: rounds({ long: 1_000, short: 300 }) },
  );
});
