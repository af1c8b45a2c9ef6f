/**
 * A journal for each deployment. It is opened by the first report and closed when none has come for a while, so thousands of
 * deployments cost nothing while they are idle. What goes wrong with one does not touch the others.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from './config.ts';
import { type Deployments, readDeployments } from './deployments.ts';
import { type Disk, isFull, readText } from './disk.ts';
import type { Event } from './event.ts';
import { type Backlog, type Done, Journal } from './journal.ts';
import { InUseError, type Lock, lockFolder } from './lock.ts';
import type { Metrics } from './metrics.ts';
import type { Notices } from './notice.ts';
import { DamagedError } from './recovery.ts';
import type { Retain } from './retention.ts';

export interface HostedOptions {
  /** What the paths of all deployments are under. */
  readonly pathPrefix: string;
  /** The disk of a deployment's folder. */
  readonly openDisk: (name: string) => Disk;
  /** As `JournalOptions.onRecorded`, with the folder of the journal. */
  readonly onRecorded?: ((folder: string, nextSeq: number) => void) | undefined;
  readonly segmentBytes: number;
  /** Of each journal. */
  readonly retain: Retain;
  readonly limits: Limits;
  readonly metrics: Metrics;
  readonly notices: Notices;
}

export interface DeploymentsFile {
  /** Those of the last file that was good. */
  readonly current: Deployments;
  /** Reads the file again. Never rejects: a bad file is told, and what was good stays. */
  reload(): Promise<void>;
  stop(): void;
}

/**
 * Reads the deployments file, and again when it changes.
 * @param onChange called with each new set but the first
 * @throws Error with a problem a line
 */
export async function watchDeployments(
  path: string,
  { limits, notices }: Pick<HostedOptions, 'limits' | 'notices'>,
  onChange: (deployments: Deployments) => void,
): Promise<DeploymentsFile> {
  const readFile = () => readText(path, limits.deploymentsBytesMax);
  const parse = (now: string): Deployments => {
    const found = readDeployments(now);
    if ('problems' in found) throw new Error(found.problems.map((problem) => `${path}, ${problem}`).join('\n'));
    return found;
  };
  let text = await readFile();
  let current = parse(text);
  let told = '';

  async function reload(): Promise<void> {
    try {
      const now = await readFile();
      told = '';
      if (now === text) return;
      text = now; // also a bad one: it is told once
      current = parse(now);
      onChange(current);
      notices.info('the deployments were read again', { count: current.tokensOf.size });
    } catch (error) {
      const problem = (error as Error).message;
      if (problem !== told) notices.error('the deployments file is refused; what was read before stays', { problem });
      told = problem;
    }
  }

  const timer = setInterval(() => void reload(), limits.deploymentsCheckMs).unref();
  return {
    get current() {
      return current;
    },
    reload,
    stop: () => clearInterval(timer),
  };
}

type State =
  | { readonly kind: 'idle' }
  | { readonly kind: 'opening'; readonly opened: Promise<void>; readonly journal: Journal; readonly sinceMs: number }
  | { readonly kind: 'open'; readonly journal: Journal; readonly lock: Lock }
  | { readonly kind: 'closing'; readonly closed: Promise<void> }
  /** The next report after `againMs` tries to open it again, as a restart would. */
  | { readonly kind: 'failed'; readonly reason: string; readonly againMs: number };

export class Hosted {
  readonly #shared: Shared;
  readonly #deployments = new Map<string, HostedJournal>();
  readonly #sweeping: NodeJS.Timeout;

  constructor(options: HostedOptions) {
    this.#shared = { ...options, backlog: { bytes: 0 }, makeRoom: () => this.#makeRoom() };
    this.#sweeping = setInterval(() => this.#closeIdle(), options.limits.idleJournalMs / 2).unref();
  }

