/** The unsent events of a journal, read in pages. The journal itself is the queue: there is no second one in memory. */

import { type Filter, isMatch } from '../../event/search.ts';
import type { ReadableDisk } from '../../journal/disk.ts';
import { readJournal } from '../../journal/look/reader.ts';
import { type Line, linesBefore, type Reading, sizeOf } from '../../journal/look/reading.ts';
import { traceOf } from '../../journal/look/trace.ts';
import type { Progress } from '../../journal/progress.ts';
import { shellWord } from '../../telemetry/printable.ts';
import type { Step } from '../ledger/ledger.ts';
import type { SeqRange } from '../position.ts';

/** What follows a seq. */
export type BacklogHead =
  /** At least one line, with consecutive seqs. With `BacklogSource.only` the first one is wanted. */
  | { readonly kind: 'lines'; readonly lines: readonly Line[] }
  | Passed
  /** Events that cannot be read. A repair or a backup might still restore them, so an operator decides. */
  | { readonly kind: 'damage'; readonly reason: string }
  /** The folder now has another journal. */
  | { readonly kind: 'another journal' };

/** Events that are not sent, because the destination does not want them or the journal no longer has them. */
type Passed = Extract<Step, { kind: 'unwanted' | 'gap' }>;

export interface BacklogSource {
  readonly disk: ReadableDisk;
  /** The progress of the service that writes the journal, which must be readable. */
  readonly progress: () => Progress;
  readonly limits: Reading['limits'];
  /** Which events are wanted. If absent, all are. */
  readonly only?: Filter | undefined;
  /** Ends a wait for events. */
  readonly signal: AbortSignal;
}

/**
 * The events after a seq. The caller calls `more` until `head` returns something. It holds the lines that were read and not
 * passed: one page, or as many as `readAhead` may read.
 */
export class Backlog {
  readonly #source: BacklogSource;
  readonly #isWanted: ((line: Line) => boolean) | undefined;
  /** The last seq that was passed. */
  #seq = 0;
  #pages: AsyncGenerator<readonly Line[]> | undefined;
  /** Ends the reading of pages, which might be waiting for events. */
  #ending = new AbortController();
  /** The page that is being read. */
  #reading: Promise<void> | undefined;
  #lines: readonly Line[] = [];
  #gone: { readonly gone: SeqRange; readonly text: string; readonly isDamage: boolean }[] = [];
  #damage = 'its lines are not in order';

