/// <reference lib="esnext.disposable" preserve="true" />
/**
 * The service inside somebody's test: what the package gives to those who import it. Its exported types are those of
 * the package, so they name nothing of another file.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Config, readConfig } from './config/config.ts';
import { exitCodes } from './config/exit-codes.ts';
import { waitLimits } from './config/limits.ts';
import { flagOf } from './config/options.ts';
import type { App, Incoming, Reply } from './http/message.ts';
import { type Disk, openDisk } from './journal/disk.ts';
import { contentsOf } from './journal/segments.ts';
import { type Service, startService as startWith } from './service.ts';
import { createNotices } from './telemetry/log.ts';

export interface StartOptions {
  /** Of 127.0.0.1. 0, the default, is any free one. */
  readonly port?: number | undefined;
  /** The journal's folder, which stays. Without it the service has one of its own, which is removed at the end. */
  readonly data?: string | undefined;
  /** Puts every path under `/some/path`. */
  readonly pathPrefix?: string | undefined;
  /** Hosted mode: the file with the deployments and the SHA-256 of their tokens. */
  readonly deployments?: string | undefined;
  /** The least serious notice that is told; `error` unless it is set. */
  readonly logLevel?: 'error' | 'warn' | 'info' | 'debug' | undefined;
  /** Takes the notices; without it they go to standard error. */
  readonly onNotice?: ((notice: Notice) => void) | undefined;
}

export interface Notice {
  /** ISO 8601, UTC. */
  readonly time: string;
  readonly level: 'error' | 'warn' | 'info' | 'debug';
  readonly message: string;
  readonly [field: string]: unknown;
}

