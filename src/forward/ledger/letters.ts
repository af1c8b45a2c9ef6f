/**
 * The events that a destination did not take, or might have recorded twice, with the reason: `dead-<name>.jsonl`. Each is one JSON
 * line, durable before the cursor passes its event.
 */

import type { Limits } from '../../config/limits.ts';
import { appendWhole } from '../../journal/append.ts';
import { type Disk, type LogFile, type ReadableDisk, unlessAbsent } from '../../journal/disk.ts';
import { replaceDurably } from '../../journal/file-io.ts';
import { LineCutter } from '../../journal/line/lines.ts';
import type { SeqRange } from '../position.ts';
import { type DeadLetter, decodeDeadLetter, encodeDeadLetter, isOpen, lostBy, seqsOf } from './letter.ts';
import { type LetterState, LetterStates } from './letter-states.ts';

/** @returns the name of the file with the dead letters of a destination */
export function deadLettersName(name: string): string {
  return `dead-${name}.jsonl`;
}

/** The file has as many letters as it may have, and one is open. Its message says what to do. */
export class LettersFullError extends Error {}

/** How large a line of the file may be, as far as it is read, and how large the file may become. */
export interface LetterLimits extends LineLimit {
  /** Of the file with a further letter. Open letters without a line can take as much again, and letters that close others any space. */
  readonly bytesMax: number;
}

/**
 * How the file ends, as far as it is known. `found`: as another process left it. The sync of the last letter might have failed: then
 * the letter can be read, no later sync writes it, and a power cut takes it. `begun`: after the last whole letter there might be a part
 * of another one. `durable`: with the last whole letter.
 */
type FileEnd = 'found' | 'begun' | 'durable';

type LineLimit = Pick<Limits, 'lineBytesMax'>;

/**
 * The dead letters of one destination. Only one may be open at a time, and one call at a time: see `Ledger`. The file is opened for
 * each letter: letters are few, and an operator may move the file away.
 */
export class DeadLetters {
  readonly #disk: Disk;
  readonly #name: string;
  readonly #file: string;
  readonly #limits: LetterLimits;
  /** What is in the file, up to its last whole letter, as of the last look at it. */
  #content: Content = emptyContent();
  #end: FileEnd = 'found';
  #lostTotal = 0;
  /** The bytes that it had after the last call of `#compact`. */
  #compactBytes = 0;

  private constructor(disk: Disk, name: string, limits: LetterLimits) {
    this.#disk = disk;
    this.#name = name;
    this.#file = deadLettersName(name);
    this.#limits = limits;
  }