  constructor(source: BacklogSource) {
    this.#source = source;
    this.#isWanted = source.only && wantedBy(source.only);
    source.signal.addEventListener('abort', () => this.#ending.abort());
  }

  /**
   * @param bytesMax the most bytes of all lines; at least one line is returned
   * @param after the seq after which to continue, instead of the last one that was passed: the seq of a loaded line, or the end of a
   * gap
   * @returns what follows; undefined if that is not read yet
   */
  head(bytesMax: number, after = this.#seq): BacklogHead | undefined {
    const lines = this.#after(after);
    const [first] = lines;
    if (first?.seq === after + 1) {
      if (this.#isWanted?.(first) ?? true) return { kind: 'lines', lines: consecutive(lines, bytesMax) };
      const run = consecutive(lines, Number.POSITIVE_INFINITY);
      const at = run.findIndex(this.#isWanted!);
      return { kind: 'unwanted', last: run.at(Math.max(at, 0) - 1)! };
    }
    const found = this.#gone.find(({ gone }) => gone.first <= after + 1 && after < gone.last);
    if (found !== undefined) {
      const last = Math.min(found.gone.last, (first?.seq ?? Number.POSITIVE_INFINITY) - 1);
      if (last > after) {
        if (found.isDamage) return this.#unreadable(after + 1, last, found.text);
        return { kind: 'gap', gone: { first: after + 1, last }, reason: found.text };
      }
    }
    if (first === undefined) return undefined;
    if (first.seq <= after) return { kind: 'another journal' };
    return this.#unreadable(after + 1, first.seq - 1, this.#damage);
  }

  /** @returns what follows a loaded line, and what must be passed before it; undefined if that is not read yet */
  nextAfter(seq: number): {
    readonly between: readonly Passed[];
    readonly next: Exclude<BacklogHead, Passed> | undefined;
  } {
    const between: Passed[] = [];
    for (let after = seq; ; ) {
      const next = this.head(0, after);
      if (next?.kind !== 'gap' && next?.kind !== 'unwanted') return { between, next };
      between.push(next);
      after = next.kind === 'gap' ? next.gone.last : next.last.seq;
    }
  }

  /**
   * Reads a page, or waits for the page that is being read. Resolves when a page is there, which can be empty, or when the signal
   * aborts.
   * @throws the error of a system call; the next call then reads again
   */
  more(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /**
   * Loads all lines up to a seq that is in the journal, unless the signal aborts.
   * @throws the errors of `more`
   */
  async readTo(seq: number): Promise<void> {
    for (let before = -1; before < this.#readSeq && this.#readSeq < seq; ) {
      before = this.#readSeq;
      await this.more();
    }
  }

  /**
   * Reads further while lines are being sent, so that the next request is larger and needs no wait for the disk. Never rejects: the
   * error of a system call recurs in the next `more`.
   * @param lastSeq the last seq of the journal; later events are not awaited
   * @param bytesMax no further page is read once the lines after `sentSeq` have this many bytes
   */
  async readAhead(sentSeq: number, lastSeq: number, bytesMax: number): Promise<void> {
    let readSeq = this.#readSeq;
    while (readSeq < lastSeq && sizeOf(this.#after(sentSeq)) < bytesMax) {
      try {
        await this.more();
      } catch {
        return;
      }
      if (this.#readSeq <= readSeq) return; // the page is empty, or the backlog was moved
      readSeq = this.#readSeq;
    }
  }

  /** Whether the lines that are loaded and not passed have at least `bytesMax` bytes. */
  isFull(bytesMax: number): boolean {
    return sizeOf(this.#lines) >= bytesMax;
  }

  async #read(): Promise<void> {
    const { disk, progress, limits, signal } = this.#source;
    if (signal.aborted) this.#ending.abort();
    const filter = { afterSeq: this.#readSeq };
    const reading = { filter, seek: true, follow: this.#ending.signal, progress: progress(), limits };
    this.#pages ??= readJournal(disk, reading, ({ kind, text, gone }) => {
      if (pages !== this.#pages) return;
      if (gone !== undefined) this.#gone.push({ gone, text, isDamage: kind === 'damage' });
      else if (kind === 'damage') this.#damage = text;
    });
    const pages = this.#pages;
    try {
      const { value: page = [] } = await pages.next();
      if (pages !== this.#pages) return; // the backlog was moved in the meantime
      this.#lines = this.#lines.length === 0 ? page : [...this.#lines, ...page];
    } catch (error) {
      if (pages === this.#pages) await this.moveTo(this.#seq);
      throw error;
    }
  }

  /**
   * Reads one line independently of the backlog.
   * @returns the line with a seq, or the first one up to `untilSeq`, with its current content in the journal; undefined if it is
   * missing
   *   or damaged
   * @throws the error of a system call
   */
  async lineAt(seq: number, untilSeq = seq): Promise<Line | undefined> {
    const { disk, progress, limits } = this.#source;
    const filter = { afterSeq: seq - 1, untilSeq };
    const reading = { filter, seek: true, follow: AbortSignal.abort(), progress: progress(), limits }; // reads once
    for await (const [line] of readJournal(disk, reading, () => {})) if (line !== undefined) return line;
    return undefined;
  }

  #unreadable(first: number, last: number, text: string): BacklogHead {
    const which = first === last ? `event ${first}` : `the events ${first} to ${last}`;
    return { kind: 'damage', reason: `${which} cannot be read: ${text}; ${commandText(this.#source.disk, 'repair')}` };
  }

  #after(seq: number): readonly Line[] {
    return seq === this.#seq ? this.#lines : linesAfter(this.#lines, seq);
  }

  get #readSeq(): number {
    return this.#lines.at(-1)?.seq ?? this.#seq;
  }

  /** Passes everything up to a seq. */
  pass(seq: number): void {
    this.#seq = seq;
    this.#lines = linesAfter(this.#lines, seq);
    this.#gone = this.#gone.filter(({ gone }) => gone.last > seq);
  }

  /** Reads the lines after a seq, even if they were read before. */
  async moveTo(seq: number): Promise<void> {
    const pages = this.#pages;
    this.#pages = undefined;
    this.#seq = seq;
    this.#lines = [];
    this.#gone = [];
    this.#ending.abort();
    this.#ending = new AbortController();
    await pages?.return(undefined);
  }
}

/**
 * @returns what an operator has to do. The command ends the sentence, so that `forward status` can print it on a separate line
 */
export function commandText(disk: Pick<ReadableDisk, 'folder'>, command: string): string {
  return `stop the service and run assetlog ${command} --data ${shellWord(disk.folder)}`;
}

function wantedBy(only: Filter): (line: Line) => boolean {
  const trace = traceOf(only);
  const hasTrace = ({ bytes, start, end }: Line) => trace === undefined || bytes.subarray(start, end).includes(trace);
  return (line) => hasTrace(line) && isMatch(line, only);
}

/** A request can contain a small part of the loaded lines, so the lines after it are not examined. */
function linesAfter(lines: readonly Line[], seq: number): readonly Line[] {
  const at = lines.findIndex((line) => line.seq > seq);
  return at === -1 ? [] : lines.slice(at);
}

function consecutive(lines: readonly Line[], bytesMax: number): readonly Line[] {
  const [first] = lines;
  let bytes = 0;
  return linesBefore(lines, ({ seq, start, end }, at) => {
    bytes += end + 1 - start;
    return seq !== first!.seq + at || (at > 0 && bytes > bytesMax);
  });
}
