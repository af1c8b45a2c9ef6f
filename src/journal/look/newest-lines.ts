/** The newest lines of a journal that match, collected in blocks from its end. */

import { type Line, sizeOf } from './reading.ts';

/** Keeps at most `count` lines. If they have more than `bytesMax` bytes, all are dropped and have to be read again. */
export class NewestLines {
  readonly #count: number;
  readonly #bytesMax: number;
  #block: Line[] = [];
  /** In order. */
  lines: readonly Line[] = [];

  constructor(count: number, bytesMax: number) {
    this.#count = count;
    this.#bytesMax = bytesMax;
  }

  get isFull(): boolean {
    return this.lines.length === this.#count;
  }

  /** Adds further lines of a block, in order. */
  add(lines: readonly Line[]): void {
    this.#block.push(...lines);
    if (this.#block.length > 2 * this.#count) this.#block = this.#block.slice(-this.#count);
  }

  /** Ends a block. The next block precedes it in the journal. */
  endBlock(): void {
    this.lines = [...this.#block, ...this.lines].slice(-this.#count);
    this.#block = [];
    dropLarge(this.lines, this.#bytesMax);
  }

  /** Forgets the lines of a file. */
  forget(name: string): void {
    this.#block = [];
    this.lines = this.lines.filter(({ file }) => file !== name);
  }
}

/** Drops all lines if they have more than `bytesMax` bytes. */
export function dropLarge(lines: readonly Line[], bytesMax: number): void {
  if (sizeOf(lines) > bytesMax) for (const line of lines) line.drop();
}
