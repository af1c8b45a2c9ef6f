import { crc32 } from 'node:zlib';

/** A stream of chance: the same seed gives the same numbers. The generator is SplitMix32. */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** @returns an integer from 0 to 2 ** 32 - 1 */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let value = this.#state;
    value = Math.imul(value ^ (value >>> 16), 0x21f0aaad);
    value = Math.imul(value ^ (value >>> 15), 0x735a2d97);
    return (value ^ (value >>> 15)) >>> 0;
  }

  /** @returns a number from 0 up to but not including 1 */
  share(): number {
    return this.next() / 2 ** 32;
  }

  /** @returns an integer from `least` to `most`, both included */
  integer(least: number, most: number): number {
    return least + Math.floor(this.share() * (most - least + 1));
  }

  happens(probability: number): boolean {
    return this.share() < probability;
  }

  oneOf<Value>(values: readonly Value[]): Value {
    return values[this.integer(0, values.length - 1)]!;
  }

  /** @returns a time whose mean is `meanMs`, as events that come independently of each other have it */
  exponentialMs(meanMs: number): number {
    return -Math.log(1 - this.share()) * meanMs;
  }

  uuid(): string {
    const hex = Array.from({ length: 4 }, () => this.next().toString(16).padStart(8, '0')).join('');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${'89ab'[this.next() & 3]}${hex.slice(17, 20)}-${hex.slice(20)}`;
  }
}

/** Strikes at some of many calls, or requests, of one kind. Leaving one out changes none of the others. */
export class Strikes {
  readonly #name: string;
  readonly #chance: Chance;
  readonly #meanGap: (count: number) => number;
  readonly #numbersMax: number;
  #count = 0;
  #struck = 0;
  /** At which call the next strike is. */
  #due: number;

  /**
   * @param name decides the numbers of the strikes, which are from 1 to `numbersMax`
   * @param meanGap returns the mean number of calls from one strike to the next, by the number of calls so far
   */
  constructor(name: string, chance: Chance, meanGap: (count: number) => number, numbersMax: number) {
    this.#name = name;
    this.#chance = chance;
    this.#meanGap = meanGap;
    this.#numbersMax = numbersMax;
    this.#due = this.#nextDue();
  }

  /** Called at each call. @returns the number of the strike, and the chance that decides its details; undefined if there is none */
  next(): { readonly number: number; readonly chance: Chance } | undefined {
    this.#count += 1;
    if (this.#count < this.#due) return undefined;
    this.#due = this.#nextDue();
    this.#struck += 1;
    const number = 1 + (crc32(`${this.#name} ${this.#struck}`) % this.#numbersMax);
    return { number, chance: new Chance(this.#chance.next()) };
  }

  #nextDue(): number {
    return this.#count + Math.ceil(this.#chance.exponentialMs(this.#meanGap(this.#count)));
  }
}
