/**
 * Reports with an idempotency key (draft-ietf-httpapi-idempotency-key-header-07): each key is recorded once, however often its
 * report is sent.
 *
 * The key of an event decides:
 *
 * | key | event |
 * |---|---|
 * | waits for the disk with another report | joins that report and gets its result; a failure leaves the key free |
 * | is in a durable line with the same event | counts as recorded (replayed) |
 * | belongs to another event | conflict: nothing of the report is recorded, or all but this event |
 * | is not known | is queued, and its key is remembered when it is durable |
 *
 * All events of a report are looked up before any is queued. A lookup is synchronous unless the hash of a key is known. In that
 * case lines are read back, and then all events are looked up again, since another report might have queued the same key in the
 * meantime. Queueing follows in the same turn of the event loop, so no key can be queued twice.
 */

import type { Limits } from '../../config/limits.ts';
import {
  type ConflictHandling,
  type Done,
  type KeyConflict,
  type RecordResult,
  recorded,
  refused,
} from '../../event/record-result.ts';
import { atMostEvery, type Notices } from '../../telemetry/log.ts';
import type { Disk } from '../disk.ts';
import { type LineMembers, lineBytesMax } from '../line/record.ts';
import type { KeyedEntry, QueueEntry } from '../queue-entry.ts';
import type { JournalKeys } from './keys.ts';
import { type Comparison, findDifferingMember, LineReads, type LineToCompare, PendingKeys } from './lookup.ts';
import type { HashedKey } from './table.ts';

export interface KeyedReportsOptions {
  readonly disk: Disk;
  readonly limits: Limits;
  readonly notices: Notices;
  readonly keys: JournalKeys;
  /** Queues an entry for the next batch, or refuses it; the journal calls `release` in both cases. */
  readonly queue: (entry: KeyedEntry) => void;
  /** Counts the memory of reports that wait outside the queue; a negative number when their wait ends. */
  readonly hold: (bytes: number) => void;
  /** Calls `done` with the result, and catches its exceptions. */
  readonly answer: (done: Done, ...result: Parameters<Done>) => void;
  /** Called with the number of events that were recorded earlier. */
  readonly onReplayed: (count: number) => void;
}

/** The reports with keys of one journal, each from `admit` until it has its result. */
export class KeyedReports {
  readonly #options: KeyedReportsOptions;
  /** By key: the events in the queue and in the batch that is being written. */
  readonly #pending = new PendingKeys();
  readonly #reads: LineReads;
  /** Reports that wait for the keys to be loaded; undefined afterwards. */
  #early: EarlyReport[] | undefined = [];
  /** Number of reports that wait for lines to be read. */
  #lookups = 0;
  /** Called when no report waits for lines. */
  readonly #onSettled: (() => void)[] = [];
  readonly #mayLog: (reason: string) => boolean;

  /** Until `opened` is called, reports wait for the keys of the journal. */
  constructor(options: KeyedReportsOptions) {
    this.#options = options;
    const { disk, limits, keys } = options;
    this.#mayLog = atMostEvery(limits.notAcceptedNoticeMs);
    const onUnreadable = (file: string, problem: string) => this.#reportUnreadable(file, problem);
    this.#reads = new LineReads({ disk, limits, fileOf: (seq) => keys.fileOf(seq), onUnreadable });
  }

  /**
   * Accepts a report for which the queue has space. Its `done` is called once. With `refuse all`, a conflict is the result before
   * any event is queued.
   */
  admit(entry: KeyedEntry, onConflict: ConflictHandling): void {
    if (this.#early !== undefined) {
      this.#options.hold(entry.heldBytes);
      this.#early.push({ entry, onConflict });
      return;
    }
    if (this.#isOneNewEvent(entry)) {
      this.#queue(entry);
      return;
    }
    const lookup: Lookup = { entry, onConflict, comparisons: [] };
    const lines = this.#decide(lookup);
    if (lines.length > 0) void this.#readAndDecide(lookup, lines);
  }

  /** Called when an entry has its result: its keys no longer wait for the disk. */
  release(keys: KeyedEntry['keys']): void {
    for (const key of keys) if (key !== undefined) this.#pending.delete(key.text);
  }

