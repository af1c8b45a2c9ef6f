/**
 * Finds the earlier event of an idempotency key, for a report that repeats the key or its hash. The event either waits for the
 * disk or is a durable line, which is read back and compared. At most `keyReadsMax` reports read lines at a time, so that writes
 * are not delayed, and each for at most `diskAnswerMs`.
 */

import type { Limits } from '../../config/limits.ts';
import { LINE_FEED } from '../../event/json-bytes.ts';
import type { Disk } from '../disk.ts';
import { readBytes } from '../file-io.ts';
import { checkLine, ENDING_BYTES, readEndingCrc } from '../line/chain.ts';
import { idempotencyKeyOf, membersOf, readLineMembers } from '../line/members.ts';
import { type LineMembers, packMembers } from '../line/record.ts';
import type { QueueEntry } from '../queue-entry.ts';
import type { LineLocation } from './table.ts';

/** An event with an idempotency key that waits for the disk. */
export interface Pending {
  readonly members: LineMembers;
  /** In the queue, or in the batch that is being written. */
  readonly entry: QueueEntry;
}

/**
 * The events with idempotency keys that wait for the disk, by key. A `Map` of events would burden the garbage collection: it moves
 * to a new table each time enough keys were added and deleted, and the events in its old tables survive until the next collection
 * of the whole heap. Therefore the map holds numbers, and the events are in arrays whose elements are cleared.
 */
export class PendingKeys {
  readonly #slotOf = new Map<string, number>();
  readonly #members: (LineMembers | undefined)[] = [];
  readonly #entries: (QueueEntry | undefined)[] = [];
  readonly #free: number[] = [];

  get(key: string): Pending | undefined {
    const slot = this.#slotOf.get(key);
    if (slot === undefined) return undefined;
    return { members: this.#members[slot]!, entry: this.#entries[slot]! };
  }

  /** @param key must not be pending yet */
  add(key: string, members: LineMembers, entry: QueueEntry): void {
    const slot = this.#free.pop() ?? this.#entries.length;
    this.#members[slot] = members;
    this.#entries[slot] = entry;
    this.#slotOf.set(key, slot);
  }

  /** Does nothing if the key is not pending. */
  delete(key: string): void {
    const slot = this.#slotOf.get(key);
    if (slot === undefined) return;
    this.#slotOf.delete(key);
    this.#members[slot] = undefined;
    this.#entries[slot] = undefined;
    this.#free.push(slot);
  }
}

/** How a report compares with the line of an earlier report. */
export type Comparison =
  /** The same key and the same event. */
  | { readonly kind: 'same' }
  /** The same key and another event; `member` is the first member that differs, such as `metadata`. */
  | { readonly kind: 'other event'; readonly member: string }
  /** Another key with the same hash. */
  | { readonly kind: 'other key' };

/** The remembered position has no good line: the file is damaged. */
interface Unreadable {
  readonly kind: 'unreadable';
  /** What is at the position instead. */
  readonly problem: string;
}

/**
 * Compares two events in their recorded form: `1.0` and `1.00` in the metadata are different events; two tokens do not
 * make a difference.
 * @returns the name of the first member that differs, such as `metadata`; undefined if they are the same event
 */
export function findDifferingMember(a: LineMembers, b: LineMembers): string | undefined {
  if (a === b) return undefined;
  const [one, other] = [packMembers(a), packMembers(b)];
  if (one.equals(other)) return undefined;
  const [left, right] = [readLineMembers(one), readLineMembers(other)];
  return [...left.keys(), ...right.keys()].find((name) => name !== 'by' && left.get(name) !== right.get(name));
}

/** A line to read, and the event to compare it with. */
export interface LineToCompare {
  /** Index of the event in its report. */
  readonly index: number;
  readonly key: string;
  /** The members of the event, `Event.encoded`. */
  readonly members: LineMembers;
  readonly location: LineLocation;
}

export interface ComparedLine extends LineToCompare {
  readonly comparison: Comparison;
}

interface LineReadsOptions {
  readonly disk: Disk;
  readonly limits: Limits;
  /** @returns the file that has the line with this seq; undefined if retention removed it */
  readonly fileOf: (seq: number) => string | undefined;
  /** Called if a line cannot be read, or if the remembered position has no good line. */
  readonly onUnreadable: (file: string, problem: string) => void;
}

/** Reads lines of one journal, for at most `limits.keyReadsMax` reports at a time. */
export class LineReads {
  readonly #options: LineReadsOptions;
  /** Each starts the reads of one report. In order of arrival. */
  readonly #waiting: (() => void)[] = [];
  /** Number of reports for which lines are being read. A read that never ends still counts. */
  #reading = 0;

  constructor(options: LineReadsOptions) {
    this.#options = options;
  }

