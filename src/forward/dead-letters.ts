/**
 * The events that a destination did not take, or may have recorded twice, with the reason: `dead-<name>.jsonl`. Each is one JSON
 * line, durable before the cursor passes its event.
 */

import { appendWhole } from '../journal/append.ts';
import { type Disk, type LogFile, type ReadableDisk, replaceDurably, unlessAbsent } from '../journal/disk.ts';
import { LineCutter } from '../journal/lines.ts';
import type { GoneRange } from '../journal/segments.ts';
import { compacted } from './compaction.ts';
import { type DeadLetter, decodeDeadLetter, encodeDeadLetter } from './dead-letter.ts';
import { isNamed, isOpen, LetterStates, lostBy, seqsOf } from './open-letters.ts';

/** @returns the name of the file with the dead letters of a destination: of `hub` it is `dead-hub.jsonl` */
export function deadLettersName(name: string): string {
  return `dead-${name}.jsonl`;
}

/** The file has as many letters as it may have, and all are open. Its message says what to do. */
export class LettersFullError extends Error {}

/** How large the file may become, in bytes: `{ bytesMax: 4_000, spareBytes: 500 }`. */
export interface LetterBounds {
  readonly bytesMax: number;
  /** Of these, for letters without a line. */
  readonly spareBytes: number;
}

/** For an operator who gives events up. */
const UNBOUNDED: LetterBounds = { bytesMax: Number.POSITIVE_INFINITY, spareBytes: 0 };

/**
 * The dead letters of one destination, for its forwarder, for retention and for those that are sent again. Only one may be open at a
 * time. Example: `await DeadLetters.open(disk, 'hub')`. The file is opened for each letter: there are few, and an operator may move the file away.
 */
export class DeadLetters {
  readonly #disk: Disk;
  readonly #name: string;
  readonly #file: string;
  readonly #bounds: LetterBounds;
  #kept: Kept = NOTHING;
  #acted: Promise<unknown> = Promise.resolve();
  /** Whether a letter was begun whose end is not known: what is after the kept bytes is cut off. */
  #isUnsure = false;
  /** Its size after the last compaction, and whether no letter was appended since then. */
  #compactBytes = 0;
  #isCompact = false;
  /** Lost events whose letters were closed and are not in the file any more. */
  #lostBefore = 0;

  private constructor(disk: Disk, name: string, bounds: LetterBounds) {
    this.#disk = disk;
    this.#name = name;
    this.#file = deadLettersName(name);
    this.#bounds = bounds;
  }

  /**
   * Counts the letters, and cuts off the end of one that a crash has torn.
   * @throws the error of a system call
   */
  static async open(disk: Disk, name: string, bounds = UNBOUNDED): Promise<DeadLetters> {
    const letters = new DeadLetters(disk, name, bounds);
    const log = await letters.#openLog();
    if (log !== undefined) await closing(log, () => letters.#recover(log));
    return letters;
  }

  /** Number of letters in the file: `2`. */
  get count(): number {
    return this.#kept.count;
  }

  /** Number of letters that an operator still has to decide about, as `assetlog forward status` counts them: `1`. */
  get open(): number {
    return this.#kept.open;
  }

  /** Number of events that retention removed, and that the destination did not confirm, as far as the file has them: `20`. */
  get lost(): number {
    return this.#lostBefore + this.#kept.lost;
  }

  /**
   * For a start after a crash that kept the cursor from passing events with letters.
   * @returns the last seq of which each one after `seq` has a letter that says that it is lost: 7 if 6 and 7 have one and `seq` is 5;
   *   `seq` if there is none
   * @throws the error of a system call
   */
  async buriedAfter(seq: number): Promise<number> {
    const { states } = await readKept(this.#disk, this.#file);
    for (let last = seq; ; ) {
      const state = states.get(last + 1);
      if (state === undefined || !isNamed(state)) return last;
      last = state.last;
    }
  }

  /**
   * Appends letters about events that the journal does not have any more, but not for those that have a letter.
   * @returns the ranges that were named now, in order
   * @throws as `append`; it may be called again
   */
  nameRemoved(gone: GoneRange, reason: string): Promise<readonly GoneRange[]> {
    return this.#inTurn(async () => {
      const { states } = await readKept(this.#disk, this.#file);
      const ranges = states.unnamed(gone);
      for (const range of ranges) await this.#append({ time: now(), outcome: 'removed', reason, ...range }, false);
      return ranges;
    });
  }

  /**
   * Closes the letters about removed events, or a part of them, that the destination took after all.
   * @throws as `append`; it may be called again
   */
  taken({ first, last }: GoneRange): Promise<void> {
    return this.#inTurn(async () => {
      if (first > this.#kept.removedSeq) return;
      const { states } = await readKept(this.#disk, this.#file);
      const reason = 'the destination has them after all';
      for (const state of states.removed()) {
        const range = { first: Math.max(first, state.first), last: Math.min(last, state.last) };
        if (range.first > range.last || !isOpen(state)) continue;
        await this.#append({ time: now(), outcome: 'removed', became: 'taken', reason, ...range }, true);
      }
      await this.#read();
    });
  }

  /**
   * Appends a letter, durably, after those before it.
   * @param wasOpen whether the last letter about the same event is open
   * @throws LettersFullError, the error of a system call, or a NotWritten, such as that of a full disk: the letter is not in the
   *   file, and may be appended again
   */
  append(letter: DeadLetter, wasOpen = false): Promise<void> {
    return this.#inTurn(() => this.#append(letter, wasOpen));
  }

  #inTurn<Result>(act: () => Promise<Result>): Promise<Result> {
    const acted = this.#acted.then(act);
    this.#acted = acted.catch(() => {}); // its caller gets the error
    return acted;
  }

