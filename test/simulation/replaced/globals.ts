/** Replaces the clocks, timers and chance of this process by those of a world. The bundle replaces `node:timers/promises` and `node:crypto`. */

import type { Planned, World } from '../../world/time.ts';

let world: World | undefined;

/** @throws Error if code runs before a world is there */
export function theWorld(): World {
  if (world === undefined) throw new Error('no world is running');
  return world;
}

const RealDate = Date;

class VirtualDate extends RealDate {
  constructor(...parts: unknown[]) {
    if (parts.length === 0) super(theWorld().wallMs());
    else super(...(parts as [number]));
  }

  static override now(): number {
    return theWorld().wallMs();
  }
}

class VirtualTimer {
  #event: Planned;
  readonly #callback: () => void;
  readonly #ms: number;

  constructor(callback: () => void, ms: number, repeats: boolean) {
    this.#ms = ms;
    this.#callback = () => {
      if (repeats) this.#event = this.#plan();
      callback();
    };
    this.#event = this.#plan();
  }

  #plan(): Planned {
    return theWorld().plan(this.#ms, 'timer', this.#callback);
  }

  close(): this {
    this.#event.isCancelled = true;
    return this;
  }

  refresh(): this {
    this.close();
    this.#event = this.#plan();
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }
}

type Callback = (...values: unknown[]) => void;

const delayOf = (ms: unknown) => (typeof ms === 'number' && ms >= 1 ? ms : 1);
const clear = (timer: unknown) => void (timer instanceof VirtualTimer && timer.close());

/** @param forWorld every clock and timer of this process is that of this world from now on */
export function replaceGlobals(forWorld: World): void {
  world = forWorld;
  Object.assign(globalThis, {
    Date: VirtualDate,
    setTimeout: (callback: Callback, ms?: number, ...values: unknown[]) =>
      new VirtualTimer(() => callback(...values), delayOf(ms), false),
    setInterval: (callback: Callback, ms?: number, ...values: unknown[]) =>
      new VirtualTimer(() => callback(...values), delayOf(ms), true),
    setImmediate: (callback: Callback, ...values: unknown[]) => new VirtualTimer(() => callback(...values), 0, false),
    clearTimeout: clear,
    clearInterval: clear,
    clearImmediate: clear,
  });
  Object.defineProperty(performance, 'now', { value: () => theWorld().monotonicMs(), configurable: true });
  Object.defineProperty(AbortSignal, 'timeout', {
    value: (ms: number) => {
      const controller = new AbortController();
      setTimeout(() => controller.abort(new DOMException('The operation timed out', 'TimeoutError')), ms);
      return controller.signal;
    },
    configurable: true,
  });
  Math.random = () => theWorld().current?.chance.share() ?? 0.5;
}
