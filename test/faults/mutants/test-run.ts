/** Runs the tests of one file in a copy, up to the first failure or hang. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { COMPILED } from '../../support/compiler.ts';
import { endGroup } from '../../support/program.ts';
import { unmountBelow } from '../mounts.ts';
import type { Copy } from './copy.ts';

/** Milliseconds of each top-level test by its name, such as `{'no lock': 12.5}`, without skipped tests. */
export type Durations = ReadonlyMap<string, number>;

export type TestRun =
  | { readonly kind: 'passed'; readonly durationsMs: Durations }
  /** `test` is the name of a top-level test; `detail` the name of a test within it, or another reason. */
  | { readonly kind: 'failed'; readonly test: string; readonly detail?: string };

export interface TestChoice {
  /** A file in `test/` without `.test.ts`, such as `journal/disk`. */
  readonly file: string;
  /** The ids of the tests to run, such as `order-1`: see `Mutant.test`. */
  readonly ids: readonly string[];
  /** The time after which a top-level test counts as hanging. */
  readonly hangsAfterMs: (test: string) => number;
}

const running = new Set<ChildProcess>();

/** Ends every run; each is reported as failed. */
export function interruptRuns(): void {
  for (const child of running) endGroup(child, 'SIGTERM');
}

/**
 * Whether the processes of a test file run `dist/server.js`, as tests of the build itself need. The processes of other test files
 * run the compiled files, which need no build.
 */
export function needsBuild(file: string): boolean {
  return isFaultTest(file) || ['program/http/openapi', 'program/command-line/built-file'].includes(file);
}

function isFaultTest(file: string): boolean {
  return file.startsWith('faults/');
}

export async function runTests(copy: Copy, { file, ids, hangsAfterMs }: TestChoice): Promise<TestRun> {
  const reporter = `--test-reporter=${join(copy.folder, 'test/faults/mutants/reporter.js')}`;
  const patterns = ids.map((id) => `--test-name-pattern=\\[${id}\\]$`);
  const child = start(copy, file, [reporter, ...patterns, join(COMPILED, 'test', `${file}.test.js`)]);
  const closed = once(child, 'close');
  const durationsMs = new Map<string, number>();
  let failure: { readonly test: string; readonly detail?: string } | undefined;
  let current = 'its start';
  let unfinished = false; // a broken source can end the process of the test, also with 0
  let watch: NodeJS.Timeout | undefined;
  const watchFor = (name: string) => {
    current = name;
    unfinished = true;
    clearTimeout(watch);
    const limitMs = Math.ceil(hangsAfterMs(name));
    watch = setTimeout(() => {
      failure ??= { test: name, detail: `no end within ${limitMs} ms` };
      endGroup(child, 'SIGKILL');
    }, limitMs);
  };
  watchFor(current);
  createInterface(child.stdout!).on('line', (line) => {
    const { kind, name, nesting, ms } = JSON.parse(line) as Step;
    if (kind !== 'starts' && nesting === 0) unfinished = false;
    if (kind === 'starts' && nesting === 0) watchFor(name);
    if (kind === 'passes' && nesting === 0) durationsMs.set(name, ms ?? 0);
    if (kind !== 'fails') return;
    failure ??= nesting === 0 ? { test: name } : { test: current, detail: name };
    if (!isFaultTest(file)) endGroup(child, 'SIGKILL'); // a fault test has mounts to remove
  });
  const [code] = await closed;
  clearTimeout(watch);
  if (isFaultTest(file)) unmountBelow(copy.temporary); // a test that hung was killed before it could unmount
  if (failure !== undefined) return { kind: 'failed', ...failure };
  if (code !== 0 || unfinished) return { kind: 'failed', test: current, detail: `its process ended with ${code}` };
  return { kind: 'passed', durationsMs };
}

/** A line of `reporter.js`. */
interface Step {
  readonly kind: 'starts' | 'passes' | 'fails' | 'skipped';
  readonly name: string;
  /** 0 for a top-level test. */
  readonly nesting: number;
  readonly ms?: number;
}

function start(copy: Copy, file: string, args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, args, {
    cwd: copy.folder,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true, // leads a process group, so that its children end with it
    env: {
      ...process.env,
      ...{ TMPDIR: copy.temporary, NODE_TEST_CONTEXT: undefined, NODE_V8_COVERAGE: undefined },
      ...{ ASSETLOG_TEST_BUILT: needsBuild(file) ? 'dist/server.js' : `${COMPILED}/src/server.js` },
      ...{ ASSETLOG_TEST_LONG: undefined },
    },
  });
  running.add(child);
  child.on('close', () => running.delete(child));
  return child;
}
