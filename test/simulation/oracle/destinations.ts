/** What the oracle knows of a journal, and of each destination that it forwards to. */

import type { Engine } from '../engines/engine.ts';
import type { MachineJournal } from '../machine.ts';
import type { Upstream } from '../upstream.ts';
import type { History } from './history.ts';
import { JournalView, type SeenLine } from './journal-view.ts';
import { LettersView } from './letters-view.ts';
import { Unanswered } from './replies.ts';
import { ShownStates } from './shown-states.ts';
import { Ways } from './ways.ts';

/** A journal of a hub, a plain upstream, a hook, or an engine. */
export type Place = MachineJournal | Upstream | Engine;

export type Destinations = ReadonlyMap<string, Place>;

/** A journal and one of its destinations. */
export interface Destination {
  readonly name: string;
  /** Another one after a device has moved. */
  to: Place;
  letters: LettersView;
  /** Up to here its cursor was right. */
  checkedSeq: number;
  /** The slot number of its last synced cursor: a start finds that one or a later one. */
  syncedSlot: number;
  /** What its cursor said at the last start was being sent: a plain one may have these events. */
  doubts: ReadonlySet<number>;
  /** A hook, or what an operator let begin here: it need not have what is before. */
  beginSeq: number;
  /** Of a hook that an operator has added and that has not begun: between which events it has to, both included. */
  mayBegin: { readonly least: number; most: number } | undefined;
  /**
   * Set when a folder of the two was replaced, copied or damaged: they are not compared until the destination has all events up to
   * this one, or dead letters name them, and the cursor says so.
   */
  apartUntil: number | undefined;
  /** After that they are compared from the event after this one. 0 if they were never apart. */
  comparedSeq: number;
}

export interface Watched {
  readonly journal: MachineJournal;
  /** What gets every event. */
  readonly sendsTo: readonly Destination[];
  view: JournalView;
  /** How often its folder was replaced by a copy. */
  restores: number;
  /** Whether each copy that took its place was a beginning of the journal, without anything that a power cut had taken. */
  wasBeginning: boolean;
  /** When its service started last, in virtual time. */
  startedMs: number;
  readonly unanswered: Unanswered;
  readonly ways: Ways;
  readonly shown: ShownStates;
}

/** @param nowMs virtual time */
export function newWatched(
  journal: MachineJournal,
  destinations: Destinations,
  history: History,
  nowMs: () => number,
): Watched {
  const sendsTo = [...destinations].map(([name, to]) => ({
    ...{ name, to, letters: new LettersView(), doubts: new Set<number>() },
    ...{ beginSeq: isHook(to) ? NEVER : 1, mayBegin: undefined },
    ...{ checkedSeq: 0, syncedSlot: 0, apartUntil: undefined, comparedSeq: 0 },
  }));
  return {
    ...{ journal, sendsTo, view: new JournalView(history) },
    ...{ restores: 0, wasBeginning: true, startedMs: 0, unanswered: new Unanswered(journal, nowMs), ways: new Ways() },
    shown: new ShownStates(),
  };
}

/** Where a hook begins that has not begun. */
export const NEVER = Number.POSITIVE_INFINITY;

export function isHook(to: Place): boolean {
  return 'received' in to && to.wants !== undefined;
}

/** Whether a destination is to get an event. */
export function wants({ to }: Destination, line: SeenLine): boolean {
  return !('received' in to) || (to.wants?.(line) ?? true);
}

/** @returns the name of its host, as links have it */
export function hostOf(place: Place): string {
  return 'machine' in place ? place.machine.name : place.name;
}

/** The ids of the events that were stored there. */
export function idsAt(place: Upstream | Engine): ReadonlyMap<string, unknown> {
  return 'received' in place ? place.received : place.counts;
}

/** @returns the id of a journal; undefined if it never forwarded */
export function sourceOf({ disk }: MachineJournal): string | undefined {
  return disk.durableBytes('.journal-id')?.toString().trim();
}
