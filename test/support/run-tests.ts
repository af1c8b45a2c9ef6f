/**
 * `npm test`, `npm run test:built`, `test:edges`, `test:engines` and `test:faults`: builds the program, compiles source and tests once, and runs the
 * test files of that kind. A compiler in each process of a test file would take three times as much processor time.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { packPage } from '../../src/http/page/build.ts';
import { COMPILED, compile, typeScriptFiles } from './compiler.ts';
import { root } from './program.ts';

/** Much longer than any file of tests takes on a busy machine: on Node 20 it is the limit of a file, later that of a test. */
const TEST_MS_MAX = 900_000;

type Command = readonly [name: string, ...args: string[]];

interface Kind {
  readonly script: string;
  readonly description: string;
  /** Whether a file of `test/` belongs to this kind, such as `journal/disk.test.ts`. */
  readonly has: (file: string) => boolean;
  /** What runs side by side before the tests, by what is reported of it. */
  readonly before: Readonly<Record<string, Command>>;
  /** Test files at a time. Those that measure, or that share a machine-wide part such as a browser, run alone. */
  readonly atOnce: number;
}

const BUILD: Command = ['npm', 'run', '--silent', 'build'];
const BUNDLE: Command = ['npm', 'run', '--silent', 'bundle'];
const UNCOVERED: Command = [process.execPath];
const COVERED: Command = [join(root, 'node_modules/.bin/c8'), process.execPath];
const CHECK: Command = ['npm', 'run', '--silent', 'check'];

const kinds: Readonly<Record<string, Kind>> = {
  all: {
    script: 'npm test',
    description: 'types, lint, and every test that needs nothing but Node',
    has: (file) => !/^(edges|engines|faults)\//.test(file),
    before: {
      'the build': BUILD,
      'types and lint': CHECK,
    },
    atOnce: Math.max(6, availableParallelism()), // most tests wait more than they compute
  },
  built: {
    script: 'npm run test:built',
    description: 'the tests of the program and of the real disk, for another version of Node',
    has: (file) => file.startsWith('program/') || file === 'journal/journal.test.ts',
    before: { 'the build': BUILD },
    atOnce: 4,
  },
  edges: {
    script: 'npm run test:edges',
    description: 'real neighbours: browser, proxy, systemd, container, databases, package managers',
    has: (file) => file.startsWith('edges/'),
    before: { 'the build': BUILD },
    atOnce: 1,
  },
  engines: {
    script: 'npm run test:engines',
    description: 'real NATS servers and a real ClickHouse',
    has: (file) => file.startsWith('engines/'),
    before: { 'the build': BUNDLE },
    atOnce: 2,
  },
  faults: {
    script: 'npm run test:faults',
    description: 'a machine that fails below real processes',
    has: (file) => file.startsWith('faults/'),
    before: { 'the build': BUNDLE },
    atOnce: 1,
  },
};

function helpOf({ script, description }: Kind): string {
  return [
    `${script}: ${description}.`,
    '',
    `  ${script} -- [WORD…]   only the test files whose path has one of the words`,
    '',
    'ASSETLOG_TEST_LONG=1 runs the long versions of tests that repeat what chance decides. With it, npm test also measures the',
    'coverage and fails below its thresholds. test/README.md names the other variables. One file, without a build:',
    'node --import tsx --test test/journal/journal.test.ts',
  ].join('\n');
}

/** @returns whether the command ended with 0 */
async function run([name, ...args]: Command, env: NodeJS.ProcessEnv = process.env): Promise<boolean> {
  const [code] = await once(spawn(name, args, { cwd: root, stdio: 'inherit', env }), 'close');
  return code === 0;
}

async function timed(what: string, act: () => Promise<boolean>): Promise<boolean> {
  console.log(`== ${what}`);
  const beganMs = performance.now();
  const isGood = await act();
  console.log(`== ${what}: ${isGood ? 'done' : 'failed'} after ${((performance.now() - beganMs) / 1000).toFixed(1)} s`);
  return isGood;
}

async function compileAll(): Promise<boolean> {
  rmSync(join(root, COMPILED), { recursive: true, force: true }); // a test that was removed must not run
  await compile(root, typeScriptFiles(root), { ASSETLOG_PAGE: JSON.stringify(await packPage()) });
  return true;
}

/** The test files of a kind, below `test/`. */
export function testFiles(kind: string): string[] {
  const has = kinds[kind]?.has ?? (() => false);
  const below = typeScriptFiles(root).flatMap((path) => (path.startsWith('test/') ? [path.slice('test/'.length)] : []));
  return below.filter((file) => file.endsWith('.test.ts') && has(file)).sort();
}

async function main([name = 'all', ...words]: readonly string[]): Promise<number> {
  const kind = kinds[name];
  if (kind === undefined) throw new Error(`${name} is no kind of test: ${Object.keys(kinds).join(', ')}`);
  if (words.includes('--help')) {
    console.log(helpOf(kind));
    return 0;
  }
  const files = testFiles(name).filter((file) => words.length === 0 || words.some((word) => file.includes(word)));
  if (files.length === 0) {
    console.error(`No test file of ${kind.script} has ${words.join(' or ')} in its path.`);
    return 2;
  }
  const before = Object.entries(kind.before).map(([what, command]) => timed(what, () => run(command)));
  const isReady = await Promise.all([...before, timed('source and tests, compiled', compileAll)]);
  if (isReady.includes(false)) return 1;
  const isLong = process.env['ASSETLOG_TEST_LONG'] === '1';
  const measured = isLong && name === 'all' && words.length === 0;
  const tests: Command = [
    ...(measured ? COVERED : UNCOVERED),
    '--enable-source-maps',
    '--test',
    '--test-reporter=spec',
    `--test-concurrency=${kind.atOnce}`,
    `--test-timeout=${TEST_MS_MAX}`,
    ...files.map((file) => join(COMPILED, 'test', file.replace(/ts$/, 'js'))),
  ];
  const program = measured ? join(COMPILED, 'src/server.js') : 'dist/server.js'; // whose coverage can be measured
  const env: NodeJS.ProcessEnv = { ...process.env, ASSETLOG_TEST_BUILT: program };
  // With it Node 20 reads all certificates at each start, which takes longer than all else. Packages are fetched by `edges` and in
  // the long form, and nothing else leaves the machine.
  if (name !== 'edges' && !isLong) delete env['NODE_EXTRA_CA_CERTS'];
  const ran = () => run(tests, env);
  return (await timed(`${files.length} test files, ${kind.atOnce} at a time`, ran)) ? 0 : 1;
}

if (process.argv[1] === import.meta.filename) process.exitCode = await main(process.argv.slice(2));
