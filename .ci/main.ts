/** `.ci/run` and `.ci/night`: choose the stages, run two at a time, and print at the end what did not pass. */

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Results } from '../test/support/reporter.ts';
import { ageText, changedInputs, Greens, type Inputs, inputsOf } from './green.ts';
import { isOf, type Script, type Stage, stages, TEST_COMMAND } from './stages.ts';
import { Tools, versionsOf } from './tools.ts';

const AT_ONCE = 2;
/** More failed files than this are a defect, and do not run again. */
const AGAIN_FILES_MAX = 3;
const LOG_LINES_SHOWN = 60;
const PROGRESS_MS = 60_000;
/** Much longer than any stage needs on a busy machine. */
const STAGE_MS_MAX = 75 * 60_000;

const HELP = `.ci/run [NAME…]     what a change can break, in a quarter of an hour on two quiet cores
.ci/night [NAME…]   everything, with random tests in their long form

Stages run in clones of HEAD, two at a time; uncommitted changes are not tested. With names, only those stages run. Each writes its
output to coverage/ci/NAME.log. At most ${AGAIN_FILES_MAX} failed test files run again at the end, alone: if they pass, they are listed in
coverage/ci/unsteady.txt with their failure, and the run does not fail. Fix them before anything else.

A stage that passed and skipped no test is recorded in .ci/green.json; commit the file with the change. By day a stage that few
changes break is left out if it was green for the same inputs; the last lines list these stages with the age of their results.

`;

type Outcome = 'green' | 'skips' | 'unsteady' | 'failed';

interface Done {
  readonly stage: Stage;
  readonly outcome: Outcome;
  readonly seconds: number;
  readonly results: Results | undefined;
}

class Run {
  readonly #script: Script;
  readonly #root: string;
  readonly #output: string;
  readonly #scratch = mkdtempSync(join(tmpdir(), 'ci-')); // short: the path of a socket has at most 108 bytes
  readonly #tools = new Tools();
  readonly #greens: Greens;
  readonly #commit: string;
  readonly #children = new Set<ChildProcess>();
  readonly #done: Done[] = [];
  /** Start times of the running stages, by name. */
  readonly #running = new Map<string, number>();
  readonly #startedMs = performance.now();
  #isInterrupted = false;

