/// <reference lib="esnext.disposable" preserve="true" />
/**
 * The package's API: runs the service inside a test's process. The exported types become the package's declarations
 * (`dist/embed.d.cts`), so they refer to no other file.
 */

import type { OptionForm } from './config/command-line.ts';
import { exitCodes } from './config/exit-codes.ts';
import { limits, waitLimits } from './config/limits.ts';
import { journalFolder } from './config/names.ts';
import { flagOf } from './config/options.ts';
import { type Config, readConfig, options as serveOptions } from './config/options-of-service.ts';
import { checkTimers } from './embed/fakes.ts';
import { differencesOf, readWanted, showFilter, type Wanted } from './embed/filter.ts';
import { makeOwnDeployments, removeOwnDeployments } from './embed/own-deployments.ts';
import { readUndamaged } from './embed/undamaged.ts';
import { readWait, type Wait, Waits } from './embed/waits.ts';
import { didYouMean } from './event/nearest.ts';
import type { Filter } from './event/search.ts';
import { type Disk, openDisk } from './journal/disk.ts';
import type { Line } from './journal/look/reading.ts';
import { type Service, startService as startWith } from './service.ts';
import { createNotices, openLog } from './telemetry/log.ts';
import type { FaultCounts } from './test-mode/faults.ts';
import { makeOwnFolder, removeOwnFolder } from './test-mode/own-folder.ts';
import type { TestMode } from './test-mode/test-mode.ts';

/** Options of `startService`, like the options of `assetlog serve` with the same names. */
export interface StartOptions<Deployment extends string = string> {
  /** TCP port on 127.0.0.1, such as 3000. 0, the default, chooses a free port. */
  readonly port?: number | undefined;
  /** The journal's folder, which is kept. By default a temporary folder is created, and removed when the service stops. */
  readonly data?: string | undefined;
  /** Prefix of every path of the service, such as `/some/path`. */
  readonly pathPrefix?: string | undefined;
  /** Names of deployments, whose tokens are then in `service.tokens`; or the path of a deployments file, such as `serve` reads. */
  readonly deployments?: string | readonly (Deployment | DeploymentOptions<Deployment>)[] | undefined;
  /** Turns on test mode, in which the service fails on purpose: see `TestService`. */
  readonly test?: boolean | undefined;
  /** Whether a report with an unknown parameter is refused, or the parameter is ignored. The default is `test`. */
  readonly strict?: boolean | undefined;
  /** The least severe level of notices that is reported. The default is `error`. */
  readonly logLevel?: 'error' | 'warn' | 'info' | 'debug' | undefined;
  /** Called with each notice. By default notices are written to standard error. */
  readonly onNotice?: ((notice: Notice) => void) | undefined;
}

/** A deployment of `StartOptions`. */
export interface DeploymentOptions<Deployment extends string = string> {
  /** Up to 63 letters, digits, `_` and `-`. */
  readonly name: Deployment;
  /**
   * The rights of its token: to send reports, to read and erase recorded events, to forward events of others. The default is all
   * rights.
   */
  readonly may?: readonly ('report' | 'read' | 'forward' | 'erase')[] | undefined;
}

/** A log entry. */
export interface Notice {
  /** ISO 8601, UTC, such as `2026-11-20T15:04:05.678Z`. */
  readonly time: string;
  readonly level: 'error' | 'warn' | 'info' | 'debug';
  readonly message: string;
  readonly [field: string]: unknown;
}

