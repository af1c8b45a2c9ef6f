/** Finds the memory that the process may use, and makes V8 use little memory. */

import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapSpaceStatistics, getHeapStatistics, setFlagsFromString } from 'node:v8';
import type { Limits } from './limits.ts';

/**
 * @param constrainedBytes the memory limit of the cgroup (v1 and v2); 0, undefined or more than any machine has if there is none
 * @param heapBytes V8's heap limit, as `--max-old-space-size` sets it; buffers are outside the heap
 * @returns the memory that the process may use: the lower of the cgroup's limit and the limit that follows from the heap's
 */
export function readMemoryBytesMax(
  constrainedBytes: number | undefined = process.constrainedMemory(),
  heapBytes: number = getHeapStatistics().heap_size_limit,
): number {
  return Math.min(constrainedBytes || Number.POSITIVE_INFINITY, heapBytes / HEAP_SHARE);
}

/**
 * Share of a process's memory that V8's heap may use, since the bodies of reports are buffers for most of their
 * lifetime.
 */
const HEAP_SHARE = 0.5;

/**
 * @returns a copy of a text, since a part of a text keeps the whole text in memory, such as a body or a chunk of a file. A short
 * part already is a copy
 */
export function detach(text: string): string {
  if (text.length < SHORTEST_PART) return text;
  if (text.length > scratch.length || NOT_ASCII.test(text)) return Buffer.from(text).toString();
  scratch.write(text, 0, 'latin1'); // twice as fast as allocating memory
  return scratch.toString('latin1', 0, text.length);
}

/** V8 copies parts with fewer characters. */
const SHORTEST_PART = 13;
const scratch = Buffer.allocUnsafeSlow(256);
const NOT_ASCII = /[^\u0000-\u007f]/;

/**
 * Makes V8 use little memory. By default V8 lets the young generation grow beyond 32 MiB, and collects buffers only after 64
 * MiB of them, whatever the limit of the cgroup is.
 * @returns a function that runs a full garbage collection, which takes about 5 ms
 */
export function saveMemory(): () => void {
  setYoungGrowth(1);
  setFlagsFromString('--expose-gc');
  // Loaded only here, since loading takes time.
  return process.getBuiltinModule('node:vm').runInNewContext('() => gc()');
}

/**
 * Limits V8's young generation, which uses one of its halves at a time. By default each half grows to 16 MiB on Node 20 and 22, to
 * 64 on 24 and to 32 on 26, without making a report faster. V8 reads `--max-semi-space-size` only when it starts, but it reads the
 * growth factor whenever the young generation grows.
 */
export class YoungGeneration {
  readonly #halfBytesMax: number;
  #isHeld = false;

  /** Checks the size after each collection. */
  constructor({ youngHalfBytesMax }: Limits) {
    this.#halfBytesMax = youngHalfBytesMax;
    new PerformanceObserver(() => this.#update()).observe({ entryTypes: ['gc'] });
  }

  /** @param isHeld whether the young generation may not grow for now, however small it is */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    this.#update();
  }

  /** V8 shrinks the young generation of an idle service, so it might have to grow again. */
  #update(): void {
    const space = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')!;
    const halfBytes = space.space_used_size + space.space_available_size;
    setYoungGrowth(this.#isHeld || 2 * halfBytes > this.#halfBytesMax ? 1 : 2);
  }
}

/** @returns a function that counts bytes of garbage, and calls `collect` after each `limits.collectBytes` */
export function collectEach({ collectBytes }: Limits, collect: () => void): (bytes: number) => void {
  let uncollectedBytes = 0;
  return (bytes) => {
    uncollectedBytes += bytes;
    if (uncollectedBytes < collectBytes) return;
    uncollectedBytes = 0;
    collect();
  };
}

/**
 * Collects the garbage of sending a backlog: buffers, and an object for each line. V8 would let 100 MiB of it accumulate. While a
 * backlog is sent, the young generation does not grow, and a collection follows each `limits.collectBytes`; a large heap is left to
 * V8.
 * @param young undefined if memory is scarce, so that the young generation never grows
 * @returns a function to call with the bytes of each accepted request. A small request is not a backlog, and changes nothing: reports
 * are
 *   a fifth slower in a young generation that cannot grow
 */
export function collectForwarded(limits: Limits, young?: YoungGeneration): (bytes: number) => void {
  const { collectedHeapBytesMax, backlogRequestBytes } = limits;
  let collect: (() => void) | undefined;
  let isSaving = false;
  const countGarbage = collectEach(limits, () => {
    collect ??= saveMemory();
    if (getHeapStatistics().used_heap_size < collectedHeapBytesMax) collect();
  });
  return (bytes) => {
    const isBacklog = bytes >= backlogRequestBytes;
    if (isBacklog !== isSaving) young?.hold(isBacklog);
    isSaving = isBacklog;
    if (isBacklog) countGarbage(bytes);
  };
}

/** The default factor is 2; with 1 nothing grows. */
function setYoungGrowth(factor: 1 | 2): void {
  setFlagsFromString(`--semi-space-growth-factor=${factor}`);
}
