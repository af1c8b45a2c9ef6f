/** The faults of a service for tests: which report meets which fault, and how often. */

import { randomInt } from 'node:crypto';
import { decodeEvent, type Event } from '../event/event.ts';
import {
  type Compared,
  type Effect,
  type FaultLimits,
  FaultsError,
  type ParsedFault,
  readFault,
  readFaults,
  SEED_MAX,
} from './fault.ts';

export interface MetReport {
  /** Path of the request, shown with `nearest`. */
  readonly path: string;
  readonly events: readonly Event[];
  readonly isBatch: boolean;
}

export interface Met {
  /** Index of the fault in the list. */
  readonly index: number;
  readonly effect: Effect;
  /** The delay that was drawn from `delay_ms`. */
  readonly delayMs: number;
  /** The delay of the second half of the body, from `body_delay_ms`. */
  readonly bodyDelayMs: number;
}

/** The JSON of `GET /test/faults`. */
export interface FaultsShown {
  readonly seed: number;
  /** Number of valid reports since the faults were set. */
  readonly reports: number;
  readonly faults: readonly FaultShown[];
}

/** A fault as it was given, with its counts. */
export interface FaultShown {
  /** Number of reports that matched, including reports that `after`, `times`, chance or an earlier fault spared. */
  readonly matched: number;
  /** Number of reports that it met. */
  readonly met: number;
  /**
   * The nearest report that did not match, the latest of several; `differs` has the values that differ: `{ asset_key: ['order']
   * }`.
   */
  readonly nearest?: { readonly path: string; readonly differs: Partial<Compared> };
}

/** The counts of a fault, which change as reports meet it. */
export type FaultCounts = Readonly<Pick<LiveFault, 'matched' | 'met' | 'nearest'>>;

interface LiveFault {
  readonly fault: ParsedFault;
  /** @returns the next random number of this fault, from 0 up to 1 */
  readonly draw: () => number;
  matched: number;
  /** Number of reports that matched and met no earlier fault. */
  turns: number;
  met: number;
  nearest: FaultShown['nearest'] | undefined;
}

/** The faults of one service, in their order. A report meets the first one that matches. */
export class Faults {
  readonly #limits: FaultLimits;
  #seed = 0;
  #reports = 0;
  #faults: LiveFault[] = [];

  constructor(limits: FaultLimits) {
    this.#limits = limits;
  }

  /**
   * Replaces all faults.
   * @param value the JSON of the body of `PUT /test/faults`
   * @throws FaultsError; the old faults are then kept
   */
  set(value: unknown): void {
    const { seed = randomInt(SEED_MAX), faults } = readFaults(value, this.#limits);
    this.clear();
    this.#seed = seed;
    for (const fault of faults) this.#append(fault);
  }

  /**
   * Adds a fault after the others.
   * @returns its counts
   * @throws FaultsError, for example if there would be more than `limits.faultsMax`
   */
  add(value: unknown): FaultCounts {
    const [counts] = this.#appendAll([readFault(value, 'fault', this.#limits)], undefined);
    return counts as FaultCounts;
  }

  /**
   * Adds faults after the others, all of them or none.
   * @param value the JSON of the body of `POST /test/faults`
   * @throws FaultsError like `add`, and for a seed after the first faults
   */
  addAll(value: unknown): readonly FaultCounts[] {
    const { seed, faults } = readFaults(value, this.#limits);
    return this.#appendAll(faults, seed);
  }

  clear(): void {
    this.#faults = [];
    this.#reports = 0;
  }

  show(): FaultsShown {
    const faults = this.#faults.map(({ fault, matched, met, nearest }) => ({
      ...fault.given,
      matched,
      met,
      ...(nearest && { nearest }),
    }));
    return { seed: this.#seed, reports: this.#reports, faults };
  }