  /** Called when the keys of the journal are loaded: admits the reports that wait for them. */
  opened(): void {
    const early = this.#drainEarly();
    this.#early = undefined;
    for (const { entry, onConflict } of early) this.admit(entry, onConflict);
  }

  /** Refuses the reports that wait for the keys to be loaded. */
  refuseEarly(reason: string): void {
    for (const { entry } of this.#drainEarly()) this.#options.answer(entry.done, refused(reason));
  }

  /** Resolves when no report waits for a line to be read, after `limits.diskAnswerMs` at most. */
  async settled(): Promise<void> {
    if (this.#lookups > 0) await new Promise<void>((resolve) => this.#onSettled.push(resolve));
  }

  /** Whether the report is a single event with an unknown key. Most reports are, and need no `Lookup`. */
  #isOneNewEvent({ keys }: KeyedEntry): boolean {
    const [key] = keys;
    if (keys.length !== 1 || key === undefined || this.#pending.get(key.text) !== undefined) return false;
    return this.#options.keys.find(key).length === 0;
  }

  #drainEarly(): EarlyReport[] {
    const early = this.#early?.splice(0) ?? [];
    for (const { entry } of early) this.#options.hold(-entry.heldBytes);
    return early;
  }

  /** Never rejects. */
  async #readAndDecide(lookup: Lookup, lines: readonly LineToCompare[]): Promise<void> {
    const { hold, answer } = this.#options;
    const { heldBytes, done } = lookup.entry;
    this.#lookups += 1;
    hold(heldBytes);
    for (let next = lines; next.length > 0; ) {
      const compared = await this.#reads.compareAll(next);
      if (typeof compared === 'string') {
        answer(done, refused(compared));
        break;
      }
      for (const { index, location, comparison } of compared) {
        lookup.comparisons[index] ??= new Map();
        lookup.comparisons[index].set(location.seq, comparison);
      }
      next = this.#decide(lookup);
    }
    hold(-heldBytes);
    this.#lookups -= 1;
    if (this.#lookups === 0) for (const resolve of this.#onSettled.splice(0)) resolve();
  }

  /**
   * Looks up all events of a report. If no line has to be read, queues or answers it.
   * @returns the lines that have to be read first
   */
  #decide(lookup: Lookup): LineToCompare[] {
    const { lines, keys } = lookup.entry;
    const found: Findings = { fresh: [], replayed: [], seqs: [], joined: new Set(), conflicts: [], toRead: [] };
    const firstOf = new Map<string, number>();
    for (const [index, key] of keys.entries()) {
      const members = lines[index] as LineMembers;
      const first = key === undefined ? undefined : firstOf.get(key.text);
      const pending = key === undefined ? undefined : this.#pending.get(key.text);
      if (key === undefined) {
        found.fresh.push(index);
      } else if (first !== undefined) {
        this.#addKnown(
          found,
          { index, key: key.text, first },
          findDifferingMember(lines[first] as LineMembers, members),
        );
      } else if (pending !== undefined) {
        found.joined.add(pending.entry);
        this.#addKnown(found, { index, key: key.text, first }, findDifferingMember(pending.members, members));
      } else {
        this.#decideByLines(found, lookup, index, key);
      }
      // An event with a conflict is not recorded, so its key still belongs to the other event.
      const isConflict = found.conflicts.at(-1)?.index === index;
      if (key !== undefined && first === undefined && !isConflict) firstOf.set(key.text, index);
    }
    if (found.toRead.length === 0) this.#conclude(lookup, found);
    return found.toRead;
  }

  /**
   * Adds an event with a known key to the replayed events or to the conflicts.
   * @param member the first member that differs from the earlier event with this key; undefined if it is the same event
   */
  #addKnown(found: Findings, event: Omit<KeyConflict, 'member'>, member: string | undefined): void {
    if (member === undefined) found.replayed.push(event.index);
    else found.conflicts.push({ ...event, member });
  }

  /** Compares an event with the durable lines whose keys have the same hash, the latest first. */
  #decideByLines(found: Findings, lookup: Lookup, index: number, key: HashedKey): void {
    const members = lookup.entry.lines[index] as LineMembers;
    for (const location of this.#options.keys.find(key)) {
      const comparison = lookup.comparisons[index]?.get(location.seq);
      if (comparison === undefined) {
        found.toRead.push({ index, key: key.text, members, location });
        return;
      }
      if (comparison.kind !== 'other key') {
        const member = comparison.kind === 'same' ? undefined : comparison.member;
        if (member === undefined) found.seqs.push(location.seq);
        this.#addKnown(found, { index, key: key.text, first: undefined }, member);
        return;
      }
    }
    found.fresh.push(index);
  }

  /** Queues or answers a report after the lookup of all its events. */
  #conclude({ entry, onConflict }: Lookup, { fresh, replayed, seqs, joined, conflicts }: Findings): void {
    const { hold, answer, onReplayed } = this.#options;
    if (conflicts.length > 0 && (onConflict === 'refuse all' || fresh.length + replayed.length === 0)) {
      answer(entry.done, { kind: 'conflict', conflicts });
      return;
    }
    // The queue counts the memory of its entries. A report that only waits for others is counted here.
    const heldBytes = fresh.length > 0 ? 0 : entry.heldBytes;
    hold(heldBytes);
    let left = joined.size + 1;
    let failure: RecordResult | undefined;
    let [first, last] = [Number.POSITIVE_INFINITY, 0];
    const finish: Done = (result, from = first, to = last) => {
      if (result.kind !== 'recorded') failure ??= result;
      [first, last] = [Math.min(first, from), Math.max(last, to)];
      left -= 1;
      if (left > 0) return;
      hold(-heldBytes);
      if (failure === undefined && replayed.length > 0) onReplayed(replayed.length);
      answer(entry.done, failure ?? createResult(replayed, conflicts), first, last, seqs);
    };
    for (const queued of joined) {
      queued.joined ??= [];
      queued.joined.push(finish);
    }
    if (fresh.length === 0) {
      finish(recorded);
      return;
    }
    const lines = fresh.map((index) => entry.lines[index] as LineMembers);
    const keys = fresh.map((index) => entry.keys[index]);
    const ids = entry.ids && fresh.map((index) => entry.ids?.[index]);
    const lineBytes = lines.reduce((sum, members) => sum + lineBytesMax(members), 0);
    this.#queue({ lines, lineBytes, heldBytes: entry.heldBytes, done: finish, ids, keys, joined: undefined });
  }

  /** Queues an entry whose events are all new. */
  #queue(entry: KeyedEntry): void {
    const { lines, keys } = entry;
    for (let index = 0; index < keys.length; index += 1) {
      const key = keys[index];
      if (key !== undefined) this.#pending.add(key.text, lines[index]!, entry);
    }
    this.#options.queue(entry);
  }

  #reportUnreadable(file: string, problem: string): void {
    if (!this.#mayLog('unreadable')) return;
    this.#options.notices.error(
      'the line of an earlier report cannot be read; reports with its idempotency key get 503',
      { file, problem },
    );
  }
}

function createResult(replayed: readonly number[], conflicts: readonly KeyConflict[]): RecordResult {
  if (replayed.length === 0 && conflicts.length === 0) return recorded;
  return {
    kind: 'recorded',
    ...(replayed.length > 0 && { replayed }),
    ...(conflicts.length > 0 && { conflicts }),
  };
}

interface EarlyReport {
  readonly entry: KeyedEntry;
  readonly onConflict: ConflictHandling;
}

/** Result of the lookup of all events of a report; events are given by their indexes. */
interface Findings {
  /** Events that are not recorded yet. */
  readonly fresh: number[];
  /** Events that are already recorded, or will be with the entries in `joined`. */
  readonly replayed: number[];
  /** Seqs of the replayed events that are recorded. */
  readonly seqs: number[];
  readonly joined: Set<QueueEntry>;
  readonly conflicts: KeyConflict[];
  /** Lines that have to be read before the report can be decided. */
  readonly toRead: LineToCompare[];
}

/** A report that is being looked up. */
interface Lookup {
  readonly entry: KeyedEntry;
  readonly onConflict: ConflictHandling;
  /** By index of the event: its comparisons with the lines that were read, by their seqs. */
  readonly comparisons: Map<number, Comparison>[];
}
