/** Runs the program as a process, as its users do. The tests that use it are repeated on the built file. */

import { type ChildProcess, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { type EventEmitter, once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** The built file, if it is tested; otherwise the source runs. */
const built = process.env['ASSETLOG_TEST_BUILT'];
export const program: readonly string[] = [
  process.execPath,
  ...(built === undefined
    ? ['--import', import.meta.resolve('tsx'), join(root, 'src/server.ts')]
    : [join(root, built)]),
];

/** A test, or another owner of resources. */
export interface Scope {
  after(release: () => unknown): void;
}

/** The environment of the tests without the variables of their runner, which a service would report as unknown. */
export const outerEnvironment: NodeJS.ProcessEnv = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith('ASSETLOG_TEST_')),
);

const LOOPBACK = '127.0.0.1';
const READY_MS = 60_000;
const STOP_MS = 3_000;

export interface Finished {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  /** A variable that is undefined is not set. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  readonly input?: string | Buffer;
  /** Standard input is a pipe that the test writes to and ends. */
  readonly openInput?: true;
  readonly openFilesMax?: number;
  /** The first words of the command line, such as strace with its options. */
  readonly under?: readonly string[];
  /** Another program, such as a copy that was broken on purpose. */
  readonly program?: readonly string[];
}

export interface Launched {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  readonly finished: Promise<Finished>;
}

