/**
 * The metrics of the service, and their text for `/metrics` in the Prometheus exposition format 0.0.4. No label value comes
 * from a request, which limits the cardinality: an endpoint is a path of the route table, or `other`.
 */

import type { Limits } from '../config/limits.ts';
import { version } from '../config/names.ts';
import type { Event } from '../event/event.ts';
import type { Add, DeploymentCounts, DeploymentFigures } from './deployment-counts.ts';

/** The `Content-Type` of `/metrics`: `text/plain` with the version of the exposition format. */
export const metricsType = 'text/plain; version=0.0.4; charset=utf-8';

/** The metrics of one open journal. */
export interface JournalFigures {
  /** The seq of the newest event; 0 if there is none. */
  readonly lastSeq: number;
  readonly files: number;
  /** Approximate memory of the events that wait to be written, in bytes. */
  readonly queueBytes: number;
}

/** The metrics of the idempotency keys of all journals. */
export interface KeyFigures {
  readonly held: number;
  /** The time since which every key is remembered, in seconds since 1970; undefined if there are no keys. */
  readonly oldestSeconds: number | undefined;
}

/** The metrics of one destination of events, for all journals together. */
export interface ForwardFigures {
  /** The name that an operator gave it. */
  readonly destination: string;
  /** Number of events that it has not received; undefined for a hook with `on`. */
  readonly lagEvents: number | undefined;
  /** Age of the oldest event that it has not received; undefined for a hook with `on`. */
  readonly lagSeconds: number | undefined;
  /** Number of events by outcome: `recorded`. */
  readonly outcomes: ReadonlyMap<string, number>;
  /** Number of requests by answer. */
  readonly answers: ReadonlyMap<string, number>;
  /** Number of journals by the state of their pipes: `idle`. */
  readonly states: ReadonlyMap<string, number>;
  /** When the destination last accepted an event, in seconds since 1970; undefined if it never did. */
  readonly lastSuccessSeconds: number | undefined;
  /** Undefined for a hook with `on`. */
  readonly deadLetters: number | undefined;
  /** Number of events that dead letters reported as removed before it confirmed them, and how many of these are still missing. */
  readonly lostEvents: number;
  readonly missingEvents: number;
  /** Size of the files with events that it has not received; undefined for a hook with `on`. */
  readonly heldBytes: number | undefined;
  /** Set only for a hook with `on`. */
  readonly alarms: AlarmFigures | undefined;
}

/** The metrics of a hook with `on`, for all journals together. */
export interface AlarmFigures {
  /** Number of alarms that it was sent and that have not ended. */
  readonly told: number;
  /** Number of changes that are due and not accepted yet. */
  readonly waiting: number;
  /** Number of alarms for which there is no space. */
  readonly left: number;
  /** Number of posts by alarm and outcome: `failed taken`. */
  readonly posts: ReadonlyMap<string, number>;
}

/** The journals that forward to a service, its sources. */
export interface HubFigures {
  readonly sources: number;
  /**
   * Number of sources of a journal, as a share of the largest accepted number. The largest share of all journals
   * counts.
   */
  readonly sourcesShare: number;
  /** Time since the last request of the most silent source; undefined while no source is known. */
  readonly silentSeconds: number | undefined;
  /** Number of events that sources reported as lost since the start. */
  readonly lostEvents: number;
  /** Sources that reported that they are stopped, and the number of events that they have not sent. */
  readonly sourcesStopped: number;
  readonly unsentEvents: number;
}

/** The state of the assets of all journals. */
export interface AssetFigures {
  /** Number of events of new assets that did not fit into the memory. */
  readonly refused: number;
  /** Number of journals whose state could not be written. */
  readonly unsaved: number;
}

/** The figures of `/metrics` that are not counts: the state of the parts of a service at one moment. */
export interface ShownFigures {
  /** Whether `/readyz` answers 200. */
  readonly isReady: boolean;
  /** Free space of the disk; undefined if the system does not report it. */
  readonly freeBytes: number | undefined;
  /** Undefined if `Idempotency-Key` is ignored. */
  readonly keys: KeyFigures | undefined;
  readonly assets: AssetFigures;
  /** The keys of `--watch-asset`, each with the seconds since the last event of its longest silent asset; Infinity if there is no asset. */
  readonly watchedAges: ReadonlyMap<string, number>;
  /** Number of tokens by state: `expired`; empty in local mode. */
  readonly tokens: Readonly<Record<string, number>>;
  /** Number of deployments that currently cannot record. */
  readonly deploymentsInTrouble: number;
  /** Number of files of the operator that are refused, or do not answer. */
  readonly filesRefused: number;
  /** Undefined without `--deployment-metrics`. */
  readonly deployments?: readonly DeploymentFigures[] | undefined;
  /** Number of replies that wait for the destination of `--ack`. */
  readonly waitingReplies: number;
  /** The destinations to which events are forwarded. */
  readonly forwarding: readonly ForwardFigures[];
  readonly hub: HubFigures;
}

