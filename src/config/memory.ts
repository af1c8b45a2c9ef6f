/** How much memory the process may use, and how V8 is kept within little of it. */

import { getHeapStatistics, setFlagsFromString } from 'node:v8';

/**
 * @param constrainedBytes the limit of the cgroup (v1 and v2); 0, undefined or beyond any machine when there is none
 * @param heapBytes V8's own limit, as `--max-old-space-size` sets it; buffers are outside of it
 * @returns infinity when nothing limits the memory below what a machine has
 */
export function readMemoryBytesMax(
  constrainedBytes: number | undefined = process.constrainedMemory(),
  heapBytes: number = getHeapStatistics().heap_size_limit,
): number {
  return Math.min(constrainedBytes || Number.POSITIVE_INFINITY, heapBytes / HEAP_SHARE);
}

/** Of the memory of a process, what may be in V8's heap: the bodies of reports are buffers for most of their time. */
const HEAP_SHARE = 0.5;

/**
 * Makes V8 use little memory. By itself it lets the young generation grow to 32 MiB and more, and collects buffers only after
 * 64 MiB of them, whatever the cgroup allows.
 * @returns a full garbage collection; it takes about 5 ms
 */
export function saveMemory(): () => void {
  setFlagsFromString('--semi-space-growth-factor=1'); // --max-semi-space-size has no effect after the start
  setFlagsFromString('--expose-gc');
  // Needed only here, and it takes a while to load.
  return process.getBuiltinModule('node:vm').runInNewContext('() => gc()');
}