/** A running service, returned by `startService`. */
export interface RunningService<Deployment extends string = string> {
  /** The base address for clients, with the path prefix and without a trailing slash, such as `http://127.0.0.1:3000`. */
  readonly url: string;
  /** The journal's folder. With deployments it holds a folder for each deployment. */
  readonly data: string;
  /**
   * A token for each deployment that was given by name, such as `asl_Zc6b…` in `tokens.prod`. A client sends it in the header
   * `Service-Cloud-Api-Token`, with requests to `${service.url}/prod`.
   */
  readonly tokens: { readonly [Name in Deployment]: string };
  /** Resolves when the service has ended, because it was stopped or because its disk failed. */
  readonly ended: Promise<'stopped' | 'disk failed'>;
  /**
   * Reads the recorded events that match, in the order of their `seq`. Each report that got a 200 has an event, and other
   * reports have none. Rejects if the journal is damaged.
   */
  events<Type extends EventType | EventName>(filter?: EventFilter<Type>): Promise<EventOf<Type>[]>;
  /**
   * Waits for the first event that matches, or for the first `count`, already recorded or recorded within `timeoutMs` (default
   * 5,000). Rejects with an Error that contains the filter, the nearest other events and the refusals, or if the journal is
   * damaged.
   */
  waitFor<Type extends EventType | EventName>(
    filter: EventFilter<Type>,
    options: CountOptions,
  ): Promise<EventOf<Type>[]>;
  waitFor<Type extends EventType | EventName>(filter: EventFilter<Type>, options?: WaitOptions): Promise<EventOf<Type>>;
  /**
   * Resolves when no event that matches was recorded within `timeoutMs` (default 1,000), or before the call. Rejects at the first
   * such event with an Error that contains it, or if a reset or the end of the service ends the wait.
   */
  expectNone(filter?: EventFilter, options?: WaitOptions): Promise<void>;
  /**
   * @returns the last 1,000 refused requests in the order of their arrival, with status, error, method and target. Bytes that
   *   are not a request are included; requests for `/readyz` and `/server_info` are not.
   */
  refused(): RefusedRequest[];
  /** Finishes the requests that were read, ends, and removes the folder if it is temporary. Can be called again. */
  stop(): Promise<void>;
  /** Does the same as `stop`, for `await using` (Node 24, or a compiler). */
  [Symbol.asyncDispose](): Promise<void>;
}

/** A service in test mode, returned by `startService({ test: true })`. */
export interface TestService extends RunningService<never> {
  /**
   * Adds a fault after the existing faults. A report meets the first fault that matches: after
   * `service.fail({ times: 2, then: { status: 503, retry_after: 1 } })` the next two reports get a 503.
   * @returns the counts of the fault; `met` is then 2
   * @throws Error for an invalid fault: `fault.then.stauts is unknown; did you mean status?`
   */
  fail(fault: Fault): FaultResult;
  /** Does the same for several faults. An empty array removes all faults. */
  fail(faults: readonly Fault[]): FaultResult[];
  /** @returns how many reports met each fault, in the order of the faults */
  met(): number[];
  /**
   * Empties the journal, whose next event has `seq` 1, and forgets faults, refused requests and idempotency keys.
   * Ends open waits. Resolves when a later report is recorded in the new journal.
   */
  reset(): Promise<void>;
}

/** A request that got an error. */
export interface RefusedRequest {
  /** When it was refused: ISO 8601, UTC, such as `2026-11-20T15:04:05.678Z`. */
  readonly time: string;
  /** The id in the reply: a UUID. */
  readonly request_id: string;
  /** Absent, like `path` and `query`, if the bytes were not a request. */
  readonly method?: string;
  /** Still escaped: `/report_asset_check/a%20b`. */
  readonly path?: string;
  /** Still escaped, without the question mark: `passed=1`. */
  readonly query?: string;
  readonly status: number;
  /** The error in the reply: `passed is missing: …`. */
  readonly error: string;
}

export interface WaitOptions {
  /** How long to wait, in milliseconds: from 0, which returns what is already recorded, to 2,147,483,647. */
  readonly timeoutMs?: number | undefined;
}

/** Options of `waitFor` for several events: the first events that match, in the order of their `seq`. */
export interface CountOptions extends WaitOptions {
  /** How many events to wait for: a whole number from 1. */
  readonly count: number;
}

/** What happens to some reports: `{ match: { type: 'check' }, times: 2, then: { status: 503 } }`. */
export interface Fault {
  /** Which reports it can meet. If absent, all. */
  readonly match?: FaultMatch | undefined;
  /** The most reports that it meets: a whole number from 1. */
  readonly times?: number | undefined;
  /** The chance that it meets a report, from 0 to 1. The default is 1. */
  readonly probability?: number | undefined;
  /** Number of matching reports that pass before the first one that it can meet. */
  readonly after?: number | undefined;
  readonly then: FaultEffect;
}

/** The values that a report must have: `{ type: 'check', asset_key: ['warehouse', 'orders'] }`. */
export interface FaultMatch {
  readonly type?: EventName | EventType | undefined;
  /** `'warehouse/orders'`, or an array of the parts, for a part with a slash in it. */
  readonly asset_key?: string | readonly string[] | undefined;
  /** Null matches a report without a partition. */
  readonly partition?: string | null | undefined;
  readonly check_name?: string | undefined;
  readonly method?: 'POST' | undefined;
}

