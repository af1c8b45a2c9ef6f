/**
 * `npm test`, `npm run coverage`, `test:built`, `test:edges`, `test:engines` and `test:faults`: builds the program, compiles source and
 * tests once, and runs the test files of that kind. A compiler in each process of a test file would take three times as much processor time.
 */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
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
  /** Those of them that run only if a word of the command is in their path. */
  readonly onlyByName?: (file: string) => boolean;
  /** What runs side by side before the tests, by what is reported of it. */
  readonly before: Readonly<Record<string, Command>>;
  /** What runs beside the tests if no word chooses some of them, by what is reported of it. */
  readonly beside?: Readonly<Record<string, Command>>;
  /** Test files at a time. Those that measure, or that share a machine-wide part such as a browser, run alone. */
  readonly atOnce: number;
}

const BUILD: Command = ['npm', 'run', '--silent', 'build'];
const BUNDLE: Command = ['npm', 'run', '--silent', 'bundle'];
const CHECK: Command = ['npm', 'run', '--silent', 'check'];

/** In `npm test`, tests at any call strike every fifth call, and another one of the five in another commit. */
const EVERY = 5;

/** Test files in a process of `npm test`: to load the program takes as much processor time as most of them. */
const GROUP_FILES = 6;
/** Files that wait for most of half a minute, or of a whole one. Node runs test files in the order of their names, and the groups are among the first. */
const WAITING = /^(forward\/forwarder|forward\/pipe\/lost-cursor|program\/run\/stop|reading\/limits)\./;
/** What a test file does that measures or changes its process: it has one of its own, like those of `program/`, which load little. */
const OF_PROCESS =
  /memoryUsage|youngHalf|resourceUsage|cpuUsage|eventLoopUtilization|setFlagsFromString|\/proc\/self|mock\.method|process\.(on|env\[.*\] = )/;

/** What needs nothing but Node. */
const own: Pick<Kind, 'has' | 'atOnce'> = {
  has: (file) => !/^(edges|engines|faults)\//.test(file),
  atOnce: Math.max(6, availableParallelism()), // most tests wait more than they compute
};

const kinds: Readonly<Record<string, Kind>> = {
  all: {
    ...own,
    script: 'npm test',
    description: 'types, lint, and the tests that need nothing but Node; of program/ only run and command-line',
    onlyByName: (file) => /^program\/(?!run\/|command-line\/)/.test(file), // half of all processor time
    before: { 'the build': BUILD },
    beside: { 'types and lint': CHECK },
  },
  coverage: {
    ...own,
    script: 'npm run coverage',
    description:
      'all tests that need nothing but Node, and which lines of src/ they run: of a folder such as journal/keys, or of all, with thresholds',
    before: { 'the build': BUILD },
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
    'ASSETLOG_TEST_LONG=1 runs the long versions of tests that repeat what chance decides. test/README.md names the other variables.',
    'One file, without a build: node --import tsx --test test/journal/journal.test.ts',
  ].join('\n');
}

/** @returns whether the command ended with 0 */
async function run([name, ...args]: Command, env: NodeJS.ProcessEnv = process.env): Promise<boolean> {
  const shell = process.platform === 'win32' && name === 'npm'; // a script there, which only a shell runs
  const [code] = await once(spawn(name, args, { cwd: root, stdio: 'inherit', env, shell }), 'close');
  return code === 0;
}

async function timed(what: string, act: () => Promise<boolean>): Promise<boolean> {
  console.log(`== ${what}`);
  const beganMs = performance.now();
  const isGood = await act();
  console.log(`== ${what}: ${isGood ? 'done' : 'failed'} after ${((performance.now() - beganMs) / 1000).toFixed(1)} s`);
  return isGood;
}

export async function compileAll(): Promise<boolean> {
  rmSync(join(root, COMPILED), { recursive: true, force: true }); // a test that was removed must not run
  await compile(root, typeScriptFiles(root), { ASSETLOG_PAGE: JSON.stringify(await packPage()) });
  return true;
}

/** @returns the test files of a kind that run with these words, below `test/` */
export function testFiles(name: string, words: readonly string[] = []): string[] {
  const kind = kinds[name];
  if (kind === undefined) return [];
  const isChosen = (file: string) =>
    words.length === 0 ? !kind.onlyByName?.(file) : words.some((word) => file.includes(word));
  const below = typeScriptFiles(root).flatMap((path) => (path.startsWith('test/') ? [path.slice('test/'.length)] : []));
  return below.filter((file) => file.endsWith('.test.ts') && kind.has(file) && isChosen(file)).sort();
}

/**
 * Writes a module for each group of files that share a process. Neighbours often take long for the same reason: each is in another
 * group. A file that waits is a group of its own.
 * @returns what to run in place of the files, below `test/`
 */
