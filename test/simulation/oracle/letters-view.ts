/** What an observer knows of the dead letters of one destination, from their durable bytes, with a parser of its own. */

import type { SimulatedDisk } from '../../world/simulated-disk.ts';

interface Letter {
  readonly outcome: string;
  readonly became?: string;
  readonly line?: { readonly seq: number };
  readonly first?: number;
  readonly last?: number;
}

const LINE = ',"line":';

/**
 * @returns the whole letters of a file, with their texts and the byte after them: a power cut may leave zeros in the last one, and what
 *   follows is torn
 */
function* lettersIn(bytes: Buffer = Buffer.alloc(0)): Iterable<readonly [letter: Letter, text: string, end: number]> {
  let end = 0;
  for (const text of bytes.toString().split('\n').slice(0, -1)) {
    end += Buffer.byteLength(text) + 1;
    if (text.endsWith('}') && !text.includes('\0')) yield [JSON.parse(text), text, end];
  }
}

function isOpen({ outcome, became }: Letter): boolean {
  return became !== 'taken' && outcome !== 'sent again' && outcome !== 'skipped';
}

export class LettersView {
  /** The events that had a letter at any time, also after it was closed and removed. */
  readonly named = new Set<number>();
  /** By seq: the letter that says last what became of it. */
  #letters = new Map<number, Letter>();
  #bytes: Buffer | undefined;

  /** The seqs about which an operator has to decide. */
  get open(): number[] {
    return [...this.#letters.keys()].filter((seq) => this.isOpen(seq));
  }

  /** The number of open letters. One that is closed in part is open in its other parts. */
  get openCount(): number {
    const isNext = (seq: number) => this.#letters.get(seq - 1) === this.#letters.get(seq);
    return this.open.filter((seq) => !isNext(seq)).length;
  }

  /** The events that open letters call removed. */
  get lost(): number[] {
    return this.open.filter((seq) => this.#letters.get(seq)!.outcome === 'removed');
  }

  isOpen(seq: number): boolean {
    const letter = this.#letters.get(seq);
    return letter !== undefined && isOpen(letter);
  }

  /**
   * @param isRight whether a line is the one of its journal
   * @param wasTried whether a request with an event left while the destination could be reached
   * @param bytesMax of the file with a further event, unless it is the only one, or a person gives it up
   * @returns what is wrong with the letters, if anything is
   */
  refresh(
    bytes: Buffer | undefined,
    isRight: (seq: number, line: string) => boolean = () => true,
    wasTried: (seq: number) => boolean = () => true,
    bytesMax = Number.POSITIVE_INFINITY,
  ): string | undefined {
    if (bytes === this.#bytes) return undefined;
    this.#bytes = bytes;
    const letters = new Map<number, Letter>();
    for (const [letter, text, end] of lettersIn(bytes)) {
      const { outcome, became, line, first = line!.seq, last = first } = letter;
      if (line !== undefined && !isRight(line.seq, text.slice(text.indexOf(LINE) + LINE.length, -1)))
        return `a dead letter has another line of event ${line.seq} than the journal`;
      if (line !== undefined && end > bytesMax && letters.size > 0 && outcome !== 'skipped')
        return `a dead letter of event ${line.seq} is beyond the limit of ${bytesMax} bytes`;
      for (let seq = first; seq <= last; seq += 1) {
        // An operator gives up the open letters of a range, and no other event of it.
        if (outcome === 'skipped' && line === undefined && !letters.has(seq)) continue;
        letters.set(seq, letter);
        // One of before may be of another destination, from which the sender has moved since.
        const isNew = !this.named.has(seq);
        this.named.add(seq);
        if (isNew && (outcome === 'refused' || became === 'given up') && !wasTried(seq))
          return `a dead letter gives event ${seq} up, and its destination was away`;
      }
    }
    const gone = this.open.find((seq) => !letters.has(seq));
    if (gone !== undefined) return `the dead letter of event ${gone} is gone, and was open`;
    this.#letters = letters;
    return undefined;
  }
}

/** @returns the dead letters of a destination as a process reads them: a power cut may take the last ones */
export function lettersOf(disk: SimulatedDisk, name: string): LettersView {
  const letters = new LettersView();
  letters.refresh(disk.bytes(`dead-${name}.jsonl`));
  return letters;
}