  /**
   * Counts the letters, and cuts off the end of one that a crash has torn. All letters are made durable later, when one of them is
   * relied on or another one is appended: most starts need neither, and it takes as much free space as the file has.
   * @throws the error of a system call
   */
  static async open(disk: Disk, name: string, limits: LetterLimits): Promise<DeadLetters> {
    const letters = new DeadLetters(disk, name, limits);
    const log = await letters.#openLog();
    if (log !== undefined) await closing(log, () => letters.#cut(log));
    letters.#lostTotal = letters.#content.states.lostTotal;
    return letters;
  }

  /** Number of letters in the file. */
  get count(): number {
    return this.#content.count;
  }

  /** Number of letters that an operator still has to decide about, as `assetlog forward status` counts them. */
  get open(): number {
    return this.#content.states.open;
  }

  /** Number of events that retention removed, and that the destination did not confirm, as far as the file has them. */
  get lost(): number {
    return this.#content.states.lost;
  }

  /** Number of events that were ever named as removed: those in the file when it was opened, and since then. */
  get lostTotal(): number {
    return this.#lostTotal;
  }

  /**
   * For a start after a crash that kept the cursor from passing events with letters.
   * @returns the last seq up to which each event after `seq` has a letter that says that the event is lost: 7 if 6 and 7 have one
   *   and `seq` is 5; `seq` if 6 has none
   * @throws the error of a system call
   */
  async namedAfter(seq: number): Promise<number> {
    if (this.#content.states.namedAfter(seq) === seq) return seq;
    return (await this.#durableStates()).namedAfter(seq);
  }

  /** Whether an open letter is about an event of a range. */
  isMissing(range: SeqRange): boolean {
    return this.#content.states.in(range).some(isOpen);
  }

  /**
   * Appends letters about events that the journal does not have any more, unless they have a letter.
   * @returns the ranges that were named now, in order
   * @throws as `append`; it may be called again
   */
  async nameRemoved(gone: SeqRange, reason: string): Promise<readonly SeqRange[]> {
    const ranges = (await this.#durableStates()).unnamed(gone);
    for (const range of ranges)
      await this.append({ time: new Date().toISOString(), outcome: 'removed', reason, ...range });
    return ranges;
  }

  /**
   * Appends a letter, durably, after all earlier letters.
   * @throws LettersFullError, the error of a system call, or a NotWritten, as of a full disk: the letter is not in the file, and may
   *   be appended again
   */
  async append(given: DeadLetter): Promise<void> {
    const letter = this.#shortened(given);
    const bytes = Buffer.from(`${encodeDeadLetter(letter)}\n`);
    await this.#prepare();
    await this.#makeSpace(bytes.length, letter);
    const log = (await this.#openLog()) ?? (await this.#begin());
    await closing(log, async () => {
      this.#end = 'begun';
      const { bytes: end, count, states } = this.#content;
      await appendWhole({ file: log, bytes: end }, bytes);
      if (log.sizeInFolder() !== end + bytes.length) throw new Error(`${this.#file} was changed by another program`);
      this.#end = 'durable';
      states.add(letter, count);
      this.#lostTotal += Math.max(0, lostBy(letter));
      this.#content = { bytes: end + bytes.length, count: count + 1, states };
    });
  }

  /** @returns a letter with seqs in place of a line that alone would fill the file */
  #shortened({ line, ...letter }: DeadLetter): DeadLetter {
    if (line === undefined || Buffer.byteLength(line) <= this.#limits.bytesMax / 2) return { ...letter, line };
    const reason = `${letter.reason}; its line is too long for this file`;
    return { ...letter, reason, ...seqsOf({ ...letter, line }) };
  }

  /** Begins the file again if it is full and all its letters are closed, or without the closed ones. @throws LettersFullError if one is open */
  async #makeSpace(bytes: number, letter: DeadLetter): Promise<void> {
    const { bytesMax } = this.#limits;
    const { bytes: before, states } = this.#content;
    if (before + bytes <= bytesMax || before === 0) return;
    if (states.open === 0) {
      await this.#replace([]);
      this.#content = emptyContent();
      return;
    }
    // A further half of the limit has come since then, so that the file is not written again for each letter.
    if (before + bytes > 2 * bytesMax && before > this.#compactBytes + bytesMax / 2) {
      await this.#compact();
      return this.#makeSpace(bytes, letter);
    }
    // Without the letters that say what became of those in it, a full file could not be worked off.
    const most = isOpen(letter) ? 2 * bytesMax : Number.POSITIVE_INFINITY;
    if (letter.line === undefined && before + bytes <= most) return;
    const open = states.all.filter(isOpen);
    const seqs = `${open[0]!.first}-${open.at(-1)!.last}`;
    // Each that is sent again appends letters.
    const wayOut =
      before + bytes <= 2 * bytesMax
        ? `give all up with assetlog forward skip, or send all again: run assetlog forward retry ${this.#name}`
        : `without space to send them again, give all up: run assetlog forward skip ${this.#name} --seq ${seqs}`;
    throw new LettersFullError(
      `the dead letters of ${this.#name} take ${before} of at most ${bytesMax} bytes; ${wayOut}`,
    );
  }

  /** Keeps the latest letter of what is open, and the first with its line: each time that an event is sent again adds letters. */
  async #compact(): Promise<void> {
    await this.#replace(this.#openLetters());
    await this.#read();
    this.#compactBytes = this.#content.bytes;
  }

  async *#openLetters(): AsyncGenerator<Buffer> {
    const { states } = this.#content;
    const latest = new Map<number, LetterState[]>();
    for (const state of states.all.filter(isOpen)) latest.set(state.at, [...(latest.get(state.at) ?? []), state]);
    const withLine = new Set<number>();
    let at = 0;
    for await (const lines of readLines(this.#disk, this.#file, this.#limits)) {
      for (const { text } of lines) {
        const own = latest.get(at++) ?? [];
        for (const kept of openPart(text, own, states, withLine)) yield Buffer.from(`${kept}\n`);
      }
    }
  }

  /** Without a letter whose sync failed: it can be read, and might be gone after a power cut. */
  async #durableStates(): Promise<LetterStates> {
    await this.#prepare();
    return this.#content.states;
  }

  async #read(): Promise<void> {
    this.#content = await readContent(this.#disk, this.#file, this.#limits);
  }

  /** Makes the file end after its last whole letter, durably. */
  async #prepare(): Promise<void> {
    const log = await this.#openLog();
    if (log === undefined) {
      this.#content = emptyContent();
      return;
    }
    const { bytes } = this.#content;
    const size = log.sizeInFolder() ?? 0;
    await closing(log, async () => {
      if (this.#end === 'begun' && size >= bytes) {
        await log.truncate(bytes);
        await this.#disk.syncFolder();
        this.#end = 'durable';
      } else if (size !== bytes) this.#end = 'found'; // another program changed it
    });
    if (this.#end === 'durable') return;
    await this.#read();
    await this.#replace(this.#disk.read(this.#file, 0, this.#content.bytes));
  }

  async #replace(chunks: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<void> {
    this.#end = 'found';
    await replaceDurably(this.#disk, this.#file, chunks);
    this.#end = 'durable';
  }

  /** @returns undefined if there is no file */
  #openLog(): Promise<LogFile | undefined> {
    return this.#disk.openLog(this.#file).catch(unlessAbsent(undefined));
  }

