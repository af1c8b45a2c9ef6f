/** The subjects: how each is started, and how its recorded lines are counted. */

import { type ChildProcess, execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readdirSync, readFileSync, readSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { endGroup, isRunning } from '../support/program.ts';
import type { Scratch } from './scratch.ts';

export interface Subject {
  readonly name: string;
  /** Whether each report becomes a line in its folder. */
  readonly records: boolean;
  readonly start: (place: Place) => Promise<Server>;
}

/** assetlog as built from a commit or from the work tree. */
export interface Version extends Subject {
  readonly program: string;
}

export interface Place {
  readonly scratch: Scratch;
  readonly node: string;
  /** An empty folder, or a folder with a journal. */
  readonly data: string;
  /** Options for assetlog, in addition to the usual ones. */
  readonly args?: readonly string[];
  /** The built file of another version. */
  readonly program?: string | undefined;
}

export interface Server {
  readonly url: string;
  readonly pid: number;
  /** The peak of resident memory of the server and its children, if the system reports it. */
  memoryBytes(): number;
  /** The processor time of the server and its children, in user and system mode. */
  processorSeconds(): number;
  /** The part in user mode, which depends least on the load of the machine. */
  userSeconds(): number;
  /** @returns its exit code; null if it was killed, as it had not ended in time */
  stop(): Promise<number | null>;
}

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const ASSETLOG = join(ROOT, 'dist/server.js');
const HERE = fileURLToPath(new URL('.', import.meta.url));
const READY_MS = 90_000;
const STOP_MS = 15_000;
/** assetlog, and other servers. */
export const neighbours: readonly Subject[] = [
  {
    name: 'bare',
    records: false,
    start: (place) => startServer(place, [place.node, programOf(place, 'bare.mjs')]),
  },
  {
    name: 'read + JSON.parse',
    records: false,
    start: (place) => startServer(place, [place.node, programOf(place, 'bare.mjs'), '--parse']),
  },
  {
    name: 'assetlog',
    records: true,
    start: startAssetlog,
  },
  {
    name: 'fastify + appendFile',
    records: true,
    start: (place) => startServer(place, [place.node, programOf(place, 'fastify.mjs'), place.data]),
  },
  {
    name: 'fastify + appendFile + fdatasync',
    records: true,
    start: (place) => startServer(place, [place.node, programOf(place, 'fastify.mjs'), place.data, '--sync']),
  },
];

/**
 * Builds the program of another commit, like `npm run bundle` for the work tree.
 * @param ref a name of the commit, such as `HEAD~3`
 * @returns that program, and the program of the work tree
 * @throws Error if there is no such commit
 */
export function buildVersions(scratch: Scratch, ref: string): readonly Version[] {
  const git = (...args: string[]) => spawnSync('git', ['-C', ROOT, ...args], { maxBuffer: 256 * 1024 * 1024 });
  const commit = git('rev-parse', '--verify', '--quiet', '--short', `${ref}^{commit}`).stdout?.toString().trim();
  if (!commit) throw new Error(`${ref} is no commit of this repository`);
  const folder = scratch.newFolder('version');
  execFileSync('tar', ['-x', '-C', folder], { input: git('archive', commit).stdout });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  execFileSync(process.execPath, ['--import', 'tsx', 'src/build.ts', 'server'], { cwd: folder });
  const version = (name: string, program: string): Version => ({
    name,
    program,
    records: true,
    start: (place) => startAssetlog({ ...place, program }),
  });
  return [version(commit, join(folder, 'dist/server.js')), version('the work tree', ASSETLOG)];
}

/** Bundles the other servers like assetlog, so that no loader adds to their memory and their start. */
export async function buildPrograms(scratch: Scratch): Promise<void> {
  await build({
    entryPoints: ['bare', 'fastify'].map((name) => join(HERE, `${name}.ts`)),
    outdir: scratch.folder,
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    outExtension: { '.js': '.mjs' },
    banner: { js: 'var require=process.getBuiltinModule;' },
    logLevel: 'error',
  });
}

function programOf({ scratch }: Place, name: string): string {
  return join(scratch.folder, name);
}

export function startAssetlog(place: Place): Promise<Server> {
  const { node, data, args = [], program = ASSETLOG } = place;
  const serve = ['--port', '0', '--data', data, '--log-level', 'warn', '--max-connections', '65536'];
  return startServer(place, [node, program, ...serve, ...args]);
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

/** The log of a process appears only in the reason why it did not start. */
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
    pid: child.pid ?? 0,
    memoryBytes: () => ofTree(child.pid ?? 0, residentBytes),
    processorSeconds: () => ofTree(child.pid ?? 0, processorSeconds),
    userSeconds: () => ofTree(child.pid ?? 0, userSeconds),
    stop: async () => {
      if (!isRunning(child)) throw new Error(`it ended under the load with ${child.exitCode ?? child.signalCode}`);
      const ended = once(child, 'exit');
      endGroup(child, 'SIGTERM');
      await Promise.race([ended, sleep(STOP_MS, undefined, { ref: false })]);
      endGroup(child, 'SIGKILL');
      const [code] = await ended;
      return code;
    },
  };
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

function residentBytes(folder: string): number {
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(readFileSync(`${folder}/status`, 'utf8'))?.[1]) * 1024;
}

function processorSeconds(folder: string): number {
  const [user, system] = processorTimes(folder);
  return user + system;
}

function userSeconds(folder: string): number {
  return processorTimes(folder)[0];
}

function processorTimes(folder: string): readonly [user: number, system: number] {
  // utime and stime are fields 12 and 13 after the name, which can contain anything, in hundredths of a second.
  const fields = readFileSync(`${folder}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return [Number(fields[11]) / 100, Number(fields[12]) / 100];
}

/** @returns the cost of all threads of a process since its start; a wake-up is a voluntary switch after a wait */
export function costOfThreads(pid: number): { readonly wakeUps: number; readonly processorMs: number } {
  let [wakeUps, processorMs] = [0, 0];
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const folder = `/proc/${pid}/task/${thread}`;
    wakeUps += Number(/^voluntary_ctxt_switches:\s*(\d+)$/m.exec(readFileSync(`${folder}/status`, 'utf8'))?.[1]);
    processorMs += Number(readFileSync(`${folder}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  }
  return { wakeUps, processorMs };
}

/** @param folder with journals in it */
export function countLines(folder: string): number {
  const names = readdirSync(folder).filter((name) => name.endsWith('.jsonl'));
  return names.reduce((sum, name) => sum + countLinesIn(join(folder, name)), 0);
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
