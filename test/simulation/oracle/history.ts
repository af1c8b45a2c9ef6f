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
  /** The ids of journals that `forward identity --new` gave: a hub may have an event under each id of its journal. */
  readonly renamed = new Set<string>();

  add({ id, seq, time, members }: SeenLine): void {
    if (!this.#events.has(id)) this.#events.set(id, { seq, time, members });
  }

  /** @returns the event as its journal recorded it; undefined if none did */
  get(id: string): Known | undefined {
    return this.#events.get(id);
  }

  /** Also by copies of the folder: each event has an id of its own. */
  leaveOut(to: Place, ids: Iterable<string>): void {
    for (const id of ids) this.#leftOut.add(`${to.name} ${id}`);
  }

  isLeftOut(to: Place, id: string): boolean {
    return this.#leftOut.has(`${to.name} ${id}`);
  }
}
