/** What an observer knows of the dead letters of one destination, from their durable bytes, with a parser of its own. */

import type { SimulatedDisk } from '../../support/simulated-disk.ts';

interface Letter {
  readonly time: string;
  readonly outcome: string;
  readonly became?: string;
  readonly line?: { readonly seq: number };
  readonly first?: number;
  readonly last?: number;
}

/** What a file of dead letters adds up to. */
interface Sums {
  /** The number of open letters. */
  open: number;
  /** The number of events that it says were removed, without those that were taken after all. */
  lost: number;
}

/** Of a range, as it is written. */
const REMOVED = /"outcome":"removed",.*"first":(\d+),"last":(\d+)\}$/;
const LINE = ',"line":';
const sumsOf = new WeakMap<Buffer, Sums>();

/** @returns what the whole letters of a file add up to; a part of a letter that was closed leaves its other parts open */
export function lettersIn(bytes: Buffer = Buffer.alloc(0)): Sums {
  const known = sumsOf.get(bytes);
  if (known !== undefined) return known;
  const sums = { open: 0, lost: 0 };
  sumsOf.set(bytes, sums);
  /** By seq: the letter that says last what became of it. */
  const letters = new Map<number, Letter>();
  for (const text of bytes.toString().split('\n').slice(0, -1)) {
    if (!text.endsWith('}') || text.includes('\0')) continue;
    const letter: Letter = JSON.parse(text);
    const { outcome, became, line, first = line!.seq, last = first } = letter;
    if (outcome === 'removed') sums.lost += (became === 'taken' ? -1 : 1) * (last + 1 - first);
    for (let seq = first; seq <= last; seq += 1)
      if (outcome === 'removed' || first === last || letters.has(seq)) letters.set(seq, letter);
  }
  let before: Letter | undefined;
  let beforeSeq = 0;
  for (const [seq, letter] of [...letters].sort(([a], [b]) => a - b)) {
    const isSame = letter === before && seq === beforeSeq + 1;
    [before, beforeSeq] = [letter, seq];
    if (!isSame && isOpen(letter)) sums.open += 1;
  }
  return sums;
}

function isOpen({ outcome, became }: Letter): boolean {
  return became !== 'taken' && outcome !== 'sent again' && outcome !== 'skipped';
}

/** What is known of the events that letters are about; what is left out is not checked. */
export interface LetterRules {
  /** Whether a letter may be there twice, since its first write failed. */
  readonly mayRepeat?: boolean;
  /** Whether a line is the one of its journal. */
  readonly isRight?: (seq: number, line: string) => boolean;
  /** The cursor passed all events up to here: what no letter named then, the destination has. */
  readonly passedSeq?: number;
  /** Whether the destination has an event. */
  readonly isThere?: (seq: number) => boolean;
}

export class LettersView {
  /** The events that had a letter at any time, also after it was closed and removed. */
  readonly named = new Set<number>();
  /** By seq: whether an operator has to decide about it. */
  #states = new Map<number, boolean>();
  #bytes: Buffer | undefined;

  /** The seqs about which an operator has to decide. */
  get open(): number[] {
    return [...this.#states].flatMap(([seq, isOpen]) => (isOpen ? [seq] : []));
  }

  isOpen(seq: number): boolean {
    return this.#states.get(seq) === true;
  }

  /**
   * The cursor passes events. Retention may have named them before, while the cursor was lost, in letters that are not durable yet.
   * @param bytes of the file now
   */
  passed(bytes: Buffer | undefined): void {
    for (const text of `${bytes}`.split('\n')) {
      const [, first, last] = REMOVED.exec(text) ?? [];
      for (let seq = Number(first); seq <= Number(last); seq += 1) this.named.add(seq);
    }
  }

  /** @returns what is wrong with the letters, if anything is */
  refresh(
    bytes: Buffer | undefined,
    { mayRepeat = true, isRight = () => true, passedSeq = 0, isThere = () => true }: LetterRules = {},
  ): string | undefined {
    if (bytes === this.#bytes) return undefined;
    this.#bytes = bytes;
    const states = new Map<number, boolean>();
    const removed = new Set<number>();
    let hasZeros = false;
    const end = bytes?.lastIndexOf('\n') ?? -1; // what follows is torn, also if only the line feed is missing
    for (const text of bytes?.toString('utf8', 0, Math.max(end, 0)).split('\n') ?? []) {
      // A power cut may leave zeros in the last letter, or in place of it. A start cuts it off before another is written.
      hasZeros ||= text.includes('\0');
      const isWhole = text.endsWith('}') && text.lastIndexOf('\0') < text.lastIndexOf('{"time":');
      if (hasZeros && isWhole) return 'a dead letter was written after one with zeros in it';
      if (!isWhole) continue; // torn, or the end
      const letter: Letter = JSON.parse(text);
      const { outcome, became, line, first = line!.seq, last = first } = letter;
      if (line !== undefined && !isRight(line.seq, text.slice(text.indexOf(LINE) + LINE.length, -1)))
        return `a dead letter has another line of event ${line.seq} than the journal`;
      for (let seq = first; seq <= last; seq += 1) {
        // An operator gives up the open letters of a range, and no other event of it.
        if (outcome === 'skipped' && line === undefined && !states.has(seq)) continue;
        states.set(seq, isOpen(letter));
        const isNew = !this.named.has(seq);
        this.named.add(seq);
        if (outcome === 'removed' && became === 'taken' && !isThere(seq))
          return `a dead letter says that event ${seq} was taken after all, and it is not there`;
        // A crash before the cursor passes one that was taken after all.
        if (became === 'taken') removed.delete(seq);
        if (outcome === 'removed' && isNew && seq <= passedSeq)
          return `a dead letter says that event ${seq} was removed, which its destination has`;
        if (outcome !== 'removed' || became !== undefined) continue;
        if (removed.has(seq) && !mayRepeat) return `event ${seq} has two dead letters that say it was removed`;
        removed.add(seq);
      }
    }
    for (const [seq, wasOpen] of this.#states)
      if (wasOpen && !states.has(seq)) return `the dead letter of event ${seq} is gone, and was open`;
    this.#states = states;
    return undefined;
  }
}

/** @returns the dead letters of a destination as a process reads them: a power cut may take the last ones */
export function lettersOf(disk: SimulatedDisk, name: string): LettersView {
  const letters = new LettersView();
  letters.refresh(disk.bytes(`dead-${name}.jsonl`));
  return letters;
}
