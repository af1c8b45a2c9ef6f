/** What the oracle knows of one journal. */

import type { MachineJournal } from '../machine.ts';
import type { Destinations, Place } from './destinations.ts';
import { Files } from './files.ts';
import { AckGate, HeldBack } from './held-back.ts';
import type { History } from './history.ts';
import { JournalView } from './journal-view.ts';
import { LettersView } from './letters-view.ts';
import { Removals } from './removals.ts';
import { Unanswered } from './unanswered.ts';

/** What the oracle knows of one destination of a journal. */
export interface Destination {
  readonly name: string;
  readonly to: Place;
  letters: LettersView;
  /** Up to here its cursor was right. */
  checkedSeq: number;
  /** What its cursor said at the last start was being sent: a plain one may have these events. */
  doubts: ReadonlySet<number>;
}

export interface Watched {
  readonly journal: MachineJournal;
  /** What gets every event. */
  readonly sendsTo: readonly Destination[];
  view: JournalView;
  removals: Removals;
  /** Whether it was broken on purpose and not repaired yet. */
  isBroken: boolean;
  /** How often its folder was replaced by a copy. */
  restores: number;
  files: Files;
  /** The watermarks that were last looked at. */
  snapshot: Buffer | undefined;
  readonly heldBack: HeldBack;
  readonly ackGate: AckGate;
  readonly unanswered: Unanswered;
  /** The events of other journals that it has lost and asks for again: `<source>,<seq>`. */
  readonly askedFor: Set<string>;
}

/** @param nowMs virtual time */
export function newWatched(
  journal: MachineJournal,
  destinations: Destinations,
  history: History,
  nowMs: () => number,
): Watched {
  const sendsTo = [...destinations].map(([name, to]) => ({
    name,
    to,
    letters: new LettersView(),
    checkedSeq: 0,
    doubts: new Set<number>(),
  }));
  return {
    journal,
    sendsTo,
    view: new JournalView(history),
    removals: new Removals(journal, nowMs),
    isBroken: false,
    restores: 0,
    files: new Files(journal, nowMs),
    snapshot: undefined,
    heldBack: new HeldBack(journal, nowMs),
    ackGate: new AckGate(journal, nowMs),
    unanswered: new Unanswered(journal, nowMs),
    askedFor: new Set(),
  };
}
