/**
 * The second reader's part of `Idempotency-Key`: the key of a header, and the fate of a report whose key is known, by the README's
 * table of idempotency keys.
 */

import type { Batch, Item } from './strict-batch.ts';
import { type EventText, withKey } from './strict-event.ts';

/** @returns undefined if the header is not a key, so that the request is refused */
export function readHeaderKey(value: string): string | undefined {
  let key = '';
  if (!value.startsWith('"')) key = /[",]/.test(value) ? '' : value;
  else {
    let at = 1;
    while (at < value.length && value[at] !== '"') {
      const escapes = value[at] === '\\';
      if (escapes) at += 1;
      if (escapes && !/["\\]/.test(value[at] ?? '')) return undefined;
      key += value[at];
      at += 1;
    }
    if (at !== value.length - 1) return undefined;
  }
  return /^[!-~]{1,255}$/.test(key) ? key : undefined;
}

/** A request that can record something: a report or a batch. */
export interface Candidate extends Batch {
  readonly kind: 'report' | 'batch';
  readonly deployment: string;
  readonly lenient: boolean;
}

/** The expected reply to a request, and the events to be recorded. */
export interface Prediction {
  readonly status: 200 | 207 | 400 | 422;
  /** With their keys. */
  readonly recorded: readonly Item[];
  /** How many were recorded earlier. */
  readonly duplicates: number;
  /** The numbers of the wrong items, wrong in themselves or for their key. */
  readonly wrong: readonly number[];
}

export class KnownKeys {
  readonly #events = new Map<string, EventText>();
  /** Keys that might have been recorded. */
  readonly #uncertain = new Set<string>();

  predict({ kind, deployment, lenient, items, wrong }: Candidate): Prediction {
    // Wrong items are refused before any key is looked up.
    if (wrong.length > 0 && !lenient) return { status: 400, recorded: [], duplicates: 0, wrong };
    const here = new Map<string, EventText>();
    const recorded: Item[] = [];
    const conflicts: number[] = [];
    let duplicates = 0;
    for (const item of items) {
      const { key, event, number } = item;
      const known = key === undefined ? undefined : (here.get(key) ?? this.#events.get(nameOf(deployment, key)));
      if (known === undefined) {
        recorded.push(item);
        if (key !== undefined) here.set(key, event);
      } else if (known === event) duplicates += 1;
      else conflicts.push(number);
    }
    if (kind === 'report') return { status: conflicts.length > 0 ? 422 : 200, recorded, duplicates, wrong: [] };
    const allWrong = [...wrong, ...conflicts].sort((one, other) => one - other);
    if (allWrong.length === 0) return { status: 200, recorded, duplicates, wrong: allWrong };
    if (lenient && recorded.length + duplicates > 0) return { status: 207, recorded, duplicates, wrong: allWrong };
    return { status: 400, recorded: [], duplicates: 0, wrong: allWrong };
  }

  remember({ deployment }: Candidate, recorded: readonly Item[]): void {
    for (const { key, event } of recorded) if (key !== undefined) this.#events.set(nameOf(deployment, key), event);
  }

  doubt({ deployment, items }: Candidate, only = (_key: string) => true): void {
    for (const { key } of items) if (key !== undefined && only(key)) this.#uncertain.add(nameOf(deployment, key));
  }

  isUncertain({ deployment, items }: Candidate): boolean {
    return items.some(({ key }) => key !== undefined && this.#uncertain.has(nameOf(deployment, key)));
  }
}

/** @returns the expected text of the line */
export function lineOf({ event, key }: Item): EventText {
  return withKey(event, key);
}

function nameOf(deployment: string, key: string): string {
  return `${deployment} ${key}`;
}