export interface RunningService {
  /** The base address for clients, with the path prefix and without a slash at its end. */
  readonly url: string;
  /** The journal's folder. */
  readonly data: string;
  /** Resolves when the service has ended: somebody stopped it, or its disk failed. */
  readonly ended: Promise<'stopped' | 'disk failed'>;
  /** The recorded events that match, in the order of their `seq`: those of every report that got its 200, and of no other. */
  events<Type extends EventType>(filter?: EventFilter<Type>): Promise<EventOf<Type>[]>;
  /**
   * The first event that matches: one that is there, or else one that is recorded within `timeoutMs` (5,000 unless it is set).
   * Rejects with an Error that says what was waited for, what was recorded instead and what was refused.
   */
  waitFor<Type extends EventType>(filter: EventFilter<Type>, options?: WaitOptions): Promise<EventOf<Type>>;
  /** Finishes what was read, ends, and removes the folder if it is the service's own. May be called again. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface WaitOptions {
  readonly timeoutMs?: number | undefined;
}

export type EventType = RecordedEvent['type'];
export type EventOf<Type extends EventType> = Extract<RecordedEvent, { readonly type: Type }>;

/** What an event has to have. What is left out or undefined may be anything. */
export interface EventFilter<Type extends EventType = EventType> {
  readonly type?: Type | undefined;
  /** Text as in a URL, with a slash between two parts: `'warehouse/orders'`. An array has the parts as they are. */
  readonly assetKey?: string | readonly string[] | undefined;
  readonly partition?: string | undefined;
  readonly dataVersion?: string | undefined;
  readonly description?: string | undefined;
  readonly checkName?: string | undefined;
  readonly passed?: boolean | undefined;
  readonly severity?: 'WARN' | 'ERROR' | undefined;
  /** Only events with a greater `seq`. */
  readonly afterSeq?: number | undefined;
  /** Hosted mode, and required there: whose events. */
  readonly deployment?: string | undefined;
}

/** A line of the journal: its members under their own names. */
export type RecordedEvent = MaterializationEvent | ObservationEvent | CheckEvent;

export interface MaterializationEvent extends AssetMembers {
  readonly type: 'AssetMaterialization';
}

export interface ObservationEvent extends AssetMembers {
  readonly type: 'AssetObservation';
}

export interface CheckEvent extends CommonMembers {
  readonly type: 'AssetCheckEvaluation';
  readonly check_name: string;
  readonly passed: boolean;
  readonly severity: 'WARN' | 'ERROR';
}

export interface AssetMembers extends CommonMembers {
  readonly description?: string;
  readonly tags?: { readonly data_version: string };
}

export interface CommonMembers {
  /** Counts from 1. */
  readonly seq: number;
  /** A UUIDv7. */
  readonly id: string;
  /** When it was recorded: ISO 8601, UTC. */
  readonly time: string;
  readonly asset_key: readonly string[];
  readonly partition?: string;
  /** As JSON.parse reads it, which rounds what a double can not hold; `line` has the digits that were sent. */
  readonly metadata?: { readonly [name: string]: unknown };
  readonly crc: string;
  /** The line itself, without its newline. */
  readonly line: string;
}

/**
 * Starts a real service in this process, on 127.0.0.1. It touches nothing that belongs to the process, such as signals, and
 * does not keep it alive.
 * @throws Error with what is wrong and what to do, after which nothing is left of it
 */
export async function startService(options: StartOptions = {}): Promise<RunningService> {
  const { onNotice, logLevel = 'error', ...given } = options;
  const own = given.data === undefined;
  const data = given.data ?? makeOwnFolder();
  try {
    const config = configOf({ port: 0, ...given, data, logLevel });
    const notices = createNotices(logLevel, false, onNotice === undefined ? complain : (line) => tell(onNotice, line));
    const witness = new Witness(config.deployments !== '');
    const service = await startWith(config, notices, {
      background: true,
      aroundApp: (app) => witness.around(app),
      onRecorded: (folder, nextSeq) => witness.recorded(folder, nextSeq),
    });
    return embed(service, witness, openDisk(data).folder, own);
  } catch (error) {
    if (own) removeOwnFolder(data);
    throw error;
  }
}

function embed(service: Service, witness: Witness, data: string, own: boolean): RunningService {
  const ended = service.ended.then((code) => {
    const how = code === exitCodes.done ? 'stopped' : 'disk failed';
    witness.end(`the service has ended (${how})`);
    return how;
  });
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= service.stop().then(async () => {
      await ended;
      await witness.allTold();
      if (own) removeOwnFolder(data);
    });
    return stopped;
  };
  return {
    url: service.url,
    data,
    ended,
    events: async <Type extends EventType>(filter: EventFilter<Type> = {}) => {
      if (own && stopped !== undefined)
        throw new Error('the service was stopped and its folder is gone; ask before that');
      const wanted = readFilter(filter);
      const events: EventOf<Type>[] = [];
      for await (const event of witness.readerOf(data, wanted)()) {
        if (differences(event, wanted).length === 0) events.push(event as EventOf<Type>);
      }
      return events;
    },
    waitFor: async <Type extends EventType>(filter: EventFilter<Type>, { timeoutMs = waitLimits.waitMs } = {}) =>
      (await witness.waitFor(data, readFilter(filter), checkedMs(timeoutMs))) as EventOf<Type>,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** What a service records and refuses, for those who ask and those who wait. */
class Witness {
  readonly #hosted: boolean;
  /** By folder: the seq of the line that is not there yet. */
  readonly #nextSeqs = new Map<string, number>();
  /** The last few. */
  readonly #refusals: string[] = [];
  #refused = 0;
  #ended: string | undefined;
  /** Of those who wait. */
  readonly #wakers = new Set<() => void>();
  readonly #waits = new Set<Promise<RecordedEvent>>();

  constructor(hosted: boolean) {
    this.#hosted = hosted;
  }

  recorded(folder: string, nextSeq: number): void {
    this.#nextSeqs.set(folder, nextSeq);
    this.#wake();
  }

  end(how: string): void {
    this.#ended = how;
    this.#wake();
  }

  around(app: App): App {
    return (incoming) => {
      const next = app(incoming);
      if (typeof next !== 'function') {
        this.#replied(incoming, next);
        return next;
      }
      return (body, respond) =>
        next(body, (reply) => {
          this.#replied(incoming, reply);
          respond(reply);
        });
    };
  }

  /** @returns what gives, each time that it is called, the events that were recorded since the last time */
  readerOf(data: string, { deployment }: Wanted): () => AsyncGenerator<RecordedEvent> {
    if (this.#hosted !== (deployment !== undefined)) {
      throw new TypeError(
        this.#hosted ? 'give the deployment whose events you mean' : 'deployment is for a service with deployments',
      );
    }
    const disk = openDisk(deployment === undefined ? data : join(data, deployment));
    const mark: Mark = { firstSeq: 0, seq: 0, bytes: 0 };
    return () => readOn(disk, mark, this.#nextSeqs.get(disk.folder) ?? Number.POSITIVE_INFINITY);
  }

  waitFor(data: string, wanted: Wanted, timeoutMs: number): Promise<RecordedEvent> {
    const wait = this.#wait(data, wanted, timeoutMs);
    this.#waits.add(wait);
    return wait.finally(() => this.#waits.delete(wait));
  }

  /** Resolves when nobody waits any more: at the end of the service each is told soon. */
  async allTold(): Promise<void> {
    await Promise.allSettled(this.#waits);
  }

  async #wait(data: string, wanted: Wanted, timeoutMs: number): Promise<RecordedEvent> {
    const read = this.readerOf(data, wanted);
    const others = new Others();
    let late = false;
    let wake = () => {};
    const waker = () => wake();
    const timer = setTimeout(() => {
      late = true;
      wake();
    }, timeoutMs);
    this.#wakers.add(waker);
    try {
      for (;;) {
        const woken = new Promise<void>((resolve) => {
          wake = resolve;
        });
        const last = late ? `within ${timeoutMs} ms` : this.#ended && `before ${this.#ended}`;
        for await (const event of read()) {
          const wrong = differences(event, wanted);
          if (wrong.length === 0) return event;
          others.add(event, wrong);
        }
        if (last)
          throw new Error(`no event was ${JSON.stringify(wanted.shown)} ${last}${others}${this.#refusalsAsText()}`);
        await woken;
      }
    } finally {
      this.#wakers.delete(waker);
      clearTimeout(timer);
    }
  }

  #replied({ method, url }: Incoming, reply: Reply): void {
    if (!('error' in reply)) return;
    this.#refused += 1;
    this.#refusals.push(cut(`${reply.status} for ${method} ${url}: ${reply.error}`));
    if (this.#refusals.length > waitLimits.shownMax) this.#refusals.shift();
  }

  #refusalsAsText(): string {
    if (this.#refused === 0) return '';
    return `\nrefused requests: ${this.#refused}, the last:\n${this.#refusals.map((line) => `  ${line}\n`).join('')}`;
  }

  #wake(): void {
    for (const wake of this.#wakers) wake();
  }
}

/** Events that were not the one, the nearest and of those the newest first. */
class Others {
  #count = 0;
  #nearest: { readonly event: RecordedEvent; readonly wrong: readonly string[] }[] = [];

  add(event: RecordedEvent, wrong: readonly string[]): void {
    this.#count += 1;
    const behind = this.#nearest.findIndex((other) => other.wrong.length >= wrong.length);
    this.#nearest.splice(behind === -1 ? this.#nearest.length : behind, 0, { event, wrong });
    this.#nearest.length = Math.min(this.#nearest.length, waitLimits.shownMax);
  }

  toString(): string {
    if (this.#count === 0) return '; none at all was recorded';
    const lines = this.#nearest.map(
      ({ event: { seq, line }, wrong }) =>
        `\n  another ${wrong.join(', ')}: seq ${seq}, ${cut(line.slice(line.indexOf('"type"')))}`,
    );
    return `; ${this.#count} others were recorded, the nearest first:${lines.join('')}`;
  }
}

interface Wanted {
  readonly deployment: string | undefined;
  /** As it was given, for the error. */
  readonly shown: EventFilter;
  /** Name and value of what an event has to have. */
  readonly members: readonly (readonly [Name, unknown])[];
}

type Name = Exclude<keyof EventFilter, 'deployment'>;

/** The members of any event. */
type Members = Pick<RecordedEvent, 'seq' | 'type' | 'asset_key' | 'partition'> &
  Partial<Omit<AssetMembers & CheckEvent, 'type'>>;

/** Whether an event has what the filter asks for. */
const matchers: Readonly<Record<Name, (event: Members, value: unknown) => boolean>> = {
  type: ({ type }, value) => type === value,
  assetKey: ({ asset_key }, value) =>
    JSON.stringify(asset_key) === JSON.stringify(typeof value === 'string' ? value.split('/') : value),
  partition: ({ partition }, value) => partition === value,
  dataVersion: ({ tags }, value) => tags?.data_version === value,
  description: ({ description }, value) => description === value,
  checkName: ({ check_name }, value) => check_name === value,
  passed: ({ passed }, value) => passed === value,
  severity: ({ severity }, value) => severity === value,
  afterSeq: ({ seq }, value) => seq > Number(value),
};

/** @throws TypeError for a member that is misspelt, which would match everything */
function readFilter(filter: EventFilter): Wanted {
  const { deployment, ...rest } = filter;
  const given = Object.entries(rest).filter(([, value]) => value !== undefined);
  for (const [name] of given) {
    if (!Object.hasOwn(matchers, name)) {
      throw new TypeError(`an event can not be asked for its ${name}; there are ${Object.keys(matchers).join(', ')}`);
    }
  }
  return { deployment, shown: filter, members: given as [Name, unknown][] };
}

/** @returns the names of the members that are not as they are wanted */
function differences(event: RecordedEvent, { members }: Wanted): Name[] {
  return members.filter(([name, value]) => !matchers[name](event, value)).map(([name]) => name);
}

/** Where a reader goes on: in the file whose first line has `firstSeq`, with the line `seq`. */
interface Mark {
  firstSeq: number;
  seq: number;
  bytes: number;
}

/**
 * Reads on behind `mark`, and moves it along.
 * @param nextSeq of the line that is not yet known to be durable: reading ends before it
 */
async function* readOn(disk: Disk, mark: Mark, nextSeq: number): AsyncGenerator<RecordedEvent> {
  for (const { name, firstSeq } of contentsOf(await namesIn(disk)).segments) {
    if (firstSeq < mark.firstSeq) continue;
    if (firstSeq > mark.firstSeq) Object.assign(mark, { firstSeq, seq: firstSeq, bytes: 0 });
    if (mark.seq >= nextSeq) return;
    let rest = Buffer.alloc(0);
    for await (const chunk of disk.read(name, mark.bytes)) {
      rest = Buffer.concat([rest, chunk]);
      let start = 0;
      for (let end = rest.indexOf('\n'); end !== -1; end = rest.indexOf('\n', start)) {
        if (mark.seq >= nextSeq) return;
        const line = rest.toString('utf8', start, end);
        mark.seq += 1;
        mark.bytes += end + 1 - start;
        start = end + 1;
        yield { ...JSON.parse(line), line };
      }
      rest = rest.subarray(start);
    }
  }
}

/** A deployment that nobody reported to has no folder. */
function namesIn(disk: Disk): Promise<string[]> {
  return disk.list().catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return [];
  });
}

/** @throws Error as the program says it of its flags, also for an option that there is not */
function configOf(options: Readonly<Record<string, unknown>>): Config {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const flags = given.map(([name, value]) => `--${flagOf(name)}=${value}`);
  const read = readConfig(flags, {});
  if ('problems' in read) throw new Error(read.problems.join('; '));
  return read.config;
}

function checkedMs(timeoutMs: number): number {
  if (timeoutMs >= 0 && timeoutMs < 2 ** 31) return timeoutMs;
  throw new TypeError(`timeoutMs is ${timeoutMs}; give milliseconds from 0 to ${2 ** 31 - 1}`);
}

/** An exception of theirs is theirs: it must not end a batch of ours. */
function tell(onNotice: (notice: Notice) => void, line: string): void {
  queueMicrotask(() => onNotice(JSON.parse(line)));
}

function complain(line: string): void {
  process.stderr.write(line);
}

function cut(text: string): string {
  const { shownCharactersMax } = waitLimits;
  return text.length > shownCharactersMax ? `${text.slice(0, shownCharactersMax)}…` : text;
}

/** Those of services that nobody has stopped yet; one listener for all, since a process warns of more than ten. */
const ownFolders = new Set<string>();

function makeOwnFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'assetlog-'));
  if (ownFolders.size === 0) process.on('exit', removeOwnFolders);
  ownFolders.add(folder);
  return folder;
}

function removeOwnFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  ownFolders.delete(folder);
  if (ownFolders.size === 0) process.off('exit', removeOwnFolders);
}

function removeOwnFolders(): void {
  for (const folder of ownFolders) rmSync(folder, { recursive: true, force: true });
}