function grouped(files: readonly string[]): string[] {
  const isAlone = (file: string) =>
    /^(program|simulation)\//.test(file) || OF_PROCESS.test(readFileSync(join(root, 'test', file), 'utf8'));
  const others = files.filter((file) => !WAITING.test(file));
  const shared = others.filter((file) => !isAlone(file));
  const count = Math.ceil(shared.length / GROUP_FILES);
  const groups = [
    ...files.filter((file) => WAITING.test(file)).map((file) => [file]),
    ...Array.from({ length: count }, (_, group) => shared.filter((_, at) => at % count === group)),
  ];
  const names = groups.map((group, number) => {
    const name = `group-${String.fromCharCode(97 + number)}.test`;
    const imports = group.map((file) => `import './${file.replace(/ts$/, 'js')}';\n`);
    writeFileSync(join(root, COMPILED, 'test', `${name}.js`), imports.join(''));
    return `${name}.ts`;
  });
  return [...names, ...others.filter(isAlone)];
}

async function main([name = 'all', ...words]: readonly string[]): Promise<number> {
  if (name === 'compile') return (await timed('source and tests, compiled', compileAll)) ? 0 : 1;
  const kind = kinds[name];
  if (kind === undefined) throw new Error(`${name} is no kind of test: ${Object.keys(kinds).join(', ')}`);
  if (words.includes('--help')) {
    console.log(helpOf(kind));
    return 0;
  }
  const files = testFiles(name, words);
  if (files.length === 0) {
    console.error(`No test file of ${kind.script} has ${words.join(' or ')} in its path.`);
    return 2;
  }
  const isPrepared = process.env['ASSETLOG_TEST_PREPARED'] === '1';
  if (!isPrepared && !(await allGood([...stepsOf(kind.before), timed('source and tests, compiled', compileAll)])))
    return 1;
  const isLong = process.env['ASSETLOG_TEST_LONG'] === '1';
  const isCovered = name === 'coverage';
  // At night each file has a process of its own, so that none relies on another one.
  const isShort = name === 'all' && words.length === 0 && !isLong;
  const processes = isShort ? grouped(files) : files;
  const [program = '', ...before] = [...(isCovered ? coverageOf(words) : []), process.execPath];
  const tests: Command = [
    program,
    ...before,
    ...(isShort ? [`--import=${urlOf('unwatched.js')}`] : []),
    '--test',
    `--test-reporter=${urlOf('reporter.js')}`,
    '--test-reporter-destination=stdout',
    `--test-concurrency=${kind.atOnce}`,
    `--test-timeout=${TEST_MS_MAX}`,
    ...processes.map((file) => join(COMPILED, 'test', file.replace(/ts$/, 'js'))),
  ];
  const env: NodeJS.ProcessEnv = {
    ASSETLOG_TEST_DRAW: `${drawOfCommit()}`,
    ...(name === 'all' && { ASSETLOG_TEST_EVERY: `${EVERY}` }),
    ...process.env,
    ASSETLOG_TEST_FILES: `${processes.length}`,
    ASSETLOG_TEST_BUILT: isCovered ? join(COMPILED, 'src/server.js') : 'dist/server.js', // whose coverage can be measured
  };
  // With it Node 20 reads all certificates at each start, which takes longer than all else. Packages are fetched by `edges` and in
  // the long form, and nothing else leaves the machine.
  if (name !== 'edges' && !isLong) delete env['NODE_EXTRA_CA_CERTS'];
  const what = `${files.length} test files in ${processes.length} processes, ${kind.atOnce} at a time`;
  const beside = isPrepared || words.length > 0 ? {} : (kind.beside ?? {});
  const [isGood, isGoodBeside] = await Promise.all([timed(what, () => run(tests, env)), allGood(stepsOf(beside))]);
  if (!isGoodBeside) console.error(`${Object.keys(beside).join(', ')} failed: the reason is above.`);
  return isGood && isGoodBeside ? 0 : 1;
}

function stepsOf(commands: Kind['before']): Promise<boolean>[] {
  return Object.entries(commands).map(([what, command]) => timed(what, () => run(command)));
}

async function allGood(steps: readonly Promise<boolean>[]): Promise<boolean> {
  return !(await Promise.all(steps)).includes(false);
}

/** @returns the address of a compiled module of `test/support`, which Windows needs in place of a path */
function urlOf(name: string): string {
  return pathToFileURL(join(root, COMPILED, 'test/support', name)).href;
}

/** @returns what measures the coverage: of all, with thresholds, or of the folders that the words name, file by file */
function coverageOf(words: readonly string[]): string[] {
  const c8 = join(root, 'node_modules/.bin/c8');
  if (words.length === 0) return [c8];
  return [c8, '--check-coverage=false', '--reporter=text', ...words.map((word) => `--include=src/${word}/**`)];
}

/** @returns a number that the commit decides: see `sampledCalls` */
function drawOfCommit(): number {
  const { status, stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' });
  return status === 0 ? Number.parseInt(stdout.slice(0, 8), 16) : 0;
}

if (process.argv[1] === import.meta.filename) process.exitCode = await main(process.argv.slice(2));
