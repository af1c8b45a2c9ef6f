/** Makes a life that broke a promise smaller: fewer steps, fewer faults and fewer clients, as long as the same promise breaks. */

import type { Lived } from '../bundle.ts';
import type { Outcome } from '../life.ts';
import type { Replay } from './replay.ts';

/** Lives a life, and gives up after a time. */
export type Live = (replay: Replay, msMax: number) => Promise<Lived>;

/** With other faults, a promise may break at a later step. */
const MORE_STEPS = 1.25;

/** @returns the sentence about the broken promise without its numbers, by which a smaller life is known to break the same one */
export function promiseOf({ broken }: Pick<Outcome, 'broken'>): string | undefined {
  return broken?.replace(/[\da-f-]*\d[\da-f-]*/g, '#');
}

/**
 * @param found the life that broke a promise
 * @param outcome what became of it
 * @param msMax how long it may take
 * @returns the smallest life that was found to break the same promise
 */
export async function shrink(found: Replay, outcome: Outcome, live: Live, msMax: number): Promise<Replay> {
  const untilMs = performance.now() + msMax;
  const promise = promiseOf(outcome);
  /** @returns the life as it was up to the broken promise, if it broke the same one */
  const broken = async (replay: Replay): Promise<Replay | undefined> => {
    const leftMs = untilMs - performance.now();
    if (leftMs <= 0) return undefined;
    const lived = await live(replay, leftMs);
    if (lived.outcome === undefined || lived.code !== 1 || promiseOf(lived.outcome) !== promise) return undefined;
    return { ...replay, steps: Math.min(replay.steps, lived.outcome.steps) };
  };
  const stepsMax = Math.min(found.steps, Math.ceil(outcome.steps * MORE_STEPS));
  const only = found.only ?? Object.keys(outcome.planned ?? {}).map(Number);
  const clients = found.clients ?? outcome.lived ?? [];
  let best = await broken({ ...found, steps: Math.min(found.steps, outcome.steps), only, clients });
  if (best === undefined) return found;
  const smaller = async (part: Pick<Replay, 'only' | 'clients'>) => {
    const candidate = await broken({ ...best!, ...part, steps: stepsMax });
    if (candidate !== undefined) best = candidate;
    return candidate !== undefined;
  };
  await fewest(only, (some) => smaller({ only: some }));
  await fewest(clients, (some) => smaller({ clients: some }));
  // What is printed has been seen to break the promise, also with the steps up to it only.
  const again = await live(best, Number.POSITIVE_INFINITY);
  return again.outcome !== undefined && promiseOf(again.outcome) === promise ? best : found;
}

/**
 * Delta debugging: leaves out values, many at first, as long as it still happens without them.
 * @param happens whether it does with only these values
 * @returns values of which none can be left out alone
 */
export async function fewest<Value>(
  values: readonly Value[],
  happens: (some: readonly Value[]) => Promise<boolean>,
): Promise<readonly Value[]> {
  let left = values;
  for (let size = Math.ceil(left.length / 2); size >= 1; ) {
    const before = left.length;
    for (let at = 0; at < left.length; ) {
      const fewer = left.toSpliced(at, size);
      if (await happens(fewer)) left = fewer;
      else at += size;
    }
    if (size === 1 && left.length === before) break;
    size = Math.min(size === 1 ? 1 : Math.ceil(size / 2), Math.max(1, Math.ceil(left.length / 2)));
  }
  return left;
}