/** What happens to a report: `{ status: 503, retry_after: 1 }`, `{ drop: 'reply' }`, `{ delay_ms: [500, 3000] }`. */
export interface FaultEffect {
  /** The status of the reply, from 200 to 599. The report is not recorded. */
  readonly status?: number | undefined;
  /** With `status`: the body of the reply, as text or as JSON. */
  readonly body?: string | object | undefined;
  /** With `status`: the header `Retry-After`, as seconds or as a text such as a date: `Fri, 20 Nov 2026 15:04:05 GMT`. */
  readonly retry_after?: number | string | undefined;
  /** With `status`: further headers, such as `{ Location: 'https://login.example/' }`. */
  readonly headers?: { readonly [name: string]: string } | undefined;
  /** With `status`: the body is an HTML page, as from a proxy. */
  readonly html?: boolean | undefined;
  /** Delays the reply: by a number of milliseconds, or by a random time between a minimum and a maximum. */
  readonly delay_ms?: number | readonly [least: number, most: number] | undefined;
  /** Does the same for the second half of the body. */
  readonly body_delay_ms?: number | readonly [least: number, most: number] | undefined;
  /**
   * Closes the connection: before the report is recorded, instead of the reply, or in the middle of the reply. With `'reply'` and
   * `'half'` the report is recorded.
   */
  readonly drop?: 'request' | 'reply' | 'half' | undefined;
  /** Whether the report is recorded; overrides the rules above. Shows whether a client loses or doubles reports. */
  readonly recorded?: boolean | undefined;
}

/** The counts of a fault so far. */
export interface FaultResult {
  /** How many reports it met. */
  readonly met: number;
  /** How many reports matched. Some can have been spared by `after`, `times`, chance or an earlier fault. */
  readonly matched: number;
  /** The nearest report that did not match: its path, and its values that differ, such as `{ asset_key: ['order'] }`. */
  readonly nearest: { readonly path: string; readonly differs: { readonly [name: string]: unknown } } | undefined;
}

export type EventType = RecordedEvent['type'];
/** A short name for the type of an event, in reports and filters. */
export type EventName = 'materialization' | 'check' | 'observation';
export type EventOf<Type extends EventType | EventName> = Extract<RecordedEvent, { readonly type: TypeOf<Type> }>;
type TypeOf<Type> = Type extends 'materialization'
  ? 'AssetMaterialization'
  : Type extends 'check'
    ? 'AssetCheckEvaluation'
    : Type extends 'observation'
      ? 'AssetObservation'
      : Type;

/**
 * The values that an event must have: `{ assetKey: 'warehouse/orders', passed: false }`. A member that is left out or undefined
 * matches any value.
 */
export interface EventFilter<Type extends EventType | EventName = EventType | EventName> {
  /** The long or the short name of the type: `'AssetCheckEvaluation'` or `'check'`. */
  readonly type?: Type | undefined;
  /** The whole key: a string with slashes between the parts, as in `'warehouse/orders'`, or an array of the parts. */
  readonly assetKey?: string | readonly string[] | undefined;
  readonly partition?: string | undefined;
  /** The tag `data_version` of a materialization or an observation. */
  readonly dataVersion?: string | undefined;
  readonly description?: string | undefined;
  readonly checkName?: string | undefined;
  readonly passed?: boolean | undefined;
  readonly severity?: 'WARN' | 'ERROR' | undefined;
  /** When it happened: the time as reported, in any zone, as in `'2026-11-20T16:04:05.25+01:00'`. */
  readonly eventTime?: string | undefined;
  /** The key of the header `Idempotency-Key`, without its quotes: `order-17/1`. */
  readonly idempotencyKey?: string | undefined;
  /** Matches only events with a greater `seq`. */
  readonly afterSeq?: number | undefined;
  /**
   * Members that the metadata must have, possibly among others: `{ rows: 10, source: { table: 'orders' } }`. Nested objects are
   * compared in the same way; an array matches an array of the same length whose elements match in order. A number matches by
   * value (`1` matches `1.0`); a bigint matches an integer with exactly its digits, which a number might round:
   * `12345678901234567890n`.
   */
  readonly metadata?: MetadataFilter | undefined;
  /** The deployment whose events are read. Required with deployments, otherwise not allowed. */
  readonly deployment?: string | undefined;
}

/** Required members of an object in metadata: `{ rows: 10, note: undefined }`. Undefined matches any value, and a missing member. */
export interface MetadataFilter {
  readonly [name: string]: MetadataValue;
}
/** A required value in metadata: `10`, `null`, `['a', { b: true }]`. */
export type MetadataValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | readonly MetadataValue[]
  | MetadataFilter;

/** A line of the journal, with its members under the names that they have in the file. */
export type RecordedEvent = RecordedMaterialization | RecordedObservation | RecordedCheck;

/** An event from `POST /report_asset_materialization/`. */
export interface RecordedMaterialization extends AssetMembers {
  readonly type: 'AssetMaterialization';
}

