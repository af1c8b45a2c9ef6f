/** What is measured: how each is started, what it needs, and how what it recorded is counted. */

import type { ChildProcess } from 'node:child_process';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { endGroup, freePort, type Scope } from '../support/program.ts';
import type { Scratch } from './scratch.ts';

export interface Subject {
  readonly name: string;
  /** For the help: a clause. */
  readonly about: string;
  /** Not for comparison: what could be reached at most. */
  readonly limit?: true;
  /** Of a load: for what takes so long for a reply that a shorter one would hardly see any. */
  readonly secondsMin?: number;
  /** @returns why it can not be measured here, or undefined */
  readonly missing?: (node: string) => string | undefined;
  /** Absent for what is not a server: the bare loop. */
  readonly start?: (place: Place) => Promise<Server>;
  /** How many lines or rows there are. Absent where nothing is recorded, or if a format of another program would have to be read. */
  readonly count?: (place: Place) => number;
}

/** Where a server runs. */
export interface Place {
  readonly scratch: Scratch;
  readonly node: string;
  /** An empty folder, or one with a journal. */
  readonly data: string;
  /** For assetlog, besides the usual ones. */
  readonly args?: readonly string[];
}

export interface Server {
  readonly url: string;
  /** The most that it and its children have had resident, as far as the system tells. */
  memoryBytes(): number;
  /** What it and its children have used of the processors, in user and in system mode. */
  processorSeconds(): number;
  stop(): Promise<void>;
}

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const ASSETLOG = join(ROOT, 'dist/server.js');
const HERE = fileURLToPath(new URL('.', import.meta.url));
const READY_MS = 90_000;
const STOP_MS = 15_000;
const POLL_MS = 100;
/** The first with methods in the patterns of net/http. */
const GO_MINOR_MIN = 22;

const reference = process.env['ASSETLOG_TEST_REFERENCE'];

export const subjects: readonly Subject[] = [
  {
    name: 'bare',
    about: 'node:http that reads the body and answers {}: the ceiling',
    start: (place) => startServer(place, [place.node, programOf(place, 'bare.mjs')]),
  },
  {
    name: 'assetlog',
    about: 'dist/server.js',
    start: startAssetlog,
    count: ({ data }) => countLines(data),
  },
  {
    name: 'fastify + appendFile',
    about: 'a schema and a line appended for each report, no sync',
    start: (place) => startServer(place, [place.node, programOf(place, 'fastify.mjs'), place.data]),
    count: ({ data }) => countLines(data),
  },
  {
    name: 'fastify + appendFile + fdatasync',
    about: 'the same with a sync for each report',
    start: (place) => startServer(place, [place.node, programOf(place, 'fastify.mjs'), place.data, '--sync']),
    count: ({ data }) => countLines(data),
  },
  {
    name: 'node:http + SQLite',
    about: 'a row for each report; WAL, synchronous=FULL',
    missing: withoutSqlite,
    start: (place) => startServer(place, [place.node, programOf(place, 'sqlite.mjs'), place.data]),
    count: (place) =>
      Number(execFileSync(place.node, [...QUIET, programOf(place, 'sqlite.mjs'), place.data, '--count'])),
  },
  {
    name: 'go',
    about: 'net/http with group commit, the same lines',
    missing: withoutGo,
    start: (place) => startServer(place, [programOf(place, 'group-commit'), place.data]),
    count: ({ data }) => countLines(data),
  },
  {
    name: 'dagster-webserver',
    about: 'the reference that ASSETLOG_TEST_REFERENCE names; what it records is not counted',
    missing: withoutReference,
    start: startReference,
    secondsMin: 10,
  },
  {
    name: 'by hand',
    about: 'the same work in 60 lines that check nothing and sync nothing',
    limit: true,
    start: (place) => startServer(place, [place.node, programOf(place, 'minimal.mjs'), place.data]),
    count: ({ data }) => countLines(data),
  },
  {
    name: 'unsynced',
    about: 'assetlog without its sync',
    limit: true,
    start: (place) => startServer(place, [place.node, programOf(place, 'unsynced.mjs'), ...serveArgs(place)]),
    count: ({ data }) => countLines(data),
  },
  { name: 'one sync', about: 'no server: a loop of one write and one fdatasync of a line', limit: true },
];

export const assetlog = subjects.find(({ name }) => name === 'assetlog')!;
export const bare = subjects.find(({ name }) => name === 'bare')!;

const QUIET = ['--disable-warning=ExperimentalWarning'];

/** Bundles what runs on Node, as assetlog is bundled, so that no loader shares its memory and its start; builds the rest. */
export async function buildPrograms(scratch: Scratch, wanted: readonly Subject[]): Promise<void> {
  await build({
    entryPoints: ['bare', 'fastify', 'sqlite', 'minimal', 'unsynced'].map((name) => join(HERE, `${name}.ts`)),
    outdir: scratch.folder,
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    outExtension: { '.js': '.mjs' },
    banner: { js: 'var require=process.getBuiltinModule;' },
    logLevel: 'error',
  });
  if (!wanted.some(({ name }) => name === 'go') || withoutGo() !== undefined) return;
  execFileSync('go', ['build', '-o', join(scratch.folder, 'group-commit'), join(HERE, 'group-commit.go')], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, GOTOOLCHAIN: 'local' },
  });
}

function programOf({ scratch }: Place, name: string): string {
  return join(scratch.folder, name);
}

function withoutSqlite(node: string): string | undefined {
  const found = spawnSync(node, [...QUIET, '-e', 'process.exit(process.getBuiltinModule("node:sqlite") ? 0 : 1)']);
  return found.status === 0 ? undefined : 'this Node has no node:sqlite; 22.13 and later have it';
}

