/**
 * What an operator's Prometheus reads from `/metrics`: the counters that the parts of the service add to, and their text in
 * the exposition format 0.0.4. No label comes from a request: an endpoint is a path of the route table, or `other`.
 */

import type { Event } from './event.ts';

export const metricsType = 'text/plain; version=0.0.4; charset=utf-8';

/** Of one journal, or the sums of several. All are 0 while none is open. */
export interface JournalFigures {
  readonly lastSeq: number;
  readonly files: number;
  /** The memory of the events that wait for the disk, about. */
  readonly queueBytes: number;
}

/** What is looked at when somebody asks, rather than counted. */
export interface Gauges {
  readonly journal: JournalFigures;
  readonly ready: boolean;
  /** Undefined where the system does not tell. */
  readonly freeBytes: number | undefined;
  readonly residentBytes: number;
  readonly startedSeconds: number;
  readonly version: string;
  readonly node: string;
}

/** @param all undefined for a journal that is not open */
export function sumOf(all: readonly (JournalFigures | undefined)[]): JournalFigures {
  let [lastSeq, files, queueBytes] = [0, 0, 0];
  for (const one of all) {
    lastSeq += one?.lastSeq ?? 0;
    files += one?.files ?? 0;
    queueBytes += one?.queueBytes ?? 0;
  }
  return { lastSeq, files, queueBytes };
}

/** Upper bounds, and how many values were at or below each and above the one before it. Their count is the last one's. */
class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let at = 0;
    while (at < this.#bounds.length && value > this.#bounds[at]!) at += 1;
    this.#counts[at]! += 1;
    this.#sum += value;
  }

  samples(name: string): string[] {
    let count = 0;
    const buckets = Array.from(this.#counts, (more, at) => {
      count += more;
      return `${name}_bucket{le="${this.#bounds[at] ?? '+Inf'}"} ${count}`;
    });
    return [...buckets, `${name}_sum ${this.#sum}`, `${name}_count ${count}`];
  }
}

/** From a lone report to a crowd that waited for a slow disk. */
const BATCH_EVENTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
/** From a disk with a battery behind its cache to one that `limits.diskAnswerMs` gives up on. */
const SYNC_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** What is counted while the service runs: an addition or two for a report, the histograms once for a batch. */
export class Metrics {
  /** By path of the route table, then by status. */
  readonly #requests = new Map<string, Map<number, number>>();
  readonly #events: Record<Event['type'], number> = {
    AssetMaterialization: 0,
    AssetCheckEvaluation: 0,
    AssetObservation: 0,
  };
  readonly #batchEvents = new Histogram(BATCH_EVENTS);
  readonly #syncSeconds = new Histogram(SYNC_SECONDS);
  #writtenBytes = 0;
  #removedFiles = 0;
  /** Open now. */
  connections = 0;

  /** @param path of the route that the request found, undefined where it found none or was refused before */
  answered(path: string | undefined, status: number): void {
    const known = path ?? '/other';
    let counts = this.#requests.get(known);
    if (counts === undefined) {
      counts = new Map();
      this.#requests.set(known, counts);
    }
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }

  recorded(type: Event['type']): void {
    this.#events[type] += 1;
  }

  /** A batch is on the disk, and took so long to get there. */
  wrote(events: number, bytes: number, ms: number): void {
    this.#batchEvents.observe(events);
    this.#syncSeconds.observe(ms / 1000);
    this.#writtenBytes += bytes;
  }

  removedFile(): void {
    this.#removedFiles += 1;
  }

  /** @returns the body of `/metrics` */
  render({ journal, ready, freeBytes, residentBytes, startedSeconds, version, node }: Gauges): string {
    const requests = [...this.#requests].flatMap(([path, counts]) =>
      [...counts].map(([status, count]) => `{endpoint="${path.slice(1)}",status="${status}"} ${count}`),
    );
    const events = Object.entries(this.#events).map(([type, count]) => `{type="${type}"} ${count}`);
    const several = ', in hosted mode of all journals that are open together';
    const all: readonly (readonly [name: string, type: string, help: string, samples: readonly (string | number)[]])[] =
      [
        ['http_requests_total', 'counter', 'Requests answered, by endpoint and status.', requests],
        ['events_total', 'counter', 'Events recorded durably, by type.', events],
        ['journal_written_bytes_total', 'counter', 'Bytes written to journals and synced.', [this.#writtenBytes]],
        ['journal_removed_files_total', 'counter', 'Journal files removed by retention.', [this.#removedFiles]],
        ['journal_last_seq', 'gauge', `seq of the newest event${several}.`, [journal.lastSeq]],
        ['journal_files', 'gauge', `Journal files${several}.`, [journal.files]],
        ['queue_bytes', 'gauge', 'Memory of the events that wait for the disk, about.', [journal.queueBytes]],
        [
          'disk_free_bytes',
          'gauge',
          'Free space of the disk with the data.',
          freeBytes === undefined ? [] : [freeBytes],
        ],
        ['connections', 'gauge', 'Connections that are open.', [this.connections]],
        ['ready', 'gauge', 'Whether /readyz answers 200.', [Number(ready)]],
        ['build_info', 'gauge', 'What is running.', [`{version="${version}",node="${node}"} 1`]],
      ];
    const lines = all.flatMap(([name, type, help, samples]) => metric(`assetlog_${name}`, type, help, samples));
    return [
      ...lines,
      ...histogram('assetlog_batch_events', 'Events of a batch, which share a sync.', this.#batchEvents),
      ...histogram('assetlog_sync_seconds', 'Time that a batch took to be written and synced.', this.#syncSeconds),
      // The names that every client library of Prometheus has for these two.
      ...metric('process_resident_memory_bytes', 'gauge', 'Memory of the process.', [residentBytes]),
      ...metric('process_start_time_seconds', 'gauge', 'Start of the process since the Unix epoch.', [startedSeconds]),
      '',
    ].join('\n');
  }
}

/** @param samples a value each, behind its labels where it has any; without one there is nothing to say */
function metric(name: string, type: string, help: string, samples: readonly (string | number)[]): string[] {
  if (samples.length === 0) return [];
  return [
    ...headOf(name, type, help),
    ...samples.map((sample) => name + (typeof sample === 'number' ? ' ' : '') + sample),
  ];
}

function histogram(name: string, help: string, values: Histogram): string[] {
  return [...headOf(name, 'histogram', help), ...values.samples(name)];
}

function headOf(name: string, type: string, help: string): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}
