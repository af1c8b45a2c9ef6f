/**
 * The sensor that `assetlog dagster` prints, in a real Dagster. ASSETLOG_TEST_REFERENCE and ASSETLOG_TEST_DAGSTER_OLD name an
 * executable beside the Python of the newest and of the oldest Dagster.
 */

import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { endGroup, isRunning, program, root, type Scope } from './program.ts';
import { pythonOf, referenceExecutable, withoutReference } from './reference.ts';
import { pythonText } from './tools.ts';

const oldPython = process.env['ASSETLOG_TEST_DAGSTER_OLD'];

interface Version {
  readonly name: string;
  readonly python: string;
  /** The executable of the web server. */
  readonly webServer: string;
  /** Why its tests are skipped, or false. */
  readonly skip: string | false;
  /** Results of checks can have a partition. */
  readonly hasCheckPartitions: boolean;
}

/** The newest and the oldest Dagster that the sensor is for. */
export const versions: readonly Version[] = [
  {
    name: 'the newest Dagster',
    python: referenceExecutable === undefined ? '' : pythonOf(referenceExecutable),
    webServer: referenceExecutable ?? '',
    skip: withoutReference,
    hasCheckPartitions: true,
  },
  {
    name: 'the oldest Dagster',
    python: oldPython ?? '',
    webServer: join(dirname(oldPython ?? ''), 'dagster-webserver'),
    skip: oldPython === undefined && 'no Dagster 1.11 here: name its Python in ASSETLOG_TEST_DAGSTER_OLD',
    hasCheckPartitions: false,
  },
];

/** An event that Dagster stored; `metadata` has the type and the value of each entry. */
export interface Stored {
  readonly type: string;
  readonly asset_key: readonly string[];
  readonly partition: string | null;
  readonly description: string | null;
  readonly tags: Readonly<Record<string, string>> | null;
  readonly check_name: string | null;
  readonly passed: boolean | null;
  readonly severity: string | null;
  readonly metadata: Readonly<Record<string, readonly [type: string, value: unknown]>>;
}

export interface Tick {
  readonly stored: readonly Stored[];
  /** The number of events that the daemon had to store. */
  readonly given?: number;
  readonly lines: readonly string[];
  readonly message?: string;
  readonly error?: string;
}

interface TickOptions {
  readonly settings?: Readonly<Record<string, unknown>>;
  /** The seqs of events that Dagster does not store; -1 means every event. */
  readonly refuse?: readonly number[];
}

interface Acts {
  readonly tick: Tick & { readonly cursor: string | null };
  /** The type and the value that Dagster makes of each metadata value; null if it refuses the value. */
  readonly reference: { readonly metadata: Readonly<Record<string, readonly [type: string, value: unknown] | null>> };
}

/** Prints the sensor into a folder. */
export function writeSensor(folder: string): void {
  const [node = '', ...args] = program;
  writeFileSync(join(folder, 'assetlog_sensor.py'), execFileSync(node, [...args, 'dagster']));
}

/** A Python that evaluates ticks without a daemon, with one instance of Dagster. */
export class Evaluator {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  #stderr = '';

  /** @param home the folder of Dagster's `dagster.yaml`; without it a new folder is used, and SQLite */
  constructor(t: Scope, python: string, folder: string, home?: string, env: NodeJS.ProcessEnv = {}) {
    writeSensor(folder);
    this.#child = spawn(python, [join(root, 'test/edges/dagster-ticks.py'), folder], {
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', no_proxy: '*', DAGSTER_HOME: home, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stderr!.setEncoding('utf8').on('data', (text) => {
      this.#stderr += text;
    });
    this.#lines = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]();
    const ended = once(this.#child, 'close');
    t.after(async () => {
      this.#child.stdin!.end();
      await ended;
    });
  }

  /** @param act a function of `dagster-ticks.py` */
  async evaluate<Act extends keyof Acts>(act: Act, args: object): Promise<Acts[Act]> {
    this.#child.stdin!.write(`${JSON.stringify({ [act]: args })}\n`);
    const { done, value } = await this.#lines.next();
    if (done === true) throw new Error(`the evaluator ended: ${this.#stderr}`);
    return JSON.parse(value);
  }
}