  constructor(script: Script, root: string) {
    this.#script = script;
    this.#root = root;
    this.#output = join(root, 'coverage/ci');
    this.#greens = new Greens(root);
    this.#commit = git(root, 'rev-parse', 'HEAD');
    chmodSync(this.#scratch, 0o755); // a test runs the program as another user
    rmSync(this.#output, { recursive: true, force: true });
    mkdirSync(this.#output, { recursive: true });
  }

  /** @returns the exit code */
  async run(chosen: readonly Stage[], left: readonly Stage[]): Promise<number> {
    if (git(this.#root, 'status', '--porcelain') !== '')
      print('uncommitted changes are not tested: stages run in clones of HEAD');
    const progress = setInterval(() => this.#showProgress(chosen.length), PROGRESS_MS).unref();
    await this.#prepare(chosen);
    const queue = chosen.filter(({ isAlone }) => isAlone === undefined);
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (let stage = queue.shift(); stage !== undefined && !this.#isInterrupted; stage = queue.shift())
          await this.#runStage(stage);
      }),
    );
    for (const stage of chosen) if (stage.isAlone && !this.#isInterrupted) await this.#runStage(stage);
    await this.#runAgain();
    clearInterval(progress);
    await this.#summarise(left);
    return this.#done.length === chosen.length && this.#done.every(({ outcome }) => outcome !== 'failed') ? 0 : 1;
  }

  #showProgress(stages: number): void {
    const running = [...this.#running].map(([name, startedMs]) => `${name} (${secondsSince(startedMs)} s)`);
    print(
      `   ${secondsSince(this.#startedMs)} s: ${this.#done.length} of ${stages} stages done; ${running.join(', ')}`,
    );
  }

  interrupt(): void {
    this.#isInterrupted = true;
    for (const child of this.#children) kill(child);
  }

  remove(): void {
    rmSync(this.#scratch, { recursive: true, force: true, maxRetries: 3 });
  }

  /** Builds a clone once. Stages get copies of it, since tests build and remove files. */
  async #prepare(chosen: readonly Stage[]): Promise<void> {
    git(this.#root, 'clone', '--quiet', '--no-hardlinks', this.#root, join(this.#scratch, 'base'));
    if (chosen.every(({ command }) => command === 'README')) return;
    const command = 'npm ci --silent && npm run --silent build && node --import tsx test/support/run-tests.ts compile';
    const startedMs = performance.now();
    if ((await this.#spawn('prepare', join(this.#scratch, 'base'), ['bash', '-c', command], process.env)) !== 0) {
      print(tailOf(join(this.#output, 'prepare.log'), LOG_LINES_SHOWN));
      throw new Error('the clone of HEAD cannot be built');
    }
    print(`prepare: ${secondsSince(startedMs)} s`);
  }

  async #runStage(stage: Stage): Promise<void> {
    print(`== ${stage.name}: ${stage.asks}`);
    const env = await this.#tools.environment(stage.tools, (line) => print(`   ${stage.name}: ${line}`));
    const folder = join(this.#scratch, stage.name);
    const base = join(this.#scratch, 'base');
    if (stage.command === 'README') git(this.#root, 'clone', '--quiet', '--no-hardlinks', base, folder);
    else execFileSync('cp', ['-a', '--reflink=auto', base, folder]);
    const startedMs = performance.now();
    const code = await this.#spawn(stage.name, folder, this.#commandOf(stage, folder), this.#environmentOf(stage, env));
    const results = this.#resultsOf(stage.name);
    const hasRun = results === undefined ? !isTestRun(stage) : results.passed > 0;
    const outcome = code !== 0 || !hasRun ? 'failed' : (results?.skipped.length ?? 0) > 0 ? 'skips' : 'green';
    await this.#note({ stage, outcome, seconds: secondsSince(startedMs), results });
    if (outcome !== 'failed') rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    else if (!this.#mayRunAgain({ stage, results })) print(tailOf(this.#logOf(stage.name), LOG_LINES_SHOWN));
  }

  async #note(done: Done): Promise<void> {
    const { stage, outcome, seconds } = done;
    this.#done.push(done);
    print(`== ${stage.name}: ${outcomeText(done)}, ${seconds} s`);
    if (outcome !== 'green') return;
    const date = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
    this.#greens.set(stage.name, { commit: this.#commit, date, seconds, inputs: await this.#inputsOf(stage) });
  }

  async #inputsOf({ inputs, tools }: Stage): Promise<Inputs> {
    return { ...inputsOf(this.#root, inputs), ...(await versionsOf(tools)) };
  }

  #commandOf({ command }: Stage, folder: string): readonly string[] {
    if (command === 'README') {
      if (!readFileSync(join(folder, 'README.md'), 'utf8').split('\n').includes(TEST_COMMAND))
        throw new Error(`README.md has no line ${TEST_COMMAND}`);
      return ['bash', '-c', TEST_COMMAND];
    }
    const [script, ...args] = command;
    const since = this.#greens.newestCommit(['mutants', 'mutants-all']) ?? 'HEAD~1';
    return ['npm', 'run', '--silent', script, '--', ...args.map((arg) => (arg === 'GREEN' ? since : arg))];
  }

  #environmentOf({ name, command }: Stage, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
    return {
      ...env,
      ASSETLOG_TEST_RESULTS: this.#pathOfResults(name),
      ...(command !== 'README' && { ASSETLOG_TEST_PREPARED: '1' }),
      ...(this.#script === 'night' && command !== 'README' && { ASSETLOG_TEST_LONG: '1' }),
    };
  }

  async #spawn(
    name: string,
    cwd: string,
    [program = '', ...args]: readonly string[],
    env: NodeJS.ProcessEnv,
  ): Promise<number | null> {
    const log = openSync(this.#logOf(name), 'a');
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', log, log], detached: true });
    closeSync(log);
    this.#children.add(child);
    this.#running.set(name, performance.now());
    const late = setTimeout(() => kill(child), STAGE_MS_MAX);
    const code = await new Promise<number | null>((resolve) => {
      child.on('error', () => resolve(null));
      child.on('close', resolve);
    });
    clearTimeout(late);
    this.#children.delete(child);
    this.#running.delete(name);
    return code;
  }

  /** A busy machine can make a few files fail: these run again, one after the other, with nothing beside them. */
  async #runAgain(): Promise<void> {
    for (const [at, done] of this.#done.entries()) {
      if (done.outcome !== 'failed' || this.#isInterrupted || !this.#mayRunAgain(done)) continue;
      const { stage, results } = done;
      const files = [...new Set(results!.failed.map(({ file }) => file))];
      print(`== ${stage.name}: failed files run again, alone: ${files.join(', ')}`);
      const failure = tailOf(this.#logOf(stage.name), 300);
      const env = await this.#tools.environment(stage.tools, () => {});
      const script = stage.command === 'README' ? 'test' : stage.command[0];
      const again = ['npm', 'run', '--silent', script, '--', ...files];
      const folder = join(this.#scratch, stage.name);
      const code = await this.#spawn(stage.name, folder, again, this.#environmentOf(stage, env));
      if (code === 0) {
        this.#done[at] = { ...done, outcome: 'unsteady' };
        writeFileSync(join(this.#output, 'unsteady.txt'), `== ${stage.name}: ${files.join(', ')}\n${failure}\n`, {
          flag: 'a',
        });
      }
      print(`== ${stage.name}: ${code === 0 ? 'passed this time, so the stage is unsteady' : 'failed again'}`);
    }
  }

  #mayRunAgain({ stage, results }: Pick<Done, 'stage' | 'results'>): boolean {
    const files = new Set(results?.failed.map(({ file }) => file));
    return isTestRun(stage) && files.size > 0 && files.size <= AGAIN_FILES_MAX;
  }

  async #summarise(left: readonly Stage[]): Promise<void> {
    const by = (outcome: Outcome) => this.#done.filter((done) => done.outcome === outcome);
    print('\n== times');
    for (const { stage, outcome, seconds } of this.#done)
      print(`${`${seconds}`.padStart(6)} s  ${stage.name}${outcome === 'green' ? '' : ` (${outcome})`}`);
    print(`${`${secondsSince(this.#startedMs)}`.padStart(6)} s  in all`);
    if (left.length > 0) print('\n== left out');
    for (const stage of left) print(`${stage.name}: ${await this.#greenText(stage)}`);
    for (const { stage, results } of by('skips'))
      for (const { file, name, reason } of results!.skipped)
        print(`skipped in ${stage.name}: ${file}: ${name}: ${reason}`);
    for (const { stage, results } of by('unsteady'))
      for (const { file, name } of results!.failed)
        print(`unsteady in ${stage.name}, see coverage/ci/unsteady.txt: ${file}: ${name}`);
    const failed = by('failed');
    if (failed.length > 0) print('\n== what did not pass');
    for (const { stage, results } of failed) {
      print(`${stage.name}: see coverage/ci/${stage.name}.log`);
      for (const { file, name } of results?.failed.slice(0, 20) ?? []) print(`  ✖ ${file}: ${name}`);
      if (results === undefined || results.failed.length === 0) print(tailOf(this.#logOf(stage.name), 20));
    }
    const sum = (count: (results: Results) => number) =>
      this.#done.reduce((all, { results }) => all + (results === undefined ? 0 : count(results)), 0);
    const unsteady = by('unsteady').reduce((all, { results }) => all + results!.failed.length, 0);
    const failures = Math.max(failed.length, sum(({ failed }) => failed.length) - unsteady);
    print(
      `tests: ${sum(({ passed }) => passed) + unsteady} passed, ${failed.length === 0 ? 0 : failures} failed, ${sum(({ skipped }) => skipped.length)} skipped`,
    );
  }

  async #greenText(stage: Stage): Promise<string> {
    const green = this.#greens.get(stage.name);
    const changed = await this.changedInputs(stage);
    if (green === undefined || changed === undefined) return 'was never green';
    return `green for ${changed.length === 0 ? 'the same' : 'older'} inputs ${ageText(green.date, Date.now())} ago, at ${green.commit.slice(0, 8)}`;
  }

  #resultsOf(name: string): Results | undefined {
    const path = this.#pathOfResults(name);
    return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
  }

  #pathOfResults(name: string): string {
    return join(this.#output, `${name}.json`);
  }

  #logOf(name: string): string {
    return join(this.#output, `${name}.log`);
  }

  /** @returns the inputs that changed since the stage was green; undefined if it never was */
  async changedInputs(stage: Stage): Promise<readonly string[] | undefined> {
    const green = this.#greens.get(stage.name);
    return green && changedInputs(green.inputs, await this.#inputsOf(stage));
  }
}

/** Whether a stage runs test files, and so writes results. */
function isTestRun({ command }: Stage): boolean {
  return command === 'README' || /^(test:(built|edges|engines|faults)|coverage)$/.test(command[0]);
}

function outcomeText({ outcome, results }: Done): string {
  const counts =
    results === undefined
      ? ''
      : ` (${results.passed} passed, ${results.failed.length} failed, ${results.skipped.length} skipped)`;
  return `${outcome === 'skips' ? 'passed, with skipped tests' : outcome}${counts}`;
}

function tailOf(path: string, lines: number): string {
  return readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .slice(-lines)
    .map((line) => `    ${line.slice(0, 400)}`)
    .join('\n');
}

function secondsSince(startMs: number): number {
  return Math.round((performance.now() - startMs) / 1000);
}

function git(root: string, ...args: string[]): string {
  return execFileSync('git', ['-C', root, ...args], { encoding: 'utf8' }).trim();
}

function kill({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGTERM');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // the process has ended
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function main([script = 'run', ...names]: readonly string[]): Promise<number> {
  if (script !== 'run' && script !== 'night') throw new Error(`no such script: ${script}`);
  const own = stages.filter((stage) => isOf(script, stage));
  if (names.includes('--help') || names.includes('-h')) {
    print(
      `${HELP}${own.map(({ name, asks, when }) => `${name.padEnd(14)}${asks}${when === 'changed' && script === 'run' ? '; if its inputs changed' : ''}`).join('\n')}`,
    );
    return 0;
  }
  const unknown = names.filter((name) => !own.some((stage) => stage.name === name));
  if (unknown.length > 0) {
    print(`.ci/${script} has no stage ${unknown.join(', ')}; .ci/${script} --help lists them`);
    return 2;
  }
  const root = join(import.meta.dirname, '..');
  const run = new Run(script, root);
  const isLeftOut = async (stage: Stage): Promise<boolean> => {
    if (names.length > 0) return !names.includes(stage.name);
    if (script === 'night' || stage.when !== 'changed') return false;
    const changed = await run.changedInputs(stage);
    if (changed?.length === 0) return true;
    print(`${stage.name} runs: ${changed === undefined ? 'it was never green' : `changed: ${changed.join(', ')}`}`);
    return false;
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => run.interrupt());
  try {
    const chosen: Stage[] = [];
    for (const stage of own) if (!(await isLeftOut(stage))) chosen.push(stage);
    const left = names.length > 0 ? [] : stages.filter((stage) => !chosen.includes(stage) && stage.when !== 'day');
    return await run.run(chosen, left);
  } finally {
    run.remove();
  }
}

process.exitCode = await main(process.argv.slice(2));