  /**
   * Decides the faults that drop a request before its body is read, from its head alone. The search ends at a fault that might match
   * but needs the body to decide: it has precedence over later faults.
   * @param type the type of the event that the endpoint records; undefined for a batch
   * @returns the fault, or the number of decided faults
   */
  meetHead(type: string | undefined): Met | number {
    for (const [index, one] of this.#faults.entries()) {
      const { fault } = one;
      const isOther = type !== undefined && fault.match.type !== undefined && fault.match.type !== type;
      if (isOther || one.met >= fault.times) continue;
      if (!isDecidedByHead(fault, type)) return index;
      if (this.#countMatch(one)) return { index, effect: fault.effect, delayMs: 0, bodyDelayMs: 0 };
    }
    return this.#faults.length;
  }

  /**
   * Finds the first fault that a report meets.
   * @param decided the number from `meetHead`
   * @returns undefined if it meets no fault
   */
  meet(report: MetReport, decided = 0): Met | undefined {
    this.#reports += 1;
    let met: Met | undefined;
    for (const [index, one] of this.#faults.entries()) {
      const { fault } = one;
      const differs = this.#findDifferences(fault, report);
      if (differs !== undefined) {
        keepNearest(one, report.path, differs);
      } else if (met !== undefined) {
        one.matched += 1; // an earlier fault has precedence
      } else if (index >= decided || !isDecidedByHead(fault, typeOf(report))) {
        if (!this.#countMatch(one)) continue;
        const { effect } = fault;
        const delayMs = drawDelay(one, effect.delay_ms);
        met = { index, effect, delayMs, bodyDelayMs: drawDelay(one, effect.body_delay_ms) };
      }
    }
    return met;
  }

  #appendAll(faults: readonly ParsedFault[], seed: number | undefined): readonly FaultCounts[] {
    const { faultsMax } = this.#limits;
    const count = this.#faults.length;
    if (count + faults.length > faultsMax)
      throw new FaultsError(
        `there are ${count} faults already, and at most ${faultsMax} are allowed; clear them first`,
      );
    if (count > 0 && seed !== undefined)
      throw new FaultsError('seed goes with the first faults; leave it out, or replace all faults with PUT');
    if (count === 0) this.#seed = seed ?? randomInt(SEED_MAX);
    return faults.map((fault) => this.#append(fault));
  }

  #append(fault: ParsedFault): FaultCounts {
    const draw = mulberry32(this.#seed + Math.imul(this.#faults.length, GOLDEN));
    const added: LiveFault = { fault, draw, matched: 0, turns: 0, met: 0, nearest: undefined };
    this.#faults.push(added);
    return added;
  }

  /** Counts a report that matches. @returns whether the fault meets it */
  #countMatch(one: LiveFault): boolean {
    const { times, after, probability } = one.fault;
    one.matched += 1;
    one.turns += 1;
    if (one.turns <= after || one.met >= times) return false;
    if (probability < 1 && one.draw() >= probability) return false;
    one.met += 1;
    return true;
  }

  /** @returns the members of the nearest event of a report that differ from the match of a fault; undefined if it matches */
  #findDifferences({ match }: ParsedFault, { events }: MetReport): Partial<Compared> | undefined {
    const wanted = Object.entries(match);
    if (wanted.length === 0) return undefined;
    let nearest: [string, unknown][] | undefined;
    for (const event of events) {
      const compared = comparedOf(event);
      const differs = wanted
        .filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(compared[name as keyof Compared]))
        .map(([name]): [string, unknown] => [name, compared[name as keyof Compared]]);
      if (differs.length === 0) return undefined;
      if (nearest === undefined || differs.length < nearest.length) nearest = differs;
    }
    return Object.fromEntries(nearest ?? []);
  }
}

/**
 * Whether the head of a request is enough to decide the fault: the fault drops the request, and compares at most its
 * type.
 */
function isDecidedByHead({ match, effect }: ParsedFault, type: string | undefined): boolean {
  if (effect.drop !== 'request' || effect.delay_ms !== undefined) return false;
  return Object.keys(match).every((name) => name === 'type' && type !== undefined);
}

/** The type of the endpoint of a report; undefined for a batch. */
function typeOf({ isBatch, events }: MetReport): string | undefined {
  return isBatch ? undefined : events[0]?.type;
}

function comparedOf(event: Event): Compared {
  const { type, asset_key, partition = null, check_name = null } = decodeEvent(event);
  return { type, asset_key, partition, check_name };
}

/** Keeps the nearest report that did not match, the latest of several. The copy does not hold the body in memory. */
function keepNearest(one: LiveFault, path: string, differs: Partial<Compared>): void {
  const count = Object.keys(differs).length;
  if (count === 0 || count > Object.keys(one.nearest?.differs ?? differs).length) return;
  one.nearest = JSON.parse(JSON.stringify({ path, differs }));
}

function drawDelay({ draw }: LiveFault, [least, most]: readonly [number, number] = [0, 0]): number {
  return least === most ? least : least + Math.floor(draw() * (most - least + 1));
}

/** 2^32 divided by the golden ratio: spreads the seeds of the faults. */
const GOLDEN = 0x9e3779b9;

/** The generator mulberry32 (Tommy Ettinger). @returns a function that returns the next number, from 0 up to 1 */
function mulberry32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
