/**
 * Breaks each promise on purpose, in a copy of the source, and runs the tests that should notice: `mutants.ts [WORDS]` runs
 * the mutants whose promise has the words in it. Ends with 1 if a mutant survives, if one no longer applies, or if a test
 * fails without any mutant.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { endGroup, root } from '../support/program.ts';
import { each, withoutStrace } from '../support/tools.ts';
import { mutants } from './mutants/all.ts';
import { type Mutant, mutate } from './mutants/mutant.ts';

/** One for each core that CI has. */
const WORKERS = 2;
/** Of a file: node counts one as a test. */
const TEST_TIMEOUT_MS = 120_000;

type Outcome =
  | { readonly kind: 'survived' }
  | { readonly kind: 'killed'; readonly by: string }
  | { readonly kind: 'stale'; readonly reason: string }
  | { readonly kind: 'skipped'; readonly reason: string };

type TestRun = { readonly kind: 'passed' } | { readonly kind: 'failed'; readonly test: string };

/** A copy of the source that a worker breaks and restores, with a folder of its own for temporary files. */
interface Copy {
  readonly folder: string;
  readonly temporary: string;
}

const running = new Set<ChildProcess>();
const copies: Copy[] = [];
let interrupted = false;

function makeCopy(): Copy {
  const base = mkdtempSync(join(tmpdir(), 'm-')); // short: the path of a socket has at most 108 bytes
  chmodSync(base, 0o755); // a test runs the program as another user
  const copy = { folder: join(base, 'copy'), temporary: join(base, 't') };
  copies.push(copy);
  mkdirSync(copy.temporary, { mode: 0o755 });
  for (const name of ['bin', 'src', 'test', 'package.json', 'tsconfig.json'])
    cpSync(join(root, name), join(copy.folder, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(copy.folder, 'node_modules'));
  return copy;
}

async function tryMutant(copy: Copy, mutant: Mutant, failing: ReadonlySet<string>): Promise<Outcome> {
  const unfit = mutant.tests.find((name) => failing.has(name));
  if (unfit !== undefined) return { kind: 'skipped', reason: `${unfit} fails without any mutant` };
  const tests = mutant.tests.filter((name) => missingFor(name) === false);
  if (tests.length === 0) return { kind: 'skipped', reason: missingFor(mutant.tests[0] ?? '') || 'it names no test' };
  const path = join(copy.folder, 'src', mutant.file);
  const original = readFileSync(path, 'utf8');
  try {
    writeFileSync(path, mutate(original, mutant));
  } catch (error) {
    return { kind: 'stale', reason: (error as Error).message };
  }
  try {
    if (tests.some(runsProgram) && !(await bundle(copy))) return { kind: 'stale', reason: 'it can not be bundled' };
    for (const name of tests) {
      const end = await runTest(copy, name);
      if (end.kind === 'failed') return { kind: 'killed', by: `${name}: ${end.test}` };
    }
    return { kind: 'survived' };
  } finally {
    writeFileSync(path, original);
  }
}

function missingFor(name: string): string | false {
  return name.startsWith('faults/') && withoutStrace;
}

/** Those that start many processes run the bundle, which starts in a third of the time. */
function runsProgram(name: string): boolean {
  return name.startsWith('faults/') || name.startsWith('program/');
}

async function bundle(copy: Copy): Promise<boolean> {
  const child = start(copy, ['--import', 'tsx', 'src/build.ts', 'server'], {});
  const [code] = await once(child, 'close');
  return code === 0;
}

/** Ends with the first test that fails, if it can: a fault test has mounts to remove. */
async function runTest(copy: Copy, name: string): Promise<TestRun> {
  const options = ['--test', `--test-timeout=${TEST_TIMEOUT_MS}`, '--test-reporter=tap'];
  const variables = runsProgram(name) ? { ASSETLOG_TEST_BUILT: 'dist/server.js' } : {};
  const child = start(copy, ['--import', 'tsx', ...options, `test/${name}.test.ts`], variables);
  const closed = once(child, 'close');
  const hung = setTimeout(() => endGroup(child, 'SIGKILL'), TEST_TIMEOUT_MS + 10_000);
  let failed: string | undefined;
  if (child.stdout === null) throw new Error('the output of a test is not a pipe');
  createInterface(child.stdout).on('line', (line) => {
    const [, test] = /^ *not ok \d+ - (.*)$/.exec(line) ?? [];
    if (test === undefined || test.includes(' # TODO') || failed !== undefined) return;
    failed = test;
    if (!name.startsWith('faults/')) endGroup(child, 'SIGKILL');
  });
  const [code] = await closed;
  clearTimeout(hung);
  if (failed === undefined && code === 0) return { kind: 'passed' };
  return { kind: 'failed', test: failed ?? `it ended with ${code}` };
}

function start(copy: Copy, args: readonly string[], variables: Record<string, string>): ChildProcess {
  const child = spawn(process.execPath, args, {
    cwd: copy.folder,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true, // it leads a group, so that what it started can be ended with it
    env: {
      ...process.env,
      ...{ TMPDIR: copy.temporary, NODE_TEST_CONTEXT: undefined, NODE_V8_COVERAGE: undefined },
      ...{ ASSETLOG_TEST_BUILT: undefined, ASSETLOG_TEST_LONG: undefined },
      ...variables,
    },
  });
  running.add(child);
  child.on('close', () => running.delete(child));
  return child;
}

/** A test that fails without any mutant would kill all that name it. @returns those that do */
async function failingUnbroken(chosen: readonly Mutant[]): Promise<Set<string>> {
  const names = [...new Set(chosen.flatMap(({ tests }) => tests))].filter((name) => missingFor(name) === false);
  const failing = new Set<string>();
  const free = [...copies];
  if (names.some(runsProgram)) for (const copy of free) await bundle(copy);
  await each(names, WORKERS, async (name) => {
    if (interrupted) return;
    const copy = free.pop()!;
    const end = await runTest(copy, name);
    free.push(copy);
    if (end.kind === 'passed') return;
    failing.add(name);
    console.log(`${name} fails without any mutant: ${end.test}`);
  });
  return failing;
}

async function runAll(chosen: readonly Mutant[]): Promise<boolean> {
  const startedMs = performance.now();
  const seconds = (sinceMs: number) => `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;
  const failing = await failingUnbroken(chosen);
  console.log(`the tests ran without any mutant in ${seconds(startedMs)}`);
  const counts = { survived: 0, killed: 0, stale: 0, skipped: 0 };
  const free = [...copies];
  let done = 0;
  await each(chosen, WORKERS, async (mutant) => {
    if (interrupted) return;
    const copy = free.pop()!;
    const beganMs = performance.now();
    const outcome = await tryMutant(copy, mutant, failing);
    free.push(copy);
    counts[outcome.kind] += 1;
    done += 1;
    const detail = 'by' in outcome ? ` by ${outcome.by}` : 'reason' in outcome ? `: ${outcome.reason}` : '';
    const time = seconds(beganMs);
    console.log(
      `${done} of ${chosen.length}, ${time}: ${mutant.breaks} (${mutant.file}): ${outcome.kind.toUpperCase()}${detail}`,
    );
  });
  const total = Object.entries(counts).map(([kind, count]) => `${count} ${kind}`);
  console.log(`${done} of ${chosen.length} mutants in ${seconds(startedMs)}: ${total.join(', ')}`);
  return chosen.length > 0 && done === chosen.length && failing.size === 0 && counts.survived + counts.stale === 0;
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interrupted = true;
    for (const child of running) endGroup(child, 'SIGTERM');
  });
}
const words = process.argv.slice(2).join(' ');
try {
  for (let made = 0; made < WORKERS; made += 1) makeCopy();
  const right = await runAll(mutants.filter(({ breaks }) => breaks.includes(words)));
  process.exitCode = right ? 0 : 1;
} finally {
  for (const { folder } of copies) rmSync(join(folder, '..'), { recursive: true, force: true });
}
