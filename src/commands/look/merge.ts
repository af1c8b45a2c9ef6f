/** Merges the events of several journals by their times (k-way merge): one chunk of each journal is in memory. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Filter } from '../../event/search.ts';
import { timeOf } from '../../journal/line/members.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { DeploymentLine, JournalSource } from './source.ts';

export interface MergeInput {
  /** The journals that are merged from the beginning on. */
  readonly sources: readonly JournalSource[];
  /** @returns which lines of a source are wanted */
  readonly filterOf: (source: JournalSource) => Filter;
  /** If set, later lines are awaited until it aborts. */
  readonly follow: AbortSignal | undefined;
  /** Called at each poll while following. @returns sources that are merged from now on */
  readonly added: () => Promise<readonly JournalSource[]>;
  readonly followMs: number;
}

/**
 * Merges journals. A journal keeps the order of its seqs, also after its clock was set back. While following, the lines that
 * one poll found are merged.
 */
export async function* mergeByTime(merge: MergeInput): AsyncGenerator<readonly DeploymentLine[]> {
  const { follow, followMs } = merge;
  const open = (source: JournalSource) => new SourceCursor(source, merge.filterOf(source), follow);
  const waiting: SourceCursor[] = [];
  const heads = new CursorHeap();
  let reading = merge.sources.map(open);
  for (;;) {
    await Promise.all(reading.map((cursor) => cursor.settled));
    for (const cursor of reading) {
      if (cursor.kind === 'line') heads.push(cursor);
      else if (cursor.kind === 'waiting') waiting.push(cursor);
    }
    reading = [];
    const { lines, spent } = heads.takeUntilSpent();
    if (lines.length > 0) yield lines;
    if (spent !== undefined) {
      spent.advance();
      reading = [spent];
      continue;
    }
    if (waiting.length === 0) return;
    await sleep(followMs, undefined, { signal: follow! }).catch(() => {}); // it rejects only when it is aborted
    const fresh = follow?.aborted ? [] : await merge.added();
    reading = [...waiting.splice(0), ...fresh.map(open)];
    for (const cursor of reading) cursor.resume();
  }
}

/** The next lines of one source. */
class SourceCursor {
  readonly #deployment: string;
  readonly #pages: AsyncGenerator<readonly Line[]>;
  #page: readonly Line[] = [];
  #at = 0;
  #settle: () => void = () => {};
  #wake: () => void = () => {};
  /** `waiting`: everything that is recorded was read. Changes from `reading` when `settled` resolves. */
  kind: 'reading' | 'line' | 'waiting' | 'ended' = 'reading';
  settled: Promise<void> = Promise.resolve();
  /** Time of the next line, if there is one. */
  time = '';

  constructor(source: JournalSource, filter: Filter, signal: AbortSignal | undefined) {
    this.#deployment = source.deployment ?? '';
    this.#pages = source.read(filter, signal && { signal, more: () => this.#wait() });
    this.advance();
  }

  get #line(): Line {
    return this.#page[this.#at]!;
  }

  /** Reads the next page, after the last line of a page. */
  advance(): void {
    this.#begin();
    void this.#read();
  }

  /** Continues after a wait. */
  resume(): void {
    if (this.kind !== 'waiting') return;
    this.#begin();
    this.#wake();
  }

  /** @returns the next line; `kind` is `reading` after the last line of a page */
  take(): DeploymentLine {
    const taken = { deployment: this.#deployment, line: this.#line };
    this.#at += 1;
    if (this.#at < this.#page.length) this.#readTime();
    else this.kind = 'reading';
    return taken;
  }

  #begin(): void {
    this.kind = 'reading';
    this.settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  async #read(): Promise<void> {
    for (let next = await this.#pages.next(); ; next = await this.#pages.next()) {
      if (next.done) {
        this.kind = 'ended';
        break;
      }
      if (next.value.length === 0) continue;
      this.#page = next.value;
      this.#at = 0;
      this.kind = 'line';
      this.#readTime();
      break;
    }
    this.#settle();
  }

  #wait(): Promise<void> {
    this.kind = 'waiting';
    this.#settle();
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #readTime(): void {
    const { bytes, start, seq } = this.#line;
    this.time = timeOf(bytes, start, seq);
  }
}

/** Cursors that have a line: a binary heap by the time of that line. */
class CursorHeap {
  readonly #heap: SourceCursor[] = [];

  push(cursor: SourceCursor): void {
    const heap = this.#heap;
    heap.push(cursor);
    let at = heap.length - 1;
    for (let up = (at - 1) >> 1; at > 0 && cursor.time < heap[up]!.time; up = (at - 1) >> 1) {
      heap[at] = heap[up]!;
      at = up;
    }
    heap[at] = cursor;
  }

  /** Takes lines in order until a cursor has no line left in memory, or until there are no more cursors. */
  takeUntilSpent(): { lines: DeploymentLine[]; spent: SourceCursor | undefined } {
    const lines: DeploymentLine[] = [];
    for (let cursor = this.#heap[0]; cursor !== undefined; cursor = this.#heap[0]) {
      lines.push(cursor.take());
      if (cursor.kind === 'line') {
        this.#sink(cursor);
        continue;
      }
      const last = this.#heap.pop()!;
      if (this.#heap.length > 0) this.#sink(last);
      return { lines, spent: cursor };
    }
    return { lines, spent: undefined };
  }

  /** Moves a cursor from the root to where it belongs. */
  #sink(cursor: SourceCursor): void {
    const heap = this.#heap;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const right = left + 1;
      if (left >= heap.length) break;
      const down = right < heap.length && heap[right]!.time < heap[left]!.time ? right : left;
      if (heap[down]!.time >= cursor.time) break;
      heap[at] = heap[down]!;
      at = down;
    }
    heap[at] = cursor;
  }
}
