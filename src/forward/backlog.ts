/** What of a journal is still to be sent, read page by page. The journal is the queue: there is no second one in memory. */

import type { ReadableDisk } from '../journal/disk.ts';
import type { Progress } from '../journal/progress.ts';
import { type Line, type Reading, readJournal } from '../journal/reader.ts';
import type { GoneRange } from '../journal/segments.ts';

/** What comes next after a seq: `{ kind: 'lines', lines }`. */
export type Head =
  /** At least one, with consecutive seqs. */
  | { readonly kind: 'lines'; readonly lines: readonly Line[] }
  /** Events that the journal does not have any more, since retention removed them or a repair did not find them. */
  | { readonly kind: 'gap'; readonly gone: GoneRange; readonly reason: string }
  /** Events that can not be read: a repair or a backup may still bring them back, so an operator decides. */
  | { readonly kind: 'damage'; readonly reason: string }
  /** The folder has another journal now. */
  | { readonly kind: 'another journal' };

/** Where a backlog is read from: `{ disk, progress: () => ownProgress.of(disk.folder), limits, signal }`. */
export interface BacklogSource {
  readonly disk: ReadableDisk;
  /** Of the service that writes the journal, which has to be readable. */
  readonly progress: () => Progress;
  readonly limits: Reading['limits'];
  /** Ends a wait for events. */
  readonly signal: AbortSignal;
}

/** The events after a seq: `await backlog.more()` until `backlog.head()` has something. Holds one page, and the next event of the next. */
export class Backlog {
  readonly #source: BacklogSource;
  /** The last seq that was passed. */
  #seq: number;
  #pages: AsyncGenerator<readonly Line[]> | undefined;
  #lines: readonly Line[] = [];
  #gone: { readonly gone: GoneRange; readonly text: string; readonly isDamage: boolean }[] = [];
  #damage = 'its lines are not in order';

  /** @param seq after which it begins: 0 for the first event */
  constructor(source: BacklogSource, seq: number) {
    this.#source = source;
    this.#seq = seq;
  }

  /**
   * @param after looks behind this seq instead of the last one that was passed; it is that of a line that is at hand, or the last
   *   one of a gap
   * @param bytesMax of the lines together, but there is always one
   * @returns what comes next; undefined if that is not read yet
   */
  head(bytesMax = 0, after = this.#seq): Head | undefined {
    const lines = after === this.#seq ? this.#lines : this.#lines.filter(({ seq }) => seq > after);
    const [first] = lines;
    if (first?.seq === after + 1) return { kind: 'lines', lines: consecutive(lines, bytesMax) };
    const found = this.#gone.find(({ gone }) => gone.first <= after + 1 && after < gone.last);
    if (found !== undefined) {
      const last = Math.min(found.gone.last, (first?.seq ?? Number.POSITIVE_INFINITY) - 1);
      if (last > after) {
        if (found.isDamage) return unreadable(after + 1, last, found.text);
        return { kind: 'gap', gone: { first: after + 1, last }, reason: found.text };
      }
    }
    if (first === undefined) return undefined;
    if (first.seq <= after) return { kind: 'another journal' };
    return unreadable(after + 1, first.seq - 1, this.#damage);
  }

  /**
   * Reads a page. Waits until there is one, or the signal aborts; the page may be empty.
   * @throws the error of a system call; the next call then reads again
   */
  async more(): Promise<void> {
    const { disk, progress, limits, signal } = this.#source;
    const afterSeq = this.#lines.at(-1)?.seq ?? this.#seq;
    const reading = { filter: { afterSeq }, seek: true, follow: signal, progress: progress(), limits };
    this.#pages ??= readJournal(disk, reading, ({ kind, text, gone }) => {
      if (gone !== undefined) this.#gone.push({ gone, text, isDamage: kind === 'damage' });
      else if (kind === 'damage') this.#damage = text;
    });
    try {
      const { value: lines = [] } = await this.#pages.next();
      this.#lines = this.#lines.length === 0 ? lines : [...this.#lines, ...lines];
    } catch (error) {
      await this.moveTo(this.#seq);
      throw error;
    }
  }

  /** Passes all up to a seq. */
  pass(seq: number): void {
    this.#seq = seq;
    const at = this.#lines.findIndex((line) => line.seq > seq);
    this.#lines = at === -1 ? [] : this.#lines.slice(at);
    this.#gone = this.#gone.filter(({ gone }) => gone.last > seq);
  }

  /** Reads what comes after a seq, again if it was read before. */
  async moveTo(seq: number): Promise<void> {
    const pages = this.#pages;
    this.#pages = undefined;
    this.#seq = seq;
    this.#lines = [];
    this.#gone = [];
    await pages?.return(undefined);
  }
}

/**
 * @returns the line with a seq, as it is in the journal now; undefined if it is not there, or damaged
 * @throws the error of a system call
 */
export async function lineAt({ disk, progress, limits }: BacklogSource, seq: number): Promise<Line | undefined> {
  const filter = { afterSeq: seq - 1, untilSeq: seq };
  const reading = { filter, seek: true, follow: AbortSignal.abort(), progress: progress(), limits }; // reads once
  for await (const [line] of readJournal(disk, reading, () => {})) if (line !== undefined) return line;
  return undefined;
}

function unreadable(first: number, last: number, text: string): Head {
  const which = first === last ? `event ${first}` : `the events ${first} to ${last}`;
  const reason = `${which} can not be read: ${text}; stop the service and run assetlog repair`;
  return { kind: 'damage', reason };
}

function consecutive(lines: readonly Line[], bytesMax: number): readonly Line[] {
  const [first] = lines;
  let bytes = 0;
  const end = lines.findIndex(({ seq, start, end }, at) => {
    bytes += end + 1 - start;
    return seq !== first!.seq + at || (at > 0 && bytes > bytesMax);
  });
  return end === -1 ? lines : lines.slice(0, end);
}
