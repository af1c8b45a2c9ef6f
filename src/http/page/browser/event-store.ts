/** The events that the page holds: their lines as they were sent, at most `linesMax` and `charactersMax` of them. */

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

/** The lines in the order of their seqs, and those of them that have the text of the search. */
export class EventStore {
  #lines: EventLine[] = [];
  #matching: EventLine[] = [];
  #characters = 0;
  #search: RegExp | undefined;

  /** All lines, the oldest first. */
  get lines(): readonly EventLine[] {
    return this.#lines;
  }

  /** Those that the search matches. */
  get matching(): readonly EventLine[] {
    return this.#matching;
  }

  get isFull(): boolean {
    return this.#lines.length >= pageLimits.linesMax || this.#characters >= pageLimits.charactersMax;
  }

  clear(): void {
    this.#lines = [];
    this.#matching = [];
    this.#characters = 0;
  }

  /** @param text what the lines must have in them, in any case; a slash also matches the one between parts of a key */
  search(text: string): void {
    this.#search = searchOf(text);
    this.#matching = this.#lines.filter((line) => this.#matches(line));
  }

  /** Adds lines that are newer than all, and drops the oldest beyond the limits. @returns how many of them match */
  add(lines: readonly string[]): number {
    let matching = 0;
    for (const text of lines) {
      const line = new EventLine(text);
      if (line.seq <= (this.#lines.at(-1)?.seq ?? 0)) continue;
      this.#lines.push(line);
      this.#characters += text.length;
      if (!this.#matches(line)) continue;
      this.#matching.push(line);
      matching += 1;
    }
    this.#drop();
    return matching;
  }

  /** Adds lines that are older than all. */
  addOlder(lines: readonly string[]): void {
    const first = this.#lines[0]?.seq ?? Number.POSITIVE_INFINITY;
    const older = lines.map((line) => new EventLine(line)).filter(({ seq }) => seq < first);
    this.#lines = [...older, ...this.#lines];
    this.#matching = [...older.filter((line) => this.#matches(line)), ...this.#matching];
    for (const { line } of older) this.#characters += line.length;
  }

  #matches({ line }: EventLine): boolean {
    return this.#search === undefined || this.#search.test(line);
  }

  /** Drops a part at a time, since moving all lines for each new one would take long. */
  #drop(): void {
    let count =
      this.#lines.length - pageLimits.linesMax > pageLimits.linesMax / 20
        ? this.#lines.length - pageLimits.linesMax
        : 0;
    for (let at = 0; at < count; at += 1) this.#characters -= this.#lines[at]?.line.length ?? 0;
    for (; this.#characters > pageLimits.charactersMax && count < this.#lines.length - 1; count += 1) {
      this.#characters -= this.#lines[count]?.line.length ?? 0;
    }
    if (count === 0) return;
    this.#lines.splice(0, count);
    const first = this.#lines[0]?.seq ?? 0;
    const kept = this.#matching.findIndex(({ seq }) => seq >= first);
    this.#matching.splice(0, kept === -1 ? this.#matching.length : kept);
  }
}

/** @returns the pattern of a text; undefined for an empty one */
export function searchOf(text: string): RegExp | undefined {
  if (text === '') return undefined;
  const inJson = JSON.stringify(text).slice(1, -1);
  return new RegExp(inJson.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').replaceAll('/', '(?:/|",")'), 'i');
}
