/** The events that the page holds: their lines as they were sent. */

import { pageLimits } from '../../../config/limits.ts';

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
  /** The journal of a device, and the seq there. */
  readonly from?: readonly [id: string, seq: number];
  readonly tags?: { readonly data_version?: string };
}

/** A line of the journal. */
export class EventLine {
  readonly seq: number;
  readonly line: string;
  #shown: Shown | undefined;

  constructor(line: string) {
    this.line = line;
    this.seq = Number(/^\{"seq":(\d+)/.exec(line)?.[1] ?? 0);
  }

  /** Parsed when the line is first in sight. */
  get shown(): Shown {
    this.#shown ??= { ...JSON.parse(this.line), metadata: undefined } as Shown;
    return this.#shown;
  }
}

/** Lines in the order of their seqs, at most `linesMax` and `charactersMax` of them. */
class BoundedLines {
  lines: EventLine[] = [];
  /** No line from this seq on is missing; undefined as long as the lines are those that the stream began with, and newer ones. */
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

  /** Drops the oldest beyond the limits, a part at a time, since moving all lines for each new one would take long. */
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

/** The newest lines without a gap, and what a search found in them and in older ones. */
export class EventStore {
  #all = new BoundedLines();
  #text = '';
  #search: RegExp | undefined;
  /** What the search found; undefined without a search. */
  #found: BoundedLines | undefined;
  #searched = 0;

  /** The newest lines, the oldest of them first. */
  get lines(): readonly EventLine[] {
    return this.#all.lines;
  }

  /** The lines that are shown: with a search those that it found. */
  get matching(): readonly EventLine[] {
    return this.#shown.lines;
  }

  /** Whether it can take no older lines that are to be shown. */
  get isFull(): boolean {
    return this.#shown.isFull;
  }

  /** Number of lines that were looked at. */
  get lookedAt(): number {
    return this.#found === undefined ? this.#all.lines.length : this.#searched;
  }

  /** Each line from this seq on was looked at. */
  get lowestSeq(): number {
    return this.#shown.lowestSeq ?? this.#all.lines[0]?.seq ?? 0;
  }

  /** Whether the stream began with all lines that there are. */
  get hasAll(): boolean {
    return this.#all.lowestSeq === undefined && this.#all.lines.length < pageLimits.readLimit;
  }

  clear(): void {
    this.#all = new BoundedLines();
    this.#begin();
  }

  /** @param text what the lines must have in them, in any case; a slash also matches the one between parts of a key */
  search(text: string): void {
    if (text === this.#text) return;
    this.#text = text;
    this.#search = searchOf(text);
    this.#begin();
  }

  /** Adds lines that are newer than all, and drops the oldest beyond the limits. @returns how many of them match */
  add(lines: readonly string[]): number {
    let matching = 0;
    for (const text of lines) {
      const line = new EventLine(text);
      if (line.seq <= (this.#all.lines.at(-1)?.seq ?? 0)) continue;
      this.#all.push(line);
      this.#searched += 1;
      if (!this.#matches(line)) continue;
      this.#found?.push(line);
      matching += 1;
    }
    this.#all.drop();
    this.#found?.drop();
    return matching;
  }

  /**
   * Adds lines that are older than all that were looked at; of a search only those that match.
   * @param lowestSeq no line from this seq on is missing
   * @returns how many match
   */
  addOlder(lines: readonly string[], lowestSeq: number): number {
    const below = this.lowestSeq;
    const older = lines.map((line) => new EventLine(line)).filter(({ seq }) => seq < below);
    const matching = older.filter((line) => this.#matches(line));
    this.#searched += older.length;
    this.#shown.unshift(matching, lowestSeq);
    return matching.length;
  }

  get #shown(): BoundedLines {
    return this.#found ?? this.#all;
  }

  /** Begins the search anew, with the lines that are held. */
  #begin(): void {
    const { lines, lowestSeq } = this.#all;
    this.#searched = lines.length;
    this.#found = undefined;
    if (this.#search === undefined) return;
    const found = new BoundedLines();
    found.lowestSeq = lowestSeq;
    for (const line of lines) if (this.#matches(line)) found.push(line);
    this.#found = found;
  }

  #matches({ line }: EventLine): boolean {
    return this.#search === undefined || this.#search.test(decoded(line));
  }
}

/**
 * @returns the pattern of a text, which finds in a `decoded` line what the page shows of it: a key with slashes or as JSON, times
 *   with a space, members without their quotes. Undefined for an empty text
 */
export function searchOf(text: string): RegExp | undefined {
  if (text === '') return undefined;
  const inJson = decoded(JSON.stringify(decoded(text)).slice(1, -1));
  const pattern = inJson
    .replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
    .replace(/(\\\\)*"/g, '\\\\*"')
    .replaceAll(',', '"?,')
    .replaceAll('/', '(?:/|",")')
    .replaceAll(' UTC', '(?: UTC|Z)')
    .replaceAll(' ', '(?:[ "]|":"?|(?<=\\d)T(?=\\d))');
  return new RegExp(pattern, 'i');
}

/** @returns the text with the characters that its escapes `\u202e` stand for */
export function decoded(text: string): string {
  return text.replace(/\\u([\da-f]{4})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
}
