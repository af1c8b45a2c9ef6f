/** The alarms that a hook hears of first if there is no space for all: ERROR, then WARN, then silence, of each the oldest ones. */

import type { Alarm } from './alarm.ts';

export class Chosen {
  readonly #max: number;
  #all: Alarm[] = [];
  /** The last one that is chosen so far, once so many were offered. */
  #last: Alarm | undefined;

  /** @param max how many are chosen; of up to twice as many the memory is taken meanwhile */
  constructor(max: number) {
    this.#max = max;
  }

  /** Whether an alarm could be one of the chosen ones. */
  accepts(alarm: Compared): boolean {
    return this.#max > 0 && (this.#last === undefined || compare(alarm, this.#last) < 0);
  }

  /** @param alarm that is accepted */
  add(alarm: Alarm): void {
    this.#all.push(alarm);
    if (this.#all.length < 2 * this.#max) return;
    this.#all = this.taken();
    this.#last = this.#all.at(-1);
  }

  /** @returns the chosen ones, the first one first */
  taken(): Alarm[] {
    return this.#all.sort(compare).slice(0, this.#max);
  }
}

type Compared = Pick<Alarm, 'severity' | 'sinceMs' | 'sinceSeq'>;

function compare(one: Compared, other: Compared): number {
  return rankOf(one) - rankOf(other) || one.sinceMs - other.sinceMs || one.sinceSeq - other.sinceSeq;
}

function rankOf({ severity }: Compared): number {
  return severity === 'ERROR' ? 0 : severity === 'WARN' ? 1 : 2;
}
