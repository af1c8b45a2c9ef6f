/** The assets of `--watch-asset`: which one under each key was silent for longest, kept as events come. */

import { BETWEEN_PARTS } from '../event/asset-key.ts';

/** The assets under one key. */
export class WatchedPrefix {
  readonly name: string;
  /** By name when the last event of an asset was recorded, the asset that was silent for longest first. */
  readonly #lastMs = new Map<string, number>();

  constructor(parts: readonly string[]) {
    this.name = parts.join(BETWEEN_PARTS);
  }

  has(name: string): boolean {
    return this.name === '' || name === this.name || name.startsWith(`${this.name}${BETWEEN_PARTS}`);
  }

  /** An asset had an event, which is later than those of all assets. */
  took(name: string, timeMs: number): void {
    this.#lastMs.delete(name);
    this.#lastMs.set(name, timeMs);
  }

  forget(name: string): void {
    this.#lastMs.delete(name);
  }

  absorb(later: WatchedPrefix): void {
    for (const [name, timeMs] of later.#lastMs) this.took(name, timeMs);
  }

  /** When the asset that was silent for longest had its last event, in ms since 1970; undefined without an asset. */
  get oldestMs(): number | undefined {
    for (const timeMs of this.#lastMs.values()) return timeMs;
    return undefined;
  }
}

/** The keys that are watched in one journal. */
export class Watch {
  readonly prefixes: readonly WatchedPrefix[];

  /** @param keys each with the parts that the keys of its assets begin with */
  constructor(keys: readonly (readonly string[])[]) {
    this.prefixes = keys.map((parts) => new WatchedPrefix(parts));
  }

  /** @returns the prefixes that an asset is under; undefined without any */
  of(name: string): readonly WatchedPrefix[] | undefined {
    const found = this.prefixes.filter((prefix) => prefix.has(name));
    return found.length === 0 ? undefined : found;
  }

  /** Takes what the same keys have of later events. */
  absorb(later: Watch | undefined): void {
    for (const [index, prefix] of this.prefixes.entries()) prefix.absorb(later!.prefixes[index]!);
  }
}
