/**
 * Virtual time. One queue of events, ordered by time and then by number, drives everything: timers, the ends of disk calls, messages,
 * faults and clients. A step takes the next event, runs it, and lets all microtasks run before the next one. Nothing in it depends on
 * real time or on chance that is not drawn from the seed, so the same seed gives the same life.
 */

import { crc32 } from 'node:zlib';
import { Chance } from './chance.ts';

/** Taken before the globals are replaced: it runs after all microtasks. */
const realImmediate = setImmediate;

/** The wall clock of a machine: what faults change, and every process of the machine reads. */
export interface WallClock {
  offsetMs: number;
}

/** The wall clock of a machine, which jumps. */
export class MachineClock implements WallClock {
  #offsetMs = 0;
  /** Whether times may be out of order. */
  hasJumped = false;

  get offsetMs(): number {
    return this.#offsetMs;
  }

  set offsetMs(offsetMs: number) {
    this.#offsetMs = offsetMs;
    this.hasJumped = true;
  }
}

/**
 * One process from its start to its end, or one machine from power-on to power-off. Events that belong to it are dropped once it has
 * ended, which leaves promises that never settle: what a SIGKILL leaves.
 */
export class Incarnation {
  readonly name: string;
  readonly clock: WallClock;
  readonly chance: Chance;
  readonly startedMs: number;
  isAlive = true;
  /** Calls that change its disk, and have not returned. */
  changes = 0;

  constructor(world: World, name: string, clock: WallClock) {
    this.name = name;
    this.clock = clock;
    this.chance = world.chance(name);
    this.startedMs = world.nowMs;
  }

  end(): void {
    this.isAlive = false;
  }
}

/** An event in the queue. */
export interface Planned {
  readonly atMs: number;
  readonly number: number;
  readonly label: string;
  /** Whose event it is; undefined for the world itself. */
  readonly owner: Incarnation | undefined;
  run: () => void;
  isCancelled: boolean;
}

/** What a process reads from its wall clock when virtual time and its offset are 0. */
const EPOCH_MS = Date.UTC(2026, 0, 1);
const TRACE_STEPS = 200;

export class World {
  readonly seed: number;
  /** Virtual milliseconds. */
  nowMs: number;
  steps = 0;
  /** CRC-32 over time, owner and label of every step. */
  digest = 0;
  /** The last steps and log lines. */
  readonly trace: string[] = [];
  /** Whose code runs now: timers that it sets, and chance that it draws, are its own. */
  current: Incarnation | undefined;
  readonly #queue: Planned[] = [];
  #number = 0;

  /** @param fromMs when it begins */
  constructor(seed: number, fromMs = 0) {
    this.seed = seed;
    this.nowMs = fromMs;
  }

  /** @returns a stream of chance of its own, so that leaving one part of the world out changes little of the others */
  chance(name: string): Chance {
    return new Chance(crc32(`${this.seed} ${name}`));
  }

  /** @param owner whose event it is: the process whose code runs now if it is not given, the world if it is null */
  plan(delayMs: number, label: string, run: () => void, owner: Incarnation | undefined | null = this.current): Planned {
    const atMs = this.nowMs + Math.max(0, delayMs);
    this.#number += 1;
    const event = { atMs, number: this.#number, label, owner: owner ?? undefined, run, isCancelled: false };
    this.#push(event);
    return event;
  }

  /** @returns a promise that resolves after virtual time, never if the owner ends before */
  wait(delayMs: number, label: string, owner?: Incarnation): Promise<void> {
    return new Promise((resolve) => this.plan(delayMs, label, resolve, owner));
  }

  /** Runs events until `isOver` is true before a step, or none is left. */
  async run(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const event = this.#pop();
      if (event === undefined) return;
      if (event.isCancelled || event.owner?.isAlive === false) continue;
      this.nowMs = event.atMs;
      this.steps += 1;
      const line = `${event.atMs.toFixed(3)} ${event.owner?.name ?? 'world'} ${event.label}`;
      this.note(line);
      this.digest = crc32(line, this.digest);
      this.current = event.owner;
      event.run();
      await new Promise((resolve) => realImmediate(resolve));
      this.current = undefined;
    }
  }

  /** Runs what another process asks of this one: its timers belong to this one. */
  as<Result>(process: Incarnation, run: () => Result): Result {
    const { current } = this;
    this.current = process;
    try {
      return run();
    } finally {
      this.current = current;
    }
  }

  note(line: string): void {
    this.trace.push(line);
    if (this.trace.length > 2 * TRACE_STEPS) this.trace.splice(0, TRACE_STEPS);
  }

  /** Wall-clock time as the code that runs now reads it. */
  wallMs(): number {
    return EPOCH_MS + Math.floor(this.nowMs) + (this.current?.clock.offsetMs ?? 0);
  }

  /** Monotonic time as the code that runs now reads it. */
  monotonicMs(): number {
    return this.nowMs - (this.current?.startedMs ?? 0);
  }

  #push(event: Planned): void {
    const queue = this.#queue;
    let at = queue.length;
    queue.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, queue[parent]!)) break;
      queue[at] = queue[parent]!;
      at = parent;
    }
    queue[at] = event;
  }

  #pop(): Planned | undefined {
    const queue = this.#queue;
    const first = queue[0];
    const last = queue.pop();
    if (first === undefined || last === undefined || queue.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= queue.length) break;
      if (child + 1 < queue.length && isBefore(queue[child + 1]!, queue[child]!)) child += 1;
      if (!isBefore(queue[child]!, last)) break;
      queue[at] = queue[child]!;
      at = child;
    }
    queue[at] = last;
    return first;
  }
}

function isBefore(a: Planned, b: Planned): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.number < b.number);
}
