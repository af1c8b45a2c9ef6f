/**
 * What an operator's Prometheus reads from `/metrics`: the counters that the parts of the service add to, and their text in
 * the exposition format 0.0.4. No label comes from a request: an endpoint is a path of the route table, or `other`.
 */

import { version } from '../config/config.ts';
import type { Event } from '../event/event.ts';

export const metricsType = 'text/plain; version=0.0.4; charset=utf-8';

/** Of one journal that is open. */
export interface JournalFigures {
  readonly lastSeq: number;
  readonly files: number;
  /** The memory of the events that wait for the disk, about. */
  readonly queueBytes: number;
}

/** From a lone report to a crowd that waited for a slow disk. */
const BATCH_EVENTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
/** From a disk with a battery behind its cache to one that `limits.diskAnswerMs` gives up on. */
const SYNC_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** What is counted while the service runs: an addition or two for a report, the histograms once for a batch. */
export class Metrics {
  /** By path of the route table; each by status. */
  readonly #requests = new Map<string, number[]>();
  readonly #batchEvents = new Histogram(BATCH_EVENTS);
  readonly #syncSeconds = new Histogram(SYNC_SECONDS);
  #writtenBytes = 0;
  /** Recorded durably. */
  readonly events: Record<Event['type'], number> = {
    AssetMaterialization: 0,
    AssetCheckEvaluation: 0,
    AssetObservation: 0,
  };
  /** Those that are open, kept by whoever opens and closes them. */
  readonly journals = new Set<JournalFigures>();
  /** Those that are open; the listener puts its own here. */
  connections: { readonly size: number } = new Set();

  /** @param path of the route that the request found, or `/other` */
  answered(path: string, status: number): void {
    let counts = this.#requests.get(path);
    if (counts === undefined) {
      counts = [];
      this.#requests.set(path, counts);
    }
    counts[status] = (counts[status] ?? 0) + 1;
  }

  /** A batch is on the disk, and took so long to get there. */
  wrote(events: number, bytes: number, ms: number): void {
    this.#batchEvents.observe(events);
    this.#syncSeconds.observe(ms / 1000);
    this.#writtenBytes += bytes;
  }

  /**
   * @param freeBytes of the disk, undefined where the system does not tell
   * @returns the body of `/metrics`
   */
  render(ready: boolean, freeBytes: number | undefined): string {
    let text = '';
    /** @param samples what stands behind the name */
    const add = (own: string, type: string, help: string, samples: readonly string[]) => {
      // Every client library of Prometheus has the same names for what it says of its process.
      const name = own.startsWith('process') ? own : `assetlog_${own}`;
      text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
      for (const sample of samples) text += `${name}${sample}\n`;
    };
    const gauge = (name: string, help: string, value: number) => add(name, 'gauge', help, [` ${value}`]);
    const sumOf = (figure: keyof JournalFigures) => [...this.journals].reduce((sum, one) => sum + one[figure], 0);

    const requests = [...this.#requests].flatMap(([path, counts]) =>
      Object.entries(counts).map(([status, count]) => `{endpoint="${path.slice(1)}",status="${status}"} ${count}`),
    );
    const events = Object.entries(this.events).map(([type, count]) => `{type="${type}"} ${count}`);
    add('http_requests_total', 'counter', 'Replies by path and status.', requests);
    add('events_total', 'counter', 'Events on the disk.', events);
    add('written_bytes_total', 'counter', 'Bytes of their lines.', [` ${this.#writtenBytes}`]);
    add('batch_events', 'histogram', 'Events that shared a write and sync.', this.#batchEvents.samples());
    add('sync_seconds', 'histogram', 'How long a batch took to be written and synced.', this.#syncSeconds.samples());
    gauge('queue_bytes', 'Memory of the events that wait for the disk.', sumOf('queueBytes'));
    gauge('last_seq', 'Newest event; a sum over open journals.', sumOf('lastSeq'));
    gauge('journal_files', 'Files of open journals.', sumOf('files'));
    if (freeBytes !== undefined) gauge('disk_free_bytes', 'Free space of the disk.', freeBytes);
    gauge('connections', 'Open connections.', this.connections.size);
    gauge('ready', '1 while /readyz answers 200.', Number(ready));
    add('build_info', 'gauge', 'What runs.', [`{version="${version}",node="${process.version}"} 1`]);
    gauge('process_resident_memory_bytes', 'Resident memory.', process.memoryUsage.rss());
    gauge('process_start_time_seconds', 'When the process started.', performance.timeOrigin / 1000);
    return text;
  }
}

class Histogram {
  /** Upper bounds, rising. */
  readonly #bounds: readonly number[];
  /** Of the values at or below each bound and above the one before it; the last is of those above all. */
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
