/** Breaks each promise on purpose, in a copy of the source, and runs the test that should notice. */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { root } from '../support/program.ts';
import type { Named, Results } from '../support/reporter.ts';
import { each } from '../support/tools.ts';
import { bundleProgram, type Copy, makeCopy } from './mutants/copy.ts';
import { allMutants, filesByTest, type Mutant, mutate } from './mutants/mutant.ts';
import { type Durations, interruptRuns, needsBuild, runTests, type TestRun } from './mutants/test-run.ts';

const USAGE = `npm run test:mutants: breaks each promise on purpose, in a copy of the source, and runs the test that should notice.

  npm run test:mutants                     all mutants
  npm run test:mutants -- token            the mutants whose promise contains the words
  npm run test:mutants -- --changed        the mutants of source files that differ from the last commit
  npm run test:mutants -- --since REF      the mutants of source files and tests that differ from another commit
      --others N       and N others, which the commit decides

Ends with 1 if a mutant survives or no longer applies, or if a test fails without a mutant, and with 2 for a mistake in the options.
test/faults/mutants/ has the mutants.
`;

/**
 * The number of tests at a time. Most tests wait more than they compute. Each one leads a session, and Linux shares the processors
 * between sessions: more of them would starve the other stage.
 */
const WORKERS = { unbroken: 2, broken: 3 };
/** A test that needs this much longer than without a mutant hangs. A failing test that waits gives up after 20 s. */
const HANG = { ms: 5_000, times: 5 };
/** The limit without a mutant, when the duration of a test is unknown. */
const UNBROKEN_MS_MAX = 120_000;
/** Some breaks show only in some interleavings. Late findings are listed at the end, so that their test can be made stricter. */
const TRIES = 3;

type Outcome =
  | { readonly kind: 'survived' }
  | { readonly kind: 'killed'; readonly by: string }
  | { readonly kind: 'stale'; readonly reason: string }
  | { readonly kind: 'skipped'; readonly reason: string };

type Unbroken =
  | { readonly kind: 'passes'; readonly durationsMs: Durations }
  | { readonly kind: 'unfit'; readonly reason: string };

let interrupted = false;

class Runner {
  readonly #chosen: readonly Mutant[];
  readonly #free: Copy[];
  readonly #files = filesByTest();
  readonly #unbroken = new Map<string, Unbroken>();
  /** Why the run fails, one line each. */
  readonly #failing: string[] = [];
  /** Mutants and tests that this machine cannot run, one line each. */
  readonly #skipped: string[] = [];
  /** Results that needed another try, one line each. */
  readonly #late: string[] = [];

  constructor(chosen: readonly Mutant[], copies: readonly Copy[]) {
    this.#chosen = chosen;
    this.#free = [...copies];
  }

  async run(): Promise<boolean> {
    const startedMs = performance.now();
    const seconds = (sinceMs: number) => `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;
    const files = [...new Set(this.#chosen.map((mutant) => this.#fileOf(mutant)))];
    await this.#each(files, WORKERS.unbroken, async (copy, file) => {
      this.#unbroken.set(file, await this.#runUnbroken(copy, file));
    });
    console.log(`the tests ran without any mutant in ${seconds(startedMs)}`);
    const counts = { survived: 0, killed: 0, stale: 0, skipped: 0 };
    let done = 0;
    await this.#each(this.#longestFirst(), WORKERS.broken, async (copy, mutant) => {
      const beganMs = performance.now();
      const outcomes = await retry(
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
      else if (outcome.kind === 'skipped') this.#skipped.push(line);
      else if (outcomes.length > 1) this.#late.push(`${line}, at try ${outcomes.length}`);
    });
    for (const line of [...this.#late, ...this.#failing]) console.log(`look at: ${line}`);
    const total = Object.entries(counts).map(([kind, count]) => `${count} ${kind}`);
    console.log(`${done} of ${this.#chosen.length} mutants in ${seconds(startedMs)}: ${total.join(', ')}`);
    this.#writeResults(counts.killed);
    return done === this.#chosen.length && this.#failing.length === 0;
  }

  /** Writes the results for `.ci`, like a run of tests. */
  #writeResults(killed: number): void {
    const path = process.env['ASSETLOG_TEST_RESULTS'];
    if (path === undefined) return;
    const named = (names: readonly string[]): Named[] => names.map((name) => ({ file: 'mutants', name }));
    const results: Results = {
      passed: killed,
      failed: named(this.#failing),
      skipped: named(this.#skipped),
      filesMs: {},
    };
    writeFileSync(path, JSON.stringify(results));
  }

  #fileOf({ test }: Mutant): string {
    return this.#files.get(test)?.[0] ?? `the file with [${test}]`;
  }

  /** @returns the duration of the test of a mutant without it; undefined if the test was skipped or failed */
  #expectedMs(mutant: Mutant): number | undefined {
    const unbroken = this.#unbroken.get(this.#fileOf(mutant));
    if (unbroken?.kind !== 'passes') return undefined;
    const named = [...unbroken.durationsMs].filter(([name]) => name.endsWith(` [${mutant.test}]`));
    return named.length === 0 ? undefined : named.reduce((sum, [, ms]) => sum + ms, 0);
  }