export function launch(args: readonly string[], options: RunOptions = {}): Launched {
  const command = [...(options.under ?? []), ...(options.program ?? program), ...args];
  if (options.openFilesMax !== undefined)
    command.unshift('sh', '-c', `ulimit -n ${options.openFilesMax}; exec "$@"`, 'sh');
  const child = spawn(command[0] ?? '', command.slice(1), {
    cwd: options.cwd ?? root,
    env: { ...outerEnvironment, ...options.env },
    stdio: [options.input === undefined && options.openInput === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  });
  if (options.input !== undefined) child.stdin?.end(options.input);
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const finished = once(child, 'close').then(([code, signal]) => ({ code, signal, stdout, stderr }));
  return { child, stdout: () => stdout, stderr: () => stderr, finished };
}

export function run(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
  return launch(args, options).finished;
}

export interface Running {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly data: string;
  stderr(): string;
  /** The journal's events, parsed. */
  events(): Record<string, unknown>[];
  /** Resolves when the process has ended, with or without a signal. */
  readonly finished: Promise<Finished>;
  /** On Windows each signal ends the process like SIGKILL. */
  kill(signal?: NodeJS.Signals): Promise<Finished>;
  /** Ends standard input, which stops a service with `openInput` and `--exit-with-stdin`, on any system. @param last what it reads before */
  endInput(last?: string): Promise<Finished>;
}

/** Starts a service on a free port and a new folder; both end with the test. */
export async function startService(
  t: Scope,
  { args = [], data = newFolder(t), ...options }: { args?: readonly string[]; data?: string } & RunOptions = {},
): Promise<Running> {
  const port = args.includes('--port') ? [] : ['--port', '0'];
  const launched = launch(['serve', ...port, '--data', data, ...args], options);
  const { child, stderr, finished } = launched;
  const kill = async (signal: NodeJS.Signals = 'SIGTERM') => {
    child.kill(signal);
    return finished;
  };
  t.after(async () => {
    const tooLong = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await kill('SIGTERM'); // not SIGKILL, which would lose the coverage of the process
    clearTimeout(tooLong);
  });
  const url = await readyUrl(launched);
  return {
    url,
    port: Number(new URL(url).port),
    pid: child.pid ?? 0,
    data,
    stderr,
    events: () => eventsIn(data),
    finished,
    kill,
    endInput: (last = '') => {
      child.stdin?.end(last);
      return finished;
    },
  };
}

/** @returns the address of a service once it is ready. @throws if the service ends before */
export function readyUrl({ child, stdout, stderr, finished }: Launched): Promise<string> {
  return new Promise<string>((resolve, reject) => {
    const tooLate = setTimeout(() => reject(new Error(`not ready: ${stderr()}`)), READY_MS);
    child.stdout?.on('data', () => {
      const ready = /^assetlog listening on (\S+)( \(test mode\))?\n/.exec(stdout());
      if (ready?.[1] === undefined) return;
      clearTimeout(tooLate);
      resolve(ready[1]);
    });
    void finished.then((end) => {
      clearTimeout(tooLate);
      reject(new Error(`ended with ${end.code}: ${end.stderr}`));
    });
  });
}

/** The events of all journal files in a folder, in order. */
export function eventsIn(data: string): Record<string, unknown>[] {
  return [...eachEvent(data)];
}

/** Like `eventsIn`, one at a time, for a journal that is larger than memory. */
export function* eachEvent(data: string): Generator<Record<string, unknown>> {
  for (const text of journalTexts(data)) {
    for (const line of text.split('\n')) if (line !== '') yield JSON.parse(line);
  }
}

/** The bytes of all journal files in a folder, in order. */
export function journalText(data: string): string {
  return [...journalTexts(data)].join('');
}

function* journalTexts(data: string): Generator<string> {
  for (const name of segmentsIn(data)) yield readFileSync(join(data, name), 'utf8');
}

/** The names of the journal files in a folder, in order. */
function segmentsIn(data: string): string[] {
  return readdirSync(data)
    .filter((name) => /^events-\d{20}\.jsonl$/.test(name))
    .sort();
}

/** The size of all journal files in a folder, without those that retention removes meanwhile. */
export function segmentBytes(data: string): number {
  const sizes = segmentsIn(data).map((name) => statSync(join(data, name), { throwIfNoEntry: false })?.size ?? 0);
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}

/** Retries: a program of the test can still create files, since it is ended after its folder is removed. */
async function removeFolder(folder: string): Promise<void> {
  const endMs = performance.now() + 10_000;
  for (;;) {
    try {
      rmSync(folder, { recursive: true, force: true });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY' || performance.now() > endMs) throw error;
      await sleep(20);
    }
  }
}

export function newFolder(t: Scope): string {
  const folder = mkdtempSync(join(tmpdir(), 'assetlog-'));
  if (process.platform === 'win32') removedAtExit.push(folder);
  else t.after(() => removeFolder(folder));
  return folder;
}

/** On Windows the folder of a program cannot be removed before it has ended. */
const removedAtExit: string[] = [];
if (process.platform === 'win32') {
  process.on('exit', () => {
    for (const folder of removedAtExit) rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  });
}

/**
 * A port for a program that needs the number beforehand, such as a configured proxy, or that restarts on it; all other programs
 * listen on port 0. Until the scope ends, the UDP port with the same number is bound, so that no other test gets it. The port is
 * below the ephemeral ports of Linux (32,768 and up), so no connection and no server on port 0 uses it in the meantime.
 */
export async function freePort(t: Scope): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const claim = createSocket('udp4').unref();
    t.after(() => claim.close());
    const listener = createServer();
    if (!(await opens(claim.bind({ port, address: LOOPBACK, exclusive: true })))) continue;
    const isFree = await opens(listener.listen(port, LOOPBACK)); // from programs other than tests
    await new Promise((resolve) => listener.close(resolve));
    if (isFree) return port;
  }
  throw new Error('100 ports from 20000 to 31999 are in use');
}

async function opens(socket: EventEmitter): Promise<boolean> {
  try {
    await once(socket, 'listening');
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false;
    throw error;
  }
}

export function isRunning({ pid, exitCode, signalCode }: ChildProcess): boolean {
  return pid !== undefined && exitCode === null && signalCode === null;
}

/** Signals a process group by its leader. */
export function endGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return; // it never started
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // no process of the group is left
  }
}
