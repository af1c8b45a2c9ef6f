/** Repeats an action on a simulated disk, with each of its calls in turn failing or being the last before a power cut. */

import { setImmediate as turn } from 'node:timers/promises';
import { sampledCalls } from '../support/long.ts';
import { failingCall, type Remains, type SimulatedDisk } from './simulated-disk.ts';

/** All combinations of what a power cut leaves of the folder's changes, of unsynced bytes, and in the sector after them. */
export function remainsOf(
  shares: readonly number[],
  kinds: readonly Remains['behind'][] = ['nothing', 'zeros', 'garbage'],
): Remains[] {
  return (['none', 'half', 'all'] as const).flatMap((entries) =>
    shares.flatMap((share) => kinds.map((behind) => ({ entries, share, behind }))),
  );
}

/** @returns the disk after a power cut, in each of 45 ways */
export function everyRemains(disk: SimulatedDisk): SimulatedDisk[] {
  return remainsOf([0, 0.2, 0.5, 0.9, 1]).map((remains) => disk.afterPowerCut(remains));
}

/** Resolves when everything that can still happen has happened: calls of the simulated disk need no time. */
export async function settled(turns = 300): Promise<void> {
  for (let count = 0; count < turns; count += 1) await turn();
}

/** How an action ended on a disk that failed; `hangs` if it waits for the disk for ever. */
export type End<Value> =
  | { readonly kind: 'done'; readonly value: Value }
  | { readonly kind: 'failed'; readonly error: Error }
  | { readonly kind: 'hangs' };

/** A run in which the call with this number fails; see `failingCall`. */
export class Trial {
  readonly number: number;
  readonly #what: 'once' | 'always' | 'power';
  readonly #code: string | undefined;
  #struck: () => number = () => 0;
  #disk: SimulatedDisk | undefined;
  #callsBefore = 0;

  constructor(number: number, what: 'once' | 'always' | 'power', code: string | undefined) {
    this.number = number;
    this.#what = what;
    this.#code = code;
  }

  /**
   * Runs `act` on a disk whose calls fail, in addition to the disk's own faults. Afterwards the disk answers again if no call failed;
   * otherwise calls that still wait for the disk never continue.
   */
  async run<Value>(disk: SimulatedDisk, act: () => Promise<Value>): Promise<End<Value>> {
    const own = disk.fault;
    const { fault, struck } = failingCall(this.number, this.#what, this.#code);
    this.#struck = struck;
    this.#disk = disk;
    this.#callsBefore = disk.calls.length;
    disk.fault = (call, name, bytes) => {
      const usual = own(call, name, bytes);
      return fault() ?? usual;
    };
    const ending = act().then(
      (value): End<Value> => ({ kind: 'done', value }),
      (error: Error): End<Value> => ({ kind: 'failed', error }),
    );
    const end = await Promise.race([ending, waitUntilIdle(disk).then((): End<Value> => ({ kind: 'hangs' }))]);
    if (struck() === 0 && end.kind !== 'done') throw new Error(`${end.kind} though no call failed`, { cause: end });
    disk.fault = struck() === 0 ? own : failingCall(1, 'power').fault;
    return end;
  }

  /** Whether the run reached the call that fails. */
  get struck(): boolean {
    return this.#struck() > 0;
  }

  /** For messages: `call 7 of 30, write events-….jsonl`. */
  get when(): string {
    const calls = this.#disk?.calls.slice(this.#callsBefore) ?? [];
    return `call ${this.number} of ${calls.length}, ${calls[this.number - 1]}`;
  }
}

/** Resolves when a disk has had no call for 300 turns. */
async function waitUntilIdle(disk: SimulatedDisk): Promise<void> {
  for (let [turns, calls] = [0, 0]; turns < 300; turns += 1) {
    await turn();
    if (disk.calls.length !== calls) turns = 0;
    calls = disk.calls.length;
  }
}

/**
 * @param what the call fails `once`, all later ones fail too (`always`), or the `power` is cut
 * @param code of the error, EIO by default
 * @param short the step in the short form of a slow test
 * @returns a trial for each call of the run, or for a sample of them; the last trial has no failure
 */
export function* eachCall(what: 'once' | 'always' | 'power', code?: string, short = 1): Generator<Trial> {
  const { first, step } = sampledCalls(short);
  for (let number = first; ; number += step) {
    const trial = new Trial(number, what, code);
    yield trial;
    if (!trial.struck) return;
  }
}

/** Tries up to three times, like a sender over time. */
export async function thrice(act: () => Promise<void>): Promise<void> {
  await act().catch(act).catch(act);
}
