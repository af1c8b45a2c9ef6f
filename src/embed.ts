/// <reference lib="esnext.disposable" preserve="true" />
/**
 * The service inside somebody's test: what the package gives to those who import it. Its exported types are those of
 * the package, so they name nothing of another file.
 */

import { join } from 'node:path';
import { type Config, readConfig } from './config/config.ts';
import { exitCodes } from './config/exit-codes.ts';
import { limits, waitLimits } from './config/limits.ts';
import { flagOf } from './config/options.ts';
import { makeOwnFolder, removeOwnFolder } from './embed/own-folder.ts';
import { Waits } from './embed/waits.ts';
import { type Disk, openDisk } from './journal/disk.ts';
import type { Filter } from './journal/filter.ts';
import { OwnProgress } from './journal/progress.ts';
import { type Line, type Reading, type Remark, readJournal } from './journal/reader.ts';
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
  /**
   * The recorded events that match, in the order of their `seq`: those of every report that got its 200, and of no other.
   * Rejects if the journal is damaged.
   */
  events<Type extends EventType>(filter?: EventFilter<Type>): Promise<EventOf<Type>[]>;
  /**
   * The first event that matches: one that is there, or else one that is recorded within `timeoutMs` (5,000 unless it is set).
   * Rejects with an Error that says what was waited for, what was recorded instead and what was refused, or that the journal is
   * damaged.
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
    const waits = new Waits(waitLimits);
    const progress = new OwnProgress();
    const service = await startWith(config, notices, {
      background: true,
      aroundApp: (app) => waits.around(app),
      onRecorded: (folder, nextSeq) => progress.recorded(folder, nextSeq),
    });
    return embed(service, { data: openDisk(data).folder, own, hosted: config.deployments !== '', waits, progress });
  } catch (error) {
    if (own) removeOwnFolder(data);
    throw error;
  }
}

interface Parts {
  /** Of the journal, or of the folders of the deployments. */
  readonly data: string;
  /** Whether the folder is removed with the service. */
  readonly own: boolean;
  readonly hosted: boolean;
  readonly waits: Waits;
  readonly progress: OwnProgress;
}

function embed(service: Service, { data, own, hosted, waits, progress }: Parts): RunningService {
  const ended = service.ended.then((code) => {
    const how = code === exitCodes.done ? 'stopped' : 'disk failed';
    waits.end(`the service has ended (${how})`);
    return how;
  });
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= service.stop().then(async () => {
      await ended;
      await waits.allEnded();
      if (own) removeOwnFolder(data);
    });
    return stopped;
  };
  const diskOf = (deployment: string | undefined) => {
    if (hosted === (deployment !== undefined))
      return openDisk(deployment === undefined ? data : join(data, deployment));
    throw new TypeError(
      hosted ? 'give the deployment whose events you mean' : 'deployment is for a service with deployments',
    );
  };
  const read = (disk: Disk, follow: AbortSignal, filter: Filter = {}) =>
    readUndamaged(disk, { filter, follow, progress: progress.of(disk.folder), limits });
  return {
    url: service.url,
    data,
    ended,
    events: async <Type extends EventType>(given: EventFilter<Type> = {}) => {
      if (own && stopped !== undefined)
        throw new Error('the service was stopped and its folder is gone; ask before that');
      const filter = readFilter(given);
      const events: EventOf<Type>[] = [];
      const once = AbortSignal.abort(); // a deployment that nothing was reported to has no folder
      for await (const lines of read(diskOf(given.deployment), once, filter)) {
        events.push(...lines.map((line) => eventOf(line) as EventOf<Type>));
      }
      return events;
    },
    waitFor: async <Type extends EventType>(given: EventFilter<Type>, { timeoutMs = waitLimits.waitMs } = {}) => {
      const filter = readFilter(given);
      checkMs(timeoutMs);
      const disk = diskOf(given.deployment);
      const readAll = (follow: AbortSignal) => read(disk, follow);
      const line = await waits.waitFor({ filter, shown: JSON.stringify(given), read: readAll, timeoutMs });
      return eventOf(line) as EventOf<Type>;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** @throws Error for a damaged journal, after the lines that are good. A note is in order: such events were never acknowledged */
async function* readUndamaged(disk: Disk, reading: Reading): AsyncGenerator<readonly Line[]> {
  let damage: string | undefined;
  const check = () => {
    if (damage !== undefined) throw new Error(`the journal in ${disk.folder} is damaged: ${damage}`);
  };
  const note = ({ kind, text }: Remark) => {
    if (kind === 'damage') damage ??= text;
  };
  for await (const lines of readJournal(disk, reading, note)) {
    yield lines;
    check();
  }
  check();
}

function eventOf({ text }: Line): RecordedEvent {
  return { ...JSON.parse(text), line: text };
}

/** What `EventFilter` names, besides the deployment. */
const filterNames: readonly string[] = [
  'type',
  'assetKey',
  'partition',
  'dataVersion',
  'description',
  'checkName',
  'passed',
  'severity',
  'afterSeq',
] satisfies (keyof Filter & keyof EventFilter)[];

/** @throws TypeError for a member that is misspelt, which would match everything */
function readFilter({ deployment: _, ...rest }: EventFilter): Filter {
  const given = Object.entries(rest).filter(([, value]) => value !== undefined);
  for (const [name] of given) {
    if (!filterNames.includes(name)) {
      throw new TypeError(`an event can not be asked for its ${name}; there are ${filterNames.join(', ')}`);
    }
  }
  return Object.fromEntries(given.map(([name, value]) => [name, readMember(name, value)]));
}

function readMember(name: string, value: unknown): unknown {
  if (name === 'assetKey') return keyOf(value);
  if (name !== 'afterSeq') return value;
  const seq = Math.floor(Number(value));
  if (Number.isNaN(seq)) throw new TypeError(`afterSeq is ${value}; give the seq of an event`);
  return Math.max(0, seq);
}

/** @returns the parts; none, which no event has, for what is no key */
function keyOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return value.split('/');
  return Array.isArray(value) ? value : [];
}

/** @throws Error as the program says it of its flags, also for an option that there is not */
function configOf(options: Readonly<Record<string, unknown>>): Config {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const flags = given.map(([name, value]) => `--${flagOf(name)}=${value}`);
  const read = readConfig(flags, {});
  if ('problems' in read) throw new Error(read.problems.join('; '));
  return read.config;
}

function checkMs(timeoutMs: number): void {
  if (timeoutMs >= 0 && timeoutMs < 2 ** 31) return;
  throw new TypeError(`timeoutMs is ${timeoutMs}; give milliseconds from 0 to ${2 ** 31 - 1}`);
}

/** An exception of theirs is theirs: it must not end a batch of ours. */
function tell(onNotice: (notice: Notice) => void, line: string): void {
  queueMicrotask(() => onNotice(JSON.parse(line)));
}

function complain(line: string): void {
  process.stderr.write(line);
}
