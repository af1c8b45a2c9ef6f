import assert from 'node:assert/strict';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { collectForwarded, readMemoryBytesMax, saveMemory } from '../../src/config/memory.ts';
import { youngHalfMibAfterWork } from '../support/memory.ts';

const MIB = 1024 * 1024;

test('the cgroup and the heap of V8 both limit the memory, and there may be no cgroup [config-memory-1]', () => {
  const table: readonly (readonly [number | undefined, number, number])[] = [
    [64 * MIB, 259 * MIB, 64 * MIB],
    [1024 * MIB, 32 * MIB, 64 * MIB],
    [undefined, 128 * MIB, 256 * MIB],
    [0, 128 * MIB, 256 * MIB],
    [2 ** 64, 4096 * MIB, 8192 * MIB], // what Node 20 says when there is no limit
  ];
  for (const [constrained, heap, expected] of table) assert.equal(readMemoryBytesMax(constrained, heap), expected);
  assert.ok(readMemoryBytesMax() > 0);
});

test('memory is saved: the young generation stays small, and a collection frees buffers', async () => {
  const collectGarbage = saveMemory();
  const youngMib = await youngHalfMibAfterWork();
  assert.ok(youngMib <= 4, `${youngMib} MiB`);

  const unused = new WeakRef(Buffer.alloc(MIB));
  await turn(); // a WeakRef holds what it refers to until the end of the turn
  collectGarbage();
  assert.equal(unused.deref(), undefined);
});

/** @returns how many collections calls with these bytes ask for */
async function collections(collect: (bytes: number) => void, ...calls: number[]): Promise<number> {
  let count = 0;
  const observer = new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries() as unknown as { detail: { kind: number; flags: number } }[]) {
      const isForced = (detail.flags & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) !== 0;
      if (isForced && detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) count += 1;
    }
  });
  observer.observe({ entryTypes: ['gc'] });
  for (const bytes of calls) collect(bytes);
  for (let turns = 0; turns < 10; turns += 1) await turn();
  observer.disconnect();
  return count;
}

test('the garbage of forwarding is collected after each `collectBytes`', async () => {
  const collect = collectForwarded({
    collectBytes: 100,
    collectedHeapBytesMax: Number.POSITIVE_INFINITY,
    backlogRequestBytes: 10,
  });
  assert.equal(await collections(collect, 50, 40), 0);
  assert.equal(await collections(collect, 9, 9), 0, 'of small requests there is no garbage to speak of');
  assert.equal(await collections(collect, 10), 1);
  assert.equal(await collections(collect, 100, 90, 0, 10), 2);
});

test('a heap that takes long to collect is left to V8', async () => {
  const collect = collectForwarded({ collectBytes: 100, collectedHeapBytesMax: 1, backlogRequestBytes: 10 });
  assert.equal(await collections(collect, 1_000), 0);
});