/** An event from `POST /report_asset_observation/`. */
export interface RecordedObservation extends AssetMembers {
  readonly type: 'AssetObservation';
}

/** An event from `POST /report_asset_check/`. */
export interface RecordedCheck extends CommonMembers {
  readonly type: 'AssetCheckEvaluation';
  readonly check_name: string;
  readonly passed: boolean;
  readonly severity: 'WARN' | 'ERROR';
}

/** Members of materializations and observations. */
export interface AssetMembers extends CommonMembers {
  readonly description?: string;
  readonly tags?: { readonly data_version: string };
}

export interface CommonMembers {
  /** Sequence number in the journal, from 1. */
  readonly seq: number;
  /** A UUIDv7 (RFC 9562). */
  readonly id: string;
  /** When the event was recorded: ISO 8601, UTC, such as `2026-11-20T15:04:05.678Z`. */
  readonly time: string;
  /** The parts of the asset key. */
  readonly asset_key: readonly string[];
  /** Name of the partition, such as `2026-11-20`. */
  readonly partition?: string;
  /**
   * The result of `JSON.parse`, which rounds numbers that a double cannot represent. `line` has the digits that were
   * sent.
   */
  readonly metadata?: { readonly [name: string]: unknown };
  /** When it happened according to the client, in UTC with the digits that were sent: `2026-11-20T15:04:05.25Z`. */
  readonly event_time?: string;
  /** Identifies a report that can be sent again: `order-17/1`. */
  readonly idempotency_key?: string;
  /**
   * In a forwarded event: the line that was reported, by the id of its journal and its `seq` there; absent if that is `from`.
   */
  readonly origin?: readonly [source: string, seq: number];
  /** In an erased event: when `assetlog erase` erased its texts. */
  readonly erased?: string;
  /** In a forwarded event: the line in the journal that sent it. */
  readonly from?: readonly [source: string, seq: number];
  /** The name of the token of its report, with `"recordTokens": true` in the deployments file. */
  readonly by?: string;
  /** In a forwarded event: the `time` of the line that was reported. */
  readonly recorded?: string;
  /** Checksum of the line, chained to the line before it: eight hexadecimal digits. */
  readonly crc: string;
  /** The text of the line, unchanged and without its newline. */
  readonly line: string;
}

/**
 * Starts a real service in this process, on 127.0.0.1. It does not change the process, for example its signal handlers,
 * and does not keep it alive.
 * @param options `{}` for a free port and a temporary folder
 * @throws Error with the problem and what to do; port, lock and temporary folder are then released
 */
export function startService(options: StartOptions<never> & { readonly test: true }): Promise<TestService>;
export function startService<const Deployment extends string = never>(
  options?: StartOptions<Deployment>,
): Promise<RunningService<Deployment>>;
export async function startService(options: StartOptions = {}): Promise<RunningService> {
  checkTimers();
  const { onNotice, logLevel = 'error', deployments, ...given } = options;
  const hosted = Array.isArray(deployments) ? makeOwnDeployments(deployments) : undefined;
  const own = given.data === undefined;
  const data = given.data ?? makeOwnFolder();
  const release = () => {
    if (own) removeOwnFolder(data);
    if (hosted !== undefined) removeOwnDeployments(hosted);
  };
  try {
    const config = configOf({ port: 0, ...given, data, logLevel, deployments: hosted?.path ?? deployments });
    const notices =
      onNotice === undefined
        ? openLog(logLevel, false, process.stderr, limits).notices
        : createNotices(logLevel, false, (line) => notify(onNotice, line), limits);
    const waits = new Waits(waitLimits);
    const service = await startWith(config, notices, {
      limits,
      background: true,
      refusalsSeenMax: waitLimits.refusedMax,
      aroundReset: (reset) => waits.runReset(reset),
    });
    const parts = {
      data: openDisk(data).folder,
      own,
      release,
      hosted: config.deployments !== '',
      tokens: hosted?.tokens ?? {},
      waits,
    };
    return embed(service, parts);
  } catch (error) {
    release();
    throw error;
  }
}

interface EmbeddedParts {
  /** Folder of the journal, or in hosted mode of the folders of the deployments. */
  readonly data: string;
  /** Whether the folder is temporary, and removed when the service stops. */
  readonly own: boolean;
  /** Removes the temporary folders. */
  readonly release: () => void;
  readonly hosted: boolean;
  readonly tokens: Readonly<Record<string, string>>;
  readonly waits: Waits;
}