  /** @returns the mutants, longest test first, since a long test at the end would run alone */
  #longestFirst(): Mutant[] {
    return this.#chosen.toSorted((a, b) => (this.#expectedMs(b) ?? 0) - (this.#expectedMs(a) ?? 0));
  }

  /** Processes each value with an exclusive copy, at most `atOnce` at a time. */
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

  async #tryMutant(copy: Copy, mutant: Mutant): Promise<Outcome> {
    const file = this.#fileOf(mutant);
    const unbroken = this.#unbroken.get(file);
    if (unbroken?.kind !== 'passes') return { kind: 'skipped', reason: `${unbroken?.reason}` };
    if (this.#expectedMs(mutant) === undefined) return { kind: 'skipped', reason: `[${mutant.test}] is skipped here` };
    let restore = async () => {};
    try {
      restore = await copy.patch(mutant.file, (text) => mutate(text, mutant));
      if (needsBuild(file)) await bundleProgram(copy);
      const hangsAfterMs = (name: string) => HANG.ms + HANG.times * (unbroken.durationsMs.get(name) ?? 0);
      const run = await runTests(copy, { file, ids: [mutant.test], hangsAfterMs });
      return run.kind === 'passed' ? { kind: 'survived' } : { kind: 'killed', by: describe(file, run) };
    } catch (error) {
      return { kind: 'stale', reason: (error as Error).message };
    } finally {
      await restore();
    }
  }

  /** Runs the tests of a file without a mutant: a test that fails there would kill all its mutants. */
  async #runUnbroken(copy: Copy, file: string): Promise<Unbroken> {
    const ids = this.#chosen.filter((mutant) => this.#fileOf(mutant) === file).map(({ test }) => test);
    if (needsBuild(file)) await bundleProgram(copy);
    const choice = { file, ids: [...new Set(ids)], hangsAfterMs: () => UNBROKEN_MS_MAX };
    const runs = await retry(
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

/** @returns the results of all tries, up to the first clear one, at most `TRIES` */
async function retry<Result>(act: () => Promise<Result>, isClear: (result: Result) => boolean): Promise<Result[]> {
  const results: Result[] = [];
  do results.push(await act());
  while (!isClear(results.at(-1)!) && results.length < TRIES && !interrupted);
  return results;
}

/** @returns a text such as `KILLED by journal/lock: one writer` */
function describeOutcome(outcome: Outcome): string {
  const detail = 'by' in outcome ? ` by ${outcome.by}` : 'reason' in outcome ? `: ${outcome.reason}` : '';
  return `${outcome.kind.toUpperCase()}${detail}`;
}

/** @returns a text such as `program/hostile: hostile inputs > limits: A body of …` */
function describe(file: string, { test, detail }: TestRun & { readonly kind: 'failed' }): string {
  return `${file}: ${test}${detail === undefined ? '' : ` > ${detail}`}`;
}

/** @throws Error for a mistake in the options */
function choose(args: readonly string[]): Mutant[] {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { changed: { type: 'boolean' }, since: { type: 'string' }, others: { type: 'string', default: '0' } },
  });
  const since = values.changed ? 'HEAD' : values.since;
  if (since === undefined) {
    const words = positionals.join(' ');
    const named = allMutants().filter(({ breaks }) => breaks.includes(words));
    if (named.length === 0) throw new Error(`no promise of a mutant has ${words} in it`);
    return named;
  }
  const changed = new Set(git('diff', '--name-only', since, '--').split('\n'));
  const files = filesByTest();
  const isChanged = ({ file, test }: Mutant) =>
    changed.has(`src/${file}`) || changed.has(`test/${files.get(test)?.[0]}.test.ts`);
  const all = allMutants();
  const others = draw(
    all.filter((mutant) => !isChanged(mutant)),
    Number(values.others),
    git('rev-parse', 'HEAD'),
  );
  return [...all.filter(isChanged), ...others];
}

/** @returns a sample of the mutants, the same for the same commit */
function draw(mutants: readonly Mutant[], count: number, commit: string): Mutant[] {
  const rank = ({ breaks }: Mutant) => createHash('sha256').update(`${commit}${breaks}`).digest('hex');
  const ranked = mutants.map((mutant) => ({ mutant, rank: rank(mutant) }));
  return ranked
    .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    .slice(0, count)
    .map(({ mutant }) => mutant);
}

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interrupted = true;
    interruptRuns();
  });
}

async function run(args: readonly string[]): Promise<number> {
  if (args.includes('--help')) {
    process.stdout.write(USAGE);
    return 0;
  }
  let chosen: readonly Mutant[];
  try {
    chosen = choose(args);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}; --help lists the options\n`);
    return 2;
  }
  const copies: Copy[] = [];
  try {
    for (let made = 0; made < Math.min(WORKERS.broken, chosen.length); made += 1) copies.push(await makeCopy());
    return (await new Runner(chosen, copies).run()) ? 0 : 1;
  } finally {
    for (const copy of copies) copy.remove();
  }
}

process.exitCode = await run(process.argv.slice(2));