  async #append(given: DeadLetter, wasOpen: boolean): Promise<void> {
    const letter = this.#shortened(given);
    const bytes = Buffer.from(`${encodeDeadLetter(letter)}\n`);
    await this.#makeSpace(bytes.length, letter, wasOpen);
    const log = (await this.#openLog()) ?? (await this.#begin());
    await closing(log, async () => {
      await this.#prepare(log);
      this.#isUnsure = true;
      const { bytes: end, count, open, lost, removedSeq } = this.#kept;
      await appendWhole({ file: log, bytes: end }, bytes);
      if (log.sizeInFolder() !== end + bytes.length) throw new Error(`${this.#file} was changed by another program`);
      this.#isUnsure = false;
      this.#isCompact = false;
      this.#kept = {
        bytes: end + bytes.length,
        count: count + 1,
        open: open + Number(isOpen(letter)) - Number(wasOpen),
        lost: lost + lostBy(letter),
        removedSeq: letter.outcome === 'removed' ? Math.max(removedSeq, letter.last ?? 0) : removedSeq,
      };
    });
    // An event that was named as removed is in doubt, or refused: how many letters are open is counted again.
    if (letter.line !== undefined && seqsOf(letter).first <= this.#kept.removedSeq) await this.#read();
  }

  /** @returns a letter with seqs in place of a line that alone would fill the file */
  #shortened({ line, ...letter }: DeadLetter): DeadLetter {
    const { bytesMax, spareBytes } = this.#bounds;
    if (line === undefined || Buffer.byteLength(line) <= (bytesMax - spareBytes) / 2) return { ...letter, line };
    const reason = `${letter.reason}; its line is too long for this file`;
    return { ...letter, reason, ...seqsOf({ ...letter, line }) };
  }

  /** @throws LettersFullError if there is no space for a letter of so many bytes, also without the letters that are closed */
  async #makeSpace(bytes: number, { line }: DeadLetter, wasOpen: boolean): Promise<void> {
    const { bytesMax, spareBytes } = this.#bounds;
    // A letter that is sent again can be closed also while the file is larger than it may be, since the limit was another one.
    const isTooMuch = () => {
      const least = wasOpen ? this.#compactBytes + spareBytes : 0;
      return this.#kept.bytes + bytes > Math.max(line === undefined ? bytesMax : bytesMax - spareBytes, least);
    };
    if (!isTooMuch()) return;
    await this.#compact();
    if (!isTooMuch()) return;
    const { bytes: has } = this.#kept;
    throw new LettersFullError(
      `the dead letters of ${this.#name} take ${has} of at most ${bytesMax} bytes; send them again with assetlog forward retry ${this.#name}, or stop the service and give them up with assetlog forward skip ${this.#name} --seq N-M`,
    );
  }

  /** Removes closed letters, unless that was done and nothing was changed since then. */
  async #compact(): Promise<void> {
    const log = await this.#openLog();
    if (log === undefined) {
      this.#kept = NOTHING;
      return;
    }
    await closing(log, () => this.#prepare(log));
    const { lost, bytes } = this.#kept;
    if (this.#isCompact && bytes === this.#compactBytes) return;
    await replaceDurably(
      this.#disk,
      this.#file,
      compacted(() => readDeadLetters(this.#disk, this.#name)),
    );
    await this.#read();
    this.#lostBefore += lost - this.#kept.lost;
    this.#compactBytes = this.#kept.bytes;
    this.#isCompact = true;
  }

  async #read(): Promise<void> {
    const { states, ...kept } = await readKept(this.#disk, this.#file);
    this.#kept = kept;
  }

  /** Makes the file end after the last letter that was kept. */
  async #prepare(log: LogFile): Promise<void> {
    const { bytes } = this.#kept;
    const size = log.sizeInFolder() ?? 0;
    if (!this.#isUnsure && size === bytes) return;
    if (!this.#isUnsure || size < bytes) return this.#recover(log); // another program changed it
    await log.truncate(bytes);
    await this.#disk.syncFolder();
  }

  /** @returns undefined if there is no file */
  #openLog(): Promise<LogFile | undefined> {
    return this.#disk.openLog(this.#file).catch(unlessAbsent(undefined));
  }

  #begin(): Promise<LogFile> {
    this.#kept = NOTHING;
    this.#isUnsure = true;
    return this.#disk.createLog(this.#file);
  }

  async #recover(log: LogFile): Promise<void> {
    await this.#read();
    // Also if nothing is torn: the sync makes letters durable whose append was interrupted by the death of the process.
    await log.truncate(this.#kept.bytes);
    await this.#disk.syncFolder();
  }
}

/**
 * Reads the dead letters of a destination, oldest first, also while a service writes them. If there is no file there are none.
 * @throws Error for a line that is no dead letter, or the error of a system call
 */
export async function* readDeadLetters(disk: ReadableDisk, name: string): AsyncGenerator<DeadLetter> {
  const file = deadLettersName(name);
  let number = 0;
  for await (const texts of readLines(disk, file)) {
    for (const { text } of texts) {
      number += 1;
      const letter = decodeDeadLetter(text);
      if (letter === undefined) throw new Error(`${disk.folder}/${file}, line ${number}: it is no dead letter`);
      yield letter;
    }
  }
}

/**
 * Reads the dead letters of a destination, such as `hub`.
 * @returns the state of each
 * @throws Error for a line that is no dead letter, or the error of a system call
 */
export async function readLetterStates(disk: ReadableDisk, name: string): Promise<LetterStates> {
  const states = new LetterStates();
  let at = 0;
  for await (const letter of readDeadLetters(disk, name)) states.add(letter, at++);
  return states;
}

/** How far the file is good, and what is in it. */
interface Kept {
  /** Its length. */
  readonly bytes: number;
  /** Number of letters. */
  readonly count: number;
  /** Number of letters that are open. */
  readonly open: number;
  /** As `LetterStates.lost`. */
  readonly lost: number;
  /** The last event that a letter names as removed. */
  readonly removedSeq: number;
}

const NOTHING: Kept = { bytes: 0, count: 0, open: 0, lost: 0, removedSeq: 0 };

/** Up to the last line that is a letter: a power cut may leave zeros or other bytes instead of the last one. */
async function readKept(disk: ReadableDisk, file: string): Promise<Kept & { readonly states: LetterStates }> {
  let kept = { bytes: 0, count: 0 };
  const states = new LetterStates();
  let count = 0;
  for await (const lines of readLines(disk, file)) {
    for (const { text, end } of lines) {
      const letter = decodeDeadLetter(text);
      if (letter !== undefined) {
        states.add(letter, count);
        kept = { bytes: end, count: count + 1 };
      }
      count += 1;
    }
  }
  const removedSeq = states.removed().reduce((seq, { last }) => Math.max(seq, last), 0);
  return { ...kept, open: states.open, lost: states.lost, removedSeq, states };
}

/** The whole lines of each chunk, each with the position after its newline. */
async function* readLines(disk: ReadableDisk, file: string): AsyncGenerator<{ text: string; end: number }[]> {
  let lines: { text: string; end: number }[] = [];
  const cutter = new LineCutter((bytes, start, end, lineEnd) => {
    lines.push({ text: bytes.toString('utf8', start, end), end: lineEnd + 1 });
  });
  try {
    for await (const chunk of disk.read(file)) {
      cutter.push(chunk);
      yield lines;
      lines = [];
    }
  } catch (error) {
    unlessAbsent(undefined)(error as NodeJS.ErrnoException);
  }
}

async function closing(log: LogFile, act: () => Promise<void>): Promise<void> {
  await act().finally(() => log.close());
}

function now(): string {
  return new Date().toISOString();
}
