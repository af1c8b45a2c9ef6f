/** Merges the events of several journals by their times, with one chunk of each journal in memory. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Filter } from '../../event/search.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { JournalSource } from './source.ts';

export interface MergeInput {
  /** The journals that are merged from the start. */
  readonly sources: readonly JournalSource[];
  readonly filterOf: (source: JournalSource) => Filter;
  /** If set, the merge waits for later lines until the signal aborts. */
  readonly follow: AbortSignal | undefined;
  /** Called at each poll while following. @returns sources that are merged from now on */
  readonly added: () => Promise<readonly JournalSource[]>;
  readonly followMs: number;
}

/**
 * Merges journals. A journal keeps the order of its seqs, even if its clock was set back. While following, the lines that
 * one poll found are merged.
 */
export async function* mergeByTime(merge: MergeInput): AsyncGenerator<readonly Line[]> {
  const { follow, followMs } = merge;
  const open = (source: JournalSource) => new SourceCursor(source, merge.filterOf(source), follow);
  let cursors = merge.sources.map(open);
  try {
    for (;;) {
      await Promise.all(cursors.filter(({ kind }) => kind === 'empty').map((cursor) => cursor.read()));
      cursors = cursors.filter(({ kind }) => kind !== 'ended');
      const ready = cursors.filter(({ kind }) => kind === 'lines');
      if (ready.length > 0) {
        // The unread lines of a journal are never older than the last line that was read.
        const until = ready.map(({ lastTime }) => lastTime).reduce((least, time) => (time < least ? time : least));
        const entries = ready.flatMap((cursor) => cursor.take(until));
        entries.sort((a, b) => (a.time < b.time ? -1 : a.time === b.time ? 0 : 1));
        yield entries.map(({ line }) => line);
        continue;
      }
      if (cursors.length === 0) return;
      await sleep(followMs, undefined, { signal: follow! }).catch(() => {}); // it rejects only when it is aborted
      for (const cursor of cursors) cursor.kind = 'empty';
      if (!follow?.aborted) cursors.push(...(await merge.added()).map(open));
    }
  } finally {
    await Promise.all(cursors.map((cursor) => cursor.close()));
  }
}

/** A line with its time, or with the time of an earlier line of its journal if the clock was set back. */
interface Entry {
  readonly line: Line;
  readonly time: string;
}

/** The next lines of one source. */
class SourceCursor {
  readonly #deployment: string;
  readonly #pages: AsyncGenerator<readonly Line[]>;
  #entries: Entry[] = [];
  #settle: () => void = () => {};
  /** Ends the wait of the source for more lines; undefined if it does not wait. */
  #wake: (() => void) | undefined;
  /** `empty`: must be read next. `waiting`: all recorded lines were read. */
  kind: 'empty' | 'lines' | 'waiting' | 'ended' = 'empty';
  lastTime = '';

  constructor(source: JournalSource, filter: Filter, signal: AbortSignal | undefined) {
    this.#deployment = source.deployment ?? '';
    this.#pages = source.read(filter, signal && { signal, more: () => this.#wait() }, signal === undefined);
  }

  /** Resolves when lines were read, or the source waits for more, or it has ended. */
  read(): Promise<void> {
    return new Promise((resolve) => {
      this.#settle = resolve;
      if (this.#wake === undefined) void this.#readPage();
      else this.#wake();
      this.#wake = undefined;
    });
  }

  /** @returns the lines up to a time */
  take(until: string): readonly Entry[] {
    const end = this.#entries.findIndex(({ time }) => time > until);
    const taken = this.#entries.splice(0, end === -1 ? this.#entries.length : end);
    if (this.#entries.length === 0) this.kind = 'empty';
    return taken;
  }

  /** Closes its file, if the caller needs no further lines. A source that waits for more ends with its signal. */
  async close(): Promise<void> {
    if (this.#wake === undefined) await this.#pages.return(undefined);
  }

  async #readPage(): Promise<void> {
    let next = await this.#pages.next();
    while (!next.done && next.value.length === 0) next = await this.#pages.next();
    this.kind = next.done ? 'ended' : 'lines';
    if (!next.done) this.#add(next.value);
    this.#settle();
  }

  #add(lines: readonly Line[]): void {
    for (const line of lines) {
      if (line.time > this.lastTime) this.lastTime = line.time;
      line.deployment = this.#deployment;
      this.#entries.push({ line, time: this.lastTime });
    }
  }

  #wait(): Promise<void> {
    return new Promise((resolve) => {
      this.kind = 'waiting';
      this.#wake = resolve;
      this.#settle();
    });
  }
}