/** Histogram buckets: from a single report to many reports that waited for a slow disk. */
const BATCH_EVENTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
/** Histogram buckets: up to `limits.batchItemsMax`. */
const REQUEST_ITEMS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
/** Histogram buckets: from a disk with a battery-backed cache to `limits.diskAnswerMs`, after which reports are refused. */
const SYNC_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** The counters of a service. A report costs one or two additions; the histograms are updated once for each batch. */
export class Metrics {
  /** Number of replies, by path of the route table and then by status. */
  readonly requests = new Map<string, number[]>();
  readonly batchEvents = new Histogram(BATCH_EVENTS);
  readonly syncSeconds = new Histogram(SYNC_SECONDS);
  readonly requestItems = new Histogram(REQUEST_ITEMS);
  readonly ackSeconds = new Histogram(SYNC_SECONDS);
  writtenBytes = 0;
  /** Number of events that were not recorded again, since an earlier report has their idempotency key. */
  replays = 0;
  /** Number of readings, by their form or their subject; never by text of a client. */
  readonly reads = new Map<string, number>();
  /** Number of events that were sent to readings. */
  sentEvents = 0;
  openStreams = 0;
  /** Number of durable events, by type. */
  readonly events: Record<Event['type'], number> = {
    AssetMaterialization: 0,
    AssetCheckEvaluation: 0,
    AssetObservation: 0,
  };
  /** Number of requests without a valid token since the start (hosted mode): replies `401` and `429`. */
  authFailures = 0;
  /** Undefined without `--deployment-metrics`. */
  deployments: DeploymentCounts | undefined;
  /** The open journals; a journal adds and removes itself. */
  readonly journals = new Set<JournalFigures>();
  /** The open connections; the listener sets it to its own collection. */
  connections: { readonly size: number } = new Set();

  /**
   * Counts a reply.
   * @param path the path of the route that matched the request, or `/other`
   */
  answered(path: string, status: number): void {
    let counts = this.requests.get(path);
    if (counts === undefined) {
      counts = [];
      this.requests.set(path, counts);
    }
    counts[status] = (counts[status] ?? 0) + 1;
  }

  /** Counts a recorded request of the batch endpoint. @param items number of its durable events */
  recordedBatch(items: number): void {
    this.requestItems.observe(items);
  }

  /** Counts a reply that has waited for `--ack`. @param ms the time since the sync */
  acknowledged(ms: number): void {
    this.ackSeconds.observe(ms / 1000);
  }

  /** Counts the start of a reading. @param kind its form or its subject, never a client's text */
  read(kind: string): void {
    this.reads.set(kind, (this.reads.get(kind) ?? 0) + 1);
  }

  /**
   * Counts a durable batch.
   * @param bytes the bytes of their lines
   * @param ms the time to write and sync the batch
   */
  wrote(events: number, bytes: number, ms: number): void {
    this.batchEvents.observe(events);
    this.syncSeconds.observe(ms / 1000);
    this.writtenBytes += bytes;
  }
}

class Histogram {
  /** Upper bounds, ascending. */
  readonly #bounds: readonly number[];
  /** Number of values in each bucket: up to its bound and above the previous bound; the last bucket is above all bounds. */
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = [...bounds, 0].fill(0);
  }

  observe(value: number): void {
    const at = this.#bounds.findIndex((bound) => value <= bound);
    this.#counts[at === -1 ? this.#bounds.length : at]! += 1;
    this.#sum += value;
  }

  samples(): string[] {
    let count = 0;
    const buckets = this.#counts.map((more, at) => {
      count += more;
      return `_bucket{le="${this.#bounds[at] ?? '+Inf'}"} ${count}`;
    });
    return [...buckets, `_sum ${this.#sum}`, `_count ${count}`];
  }
}

