/** The events of all journals that ever were, and for which of them the handbook promises less because of what an operator did. */

import type { Place } from './destinations.ts';
import type { SeenLine } from './journal-view.ts';

type Known = Pick<SeenLine, 'seq' | 'time' | 'members'>;

export class History {
  /** By their ids. Copies of a folder share events, and part after the last. */
  readonly #events = new Map<string, Known>();
  /** The names of destinations with the ids of events whose dead letters are in a folder that was replaced. */
  readonly #leftOut = new Set<string>();
  /** The ids of events that a plain destination or a table may have twice without a dead letter. */
  readonly mayBeTwice = new Set<string>();
  /** By id of an event that was erased: its lines, since what forwards it sends either. */
  readonly erased = new Map<string, readonly SeenLine[]>();
  /** The ids of journals that `forward identity --new` gave: a hub may have an event under each id of its journal. */
  readonly renamed = new Set<string>();

  add({ id, seq, time, members }: SeenLine): void {
    if (!this.#events.has(id)) this.#events.set(id, { seq, time, members });
  }

  /** @returns the event as its journal recorded it; undefined if none did */
  get(id: string): Known | undefined {
    return this.#events.get(id);
  }

  /** Whether a folder was restored or copied: then two events may have one name, and a hub has one of them. */
  hasTwins = false;
  /** The name of the line that was reported, by id of its event, as a hub said it first. */
  readonly #names = new Map<string, readonly [source: string, seq: number]>();

  /** Whether each hub has an event with the same origin, unless its journal got another id meanwhile. */
  isNamed(id: string, origin: readonly [source: string, seq: number]): boolean {
    const known = this.#names.get(id) ?? origin;
    this.#names.set(id, known);
    const isRenamed = this.renamed.has(known[0]) || this.renamed.has(origin[0]);
    return isRenamed || `${known}` === `${origin}`;
  }

  /** Also by copies of the folder: each event has an id of its own. */
  leaveOut(to: Place, ids: Iterable<string>): void {
    for (const id of ids) this.#leftOut.add(`${to.name} ${id}`);
  }

  isLeftOut(to: Place, id: string): boolean {
    return this.#leftOut.has(`${to.name} ${id}`);
  }
}
