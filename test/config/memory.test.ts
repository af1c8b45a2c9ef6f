import assert from 'node:assert/strict';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { limits } from '../../src/config/limits.ts';
import { collectForwarded, readMemoryBytesMax, saveMemory } from '../../src/config/memory.ts';
import { youngHalfMibAfterWork } from '../support/memory.ts';

const MIB = 1024 * 1024;

test('the cgroup and the heap of V8 both limit the memory, and a cgroup is optional', () => {
  const table: readonly (readonly [number | undefined, number, number])[] = [
    [64 * MIB, 259 * MIB, 64 * MIB],
    [1024 * MIB, 32 * MIB, 64 * MIB],
    [undefined, 128 * MIB, 256 * MIB],
    [0, 128 * MIB, 256 * MIB],
    [2 ** 64, 4096 * MIB, 8192 * MIB], // Node 20 without a limit
  ];
  for (const [constrained, heap, expected] of table) assert.equal(readMemoryBytesMax(constrained, heap), expected);
  assert.ok(readMemoryBytesMax() > 0);
});

test('with little memory the young generation stays small, and a collection frees unused buffers', async () => {
  const collectGarbage = saveMemory();
  const youngMib = await youngHalfMibAfterWork();
  assert.ok(youngMib <= 4, `${youngMib} MiB`);

  const unused = new WeakRef(Buffer.alloc(MIB));
  await turn(); // a WeakRef holds its target until the end of the turn
  collectGarbage();
  assert.equal(unused.deref(), undefined);
});

/** @returns the number of collections during calls with these bytes */
async function countCollections(collect: (bytes: number) => void, ...calls: number[]): Promise<number> {
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
    ...limits,
    collectBytes: 100,
    collectedHeapBytesMax: Number.POSITIVE_INFINITY,
    backlogRequestBytes: 10,
  });
  assert.equal(await countCollections(collect, 50, 40), 0);
  assert.equal(await countCollections(collect, 9, 9), 0, 'small requests leave hardly any garbage');
  assert.equal(await countCollections(collect, 10), 1);
  assert.equal(await countCollections(collect, 100, 90, 0, 10), 2);
});

test('a heap that is slow to collect is not collected after forwarding', async () => {
  const collect = collectForwarded({ ...limits, collectBytes: 100, collectedHeapBytesMax: 1, backlogRequestBytes: 10 });
  assert.equal(await countCollections(collect, 1_000), 0);
});
