/**
 * What operators did, as far as the oracle has to know it: which event follows which in the journals that ever were, and for which
 * events the handbook promises less because a folder was restored, copied or given another id.
 */

import type { Place } from './destinations.ts';
import type { SeenLine } from './journal-view.ts';

interface Known extends Pick<SeenLine, 'seq' | 'time' | 'members'> {
  /** The id of the event before it in its journal; undefined for the first one. */
  readonly before: string | undefined;
}

/** A line of a hub or of an engine. */
type Forwarded = Pick<SeenLine, 'id' | 'from' | 'recorded' | 'members'>;

export class History {
  /** The events of all journals that recorded them first, by their ids. Copies of a folder share events, and part after the last. */
  readonly #events = new Map<string, Known>();
  /** By the id of a journal: where `forward identity --new` begins it. */
  readonly #begins = new Map<string, number>();
  readonly #forgotten = new Set<string>();
  /** By the id of a journal: the seqs that its dead letters for a hub ever named. */
  readonly #named = new Map<string, Set<number>>();
  /** The ids of the events that were named so, under whichever id of their journal. */
  readonly lost = new Set<string>();
  /** By destination: the ids of events that an operator gave up, or whose dead letters are in a folder that was replaced. */
  readonly #leftOut = new Map<Place, Set<string>>();
  /** The ids of the events that a hub had before it was restored from a copy that lacks them. */
  readonly rolledBack = new Set<string>();
  /** Whether a folder was ever replaced by a copy, or copied. */
  wasRestored = false;
  /** The ids of events that a plain destination may have twice without a dead letter. */
  readonly mayBeTwice = new Set<string>();

  add({ id, seq, time, members }: SeenLine, before: string | undefined): void {
    if (!this.#events.has(id)) this.#events.set(id, { seq, time, members, before });
  }

  /** @returns the event as its journal recorded it; undefined if none did */
  get(id: string): Known | undefined {
    return this.#events.get(id);
  }

  /**
   * @returns whether some journal had both events, the first one at this seq: then it is the same journal up to the second one.
   *   Also if a repair lost the first one, which a hub may have before
   */
  continues(first: { readonly seq: number; readonly id: string }, second: string): boolean {
    let id: string | undefined = second;
    let known = this.#events.get(second);
    while (known !== undefined && known.seq > first.seq) {
      id = known.before;
      known = id === undefined ? undefined : this.#events.get(id);
    }
    return id === first.id || (known !== undefined && known.seq < first.seq);
  }

  /** @param seq of the first event that a hub gets of the journal under this id */
  begins(source: string, seq: number): void {
    this.#begins.set(source, seq);
  }

  /** A hub never heard of a journal whose cursor is lost: it gets all there is, also what it has under an older id of the journal. */
  forgets(source: string): void {
    this.#forgotten.add(source);
  }

  /** The ids of journals that are not their first ones: what the hub has under an older id may come again under these. */
  get renamed(): ReadonlyMap<string, number> {
    return this.#begins;
  }

  /** @returns the seqs of which one is the first of a source, unless dead letters name it as lost */
  #firstsOf(source: string): number[] {
    const begin = this.#begins.get(source) ?? 1;
    return this.#forgotten.has(source) ? [begin, 1] : [begin];
  }

  name(source: string, seqs: Iterable<number>): void {
    const named = this.#named.get(source) ?? new Set();
    for (const seq of seqs) named.add(seq);
    this.#named.set(source, named);
  }

  isNamed(source: string, seq: number): boolean {
    return this.#named.get(source)?.has(seq) ?? false;
  }

  /**
   * @param line of a hub
   * @param before its last line before of the same source
   * @param mayLack whether a repair of the hub may have lost an event of this source
   * @returns what is wrong with a line that another journal recorded first
   */
  wrongFrom(
    { id, from, recorded, members }: Forwarded,
    before: Forwarded | undefined,
    mayLack: (seq: number) => boolean = () => false,
  ): string | undefined {
    const [source, seq] = from!;
    const next = (before === undefined ? this.#firstsOf(source) : [before.from![1] + 1]).map((first) => {
      let expected = first;
      while (expected < seq && (this.isNamed(source, expected) || mayLack(expected))) expected += 1;
      return expected;
    });
    if (!next.includes(seq)) return `${seq} of a journal whose next one is ${next[0]}`;
    const own = this.get(id);
    if (own === undefined) return `${seq} of a journal, and none recorded it`;
    if (own.seq !== seq || own.time !== recorded || own.members !== members)
      return `${seq} of a journal, where it is another one`;
    // "A fork is stopped": of two folders with one id, a hub has the events of one.
    if (before !== undefined && !this.continues({ seq: before.from![1], id: before.id }, id))
      return `${seq} of a journal that does not have ${before.from![1]} as it is here`;
    return undefined;
  }

  /** Also by copies of the folder: each event has an id of its own. */
  leaveOut(to: Place, ids: Iterable<string>): void {
    const all = this.#leftOut.get(to) ?? new Set();
    for (const id of ids) all.add(id);
    this.#leftOut.set(to, all);
  }

  isLeftOut(to: Place, id: string): boolean {
    return this.#leftOut.get(to)?.has(id) ?? false;
  }
}
