/** The events that the page holds, as the lines that the service sent. */

import { pageLimits } from '../../../config/limits.ts';
import type { LineName } from '../../../event/line-name.ts';
import { textPattern } from '../../../event/text-filter.ts';

/** The members of a line that the list shows. Metadata is read from the line itself. */
export interface Shown {
  readonly time: string;
  readonly type: string;
  readonly asset_key: readonly string[];
  readonly partition?: string;
  readonly check_name?: string;
  readonly passed?: boolean;
  readonly severity?: string;
  readonly description?: string;
  readonly by?: string;
  /** Set for an event of another journal, as in a line. */
  readonly origin?: LineName;
  readonly from?: LineName;
  readonly tags?: { readonly data_version?: string };
}

export class EventLine {
  readonly seq: number;
  readonly line: string;
  #shown: Shown | undefined;

  constructor(line: string) {
    this.line = line;
    this.seq = Number(/^\{"seq":(\d+)/.exec(line)?.[1] ?? 0);
  }

  /** Parsed on first use. */
  get shown(): Shown {
    this.#shown ??= { ...JSON.parse(this.line), metadata: undefined } as Shown;
    return this.#shown;
  }
}

/** Lines in the order of their seqs, limited by `linesMax` and `charactersMax`. */
class BoundedLines {
  lines: EventLine[] = [];
  /** No line from this seq on is missing. Undefined while the oldest line is the first line of the stream. */
  lowestSeq: number | undefined;
  #characters = 0;

  get isFull(): boolean {
    return this.lines.length >= pageLimits.linesMax || this.#characters >= pageLimits.charactersMax;
  }

  push(line: EventLine): void {
    this.lines.push(line);
    this.#characters += line.line.length;
  }

  unshift(older: readonly EventLine[], lowestSeq: number): void {
    this.lines = [...older, ...this.lines];
    this.lowestSeq = lowestSeq;
    for (const { line } of older) this.#characters += line.length;
  }

  /** Drops the oldest lines beyond the limits, in batches, since moving all lines for each new line would be slow. */
  drop(): void {
    const { linesMax, charactersMax } = pageLimits;
    const { lines } = this;
    let count = lines.length - linesMax > linesMax / 20 ? lines.length - linesMax : 0;
    for (let at = 0; at < count; at += 1) this.#characters -= lines[at]?.line.length ?? 0;
    for (; this.#characters > charactersMax && count < lines.length - 1; count += 1) {
      this.#characters -= lines[count]?.line.length ?? 0;
    }
    if (count === 0) return;
    lines.splice(0, count);
    this.lowestSeq = lines[0]?.seq;
  }
}

/** The newest lines without a gap, and the matches of a search in these and older lines. */
export class EventStore {
  #all = new BoundedLines();
  #text = '';
  #search: RegExp | undefined;
  /** The matches of the search; undefined without a search. */
  #found: BoundedLines | undefined;

  /** The newest lines, oldest first. */
  get lines(): readonly EventLine[] {
    return this.#all.lines;
  }

  /** The lines to show: the matches of a search, or all lines without one. */
  get matching(): readonly EventLine[] {
    return this.#shown.lines;
  }

  /** Whether there is no space for older lines to show. */
  get isFull(): boolean {
    return this.#shown.isFull;
  }

  /** All lines from this seq on were searched. */
  get lowestSeq(): number {
    return this.#shown.lowestSeq ?? this.#all.lines[0]?.seq ?? 0;
  }

  /** Whether the stream started with all events of the journal. */
  get hasAll(): boolean {
    return this.#all.lowestSeq === undefined && this.#all.lines.length < pageLimits.readLimit;
  }

  clear(): void {
    this.#all = new BoundedLines();
    this.#restartSearch();
  }

  /** @param text the text that matching lines contain, as the service understands it: see `text-filter.ts` */
  search(text: string): void {
    if (text === this.#text) return;
    this.#text = text;
    this.#search = textPattern(text);
    this.#restartSearch();
  }

  /** Adds newer lines, and drops the oldest lines beyond the limits. @returns the number of new matches */
  add(lines: readonly string[]): number {
    let matching = 0;
    for (const text of lines) {
      const line = new EventLine(text);
      if (line.seq <= (this.#all.lines.at(-1)?.seq ?? 0)) continue;
      this.#all.push(line);
      if (!this.#matches(line)) continue;
      this.#found?.push(line);
      matching += 1;
    }
    this.#all.drop();
    this.#found?.drop();
    return matching;
  }

  /**
   * Adds lines that are older than all known lines; during a search they are matches.
   * @param lowestSeq no line from this seq on is missing
   * @returns the number of lines
   */
  addOlder(lines: readonly string[], lowestSeq: number): number {
    const below = this.lowestSeq;
    const older = lines.map((line) => new EventLine(line)).filter(({ seq }) => seq < below);
    this.#shown.unshift(older, lowestSeq);
    return older.length;
  }

  get #shown(): BoundedLines {
    return this.#found ?? this.#all;
  }

  /** Searches the lines in memory. */
  #restartSearch(): void {
    const { lines, lowestSeq } = this.#all;
    this.#found = undefined;
    if (this.#search === undefined) return;
    const found = new BoundedLines();
    found.lowestSeq = lowestSeq;
    for (const line of lines) if (this.#matches(line)) found.push(line);
    this.#found = found;
  }

  #matches({ line }: EventLine): boolean {
    if (this.#search === undefined) return true;
    return this.#search.test(line.slice(line.indexOf('"type":'), line.lastIndexOf(',"crc":'))); // the part that was reported
  }
}
