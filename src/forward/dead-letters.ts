/**
 * The events that a destination did not take, or may have recorded twice, with the reason: `dead-<name>.jsonl`. Each is one JSON
 * line, durable before the cursor passes its event.
 */

import { appendWhole } from '../journal/append.ts';
import { type Disk, type LogFile, type ReadableDisk, unlessAbsent } from '../journal/disk.ts';
import { LineCutter } from '../journal/lines.ts';
import { type DeadLetter, decodeDeadLetter, encodeDeadLetter } from './dead-letter.ts';
import { addLetter, countOpen, isOpen, type LetterState } from './open-letters.ts';

/** @returns the name of the file with the dead letters of a destination: of `hub` it is `dead-hub.jsonl` */
export function deadLettersName(name: string): string {
  return `dead-${name}.jsonl`;
}

/**
 * The dead letters of one destination, for its forwarder and for those that are sent again. Example: `await DeadLetters.open(disk, 'hub')`.
 * The file is opened for each letter: there are few, and an operator may move the file away.
 */
export class DeadLetters {
  readonly #disk: Disk;
  readonly #file: string;
  #kept: Kept = NOTHING;
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

  /** Number of letters that an operator still has to decide about, as `assetlog forward status` counts them: `1`. */
  get open(): number {
    return this.#kept.open;
  }

  /**
   * For a start after a crash that kept the cursor from passing events with letters.
   * @returns the last seq of which each one after `seq` has an open letter: 7 if 6 and 7 have one and `seq` is 5; `seq` if there is none
   * @throws the error of a system call
   */
  async buriedAfter(seq: number): Promise<number> {
    const { states } = await readKept(this.#disk, this.#file);
    for (let last = seq; ; ) {
      const state = states.get(last + 1);
      if (state === undefined || !isOpen(state)) return last;
      last = state.last;
    }
  }

  /**
   * Appends a letter, durably, after those before it.
   * @param wasOpen whether the last letter about the same event is open
   * @throws the error of a system call or a NotWritten, such as that of a full disk: the letter is not in the file, and may be
   *   appended again
   */
  append(letter: DeadLetter, wasOpen = false): Promise<void> {
    const appended = this.#appended.then(() => this.#append(letter, wasOpen));
    this.#appended = appended.catch(() => {}); // its caller gets the error
    return appended;
  }

  async #append(letter: DeadLetter, wasOpen: boolean): Promise<void> {
    const bytes = Buffer.from(`${encodeDeadLetter(letter)}\n`);
    const log = (await this.#openLog()) ?? (await this.#begin());
    await closing(log, async () => {
      await this.#prepare(log);
      this.#isUnsure = true;
      const { bytes: end, count, open } = this.#kept;
      await appendWhole({ file: log, bytes: end }, bytes);
      if (log.sizeInFolder() !== end + bytes.length) throw new Error(`${this.#file} was changed by another program`);
      this.#isUnsure = false;
      this.#kept = {
        bytes: end + bytes.length,
        count: count + 1,
        open: open + Number(isOpen(letter)) - Number(wasOpen),
      };
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
    this.#kept = NOTHING;
    this.#isUnsure = true;
    return this.#disk.createLog(this.#file);
  }

  async #recover(log: LogFile): Promise<void> {
    const { states, ...kept } = await readKept(this.#disk, this.#file);
    this.#kept = { ...kept, open: countOpen(states) };
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
 * @returns the state of each, by its first seq
 * @throws Error for a line that is no dead letter, or the error of a system call
 */
export async function readLetterStates(disk: ReadableDisk, name: string): Promise<ReadonlyMap<number, LetterState>> {
  const states = new Map<number, LetterState>();
  let at = 0;
  for await (const letter of readDeadLetters(disk, name)) addLetter(states, letter, at++);
  return states;
}

/** How far the file is good: its length in bytes, the number of letters, and of those that are open. */
type Kept = { readonly bytes: number; readonly count: number; readonly open: number };

const NOTHING: Kept = { bytes: 0, count: 0, open: 0 };

/** Up to the last line that is a letter: a power cut may leave zeros or other bytes instead of the last one. */
async function readKept(
  disk: ReadableDisk,
  file: string,
): Promise<Omit<Kept, 'open'> & { readonly states: ReadonlyMap<number, LetterState> }> {
  let kept = { bytes: 0, count: 0 };
  const states = new Map<number, LetterState>();
  let count = 0;
  for await (const lines of readLines(disk, file)) {
    for (const { text, end } of lines) {
      const letter = decodeDeadLetter(text);
      if (letter !== undefined) {
        addLetter(states, letter, count);
        kept = { bytes: end, count: count + 1 };
      }
      count += 1;
    }
  }
  return { ...kept, states };
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