function embed(service: Service, parts: EmbeddedParts): RunningService & TestService {
  const { data, own, hosted, waits } = parts;
  const { refusals } = service;
  const ended = service.ended.then((code) => {
    const how = code === exitCodes.done ? 'stopped' : 'disk failed';
    waits.end(`the service has ended (${how})`);
    return how;
  });
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= service.stop().then(async () => {
      await ended;
      await waits.awaitReads();
      parts.release();
    });
    return stopped;
  };
  const diskOf = (deployment: string | undefined) => {
    const known = service.deployments();
    if (known.includes(deployment)) return openDisk(journalFolder(data, deployment));
    if (!hosted) throw new TypeError('the filter has a deployment, but the service has none');
    if (deployment === undefined) throw new TypeError('the filter needs a deployment');
    const names = known.filter((name) => name !== undefined);
    throw new TypeError(`there is no deployment ${deployment}${didYouMean(`${deployment}`, names)}`);
  };
  const read = (disk: Disk, follow: AbortSignal, filter: Filter = {}) =>
    readUndamaged(disk, { filter, follow, progress: service.progress.of(disk.folder), limits });
  const readOnce = async (disk: Disk, wanted: Wanted) => {
    const events: RecordedEvent[] = [];
    const noFollow = AbortSignal.abort(); // reads once, and reads a missing folder (no reports yet) as empty
    for await (const lines of read(disk, noFollow, wanted.filter)) {
      for (const line of lines) if (differencesOf(line, wanted).length === 0) events.push(eventOf(line));
    }
    return events;
  };
  const waitOf = (given: EventFilter, options: Pick<Wait, 'timeoutMs' | 'count'>): Wait => {
    const wanted = readWanted(given, limits);
    const disk = diskOf(given.deployment);
    return { wanted, shown: showFilter(given), read: (follow) => read(disk, follow), refusals, ...options };
  };
  return {
    url: service.url,
    data,
    tokens: parts.tokens,
    ended,
    events: async <Type extends EventType | EventName>(given: EventFilter<Type> = {}) => {
      if (own && stopped !== undefined)
        throw new Error('the service was stopped and its folder was removed; read the events before that');
      const wanted = readWanted(given, limits);
      const disk = diskOf(given.deployment);
      return (await waits.runRead(() => readOnce(disk, wanted))) as EventOf<Type>[];
    },
    waitFor: (async (given: EventFilter, options: Partial<CountOptions> = {}) => {
      const wait = waitOf(given, readWait(options, 'waitFor', waitLimits.waitMs));
      const events = (await waits.waitFor(wait)).map(eventOf);
      return wait.count === undefined ? events[0] : events;
    }) as RunningService['waitFor'],
    expectNone: async (given = {}, options = {}) =>
      waits.expectNone(waitOf(given, readWait(options, 'expectNone', waitLimits.expectNoneMs))),
    refused: () => [...refusals.seen().last],
    fail: ((given: Fault | readonly Fault[]) => {
      const { faults } = testModeOf(service, 'fail');
      if (!Array.isArray(given)) return resultOf(faults.add(given));
      if (given.length === 0) faults.clear();
      return faults.addAll({ faults: given }).map(resultOf);
    }) as TestService['fail'],
    met: () =>
      testModeOf(service, 'met')
        .faults.show()
        .faults.map(({ met }) => met),
    reset: async () => testModeOf(service, 'reset').reset(),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function testModeOf({ testMode }: Service, method: string): TestMode {
  if (testMode !== undefined) return testMode;
  throw new Error(`${method} needs startService({ test: true })`);
}

function resultOf(counts: FaultCounts): FaultResult {
  return {
    get met() {
      return counts.met;
    },
    get matched() {
      return counts.matched;
    },
    get nearest() {
      return counts.nearest;
    },
  };
}

function eventOf({ text }: Line): RecordedEvent {
  return { ...JSON.parse(text), line: text };
}

/** @throws Error with the messages of the program for its flags, including unknown options */
function configOf(options: Readonly<Record<string, unknown>>): Config {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const forms: Readonly<Record<string, OptionForm>> = serveOptions;
  const on = given.filter(([name, value]) => value !== false || forms[name]?.trueOrFalse);
  const flags = on.map(([name, value]) => `--${flagOf(name)}${value === true ? '' : `=${value}`}`);
  const read = readConfig(flags, {});
  if (read.kind === 'invalid') throw new Error(read.problems.join('; '));
  return read.config;
}

/** Calls `onNotice` in a microtask, so that an exception of the callback cannot abort a batch of the journal. */
function notify(onNotice: (notice: Notice) => void, line: string): void {
  queueMicrotask(() => onNotice(JSON.parse(line)));
}