/** @returns the body of `/metrics` */
export function metricsText(counts: Metrics, figures: ShownFigures, { deploymentSeriesMax }: Limits): string {
  let text = '';
  const add: Add = (own, type, help, samples) => {
    // The Prometheus client libraries share the names of process metrics, so these have no prefix of assetlog.
    const name = own.startsWith('process') ? own : `assetlog_${own}`;
    text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
    for (const sample of samples) text += `${name}${sample}\n`;
  };
  const gauge = (name: string, help: string, value: number) => add(name, 'gauge', help, [` ${value}`]);
  const sumOf = (figure: keyof JournalFigures) => [...counts.journals].reduce((sum, one) => sum + one[figure], 0);

  const requests = [...counts.requests].flatMap(([path, byStatus]) =>
    Object.entries(byStatus).map(
      ([status, count]) => `{endpoint="${path.slice(1) || 'page'}",status="${status}"} ${count}`,
    ),
  );
  const events = Object.entries(counts.events).map(([type, count]) => `{type="${type}"} ${count}`);
  add('http_requests_total', 'counter', 'Replies by path and status.', requests);
  add('events_total', 'counter', 'Recorded events.', events);
  add('written_bytes_total', 'counter', 'Bytes of recorded lines.', [` ${counts.writtenBytes}`]);
  add('batch_events', 'histogram', 'Events that shared a write and sync.', counts.batchEvents.samples());
  add('request_items', 'histogram', 'Events in one request of the batch endpoint.', counts.requestItems.samples());
  add('sync_seconds', 'histogram', 'Time to write and sync a batch.', counts.syncSeconds.samples());
  add(
    'idempotent_replays_total',
    'counter',
    'Repeated events that were not recorded again, by their idempotency key.',
    [` ${counts.replays}`],
  );
  add('ack_seconds', 'histogram', 'Time from the sync to the acknowledgement of --ack.', counts.ackSeconds.samples());
  gauge('ack_waiting', 'Replies that wait for the acknowledgement of --ack.', figures.waitingReplies);
  if (figures.keys !== undefined) {
    const { held, oldestSeconds } = figures.keys;
    const seconds = oldestSeconds === undefined ? 0 : Math.max(0, Math.floor(Date.now() / 1000) - oldestSeconds);
    gauge('idempotency_keys', 'Idempotency keys that are remembered.', held);
    gauge('idempotency_window_seconds', 'Age of the oldest key, in the journal with the shortest window.', seconds);
  }
  const reads = [...counts.reads].map(([kind, count]) => `{kind="${kind}"} ${count}`);
  add('reads_total', 'counter', 'Readings by kind.', reads);
  add('read_events_total', 'counter', 'Events sent to readings.', [` ${counts.sentEvents}`]);
  gauge('streams', 'Open streams of events.', counts.openStreams);
  gauge('queue_bytes', 'Memory of the events that wait for the disk.', sumOf('queueBytes'));
  gauge('last_seq', 'Seq of the newest event; a sum over open journals.', sumOf('lastSeq'));
  gauge('journal_files', 'Files of open journals.', sumOf('files'));
  const watched = [...figures.watchedAges].map(
    ([key, seconds]) =>
      `{key="${key.replace(/["\\]/g, '\\$&')}"} ${seconds === Number.POSITIVE_INFINITY ? '+Inf' : seconds}`,
  );
  add('watched_asset_age_seconds', 'gauge', 'Time since the last event of the oldest asset under a key.', watched);
  const { refused, unsaved } = figures.assets;
  const help = 'Events of new assets for which the state of the assets had no memory.';
  add('assets_refused_total', 'counter', help, [` ${refused}`]);
  gauge('assets_unsaved', 'Journals whose state of the assets could not be written.', unsaved);
  if (figures.freeBytes !== undefined) gauge('disk_free_bytes', 'Free space of the disk.', figures.freeBytes);
  gauge('connections', 'Open connections.', counts.connections.size);
  const failures = [` ${counts.authFailures}`];
  add('auth_failures_total', 'counter', 'Requests without a valid token.', failures);
  const tokens = Object.entries(figures.tokens).map(([state, count]) => `{state="${state}"} ${count}`);
  add('tokens', 'gauge', 'Tokens of the deployments file by state; expiring: within 14 days.', tokens);
  gauge('deployments_in_trouble', 'Deployments that cannot record now.', figures.deploymentsInTrouble);
  gauge('files_refused', 'Files of the operator that are refused or do not answer.', figures.filesRefused);
  counts.deployments?.show(add, figures.deployments ?? [], deploymentSeriesMax);
  const { sources, sourcesShare, silentSeconds, lostEvents, sourcesStopped, unsentEvents } = figures.hub;
  addForwarding(add, figures.forwarding, lostEvents);
  gauge('hub_sources', 'Journals whose forwarded events this service has; a sum.', sources);
  gauge('hub_sources_stopped', 'Journals that cannot send; a sum.', sourcesStopped);
  gauge('hub_unsent_events', 'Events that these have not sent; a sum.', unsentEvents);
  gauge('hub_sources_ratio', 'Share of the sources that one journal accepts; the largest.', sourcesShare);
  const silence = silentSeconds === undefined ? [] : [` ${silentSeconds}`];
  add('hub_silent_seconds', 'gauge', 'Time since the last request of the most silent journal.', silence);
  gauge('ready', '1 while /readyz answers 200.', Number(figures.isReady));
  add('build_info', 'gauge', 'Version of assetlog and of Node.', [
    `{version="${version}",node="${process.version}"} 1`,
  ]);
  gauge('process_resident_memory_bytes', 'Resident memory.', process.memoryUsage.rss());
  gauge('process_start_time_seconds', 'When the process started.', performance.timeOrigin / 1000);
  return text;
}