/** The ticks of a new sensor. A tick that fails keeps the cursor, like in a daemon. */
export class Ticks {
  readonly #evaluator: Evaluator;
  #settings: Readonly<Record<string, unknown>>;
  cursor: string | null = null;

  /** @param settings the variables of the file, such as `TICK_EVENTS` */
  constructor(evaluator: Evaluator, url: string, settings: Readonly<Record<string, unknown>> = {}) {
    this.#evaluator = evaluator;
    const standard = { TOKEN_FILE: null, KEY_PREFIX: null, TICK_EVENTS: 1000, last_cursor: 'none yet' };
    this.#settings = { ...standard, URL: url, ...settings };
  }

  /** @param settings also those of the ticks after it */
  async tick({ settings = {}, refuse = [] }: TickOptions = {}): Promise<Tick> {
    const own = { ...this.#settings, ...settings };
    const { last_cursor: _, ...kept } = own;
    this.#settings = kept;
    const { cursor, ...tick } = await this.#evaluator.evaluate('tick', {
      cursor: this.cursor,
      settings: own,
      refuse,
    });
    this.cursor = cursor;
    return tick;
  }
}

/** @returns the seqs of the events, without alarms */
export function seqsOf(stored: readonly Stored[]): number[] {
  return stored.flatMap(({ metadata: { 'assetlog/seq': seq } }) => (seq === undefined ? [] : [Number(seq[1])]));
}

/** @returns the problems that alarms name */
export function alarmsOf(stored: readonly Stored[]): unknown[] {
  return stored.flatMap(({ check_name, metadata }) => (check_name === 'is_complete' ? [metadata['problem']?.[1]] : []));
}

export interface Daemon {
  /** Ends the daemon and its code server. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

interface DaemonOptions {
  readonly python: string;
  /** The folder of Dagster's storage, and of the sensor. */
  readonly home: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Starts Dagster's daemon with the sensor, in a process group of its own. It ends with the test. */
export async function startDaemon(t: Scope, { python, home, env }: DaemonOptions): Promise<Daemon> {
  writeFileSync(join(home, 'dagster.yaml'), 'telemetry:\n  enabled: false\n');
  const child = spawn(python, ['-m', 'dagster._daemon', 'run', '-f', 'assetlog_sensor.py'], {
    cwd: home,
    detached: true,
    env: { ...process.env, no_proxy: '*', DAGSTER_HOME: home, ...env },
    stdio: 'ignore',
  });
  const end = async (signal: NodeJS.Signals) => {
    if (!isRunning(child)) return;
    const ended = once(child, 'exit');
    if (signal === 'SIGTERM') child.kill(signal);
    else endGroup(child, signal);
    await Promise.race([ended, sleep(DAEMON_STOP_MS, undefined, { ref: false })]);
    endGroup(child, 'SIGKILL'); // also the code server
  };
  t.after(() => end('SIGKILL'));
  await once(child, 'spawn');
  return { end };
}

const DAEMON_STOP_MS = 30_000;

/** Reads SQLite with Python, since the oldest Node has no client. An event that is stored twice is in the list twice. */
const READ_STORAGE = pythonText('read-dagster.py');

interface Storage {
  /** Of each stored event. */
  readonly seqs: readonly number[];
  /** The seq in the cursor of the sensor. */
  readonly cursor: number;
  /** Each tick that failed. */
  readonly failures: readonly string[];
}

export function readStorage(home: string): Storage {
  const { status, stdout } = spawnSync('python3', ['-c', READ_STORAGE, home], { encoding: 'utf8' });
  return status === 0 ? JSON.parse(stdout) : { seqs: [], cursor: 0, failures: [] }; // a file is missing, has no tables, or is being written
}
