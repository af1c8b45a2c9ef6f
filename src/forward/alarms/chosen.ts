/**
 * Chooses the alarms that are sent to a hook first if there is no space for all: first ERROR, then WARN, then silence, and within
 * each the oldest.
 */

import type { Alarm } from './alarm.ts';

export class Chosen {
  readonly #max: number;
  #all: Alarm[] = [];
  /** The last alarm of the current choice, once enough alarms were offered. */
  #last: Alarm | undefined;

  /** @param max the number of alarms to choose; memory is used for up to twice as many while choosing */
  constructor(max: number) {
    this.#max = max;
  }

  /** Whether an alarm can be among the chosen ones. */
  accepts(alarm: Compared): boolean {
    return this.#max > 0 && (this.#last === undefined || compare(alarm, this.#last) < 0);
  }

  /** @param alarm must be accepted */
  add(alarm: Alarm): void {
    this.#all.push(alarm);
    if (this.#all.length < 2 * this.#max) return;
    this.#all = this.taken();
    this.#last = this.#all.at(-1);
  }

  /** @returns the chosen alarms, the first one first */
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
