/**
 * Reports with an idempotency key (draft-ietf-httpapi-idempotency-key-header-07): each key is recorded once, however often its
 * report is sent.
 *
 * An event with a key is one of these:
 *
 * | its key | then |
 * |---|---|
 * | waits for the disk with another report | it joins that report and gets its result; a failure leaves the key free |
 * | is in a durable line with the same event | it counts as recorded (replayed) |
 * | belongs to another event | conflict: nothing of the report is recorded, or all but this event |
 * | is not known | it is queued, and remembered when it is durable |
 *
 * All events of a report are looked up before any is queued. Looking up is synchronous, but for keys whose hash is known: their
 * lines are read back, and after that all events are looked up again, since another report may have queued the same key
 * meanwhile. Queueing follows in the same turn of the event loop, so no key can be queued twice.
 */

import type { Limits } from '../config/limits.ts';
import {
  type ConflictHandling,
  type KeyConflict,
  type RecordResult,
  recorded,
  refused,
} from '../event/record-result.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Disk } from './disk.ts';
import type { JournalKeys } from './idempotency-keys.ts';
import { type Comparison, differingMember } from './idempotency-lookup.ts';
import { PendingKeys } from './idempotency-pending.ts';
import { LineReads, type Unread } from './idempotency-reads.ts';
import type { LineLocation } from './idempotency-table.ts';
import type { LineMembers } from './record.ts';

/**
 * The events of a report of which at least one has an idempotency key. Example:
 * `{ lines: [members], keys: ['order-17/1'], heldBytes: 2_600, onConflict: 'refuse all', done }`.
 */
export interface KeyedReport {
  /** The members of each line, from `encodeMembers`. */
  readonly lines: readonly LineMembers[];
  /** For each line its key, such as `order-17/1`; undefined for an event without one. */
  readonly keys: readonly (string | undefined)[];
  /** Approximate memory that it takes while it waits, in bytes. */
  readonly heldBytes: number;
  readonly onConflict: ConflictHandling;
  /** Called once, with the result of all its events. */
  readonly done: (result: RecordResult) => void;
}

/** What the reports with keys need of their journal: `{ disk, limits, notices, keys, queue, hold, answer, onReplayed }`. */
export interface KeyedReportsOptions {
  readonly disk: Disk;
  readonly limits: Pick<Limits, 'lineBytesMax' | 'diskAnswerMs' | 'keyReadsMax' | 'notAcceptedNoticeMs'>;
  readonly notices: Notices;
  readonly keys: JournalKeys;
  /** Queues the lines for the next batch, or calls `done` with a refusal. */
  readonly queue: (report: KeyedReport) => void;
  /** Counts memory of reports that wait and are not in the queue; a negative number when they no longer do. */
  readonly hold: (bytes: number) => void;
  /** Calls `done` with the result, whatever it throws. */
  readonly answer: (done: KeyedReport['done'], result: RecordResult) => void;
  /** Called with the number of events that were recorded before. */
  readonly onReplayed: (count: number) => void;
}

/**
 * The reports with keys of one journal, each from `admit` until it has its result. A report whose key is in a durable line with
 * the same event gets `{ kind: 'recorded', replayed: [0] }`.
 */
export class KeyedReports {
  readonly #options: KeyedReportsOptions;
  /** By key: the events in the queue and in the batch that is being written. */
  readonly #pending = new PendingKeys<Pending>();
  readonly #reads: LineReads;
  /** Reports that came before the keys of the journal were known; undefined since they are. */
  #early: KeyedReport[] | undefined = [];
  /** Reports that wait for lines to be read. */
  #lookups = 0;
  /** Called when no report does. */
  readonly #onSettled: (() => void)[] = [];
  /** Time of the last log entry that a line could not be read. */
  #unreadableAtMs = Number.NEGATIVE_INFINITY;

  /** Until `opened`, reports wait for the keys of the journal. */
  constructor(options: KeyedReportsOptions) {
    this.#options = options;
    const { disk, limits, keys } = options;
    const onUnreadable = (file: string, problem: string) => this.#reportUnreadable(file, problem);
    this.#reads = new LineReads({ disk, limits, fileOf: (seq) => keys.fileOf(seq), onUnreadable });
  }