function withoutGo(): string | undefined {
  if (process.platform !== 'linux') return 'it calls fdatasync as Linux has it';
  const { stdout, error } = spawnSync('go', ['version'], { encoding: 'utf8' });
  if (error !== undefined) return 'Go is not installed (apt-get install golang-go)';
  const minor = Number(/go1\.(\d+)/.exec(stdout)?.[1]);
  return minor >= GO_MINOR_MIN ? undefined : `its source needs Go 1.${GO_MINOR_MIN}, and here is ${stdout.trim()}`;
}

function withoutReference(): string | undefined {
  if (reference === undefined) return 'ASSETLOG_TEST_REFERENCE does not name it';
  return existsSync(reference) ? undefined : `ASSETLOG_TEST_REFERENCE names ${reference}, which is not there`;
}

export function startAssetlog(place: Place): Promise<Server> {
  return startServer(place, [place.node, ASSETLOG, ...serveArgs(place)]);
}

function serveArgs({ data, args = [] }: Place): string[] {
  return ['--port', '0', '--data', data, '--log-level', 'warn', '--max-connections', '65536', ...args];
}

async function startServer({ scratch }: Place, command: readonly string[]): Promise<Server> {
  const child = scratch.spawn(command, { stdio: ['ignore', 'pipe', 'pipe'] });
  const log = logOf(child);
  const lines = createInterface(child.stdout!);
  const line = await Promise.race([
    once(lines, 'line').then(([text]) => String(text)),
    once(child, 'exit').then(() => ''),
    sleep(READY_MS, '', { ref: false }),
  ]);
  const url = /http:\S+/.exec(line)?.[0];
  if (url !== undefined) return serverOf(child, url);
  endGroup(child, 'SIGKILL');
  throw new Error(`it did not start: ${log()}`);
}

/** As in the differential test: a home of its own, definitions without any, and ready when it says what it is. */
async function startReference({ scratch, data }: Place): Promise<Server> {
  writeFileSync(join(data, 'dagster.yaml'), 'telemetry:\n  enabled: false\n');
  writeFileSync(join(data, 'defs.py'), 'import dagster\n\ndefs = dagster.Definitions()\n');
  const untilTheEnd: Scope = { after: () => {} };
  const url = `http://127.0.0.1:${await freePort(untilTheEnd)}`;
  const command = [reference ?? '', '-f', 'defs.py', '-h', '127.0.0.1', '-p', new URL(url).port];
  const child = scratch.spawn(command, {
    cwd: data,
    env: { ...process.env, DAGSTER_HOME: data },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const log = logOf(child);
  for (
    const late = performance.now() + READY_MS;
    performance.now() < late && hasNotEnded(child);
    await sleep(POLL_MS)
  ) {
    const reply = await fetch(`${url}/server_info`).catch(() => undefined);
    await reply?.arrayBuffer();
    if (reply?.status === 200) return serverOf(child, url);
  }
  endGroup(child, 'SIGKILL');
  throw new Error(`it did not start: ${log()}`);
}

/** What a process says goes nowhere but into the reason why it did not start. */
function logOf(child: ChildProcess): () => string {
  let log = '';
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    log = `${log}${text}`.slice(-2_000);
  });
  child.on('error', ({ message }) => {
    log += message;
  });
  return () => log.trim().split('\n').at(-1) ?? '';
}

function serverOf(child: ChildProcess, url: string): Server {
  child.stdout?.resume();
  return {
    url,
    memoryBytes: () => ofTree(child.pid ?? 0, residentBytes),
    processorSeconds: () => processorSecondsOf(child),
    stop: async () => {
      if (!hasNotEnded(child)) throw new Error(`it ended under the load with ${child.exitCode ?? child.signalCode}`);
      const ended = once(child, 'exit');
      endGroup(child, 'SIGTERM');
      await Promise.race([ended, sleep(STOP_MS, undefined, { ref: false })]);
      endGroup(child, 'SIGKILL');
      await ended;
    },
  };
}

function hasNotEnded({ pid, exitCode, signalCode }: ChildProcess): boolean {
  return pid !== undefined && exitCode === null && signalCode === null;
}

/** @returns the sum over a process and its children; NaN off Linux */
function ofTree(pid: number, figure: (folder: string) => number): number {
  const folder = `/proc/${pid}`;
  try {
    const children = readFileSync(`${folder}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
    return children.reduce((sum, child) => sum + ofTree(Number(child), figure), figure(folder));
  } catch {
    return Number.NaN;
  }
}

/** @returns what a process and its children have used of the processors, in user and in system mode; NaN if it has ended */
export function processorSecondsOf({ pid = 0 }: ChildProcess): number {
  return ofTree(pid, processorSeconds);
}

function residentBytes(folder: string): number {
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(readFileSync(`${folder}/status`, 'utf8'))?.[1]) * 1024;
}

function processorSeconds(folder: string): number {
  // Behind the name, which may hold anything, utime and stime are the 12th and 13th field, in hundredths of a second.
  const fields = readFileSync(`${folder}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/**
 * @param folder with journals in it or below it
 * @param from the name of the first file that is counted
 */
export function countLines(folder: string, from = ''): number {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const journals = names.filter((name) => name.endsWith('.jsonl') && name >= from);
  return journals.reduce((sum, name) => sum + countLinesIn(join(folder, name)), 0);
}

function countLinesIn(path: string): number {
  const file = openSync(path, 'r');
  const chunk = Buffer.alloc(1024 * 1024);
  let lines = 0;
  for (let read = readSync(file, chunk); read > 0; read = readSync(file, chunk)) {
    for (let at = chunk.indexOf(10); at !== -1 && at < read; at = chunk.indexOf(10, at + 1)) lines += 1;
  }
  closeSync(file);
  return lines;
}
