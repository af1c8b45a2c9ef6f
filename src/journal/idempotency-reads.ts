/**
 * Reads the lines of earlier reports that have the same hash of an idempotency key as events of a new report: few at a time, so
 * that writes are not delayed, and in bounded time.
 */

import type { Limits } from '../config/limits.ts';
import type { Disk } from './disk.ts';
import { type Comparison, LineReader, type Unreadable } from './idempotency-lookup.ts';
import type { LineLocation } from './idempotency-table.ts';
import type { LineMembers } from './record.ts';

/**
 * A line to read, and the event to compare it with. Example:
 * `{ key: 'run-7/12', members, location: { seq: 7, offset: 1210 }, compared }`.
 */
export interface Unread {
  readonly key: string;
  /** The members of the event, from `encodeMembers`. */
  readonly members: LineMembers;
  readonly location: LineLocation;
  /** Called with what the line says about the event. */
  readonly compared: (comparison: Comparison) => void;
}

/**
 * Why lines could not be read: a sentence for the client. Example:
 * `the disk has not answered for 10 s; send the report again later`.
 */
export type ReadFailure = string;

/** What the reads of one journal need: `{ disk, limits, fileOf, onUnreadable }`. */
export interface LineReadsOptions {
  readonly disk: Disk;
  readonly limits: Pick<Limits, 'lineBytesMax' | 'diskAnswerMs' | 'keyReadsMax'>;
  /** @returns the file that has the line with this seq; undefined if retention removed it */
  readonly fileOf: (seq: number) => string | undefined;
  /** Called for a line that can not be read, or that is not what was remembered. */
  readonly onUnreadable: (file: string, problem: string) => void;
}

/**
 * Reads of lines of one journal, of at most `limits.keyReadsMax` reports at a time. Example:
 * `new LineReads({ disk, limits, fileOf, onUnreadable })`.
 */
export class LineReads {
  readonly #options: LineReadsOptions;
  /** Begin to read for one report each, in the order of their arrival. */
  readonly #waiting: (() => void)[] = [];
  /** Reports for which lines are being read. A read that never ends stays in it. */
  #reading = 0;

  /** Reads nothing before `compareAll`. */
  constructor(options: LineReadsOptions) {
    this.#options = options;
  }

  /**
   * Reads lines in the order of their seqs and compares them: `compareAll([{ key: 'run-7/12', … }])`. Resolves after
   * `limits.diskAnswerMs` (10 s) at the latest. Never rejects.
   * @returns undefined if all were compared. Else nothing is known about the report
   */
  compareAll(unread: readonly Unread[]): Promise<ReadFailure | undefined> {
    const { diskAnswerMs, keyReadsMax } = this.#options.limits;
    return new Promise((resolve) => {
      let isOver = false;
      const end = (failure: ReadFailure | undefined) => {
        clearTimeout(timeout);
        isOver = true;
        resolve(failure);
      };
      const timeout = setTimeout(() => end(noAnswer(diskAnswerMs)), diskAnswerMs);
      this.#waiting.push(() => {
        if (isOver) return this.#next();
        this.#reading += 1;
        void this.#compareInOrder(unread, () => isOver).then((failure) => {
          this.#reading -= 1;
          end(failure);
          this.#next();
        });
      });
      if (this.#reading < keyReadsMax) this.#next();
    });
  }

  #next(): void {
    this.#waiting.shift()?.();
  }

  /** Never rejects. */
  async #compareInOrder(unread: readonly Unread[], isOver: () => boolean): Promise<ReadFailure | undefined> {
    const { disk, limits, fileOf, onUnreadable } = this.#options;
    const reader = new LineReader(disk, limits, unread.length);
    for (const one of [...unread].sort((a, b) => a.location.seq - b.location.seq)) {
      if (isOver()) return undefined;
      const { key, members, location, compared } = one;
      const file = fileOf(location.seq);
      const comparison: Comparison | Unreadable =
        file === undefined
          ? { kind: 'other key' } // forgotten with its line
          : await reader.compare(file, location, key, members).catch(({ message }: Error) => {
              if (fileOf(location.seq) === undefined) return { kind: 'other key' };
              return { kind: 'unreadable', problem: message };
            });
      if (comparison.kind === 'unreadable') {
        onUnreadable(file ?? '', comparison.problem);
        return 'the earlier report with this idempotency key can not be read; send the report again later';
      }
      compared(comparison);
    }
    return undefined;
  }
}

function noAnswer(ms: number): ReadFailure {
  return `the disk has not answered for ${ms / 1000} s; send the report again later`;
}