  /**
   * Takes a report that the queue would take now. Its `done` is called once. With `refuse all`, a conflict such as
   * `{ kind: 'conflict', conflicts: [{ index: 0, key: 'order-17/1', member: 'metadata', first: undefined }] }` comes before
   * anything is queued.
   */
  admit(report: KeyedReport): void {
    if (this.#early === undefined) {
      if (this.#isNewByItself(report)) {
        this.#queue(report, report.lines, report.keys, (result) => this.#options.answer(report.done, result));
        return;
      }
      const lookup = new Lookup(report);
      const unread = this.#decide(lookup);
      if (unread.length > 0) void this.#readAndDecide(lookup, unread);
      return;
    }
    this.#options.hold(report.heldBytes);
    this.#early.push(report);
  }

  /** The keys of the journal are known now: admits the reports that came before. Example: `opened()` after `keys.load()`. */
  opened(): void {
    const early = this.#takeEarly();
    this.#early = undefined;
    for (const report of early) this.admit(report);
  }

  /**
   * Refuses the reports that came before the keys of the journal were known. Example: `refuseEarly('the service is stopping')`.
   */
  refuseEarly(reason: string): void {
    for (const { done } of this.#takeEarly()) this.#options.answer(done, refused(reason));
  }

  /**
   * Resolves when no report waits for a line to be read, after `limits.diskAnswerMs` (10 s) at most. `await keyed.settled()`
   * precedes the last write of a close.
   */
  async settled(): Promise<void> {
    if (this.#lookups > 0) await new Promise<void>((resolve) => this.#onSettled.push(resolve));
  }

  /** True for most reports, which then need no lookup of several events. */
  #isNewByItself({ keys }: KeyedReport): boolean {
    const [key] = keys;
    if (keys.length !== 1 || key === undefined || this.#pending.has(key)) return false;
    return this.#options.keys.find(key).length === 0;
  }

  #takeEarly(): KeyedReport[] {
    const early = this.#early?.splice(0) ?? [];
    for (const { heldBytes } of early) this.#options.hold(-heldBytes);
    return early;
  }

  /** Never rejects. */
  async #readAndDecide(lookup: Lookup, unread: readonly Unread[]): Promise<void> {
    const { hold, answer } = this.#options;
    const { heldBytes, done } = lookup.report;
    this.#lookups += 1;
    hold(heldBytes);
    for (let next = unread; next.length > 0; ) {
      const failure = await this.#reads.compareAll(next);
      if (failure !== undefined) {
        answer(done, refused(failure));
        break;
      }
      next = this.#decide(lookup);
    }
    hold(-heldBytes);
    this.#lookups -= 1;
    if (this.#lookups === 0) for (const resolve of this.#onSettled.splice(0)) resolve();
  }

  /**
   * Looks up all events of a report. If no line has to be read for that, queues it or answers it.
   * @returns the lines that have to be read first
   */
  #decide(lookup: Lookup): Unread[] {
    const { lines, keys } = lookup.report;
    const found: Found = { fresh: [], replayed: [], joined: new Set(), conflicts: [], unread: [] };
    const firstOf = new Map<string, number>();
    for (const [index, key] of keys.entries()) {
      const members = lines[index] as LineMembers;
      const first = key === undefined ? undefined : firstOf.get(key);
      const pending = key === undefined ? undefined : this.#pending.get(key);
      if (key === undefined) {
        found.fresh.push(index);
      } else if (first !== undefined) {
        this.#sort(found, { index, key, first }, differingMember(lines[first] as LineMembers, members));
      } else if (pending !== undefined) {
        found.joined.add(pending.queued);
        this.#sort(found, { index, key, first }, differingMember(pending.members, members));
      } else {
        this.#decideByLines(found, lookup, index, key);
      }
      // An event with a conflict is not recorded, so its key still belongs to the other event.
      const conflicts = found.conflicts.at(-1)?.index === index;
      if (key !== undefined && first === undefined && !conflicts) firstOf.set(key, index);
    }
    if (found.unread.length === 0) this.#conclude(lookup.report, found);
    return found.unread;
  }

