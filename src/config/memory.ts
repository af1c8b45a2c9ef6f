/** Finds how much memory the process may use, and makes V8 use little memory. */

import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import type { Limits } from './limits.ts';

/**
 * @param constrainedBytes the memory limit of the cgroup (v1 and v2); 0, undefined or more than any machine has if there is none
 * @param heapBytes V8's heap limit, as `--max-old-space-size` sets it; buffers are outside the heap
 * @returns how much memory the process may use: the lower of the cgroup's limit and what the heap limit implies
 */
export function readMemoryBytesMax(
  constrainedBytes: number | undefined = process.constrainedMemory(),
  heapBytes: number = getHeapStatistics().heap_size_limit,
): number {
  return Math.min(constrainedBytes || Number.POSITIVE_INFINITY, heapBytes / HEAP_SHARE);
}

/** Share of a process's memory that V8's heap may use: the bodies of reports are buffers for most of their lifetime. */
const HEAP_SHARE = 0.5;

/**
 * Makes V8 use little memory. By default V8 lets the young generation grow to 32 MiB and more, and collects buffers only after
 * 64 MiB of them, whatever the cgroup allows.
 * @returns a function that runs a full garbage collection, which takes about 5 ms
 */
export function saveMemory(): () => void {
  setYoungGrowth(1);
  setFlagsFromString('--expose-gc');
  // Loaded only here, since loading it takes time.
  return process.getBuiltinModule('node:vm').runInNewContext('() => gc()');
}

/**
 * Collects the garbage of sending a backlog, of which V8 would let 100 MiB gather: buffers, and an object for each line. While a
 * backlog is sent, the young generation does not grow, and a collection follows each `limits.collectBytes`; a large heap is left to V8.
 * @param isScarce whether the memory is saved anyway, so that nothing has to change for a backlog, or after it
 * @returns a function to call with the bytes of each request that was taken. A small request is no backlog: events that are sent as
 *   they are recorded change nothing, since reports are a fifth slower in a young generation that can not grow
 */
export function collectForwarded(
  { collectBytes, collectedHeapBytesMax, backlogRequestBytes }: CollectLimits,
  isScarce = false,
): (bytes: number) => void {
  let collect: (() => void) | undefined;
  let isSaving = false;
  let uncollectedBytes = 0;
  return (bytes) => {
    const isBacklog = bytes >= backlogRequestBytes;
    if (isBacklog !== isSaving && !isScarce) setYoungGrowth(isBacklog ? 1 : 2);
    isSaving = isBacklog;
    if (!isBacklog) return;
    uncollectedBytes += bytes;
    if (uncollectedBytes < collectBytes) return;
    uncollectedBytes = 0;
    collect ??= saveMemory();
    if (getHeapStatistics().used_heap_size < collectedHeapBytesMax) collect();
  };
}

type CollectLimits = Pick<Limits, 'collectBytes' | 'collectedHeapBytesMax' | 'backlogRequestBytes'>;

/** The factor is 2 by default. (`--max-semi-space-size` has no effect after the start.) */
function setYoungGrowth(factor: 1 | 2): void {
  setFlagsFromString(`--semi-space-growth-factor=${factor}`);
}