  #begin(): Promise<LogFile> {
    this.#content = emptyContent();
    this.#end = 'begun';
    return this.#disk.createLog(this.#file);
  }

  async #cut(log: LogFile): Promise<void> {
    await this.#read();
    const { bytes } = this.#content;
    if (log.sizeInFolder() !== bytes) await log.truncate(bytes);
  }
}

/**
 * Reads the dead letters of a destination, oldest first, also while a service writes them, and without what a power cut left in place
 * of the last one. If there is no file there are none.
 * @throws Error for a line before a dead letter that is none, or the error of a system call
 */
export async function* readDeadLetters(
  disk: ReadableDisk,
  name: string,
  limits: LineLimit,
): AsyncGenerator<DeadLetter> {
  const file = deadLettersName(name);
  let number = 0;
  let wrong = 0;
  for await (const texts of readLines(disk, file, limits)) {
    for (const { text } of texts) {
      number += 1;
      const letter = decodeDeadLetter(text);
      if (letter === undefined) wrong ||= number;
      else if (wrong > 0) throw new Error(`${disk.folder}/${file}, line ${wrong}: it is no dead letter`);
      else yield letter;
    }
  }
}

/** Reads the state of each dead letter of a destination. @throws as `readDeadLetters` */
export async function readLetterStates(disk: ReadableDisk, name: string, limits: LineLimit): Promise<LetterStates> {
  const states = new LetterStates();
  let at = 0;
  for await (const letter of readDeadLetters(disk, name, limits)) states.add(letter, at++);
  return states;
}

interface Content {
  readonly bytes: number;
  /** Number of letters. */
  readonly count: number;
  readonly states: LetterStates;
}

function emptyContent(): Content {
  return { bytes: 0, count: 0, states: new LetterStates() };
}

/** A power cut might leave zeros or other bytes in place of the last letter. */
async function readContent(disk: ReadableDisk, file: string, limits: LineLimit): Promise<Content> {
  const states = new LetterStates();
  let whole = { bytes: 0, count: 0 };
  let count = 0;
  for await (const lines of readLines(disk, file, limits)) {
    for (const { text, end } of lines) {
      const letter = decodeDeadLetter(text);
      if (letter !== undefined) {
        states.add(letter, count);
        whole = { bytes: end, count: count + 1 };
      }
      count += 1;
    }
  }
  return { ...whole, states };
}

/** The whole lines of each chunk, each with the position after its newline. */
async function* readLines(
  disk: ReadableDisk,
  file: string,
  { lineBytesMax }: LineLimit,
): AsyncGenerator<{ text: string; end: number }[]> {
  let lines: { text: string; end: number }[] = [];
  const cutter = new LineCutter((bytes, start, end, lineEnd) => {
    lines.push({ text: bytes.toString('utf8', start, end), end: lineEnd + 1 });
  }, lineBytesMax);
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

/**
 * @param own the open states that this letter is the latest for
 * @param withLine the events whose line is kept; the event of the letter is added to them
 * @returns the letters that stay of one in the file
 */
function openPart(text: string, own: readonly LetterState[], states: LetterStates, withLine: Set<number>): string[] {
  const letter = decodeDeadLetter(text);
  if (letter === undefined) return [];
  // Only a part of a range might still be open.
  if (letter.line === undefined) return own.map(({ first, last }) => encodeDeadLetter({ ...letter, first, last }));
  const { first } = seqsOf(letter);
  const state = states.of(first);
  const isFirstWithLine = state !== undefined && isOpen(state) && !withLine.has(first);
  if (own.length === 0 && !isFirstWithLine) return [];
  withLine.add(first);
  return [text];
}