/**
 * One sample for each destination: the sum over its journals, or their largest value.
 * @param hubLostEvents number of events that sources reported as lost
 */
function addForwarding(add: Add, all: readonly ForwardFigures[], hubLostEvents: number): void {
  const gauge = (name: string, help: string, figure: (one: ForwardFigures) => number | undefined) => {
    const samples = all.filter((one) => figure(one) !== undefined);
    add(
      `forward_${name}`,
      'gauge',
      help,
      samples.map((one) => `{destination="${one.destination}"} ${figure(one)}`),
    );
  };
  const counts = (
    name: string,
    help: string,
    label: string,
    of: (one: ForwardFigures) => ReadonlyMap<string, number>,
  ) => {
    const samples = all.flatMap((one) =>
      [...of(one)].map(([value, count]) => `{destination="${one.destination}",${label}="${value}"} ${count}`),
    );
    add(`forward_${name}`, name.endsWith('_total') ? 'counter' : 'gauge', help, samples);
  };
  gauge('lag_events', 'Events that a destination has not received; a sum over deployments.', (one) => one.lagEvents);
  gauge('lag_seconds', 'Age of the oldest such event; the largest of all deployments.', (one) => one.lagSeconds);
  gauge('held_bytes', 'Size of the files with such events; a sum.', (one) => one.heldBytes);
  gauge('dead_letters', 'Open dead letters; a sum.', (one) => one.deadLetters);
  gauge(
    'last_success_timestamp_seconds',
    'When a destination accepted an event; the latest.',
    (one) => one.lastSuccessSeconds,
  );
  const lost = (figure: (one: ForwardFigures) => number) => [
    ` ${hubLostEvents}`,
    ...all.map((one) => `{destination="${one.destination}"} ${figure(one)}`),
  ];
  add(
    'forward_lost_events_total',
    'counter',
    'Events that were removed unconfirmed; without a destination: of journals that forward to this service.',
    lost(({ lostEvents }) => lostEvents),
  );
  add(
    'forward_missing_events',
    'gauge',
    'Events that were removed unconfirmed and are missing now.',
    lost(({ missingEvents }) => missingEvents),
  );
  counts('state', 'Deployments by the state of forwarding.', 'state', (one) => one.states);
  counts('events_total', 'Events by their outcome at a destination.', 'outcome', (one) => one.outcomes);
  counts('requests_total', 'Requests to a destination by their answer.', 'answer', (one) => one.answers);
  addAlarms(add, all);
}

/** One sample for each hook with `on`: the sum over its journals. */
function addAlarms(add: Add, all: readonly ForwardFigures[]): void {
  const hooks = all.flatMap(({ destination, alarms }) => (alarms === undefined ? [] : [{ destination, alarms }]));
  const gauge = (name: string, help: string, figure: (one: AlarmFigures) => number) => {
    const samples = hooks.map(({ destination, alarms }) => `{destination="${destination}"} ${figure(alarms)}`);
    add(name, 'gauge', help, samples);
  };
  gauge('alarms', 'Alarms that a hook was sent and that have not ended; a sum over deployments.', (one) => one.told);
  gauge('alarms_waiting', 'Alarms that are due and that a hook has not accepted yet.', (one) => one.waiting);
  gauge('alarms_left_out', 'Alarms that are not sent to a hook, since it has too many.', (one) => one.left);
  const posts = hooks.flatMap(({ destination, alarms }) =>
    [...alarms.posts].map(([name, count]) => {
      const [on, ...outcome] = name.split(' ');
      return `{destination="${destination}",on="${on}",outcome="${outcome.join(' ')}"} ${count}`;
    }),
  );
  add('alarm_posts_total', 'counter', 'Posts of alarms by their outcome at a hook.', posts);
}