  /** @param member the first that differs from the event which has the key; undefined if it is the same event */
  #sort(found: Found, event: Omit<KeyConflict, 'member'>, member: string | undefined): void {
    if (member === undefined) found.replayed.push(event.index);
    else found.conflicts.push({ ...event, member });
  }

  /** Compares an event with the durable lines whose keys have the same hash, the latest first. */
  #decideByLines(found: Found, lookup: Lookup, index: number, key: string): void {
    const members = lookup.report.lines[index] as LineMembers;
    for (const location of this.#options.keys.find(key)) {
      const comparison = lookup.comparison(index, location);
      if (comparison === undefined) {
        const compared = (result: Comparison) => lookup.compared(index, location, result);
        found.unread.push({ key, members, location, compared });
        return;
      }
      if (comparison.kind !== 'other key') {
        this.#sort(found, { index, key, first: undefined }, comparison.kind === 'same' ? undefined : comparison.member);
        return;
      }
    }
    found.fresh.push(index);
  }

  /** Queues or answers a report whose events are all looked up. */
  #conclude(report: KeyedReport, { fresh, replayed, joined, conflicts }: Found): void {
    const { hold, answer, onReplayed } = this.#options;
    if (conflicts.length > 0 && (report.onConflict === 'refuse all' || fresh.length + replayed.length === 0)) {
      answer(report.done, { kind: 'conflict', conflicts });
      return;
    }
    // The queue counts the memory of what it holds. A report that only waits for others is counted here.
    const heldBytes = fresh.length > 0 ? 0 : report.heldBytes;
    hold(heldBytes);
    let left = joined.size + 1;
    let failure: RecordResult | undefined;
    const finish = (result: RecordResult) => {
      if (result.kind !== 'recorded') failure ??= result;
      left -= 1;
      if (left > 0) return;
      hold(-heldBytes);
      if (failure === undefined && replayed.length > 0) onReplayed(replayed.length);
      answer(report.done, failure ?? recordedWith(replayed, conflicts));
    };
    for (const queued of joined) queued.waiting.push(finish);
    if (fresh.length === 0) {
      finish(recorded);
      return;
    }
    const lines = fresh.map((index) => report.lines[index] as LineMembers);
    const keys = fresh.map((index) => report.keys[index]);
    this.#queue(report, lines, keys, finish);
  }

  /** @param lines those of the report's events that are not recorded yet, with their keys */
  #queue(
    { heldBytes, onConflict }: KeyedReport,
    lines: readonly LineMembers[],
    keys: readonly (string | undefined)[],
    finish: KeyedReport['done'],
  ): void {
    const queued: Queued = { waiting: [finish] };
    for (const [at, key] of keys.entries()) {
      if (key !== undefined) this.#pending.add(key, { members: lines[at] as LineMembers, queued });
    }
    this.#options.queue({
      lines,
      keys,
      heldBytes,
      onConflict,
      done: (result) => {
        for (const key of keys) if (key !== undefined) this.#pending.delete(key);
        for (const answer of queued.waiting) answer(result);
      },
    });
  }

  #reportUnreadable(file: string, problem: string): void {
    const now = performance.now();
    if (now - this.#unreadableAtMs < this.#options.limits.notAcceptedNoticeMs) return;
    this.#unreadableAtMs = now;
    this.#options.notices.error(
      'the line of an earlier report can not be read; reports with its idempotency key get 503',
      { file, problem },
    );
  }
}

function recordedWith(replayed: readonly number[], conflicts: readonly KeyConflict[]): RecordResult {
  if (replayed.length === 0 && conflicts.length === 0) return recorded;
  return {
    kind: 'recorded',
    ...(replayed.length > 0 && { replayed }),
    ...(conflicts.length > 0 && { conflicts }),
  };
}

/** An event with a key that waits for the disk. */
interface Pending {
  readonly members: LineMembers;
  readonly queued: Queued;
}

/** A report in the queue, and the reports that get its result. */
interface Queued {
  /** Called with the result in their order; the first is the report itself. */
  readonly waiting: ((result: RecordResult) => void)[];
}

/** What the lookup of all events of a report found; events are given by their indexes. */
interface Found {
  /** Events that are not recorded yet. */
  readonly fresh: number[];
  /** Events that are recorded, or will be when the reports in `joined` are. */
  readonly replayed: number[];
  readonly joined: Set<Queued>;
  readonly conflicts: KeyConflict[];
  /** Lines that have to be read before the report can be decided. */
  readonly unread: Unread[];
}

/** A report that is being looked up, and what the lines that were read for it say. */
class Lookup {
  readonly report: KeyedReport;
  /** By event and by seq of the line. */
  readonly #comparisons = new Map<string, Comparison>();

  constructor(report: KeyedReport) {
    this.report = report;
  }

  comparison(index: number, { seq }: LineLocation): Comparison | undefined {
    return this.#comparisons.get(`${index} ${seq}`);
  }

  compared(index: number, { seq }: LineLocation, comparison: Comparison): void {
    this.#comparisons.set(`${index} ${seq}`, comparison);
  }
}
