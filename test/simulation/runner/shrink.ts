/**
 * Makes a life that broke a promise smaller: its end alone, or another life that is short, if one is soon found; then fewer steps, fewer
 * faults and fewer clients, as long as the same promise breaks.
 */

import { each } from '../../support/tools.ts';
import type { Lived } from '../bundle.ts';
import type { Outcome } from '../life.ts';
import { isPart, type Replay } from './replay.ts';

/** Lives a life, and gives up after a time. */
export type Live = (replay: Replay, msMax: number) => Promise<Lived>;

/** With other faults, a promise may break at a later step. */
const MORE_STEPS = 1.25;
/** An end of a life begins with empty disks: what has to come together may take longer. */
const MORE_OF_END = 2;
/** Time before the first fault of an end: the services know their hubs by then. */
const BEFORE_END_MS = 2_000;
const END_STEPS = 3_000;
/** A short life has few faults, and is lived in two seconds. */
export const SHORT_STEPS = 12_000;
/** Seeds so far apart have the same kinds of faults, services and clients. */
const SEEDS_APART = 60;
/** Share of the time for short lives, and for ends of the life before that. */
const SHORT_SHARE = 0.4;
const END_SHARE = 0.25;
const SHORT_LIVES_MAX = 100;
const AT_ONCE = 2;

/** @returns the sentence about the broken promise without its numbers, by which a smaller life is known to break the same one */
export function promiseOf({ broken }: Pick<Outcome, 'broken'>): string | undefined {
  return broken?.replace(/[\da-f-]*\d[\da-f-]*/g, '#');
}

/**
 * @param found the life that broke a promise
 * @param outcome what became of it
 * @param msMax how long it may take
 * @returns the smallest life that was found to break the same promise: `found` if there is no other
 */
export async function shrink(found: Replay, outcome: Outcome, live: Live, msMax: number): Promise<Replay> {
  const untilMs = performance.now() + msMax;
  const promise = promiseOf(outcome);
  // To heal takes most of the time of a short life.
  const isCut = outcome.steps <= found.steps;
  /** @returns what became of a life that broke the same promise */
  const broken = async (replay: Replay, until = untilMs): Promise<Outcome | undefined> => {
    const leftMs = until - performance.now();
    if (leftMs <= 0) return undefined;
    const { outcome, code } = await live({ ...replay, isCut }, leftMs);
    return outcome !== undefined && code === 1 && promiseOf(outcome) === promise ? outcome : undefined;
  };
  const isWhole = !isPart(found) && outcome.steps > SHORT_STEPS;
  const within = (share: number) => (one: Replay) => broken(one, untilMs - (1 - share) * msMax);
  const short = isWhole
    ? ((await endOf(found, outcome, within(END_SHARE))) ?? (await shortLife(found, within(SHORT_SHARE))))
    : undefined;
  const [begun, { steps, planned = [], lived = [] }] = short ?? [found, outcome];
  const stepsMax = Math.min(begun.steps, Math.ceil(steps * MORE_STEPS));
  const only = begun.only ?? planned.map(([number]) => number);
  const clients = begun.clients ?? lived;
  const whole = { ...begun, steps: stepsMax };
  const isBroken = async (part: Pick<Replay, 'only' | 'clients'>) =>
    (await broken({ ...whole, ...part })) !== undefined;
  if (!(await isBroken({ only, clients }))) return found;
  const fewer = await fewest(only, (some) => isBroken({ only: some, clients }));
  const few = await fewest(clients, (some) => isBroken({ only: fewer, clients: some }));
  const part = {
    ...(fewer.length < only.length && { only: fewer }),
    ...(few.length < clients.length && { clients: few }),
  };
  // What is printed has been seen to break the promise, also with the steps up to it only.
  const smallest = await broken({ ...whole, ...part }, Number.POSITIVE_INFINITY);
  const replay = { ...whole, ...part, steps: Math.min(stepsMax, smallest?.steps ?? stepsMax) };
  return (await broken(replay, Number.POSITIVE_INFINITY)) === undefined ? found : replay;
}

/**
 * @returns the shortest end of a life that breaks the same promise, if one does that is less than half of it: one that begins before its
 *   last fault, or its last two, four …
 */
async function endOf(
  { seed, reorders, ...found }: Replay,
  { planned = [], ...outcome }: Outcome,
  broken: (replay: Replay) => Promise<Outcome | undefined>,
): Promise<readonly [Replay, Outcome] | undefined> {
  const stepsOfFault = (MORE_OF_END * Math.min(found.steps, outcome.steps)) / planned.length;
  for (let count = 1; 2 * MORE_OF_END * count < planned.length; count *= 2) {
    const fromMs = Math.max(0, planned.at(-count)![2] - BEFORE_END_MS);
    const end = { seed, steps: Math.max(END_STEPS, Math.ceil(stepsOfFault * count)), reorders, fromMs };
    const found = await broken(end);
    if (found !== undefined) return [end, found];
  }
  return undefined;
}

/** @returns the first short life that breaks the same promise as a long one, and what became of it */
async function shortLife(
  { seed, reorders }: Replay,
  broken: (replay: Replay) => Promise<Outcome | undefined>,
): Promise<readonly [Replay, Outcome] | undefined> {
  let found: readonly [Replay, Outcome] | undefined;
  const seeds = Array.from({ length: SHORT_LIVES_MAX }, (_, at) => seed + SEEDS_APART * at);
  await each(seeds, AT_ONCE, async (seed) => {
    const replay = { seed, steps: SHORT_STEPS, reorders };
    const outcome = found === undefined ? await broken(replay) : undefined;
    if (outcome !== undefined) found ??= [replay, outcome];
  });
  return found;
}

/**
 * Delta debugging: leaves out values, many at first, as long as it still happens without them. Two parts are tried at once.
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
      const starts = [at, at + size].filter((start) => start < left.length);
      const without = starts.map((start) => left.toSpliced(start, size));
      const first = (await Promise.all(without.map(happens))).indexOf(true);
      at += first === -1 ? starts.length * size : first * size;
      left = without[first] ?? left;
    }
    if (size === 1 && left.length === before) break;
    size = Math.min(size === 1 ? 1 : Math.ceil(size / 2), Math.max(1, Math.ceil(left.length / 2)));
  }
  return left;
}
