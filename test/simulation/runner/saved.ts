/**
 * Lives that found a defect, in `lives.json`. A workload or a plan that has changed gives a seed another life: each names what it must
 * still meet, and the mutant that is its defect, with which another life is found.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { allMutants } from '../../faults/mutants/mutant.ts';
import { root } from '../../support/program.ts';
import { bundleSimulation, live } from '../bundle.ts';
import type { Outcome } from '../life.ts';
import { listed, optionsOf, type Replay } from './replay.ts';
import { SHORT_STEPS, shrink } from './shrink.ts';

export interface SavedLife {
  /** One sentence: what was wrong. */
  readonly defect: string;
  /** The promise of the mutant that is the defect. */
  readonly mutant: string;
  readonly replay: Replay;
  /** The faults and states that the life has to meet, with which the defect shows itself. */
  readonly reaches: readonly string[];
}

/** As the file has it: the replay is one text. */
type Written = Omit<SavedLife, 'replay'> & { readonly replay: string };

const file = join(root, 'test/simulation/lives.json');
const STEPS = 100_000;
const SHRINK_MS = 120_000;
/** Lives that are tried with a defect. */
const SEEDS_MAX = 60;
const AT_ONCE = 2;

export function savedLives(): SavedLife[] {
  const written: readonly Written[] = JSON.parse(readFileSync(file, 'utf8'));
  return written.map((one) => ({ ...one, replay: readReplay(one.replay) }));
}

function readReplay(text: string): Replay {
  const options = { seed: { type: 'string' }, steps: { type: 'string' } } as const;
  const parts = { only: { type: 'string' }, clients: { type: 'string' }, from: { type: 'string' } } as const;
  const { values } = parseArgs({ args: text.split(' '), options: { ...options, ...parts } });
  return {
    ...{ seed: Number(values.seed), steps: Number(values.steps) },
    only: values.only === undefined ? undefined : listed(values.only).map(Number),
    clients: values.clients === undefined ? undefined : listed(values.clients),
    fromMs: values.from === undefined ? undefined : Number(values.from),
  };
}

/** @returns what a life did not meet, as a clause; undefined if it is not idle */
export function idleReason(outcome: Outcome | undefined, reaches: SavedLife['reaches']): string | undefined {
  const met = { ...outcome?.faults, ...outcome?.states };
  const unmet = reaches.filter((name) => !met[name]);
  return unmet.length === 0 ? undefined : `it does not meet ${unmet.join(', ')}`;
}

/**
 * Lives each saved life with its defect in the source. Where that breaks no promise any more, or the life is idle without the defect,
 * looks for another one, and writes it to `lives.json`.
 * @param whole the simulation of the source as it is
 * @param word of the mutants whose lives are looked at
 * @returns 0, or 2 if none was found
 */
export async function renewLives(whole: string, word: string): Promise<number> {
  const renewed: SavedLife[] = [];
  let code = 0;
  for (const saved of savedLives()) {
    if (!saved.mutant.includes(word)) {
      renewed.push(saved);
      continue;
    }
    const mutant = allMutants().find(({ breaks }) => breaks === saved.mutant);
    if (mutant === undefined) throw new Error(`no mutant is named ${saved.mutant}`);
    const broken = join(root, 'coverage/simulation/saved.mjs');
    await bundleSimulation(broken, mutant);
    const replay = await noticing(broken, whole, saved);
    const words =
      replay === undefined ? 'no life was found' : replay === saved.replay ? 'still noticed' : 'found again';
    process.stdout.write(`${words}: ${saved.defect}\n  ${optionsOf(replay ?? saved.replay).join(' ')}\n`);
    if (replay === undefined) code = 2;
    renewed.push({ ...saved, replay: replay ?? saved.replay });
    write([...renewed, ...savedLives().slice(renewed.length)]);
  }
  return code;
}

/** @returns the saved life if it still breaks a promise with the defect, or the first of another seed that does */
async function noticing(broken: string, whole: string, { replay, reaches }: SavedLife): Promise<Replay | undefined> {
  const fits = async (one: Replay) => {
    const { code, outcome } = await live(broken, optionsOf(one), { quiet: true });
    if (code !== 1 || outcome === undefined) return undefined;
    const unbroken = await live(whole, optionsOf(one));
    return unbroken.code === 0 && idleReason(unbroken.outcome, reaches) === undefined ? outcome : undefined;
  };
  if ((await fits(replay)) !== undefined) return replay;
  /** @returns a life with the defect that breaks a promise which it keeps without */
  const noticed = async (one: Replay) => {
    const { code, outcome } = await live(broken, optionsOf(one), { quiet: true });
    if (code !== 1 || outcome === undefined) return undefined;
    const steps = Math.min(one.steps, outcome.steps);
    const isWhole = (await live(whole, optionsOf({ ...one, steps }), { quiet: true })).code === 0;
    return isWhole ? ([one, outcome] as const) : undefined;
  };
  const inMutant = (smaller: Replay, msMax: number) =>
    live(broken, optionsOf(smaller), { quiet: true, ...(Number.isFinite(msMax) && { msMax }) });
  for (const steps of [SHORT_STEPS, STEPS]) {
    for (let first = 1; first <= SEEDS_MAX; first += AT_ONCE) {
      const lives = Array.from({ length: AT_ONCE }, (_, at) => noticed({ seed: first + at, steps }));
      for (const found of await Promise.all(lives)) {
        const shrunk = found && (await shrink(...found, inMutant, SHRINK_MS));
        if (shrunk !== undefined && (await fits(shrunk)) !== undefined) return shrunk;
      }
    }
  }
  return undefined;
}

function write(lives: readonly SavedLife[]): void {
  const written: Written[] = lives.map((one) => ({ ...one, replay: optionsOf(one.replay).join(' ') }));
  writeFileSync(file, `${JSON.stringify(written, undefined, 2)}\n`);
}
