/**
 * Breaks each promise on purpose, in a copy of the source, and runs the tests that should notice: `mutants.ts [WORDS]` runs
 * the mutants whose promise has the words in it. Ends with 1 if a mutant survives, if one no longer applies, or if a test
 * fails without any mutant.
 */

import { each } from '../support/tools.ts';
import { mutants } from './mutants/all.ts';
import { bundleProgram, type Copy, makeCopy } from './mutants/copy.ts';
import { type Mutant, mutate, readTest } from './mutants/mutant.ts';
import { type Durations, interruptRuns, needsBuild, runTests, type TestRun } from './mutants/test-run.ts';

/** At a time. Most tests wait more than they compute. With mutants, many also wait for a timeout. */
const WORKERS = { unbroken: 3, broken: 5 };
/** A test hangs that takes this much longer than without any mutant. A failing one that waits gives up after 20 s. */
const HANG = { ms: 5_000, times: 5 };
/** Without any mutant, where it is not known how long a test takes. */
const UNBROKEN_MS_MAX = 120_000;
/** Some breaks show at some interleavings only. What is noticed late is named in the end, so that its test can be made stricter. */
const TRIES = 3;

/** What became of a mutant. */
type Outcome =
  | { readonly kind: 'survived' }
  | { readonly kind: 'killed'; readonly by: string }
  | { readonly kind: 'stale'; readonly reason: string }
  | { readonly kind: 'skipped'; readonly reason: string };

/** What a test file does without any mutant. */
type Unbroken =
  | { readonly kind: 'passes'; readonly durationsMs: Durations }
  | { readonly kind: 'unfit'; readonly reason: string };

let interrupted = false;

class Runner {
  readonly #chosen: readonly Mutant[];
  readonly #free: Copy[];
  readonly #unbroken = new Map<string, Promise<Unbroken>>();
  /** Why the run fails, a line each. */
  readonly #failing: string[] = [];
  /** What was clear only when it was tried again, a line each. */
  readonly #late: string[] = [];

  constructor(chosen: readonly Mutant[], copies: readonly Copy[]) {
    this.#chosen = chosen;
    this.#free = [...copies];
  }

  async run(): Promise<boolean> {
    const startedMs = performance.now();
    const seconds = (sinceMs: number) => `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;
    const first = new Set(this.#chosen.flatMap(({ tests }) => tests.slice(0, 1).map((test) => readTest(test).file)));
    await this.#each([...first], WORKERS.unbroken, async (copy, file) => void (await this.#withoutMutant(copy, file)));
    console.log(`the tests ran without any mutant in ${seconds(startedMs)}`);
    const counts = { survived: 0, killed: 0, stale: 0, skipped: 0 };
    let done = 0;
    await this.#each(await this.#longestFirst(), WORKERS.broken, async (copy, mutant) => {
      const beganMs = performance.now();
      const outcomes = await repeated(
        () => this.#tryMutant(copy, mutant),
        ({ kind }) => kind !== 'survived',
      );
      if (interrupted) return;
      const outcome = outcomes.at(-1)!;
      counts[outcome.kind] += 1;
      done += 1;
      const line = `${mutant.breaks} (${mutant.file}): ${describeOutcome(outcome)}`;
      console.log(`${done} of ${this.#chosen.length}, ${seconds(beganMs)}: ${line}`);
      if (outcome.kind === 'survived' || outcome.kind === 'stale') this.#failing.push(line);
      else if (outcomes.length > 1) this.#late.push(`${line}, at try ${outcomes.length}`);
    });
    for (const line of [...this.#late, ...this.#failing]) console.log(`look at: ${line}`);
    const total = Object.entries(counts).map(([kind, count]) => `${count} ${kind}`);
    console.log(`${done} of ${this.#chosen.length} mutants in ${seconds(startedMs)}: ${total.join(', ')}`);
    return done > 0 && done === this.#chosen.length && this.#failing.length === 0;
  }

  /** @returns the mutants, those first whose first test takes longest, since a long one that comes last runs alone */
  async #longestFirst(): Promise<Mutant[]> {
    const expectedMs = async ({ tests: [test = ''] }: Mutant): Promise<number> => {
      const { file, name } = readTest(test);
      const unbroken = await this.#unbroken.get(file);
      if (unbroken?.kind !== 'passes') return 0;
      const { durationsMs } = unbroken;
      return name === undefined
        ? [...durationsMs.values()].reduce((sum, ms) => sum + ms, 0)
        : (durationsMs.get(name) ?? 0);
    };
    const timed = await Promise.all(this.#chosen.map(async (mutant) => ({ mutant, ms: await expectedMs(mutant) })));
    return timed.sort((a, b) => b.ms - a.ms).map(({ mutant }) => mutant);
  }

  /** Does something with each value and a copy that nothing else uses meanwhile, at most `atOnce` things at a time. */
  async #each<Value>(
    values: readonly Value[],
    atOnce: number,
    act: (copy: Copy, value: Value) => Promise<void>,
  ): Promise<void> {
    await each(values, atOnce, async (value) => {
      if (interrupted) return;
      const copy = this.#free.pop()!;
      await act(copy, value).finally(() => this.#free.push(copy));
    });
  }

  /** Runs the tests of a mutant, each first without it, until one fails. */
  async #tryMutant(copy: Copy, mutant: Mutant): Promise<Outcome> {
    let unfit: string | undefined;
    let ran = false;
    for (const test of mutant.tests) {
      const { file, name } = readTest(test);
      const unbroken = await this.#withoutMutant(copy, file);
      unfit ??= reasonAgainst(unbroken, test, name);
      if (unbroken.kind === 'unfit' || reasonAgainst(unbroken, test, name) !== undefined) continue;
      ran = true;
      const end = await this.#runBroken(copy, mutant, test, unbroken.durationsMs);
      if (end.kind !== 'survived') return end;
    }
    return ran ? { kind: 'survived' } : { kind: 'skipped', reason: unfit ?? 'it names no test' };
  }