  /**
   * Reads lines in the order of their seqs and compares them. Resolves after `limits.diskAnswerMs` at the latest. Never rejects.
   * @returns all lines with their comparisons. if lines could not be read: the reason, as a sentence for the client, and
   *   nothing is known about the report
   */
  compareAll(lines: readonly LineToCompare[]): Promise<readonly ComparedLine[] | string> {
    const { diskAnswerMs, keyReadsMax } = this.#options.limits;
    return new Promise((resolve) => {
      let isOver = false;
      const end = (compared: readonly ComparedLine[] | string) => {
        clearTimeout(timeout);
        isOver = true;
        resolve(compared);
      };
      const timeout = setTimeout(() => end(describeNoAnswer(diskAnswerMs)), diskAnswerMs);
      this.#waiting.push(() => {
        if (isOver) return this.#startNext();
        this.#reading += 1;
        void this.#compareInOrder(lines, () => isOver).then((compared) => {
          this.#reading -= 1;
          end(compared);
          this.#startNext();
        });
      });
      if (this.#reading < keyReadsMax) this.#startNext();
    });
  }

  #startNext(): void {
    this.#waiting.shift()?.();
  }

  /** Never rejects. */
  async #compareInOrder(
    lines: readonly LineToCompare[],
    isOver: () => boolean,
  ): Promise<readonly ComparedLine[] | string> {
    const { disk, limits, fileOf, onUnreadable } = this.#options;
    const reader = new LineReader(disk, limits, lines.length);
    const compared: ComparedLine[] = [];
    for (const line of [...lines].sort((a, b) => a.location.seq - b.location.seq)) {
      if (isOver()) break; // nobody waits for the result
      const { key, members, location } = line;
      const file = fileOf(location.seq);
      const comparison: Comparison | Unreadable =
        file === undefined
          ? { kind: 'other key' } // retention removed the line, and its key with it
          : await reader.compare(file, location, key, members).catch(({ message }: Error) => {
              if (fileOf(location.seq) === undefined) return { kind: 'other key' };
              return { kind: 'unreadable', problem: message };
            });
      if (comparison.kind === 'unreadable') {
        onUnreadable(file ?? '', comparison.problem);
        return 'the earlier report with this idempotency key cannot be read; send the report again later';
      }
      compared.push({ ...line, comparison });
    }
    return compared;
  }
}

function describeNoAnswer(ms: number): string {
  return `the disk has not answered for ${ms / 1000} s; send the report again later`;
}

/** Reads lines of one journal. Neighbouring lines are read together, so a caller reads lines in order. */
class LineReader {
  readonly #disk: Disk;
  readonly #lineBytesMax: number;
  readonly #windowBytes: number;
  #file = '';
  #start = 0;
  #bytes: Buffer = Buffer.alloc(0);

  /** @param lineCount number of lines to read: one line is read in parts of 4 KiB, several in parts of 256 KiB */
  constructor(disk: Disk, { lineBytesMax }: Limits, lineCount: number) {
    this.#disk = disk;
    this.#lineBytesMax = lineBytesMax;
    this.#windowBytes = lineCount > 1 ? LARGE_WINDOW_BYTES : SMALL_WINDOW_BYTES;
  }

  /**
   * Reads the line of an earlier report, verifies it with the crc of the line before it, and compares it.
   * @param key the key of the report that `members` belong to
   * @throws the error of a system call
   */
  async compare(
    file: string,
    { seq, offset }: LineLocation,
    key: string,
    members: LineMembers,
  ): Promise<Comparison | Unreadable> {
    const start = Math.max(0, offset - ENDING_BYTES);
    const bytes = await this.#read(file, start, offset);
    const at = offset - start;
    const end = bytes.indexOf(LINE_FEED, at);
    const before = bytes[at - 1] === LINE_FEED ? readEndingCrc(bytes, at - 1) : undefined;
    const seed = offset === 0 ? 0 : before;
    if (end === -1 || seed === undefined) return { kind: 'unreadable', problem: `no line starts at byte ${offset}` };
    const check = checkLine(bytes, at, end, { seq, crc: seed });
    if (check.kind === 'bad') return { kind: 'unreadable', problem: `the line at byte ${offset}: ${check.problem}` };
    if (idempotencyKeyOf(bytes, at, end) !== key) return { kind: 'other key' };
    const member = findDifferingMember(membersOf(bytes, at, end, seq), members);
    return member === undefined ? { kind: 'same' } : { kind: 'other event', member };
  }

  /** @returns the bytes from `start` to at least the newline of the line at `offset`, if the line ends */
  async #read(file: string, start: number, offset: number): Promise<Buffer> {
    if (file === this.#file && start >= this.#start) {
      const cached = this.#bytes.subarray(start - this.#start);
      if (cached.indexOf(LINE_FEED, offset - start) !== -1) return cached;
    }
    for (const bytesMax of [this.#windowBytes, this.#lineBytesMax + ENDING_BYTES]) {
      this.#bytes = await readBytes(this.#disk, file, start, start + bytesMax);
      [this.#file, this.#start] = [file, start];
      if (this.#bytes.indexOf(LINE_FEED, offset - start) !== -1) break;
    }
    return this.#bytes;
  }
}

const SMALL_WINDOW_BYTES = 4 * 1024;
const LARGE_WINDOW_BYTES = 256 * 1024;
