/**
 * The events that a destination did not accept, or might have recorded twice, each with the reason: `dead-<name>.jsonl`. Each is
 * one JSON line, which is durable before the cursor passes its event.
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

/** The file has as many letters as allowed, and one of them is open. The message says what to do. */
export class LettersFullError extends Error {}

/** The most bytes of a line of the file that are read, and the most bytes of the file. */
export interface LetterLimits extends LineLimit {
  /**
   * The size of the file with a further letter. Open letters without a line may use the same amount again, and letters that close
   * others any amount.
   */
  readonly bytesMax: number;
}

/**
 * The state of the file's end. `found`: the state in which another process left it. The sync of the last letter might have failed; then
 * the letter can be read, no later sync writes it, and a power cut removes it. `begun`: the last complete letter might be followed by a
 * part of another one. `durable`: the file ends with the last complete letter.
 */
type FileEnd = 'found' | 'begun' | 'durable';

type LineLimit = Pick<Limits, 'lineBytesMax'>;

/**
 * The dead letters of one destination. Only one instance may be open, and only one call may run, at a time: see `Ledger`. The file
 * is opened for each letter, since letters are rare and an operator may move the file away.
 */
export class DeadLetters {
  readonly #disk: Disk;
  readonly #name: string;
  readonly #file: string;
  readonly #limits: LetterLimits;
  /** The content of the file up to its last complete letter, when it was last examined. */
  #content: Content = emptyContent();
  #end: FileEnd = 'found';
  #lostTotal = 0;
  /** The size of the file after the last call of `#compact`. */
  #compactBytes = 0;

  private constructor(disk: Disk, name: string, limits: LetterLimits) {
    this.#disk = disk;
    this.#name = name;
    this.#file = deadLettersName(name);
    this.#limits = limits;
  }

  /**
   * Counts the letters, and removes a torn letter that a crash left at the end. The letters are made durable later, when the
   * program relies on one of them or appends another: most starts do neither, and it requires as much free space as the size of
   * the file.
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

  /** Number of letters that an operator still has to decide about, in the sense of `assetlog forward status`. */
  get open(): number {
    return this.#content.states.open;
  }

  /** Number of events that retention removed and the destination did not confirm, as far as the file has them. */
  get lost(): number {
    return this.#content.states.lost;
  }

  /** Number of events that were ever reported as removed: those in the file when it was opened, and all since then. */
  get lostTotal(): number {
    return this.#lostTotal;
  }

  /**
   * Used by a start after a crash that kept the cursor from passing events with letters.
   * @returns the last seq up to which each event after `seq` has a letter that reports the event as lost: 7 if 6 and 7 have one
   *   and `seq` is 5; `seq` if 6 has none
   * @throws the error of a system call
   */
  async namedAfter(seq: number): Promise<number> {
    if (this.#content.states.namedAfter(seq) === seq) return seq;
    return (await this.#durableStates()).namedAfter(seq);
  }

  /** Whether an open letter concerns an event of a range. */
  isMissing(range: SeqRange): boolean {
    return this.#content.states.in(range).some(isOpen);
  }

  /**
   * Appends letters about events that the journal no longer has, unless they have a letter.
   * @returns the newly named ranges, in order
   * @throws the errors of `append`; it can be called again
   */
  async nameRemoved(gone: SeqRange, reason: string): Promise<readonly SeqRange[]> {
    const ranges = (await this.#durableStates()).unnamed(gone);
    for (const range of ranges)
      await this.append({ time: new Date().toISOString(), outcome: 'removed', reason, ...range });
    return ranges;
  }

  /**
   * Appends a letter, durably, after all earlier letters.
   * @throws LettersFullError, the error of a system call, or NotWritten, for example on a full disk: the letter is then not in the
   * file,
   *   and can be appended again
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

  /** @returns a letter with seqs in place of its line if the line alone would fill the file */
  #shortened({ line, ...letter }: DeadLetter): DeadLetter {
    if (line === undefined || Buffer.byteLength(line) <= this.#limits.bytesMax / 2) return { ...letter, line };
    const reason = `${letter.reason}; its line is too long for this file`;
    return { ...letter, reason, ...seqsOf({ ...letter, line }) };
  }

  /**
   * If the file is full, starts it again: empty if all its letters are closed, otherwise without the closed ones. @throws LettersFullError if
   * one is open
   */
  async #makeSpace(bytes: number, letter: DeadLetter): Promise<void> {
    const { bytesMax } = this.#limits;
    const { bytes: before, states } = this.#content;
    if (before + bytes <= bytesMax || before === 0) return;
    if (states.open === 0) {
      await this.#replace([]);
      this.#content = emptyContent();
      return;
    }
    // The file has grown by another half of the limit since then, so it is not rewritten for each letter.
    if (before + bytes > 2 * bytesMax && before > this.#compactBytes + bytesMax / 2) {
      await this.#compact();
      return this.#makeSpace(bytes, letter);
    }
    // Letters that close others are not limited, since a full file could otherwise not be worked off.
    const most = isOpen(letter) ? 2 * bytesMax : Number.POSITIVE_INFINITY;
    if (letter.line === undefined && before + bytes <= most) return;
    const open = states.all.filter(isOpen);
    const seqs = `${open[0]!.first}-${open.at(-1)!.last}`;
    // Sending an event again appends letters.
    const wayOut =
      before + bytes <= 2 * bytesMax
        ? `give all up with assetlog forward skip, or send all again: run assetlog forward retry ${this.#name}`
        : `without space to send them again, give all up: run assetlog forward skip ${this.#name} --seq ${seqs}`;
    throw new LettersFullError(
      `the dead letters of ${this.#name} take ${before} of at most ${bytesMax} bytes; ${wayOut}`,
    );
  }

  /**
   * Keeps the latest letter of each open event, and the first one with its line, since each attempt to send an event again adds
   * letters.
   */
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

  /** Excludes a letter whose sync failed: it can be read, but might be gone after a power cut. */
  async #durableStates(): Promise<LetterStates> {
    await this.#prepare();
    return this.#content.states;
  }

  async #read(): Promise<void> {
    this.#content = await readContent(this.#disk, this.#file, this.#limits);
  }

  /** Truncates the file after its last complete letter, durably. */
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
 * Reads the dead letters of a destination, oldest first, even while a service writes them. Bytes that a power cut left in place of
 * the last letter are skipped. Without a file there are no letters.
 * @throws Error for an invalid line before a dead letter, or the error of a system call
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
      else if (wrong > 0) throw new Error(`${disk.folder}/${file}, line ${wrong}: it is not a dead letter`);
      else yield letter;
    }
  }
}

/** Reads the state of each dead letter of a destination. @throws the errors of `readDeadLetters` */
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

/** The complete lines of each chunk, each with the position after its newline. */
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
 * @param own the open states for which this letter is the latest
 * @param withLine the events whose line is kept; the event of the letter is added to them
 * @returns the letters that replace this one in the file
 */
function openPart(text: string, own: readonly LetterState[], states: LetterStates, withLine: Set<number>): string[] {
  const letter = decodeDeadLetter(text);
  if (letter === undefined) return [];
  // Perhaps only a part of a range is still open.
  if (letter.line === undefined) return own.map(({ first, last }) => encodeDeadLetter({ ...letter, first, last }));
  const { first } = seqsOf(letter);
  const state = states.of(first);
  const isFirstWithLine = state !== undefined && isOpen(state) && !withLine.has(first);
  if (own.length === 0 && !isFirstWithLine) return [];
  withLine.add(first);
  return [text];
}
