/** What the programs share that disturb services for as long as one likes and then judge what these have recorded. */

import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Running, Scope } from '../support/program.ts';
import { randomFrom } from '../support/random.ts';

export interface LongRun {
  readonly seconds: number;
  /** The same numbers for the same `--seed`. */
  readonly random: () => number;
  readonly scope: Scope;
  readonly isInterrupted: () => boolean;
}

/**
 * Runs the program that `[--seconds 600] [--seed N]` asks for. The process ends with 1 if it fails, or is not right.
 * @param judge disturbs, and returns whether all figures are as they must be
 */
export async function runFor(judge: (run: LongRun) => Promise<boolean>): Promise<void> {
  const { values } = parseArgs({ options: { seconds: { type: 'string' }, seed: { type: 'string' } } });
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  console.log(`seed ${seed}`);
  let interrupted = false;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      interrupted = true;
    });
  }
  const releases: (() => unknown)[] = [];
  try {
    const scope = { after: (release: () => unknown) => void releases.push(release) };
    const [seconds, random] = [Number(values.seconds ?? 600), randomFrom(seed)];
    if (!(await judge({ seconds, random, scope, isInterrupted: () => interrupted }))) process.exitCode = 1;
  } catch (error) {
    console.log((error as Error).message);
    process.exitCode = 1;
  } finally {
    // The newest first: a mount goes when no process uses it any more.
    for (const release of releases.reverse()) await release();
  }
}

/** Something that may happen. */
export interface Step<Name extends string> {
  readonly name: Name;
  readonly act: () => Promise<void>;
}

/** Lets each step happen once, so that a short run has them all, and then one after the other by chance. @returns how often each happened */
export async function disturb<Name extends string>(
  steps: readonly Step<Name>[],
  { seconds, random, isInterrupted }: LongRun,
): Promise<Map<Name, number>> {
  const counts = new Map<Name, number>();
  const startedMs = performance.now();
  const elapsed = () => (performance.now() - startedMs) / 1000;
  for (let round = 0; (elapsed() < seconds || round < steps.length) && !isInterrupted(); round += 1) {
    const { name, act } = steps[round < steps.length ? round : Math.floor(random() * steps.length)]!;
    await sleep(200 + random() * 1_000);
    await act();
    counts.set(name, (counts.get(name) ?? 0) + 1);
    if (process.stdout.isTTY) process.stdout.write(`\r${Math.round(elapsed())} s, ${name}\x1b[K`);
  }
  return counts;
}

/** A service that is started again on the same folder and port. */
export interface Restartable {
  readonly name: string;
  service: Running;
  readonly start: () => Promise<Running>;
}

export async function kill(site: Restartable): Promise<void> {
  await site.service.kill('SIGKILL');
  site.service = await site.start();
}

export async function stop(site: Restartable): Promise<void> {
  const { code, stderr } = await site.service.kill('SIGTERM');
  if (code !== 0) throw new Error(`a stop of ${site.name} ended with ${code}: ${stderr.slice(-1_000)}`);
  site.service = await site.start();
}
