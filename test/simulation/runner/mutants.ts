/**
 * `--mutants`: breaks promises of the source on purpose, and says which of a few lives notice it. It is a list to learn from: what
 * only a real disk, lock or socket shows survives, and what depends on more chance than a few lives have.
 */

import { join } from 'node:path';
import { allMutants, type Mutant } from '../../faults/mutants/mutant.ts';
import { root } from '../../support/program.ts';
import { each } from '../../support/tools.ts';
import { bundleSimulation, type Lived, live } from '../bundle.ts';
import { allKinds, type FaultKind } from '../faults.ts';
import type { Outcome } from '../life.ts';
import { optionsOf, type Replay } from './replay.ts';
import { fewest, promiseOf } from './shrink.ts';
import { unseen } from './unseen.ts';

/** The folders whose code lives in the simulation. */
const FOLDERS = /^(journal|forward|service)\//;
/** Files of these folders that it replaces, or that nothing in a life calls. */
const NOT_LIVED =
  /^(journal\/(disk|lock|free-space|look\/(verify|trace|verified-copy)|open\/(owner|mount|empty))|service\/readable|forward\/(destinations|hub\/budget))\.ts$/;
/** Of lives that are whole without a mutant: a hosted hub and mistakes in batches with nothing restored, engines with nothing restored, a hosted hub, good disks. */
const SEEDS = [32, 47, 9, 1];
const AT_ONCE = 2;
/** A life takes a few seconds. */
const LIFE_MS_MAX = 60_000;

/** What became of a mutant in its lives. */
interface Tried {
  readonly kind: 'died' | 'survived' | 'stale';
  /** Which life noticed it and how, or why it could not be tried. */
  readonly how: string;
}

/** @param word of the promises that are tried, or of the paths of their files @returns the exit code: 2 if one could not be tried */
export async function tryMutants(word: string, steps: number): Promise<number> {
  const mutants = allMutants().filter(({ file, breaks }) => FOLDERS.test(file) && `${file}: ${breaks}`.includes(word));
  const lived = mutants.filter(({ file }) => !NOT_LIVED.test(file));
  const chosen = lived.filter(({ breaks }) => !unseen.has(breaks));
  const counts = { died: 0, survived: 0, stale: 0 };
  const survivors: Mutant[] = [];
  const needed = new Set<FaultKind>();
  const bundles = Array.from({ length: AT_ONCE }, (_, at) => join(root, `coverage/simulation/mutant-${at}.mjs`));
  await each(chosen, AT_ONCE, async (mutant) => {
    const bundle = bundles.pop()!;
    const { kind, how } = await tryMutant(bundle, mutant, steps, needed);
    bundles.push(bundle);
    counts[kind] += 1;
    if (kind === 'survived') survivors.push(mutant);
    process.stdout.write(`${kind}: ${mutant.breaks} (${mutant.file}): ${how}\n`);
  });
  process.stdout.write('\nsurvivors, by file:\n');
  for (const { breaks, file } of survivors.toSorted((a, b) => (a.file < b.file ? -1 : 1)))
    process.stdout.write(`${file}: ${breaks}\n`);
  const unneeded = allKinds.filter((kind) => !needed.has(kind));
  process.stdout.write(`faults that none has needed: ${unneeded.join(', ')}\n`);
  const total = `${counts.died} died, ${counts.survived} survived, ${counts.stale} stale`;
  const notTried = `${lived.length - chosen.length} that no life can notice (runner/unseen.ts)`;
  const notLived = `${mutants.length - lived.length} in files that are not simulated`;
  process.stdout.write(`of ${mutants.length}: ${total}, ${notTried}, ${notLived}\n`);
  return counts.stale > 0 ? 2 : 0;
}

/** @param needed the kinds of faults that others have needed to be noticed; those that this one needs besides are added */
async function tryMutant(bundle: string, mutant: Mutant, steps: number, needed: Set<FaultKind>): Promise<Tried> {
  try {
    await bundleSimulation(bundle, mutant);
  } catch (error) {
    return { kind: 'stale', how: (error as Error).message };
  }
  for (const seed of SEEDS) {
    const replay = { seed, steps };
    const { code, outcome } = await liveOnce(bundle, replay);
    if (code === 0) continue;
    if (outcome === undefined) return { kind: 'died', how: `seed ${seed}: its process ended, or did not end` };
    await addNeeded(bundle, replay, outcome, needed);
    return { kind: 'died', how: `seed ${seed}, step ${outcome.steps}: ${outcome.broken}` };
  }
  return { kind: 'survived', how: `${SEEDS.length} lives` };
}

/** Finds out which kinds of faults a life needs to break its promise, besides those that are known to be needed. */
async function addNeeded(bundle: string, replay: Replay, outcome: Outcome, needed: Set<FaultKind>): Promise<void> {
  const planned = outcome.planned ?? [];
  const breaks = async (kinds: ReadonlySet<FaultKind>) => {
    const only = planned.filter(([, kind]) => kinds.has(kind)).map(([number]) => number);
    const again = await liveOnce(bundle, { ...replay, only });
    return again.outcome !== undefined && promiseOf(again.outcome) === promiseOf(outcome);
  };
  const before = new Set(needed);
  if (await breaks(before)) return;
  const others = [...new Set(planned.map(([, kind]) => kind))].filter((kind) => !before.has(kind));
  for (const kind of await fewest(others, (some) => breaks(new Set([...before, ...some])))) needed.add(kind);
}

function liveOnce(bundle: string, replay: Replay): Promise<Lived> {
  return live(bundle, optionsOf(replay), { quiet: true, msMax: LIFE_MS_MAX });
}