  /** @param name of a deployment that there is; nobody else may choose a folder */
  journalOf(name: string): HostedJournal {
    let journal = this.#deployments.get(name);
    if (journal === undefined) {
      journal = new HostedJournal(name, this.#shared);
      this.#deployments.set(name, journal);
    }
    return journal;
  }

  /** The deployments that can not record now, and why. */
  troubles(): ReadonlyMap<string, string> {
    const troubles = new Map<string, string>();
    for (const [name, { trouble }] of this.#deployments) if (trouble !== undefined) troubles.set(name, trouble);
    return troubles;
  }

  /** Closes the journals of deployments that there are no more, once what they took is on the disk. */
  keepOnly(isThere: (name: string) => boolean): void {
    for (const [name, journal] of this.#deployments) {
      if (!isThere(name)) void journal.retire().then(() => this.#deployments.delete(name));
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeping);
    await Promise.all([...this.#deployments.values()].map((journal) => journal.close()));
  }

  #closeIdle(): void {
    const beforeMs = performance.now() - this.#shared.limits.idleJournalMs;
    for (const journal of this.#deployments.values()) if (journal.lastUsedMs < beforeMs) void journal.close();
  }

  /** Before another journal is opened: closes the one that was not used for the longest time, where there are too many. */
  #makeRoom(): void {
    const open = [...this.#deployments.values()].filter((journal) => journal.isOpen);
    if (open.length < this.#shared.limits.openJournalsMax) return;
    const unused = open.reduce((one, other) => (other.lastUsedMs < one.lastUsedMs ? other : one));
    void unused.close();
  }
}

/** What the journals of all deployments have in common. */
interface Shared extends HostedOptions {
  readonly backlog: Backlog;
  readonly makeRoom: () => void;
}

/** The journal of one deployment, open or not. */
export class HostedJournal {
  readonly #name: string;
  readonly #options: Shared;
  #state: State = { kind: 'idle' };
  #retired = false;
  /** Of the paths that lead here. */
  readonly prefix: string;
  lastUsedMs = performance.now();

  constructor(name: string, options: Shared) {
    this.#name = name;
    this.#options = options;
    this.prefix = `${options.pathPrefix}/${name}`;
  }

  get isOpen(): boolean {
    return this.#state.kind === 'open';
  }

  /** Why reports can not be recorded now, or undefined: also where nobody has tried yet. */
  get trouble(): string | undefined {
    const state = this.#state;
    if (state.kind === 'failed') return state.reason;
    if (state.kind === 'opening' && performance.now() - state.sinceMs > this.#options.limits.openWaitMs)
      return state.journal.trouble;
    return state.kind === 'open' ? state.journal.trouble : undefined;
  }

  /** As `Journal.refusal`. */
  refusal(bytes: number): string | undefined {
    return this.#state.kind === 'open' ? this.#state.journal.refusal(bytes) : undefined;
  }

  /** As `Journal.append`; the first report waits while the journal is opened. */
  append(event: Event, bodyBytes: number, done: Done): void {
    this.lastUsedMs = performance.now();
    if (this.#state.kind === 'open') {
      this.#state.journal.append(event, bodyBytes, done);
      return;
    }
    void this.#opened().then((problem) => {
      if (this.#state.kind === 'open') this.#state.journal.append(event, bodyBytes, done);
      else done(problem ?? 'the journal of this deployment is being opened; send the report again later');
    });
  }

  /** As `close`, for good: whoever still holds this journal can not open it again. */
  async retire(): Promise<void> {
    this.#retired = true;
    await this.close();
  }

  /** Never rejects. */
  async close(): Promise<void> {
    if (this.#state.kind === 'opening') {
      await this.#state.journal.close();
      await this.#state.opened;
    }
    if (this.#state.kind === 'closing') return this.#state.closed;
    if (this.#state.kind !== 'open') return;
    const { journal, lock } = this.#state;
    const closed = journal
      .close()
      .then(() => lock.release())
      .then(() => {
        this.#state = { kind: 'idle' };
      });
    this.#state = { kind: 'closing', closed };
    await closed;
  }

  /** @returns why it is not open, after a bounded time */
  async #opened(): Promise<string | undefined> {
    if (this.#state.kind === 'closing') await this.#state.closed;
    if (this.#state.kind === 'failed') {
      if (performance.now() < this.#state.againMs) return this.#state.reason;
      this.#state = { kind: 'idle' };
    }
    if (this.#retired) return 'this deployment is being closed; send the report again later';
    if (this.#state.kind === 'idle') this.#open();
    if (this.#state.kind !== 'opening') return undefined;
    const { opened, journal } = this.#state;
    const late = await Promise.race([opened, sleep(this.#options.limits.openWaitMs, true, { ref: false })]);
    if (late) return journal.trouble;
    return this.trouble;
  }

  #open(): void {
    const { openDisk, segmentBytes, retain, limits, metrics, notices, backlog, makeRoom } = this.#options;
    makeRoom();
    const own = notices.with({ deployment: this.#name });
    const disk = openDisk(this.#name);
    let lock: Lock | undefined;
    const fail = async (error: Error) => {
      const reason = `the journal of this deployment can not be written: ${publicReason(error)}`;
      this.#state = { kind: 'failed', reason, againMs: performance.now() + limits.reopenMs };
      own.error('the journal of a deployment is out of order; its reports get 503 until it can be opened again', {
        problem: error.message,
      });
      await lock?.release();
    };
    const onFailed = (error: Error) => void fail(error);
    const onRecorded = this.#options.onRecorded?.bind(undefined, disk.folder);
    const journal = new Journal({
      ...{ disk, notices: own, segmentBytes, retain, limits, backlog, metrics, onFailed, onRecorded },
    });
    const open = async () => {
      try {
        await disk.prepare();
        lock = await lockFolder(disk.folder);
        await journal.open();
        this.#state = { kind: 'open', journal, lock };
      } catch (error) {
        await fail(error as Error);
      }
    };
    this.#state = { kind: 'opening', journal, opened: open(), sinceMs: performance.now() };
  }
}

/** Clients are strangers: they are not told paths. */
function publicReason(error: Error): string {
  if (error instanceof DamagedError) return 'it is damaged';
  if (isFull(error)) return 'the disk is full';
  return error instanceof InUseError ? 'another process writes to it' : 'the disk failed';
}