  async #runBroken(copy: Copy, mutant: Mutant, test: string, durationsMs: Durations): Promise<Outcome> {
    const { file, name } = readTest(test);
    let restore = async () => {};
    try {
      restore = await copy.patch(mutant.file, (text) => mutate(text, mutant));
      if (needsBuild(file)) await bundleProgram(copy);
      const hangsAfterMs = (one: string) => HANG.ms + HANG.times * (durationsMs.get(one) ?? 0);
      const run = await runTests(copy, { file, names: name === undefined ? [] : [name], hangsAfterMs });
      return run.kind === 'passed' ? { kind: 'survived' } : { kind: 'killed', by: describe(file, run) };
    } catch (error) {
      return { kind: 'stale', reason: (error as Error).message };
    } finally {
      await restore();
    }
  }

  /** A test that fails without any mutant would kill all that name it. */
  #withoutMutant(copy: Copy, file: string): Promise<Unbroken> {
    const known = this.#unbroken.get(file) ?? this.#runUnbroken(copy, file);
    this.#unbroken.set(file, known);
    return known;
  }

  /** Runs the tests of a file that mutants name, or all if one names the file alone. */
  async #runUnbroken(copy: Copy, file: string): Promise<Unbroken> {
    const uses = this.#chosen.flatMap(({ tests }) => tests.map(readTest)).filter((use) => use.file === file);
    const names = [...new Set(uses.map(({ name }) => name))];
    if (needsBuild(file)) await bundleProgram(copy);
    const choice = {
      file,
      names: names.every((name) => name !== undefined) ? names : [],
      hangsAfterMs: () => UNBROKEN_MS_MAX,
    };
    const runs = await repeated(
      () => runTests(copy, choice),
      ({ kind }) => kind === 'passed',
    );
    const reasons = runs.flatMap((run) =>
      run.kind === 'failed' ? [`${describe(file, run)} fails without any mutant`] : [],
    );
    if (!interrupted) for (const reason of reasons) console.log(reason);
    const last = runs.at(-1)!;
    const isFit = last.kind === 'passed';
    (isFit ? this.#late : this.#failing).push(...reasons);
    return isFit ? { kind: 'passes', durationsMs: last.durationsMs } : { kind: 'unfit', reason: `${reasons.at(-1)}` };
  }
}

/** @returns the results of up to `TRIES` tries: the last one is the first that is clear, if any is */
async function repeated<Result>(act: () => Promise<Result>, isClear: (result: Result) => boolean): Promise<Result[]> {
  const results: Result[] = [];
  do results.push(await act());
  while (!isClear(results.at(-1)!) && results.length < TRIES && !interrupted);
  return results;
}

/** Such as `KILLED by journal/lock: one writer`. */
function describeOutcome(outcome: Outcome): string {
  const detail = 'by' in outcome ? ` by ${outcome.by}` : 'reason' in outcome ? `: ${outcome.reason}` : '';
  return `${outcome.kind.toUpperCase()}${detail}`;
}

/** @returns why a test can not judge a mutant, such as that it is skipped on this machine */
function reasonAgainst(unbroken: Unbroken, test: string, name: string | undefined): string | undefined {
  if (unbroken.kind === 'unfit') return unbroken.reason;
  const ran = name === undefined ? unbroken.durationsMs.size > 0 : unbroken.durationsMs.has(name);
  return ran ? undefined : `${test} is skipped here`;
}

/** As a mutant names a test, and more: `program/hostile: hostile inputs > limits: A body of …`. */
function describe(file: string, { test, detail }: TestRun & { readonly kind: 'failed' }): string {
  return `${file}: ${test}${detail === undefined ? '' : ` > ${detail}`}`;
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interrupted = true;
    interruptRuns();
  });
}
const words = process.argv.slice(2).join(' ');
const copies: Copy[] = [];
try {
  for (let made = 0; made < WORKERS.broken; made += 1) copies.push(await makeCopy());
  const chosen = mutants.filter(({ breaks }) => breaks.includes(words));
  process.exitCode = (await new Runner(chosen, copies).run()) ? 0 : 1;
} finally {
  for (const copy of copies) copy.remove();
}
