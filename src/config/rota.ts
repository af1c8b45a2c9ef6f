/** Looks that are taken in turn, one at a time: what an idle service costs does not grow with the number of things to look at. */

import { setTimeout as sleep } from 'node:timers/promises';
import { Mutex } from './mutex.ts';

export interface RotaOptions<Key> {
  readonly turnMs: number;
  /** Keys of one turn; the others wait for the next turns. */
  readonly turnMax: number;
  /** Never rejects. */
  readonly look: (key: Key) => Promise<void>;
  /** Pauses before the looks that `soon` asks for. */
  readonly soonMs?: readonly number[];
}

/** Has no timer while it has no key. */
export class Rota<Key> {
  readonly #options: RotaOptions<Key>;
  /** The key whose last look was longest ago is the first. */
  readonly #keys = new Set<Key>();
  /** The keys of `soon`, and whether it was called again since then. */
  readonly #soon = new Map<Key, boolean>();
  readonly #looks = new Mutex();
  #timer: NodeJS.Timeout | undefined;
  #turning: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: RotaOptions<Key>) {
    this.#options = options;
  }

  add(key: Key): void {
    if (this.#isClosed) return;
    this.#keys.add(key);
    this.#timer ??= setInterval(() => void this.turn(), this.#options.turnMs).unref();
  }

  delete(key: Key): void {
    this.#keys.delete(key);
    if (this.#keys.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Looks at the next keys, besides the turns of the timer. Never rejects. */
  turn(): Promise<void> {
    this.#turning ??= this.#turn().finally(() => {
      this.#turning = undefined;
    });
    return this.#turning;
  }

  /** Looks at a key after each pause of `soonMs`, also if it is no key of the turns. */
  soon(key: Key): void {
    if (this.#soon.has(key)) this.#soon.set(key, true);
    else void this.#lookSoon(key);
  }

  /** Ends the turns, after the look that is being taken. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#keys.clear();
    await this.#looks.run(async () => {});
  }

  async #turn(): Promise<void> {
    for (const key of [...this.#keys].slice(0, this.#options.turnMax)) {
      if (!this.#keys.delete(key)) continue; // it was deleted during another look
      this.#keys.add(key);
      await this.#look(key);
    }
  }

  async #lookSoon(key: Key): Promise<void> {
    do {
      this.#soon.set(key, false);
      for (const ms of this.#options.soonMs ?? []) {
        await sleep(ms, undefined, { ref: false });
        await this.#look(key);
      }
    } while (this.#soon.get(key) === true && !this.#isClosed);
    this.#soon.delete(key);
  }

  #look(key: Key): Promise<void> {
    return this.#looks.run(async () => {
      if (!this.#isClosed) await this.#options.look(key);
    });
  }
}
