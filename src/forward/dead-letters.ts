/**
 * The events that a destination did not take, or may have recorded twice, with the reason: `dead-<name>.jsonl`. Each is one JSON
 * line, durable before the cursor passes its event.
 */

import { appendWhole } from '../journal/append.ts';
import { type Disk, type LogFile, type ReadableDisk, unlessAbsent } from '../journal/disk.ts';
import { LineCutter } from '../journal/lines.ts';

/**
 * One event, or several that retention removed:
 * `{ time: '2026-11-20T15:19:45.266Z', outcome: 'refused', status: 400, reason: 'asset_key is missing', line: '{"seq":7,…}' }`.
 */
export interface DeadLetter {
  /** When it was written, in UTC. */
  readonly time: string;
  /**
   * `refused`: the destination does not have it. `in doubt`: it may have it, once or twice. `removed`: retention removed it
   * unsent. `skipped`: an operator gave it up. `sent again`: the destination took it when an operator sent it again.
   */
  readonly outcome: 'refused' | 'in doubt' | 'removed' | 'skipped' | 'sent again';
  /** HTTP status of the last reply. */
  readonly status?: number | undefined;
  readonly reason: string;
  /** The line of the journal as it is there, without its newline. */
  readonly line?: string | undefined;
  /** The seqs that it is about, both inclusive, if it has no line. */
  readonly first?: number | undefined;
  readonly last?: number | undefined;
}

/** @returns the name of the file with the dead letters of a destination: of `hub` it is `dead-hub.jsonl` */
export function deadLettersName(name: string): string {
  return `dead-${name}.jsonl`;
}

/** @returns the letter as one line of JSON without a newline; `line` is its last member, digit by digit as in the journal */
export function encodeDeadLetter({ line, ...letter }: DeadLetter): string {
  const text = JSON.stringify(letter);
  return line === undefined ? text : `${text.slice(0, -1)}${LINE_MEMBER}${line}}`;
}

/**
 * The dead letters of one destination, for its forwarder and for those that are sent again. Example: `await DeadLetters.open(disk, 'hub')`.
 * The file is opened for each letter: there are few, and an operator may move the file away.
 */
export class DeadLetters {
  readonly #disk: Disk;
  readonly #file: string;
  #kept: Kept = { bytes: 0, count: 0 };
  #appended: Promise<unknown> = Promise.resolve();
  /** Whether a letter was begun whose end is not known: what is after the kept bytes is cut off. */
  #isUnsure = false;

  private constructor(disk: Disk, file: string) {
    this.#disk = disk;
    this.#file = file;
  }

  /**
   * Counts the letters, and cuts off the end of one that a crash has torn.
   * @throws the error of a system call
   */
  static async open(disk: Disk, name: string): Promise<DeadLetters> {
    const letters = new DeadLetters(disk, deadLettersName(name));
    const log = await letters.#openLog();
    if (log !== undefined) await closing(log, () => letters.#recover(log));
    return letters;
  }

  /** Number of letters in the file: `2`. */
  get count(): number {
    return this.#kept.count;
  }

  /**
   * Appends a letter, durably, after those before it.
   * @throws the error of a system call or a NotWritten, such as that of a full disk: the letter is not in the file, and may be
   *   appended again
   */
  append(letter: DeadLetter): Promise<void> {
    const appended = this.#appended.then(() => this.#append(letter));
    this.#appended = appended.catch(() => {}); // its caller gets the error
    return appended;
  }

  async #append(letter: DeadLetter): Promise<void> {
    const bytes = Buffer.from(`${encodeDeadLetter(letter)}\n`);
    const log = (await this.#openLog()) ?? (await this.#begin());
    await closing(log, async () => {
      await this.#prepare(log);
      this.#isUnsure = true;
      const { bytes: end, count } = this.#kept;
      await appendWhole({ file: log, bytes: end }, bytes);
      if (log.sizeInFolder() !== end + bytes.length) throw new Error(`${this.#file} was changed by another program`);
      this.#isUnsure = false;
      this.#kept = { bytes: end + bytes.length, count: count + 1 };
    });
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
    this.#kept = { bytes: 0, count: 0 };
    this.#isUnsure = true;
    return this.#disk.createLog(this.#file);
  }

  async #recover(log: LogFile): Promise<void> {
    this.#kept = await readKept(this.#disk, this.#file);
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
      const letter = decode(text);
      if (letter === undefined) throw new Error(`${disk.folder}/${file}, line ${number}: it is no dead letter`);
      yield letter;
    }
  }
}

/** How far the file is good: its length in bytes and the number of letters. */
type Kept = { readonly bytes: number; readonly count: number };

/** Up to the last line that is a letter: a power cut may leave zeros or other bytes instead of the last one. */
async function readKept(disk: ReadableDisk, file: string): Promise<Kept> {
  let kept: Kept = { bytes: 0, count: 0 };
  let count = 0;
  for await (const lines of readLines(disk, file)) {
    for (const { text, end } of lines) {
      count += 1;
      if (decode(text) !== undefined) kept = { bytes: end, count };
    }
  }
  return kept;
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

/** @returns undefined if the text is not a whole letter */
function decode(text: string): DeadLetter | undefined {
  // No string can contain it, since a quote in a string is escaped. So its first occurrence is the member.
  const at = text.indexOf(LINE_MEMBER);
  const line = at === -1 ? undefined : text.slice(at + LINE_MEMBER.length, -1);
  try {
    if (line !== undefined) JSON.parse(line);
    const letter = JSON.parse(line === undefined ? text : `${text.slice(0, at)}}`);
    return typeof letter.outcome === 'string' && text.endsWith('}') ? { ...letter, line } : undefined;
  } catch {
    return undefined; // not JSON
  }
}

async function closing(log: LogFile, act: () => Promise<void>): Promise<void> {
  await act().finally(() => log.close());
}

const LINE_MEMBER = ',"line":';
