/** What operators and broken disks take from a journal on purpose, and what is promised less after that. */

import type { MachineJournal } from '../machine.ts';
import { SNAPSHOT, snapshotHas } from './at-rest.ts';
import { durableCursor, readCursor, sendingIn } from './cursor.ts';
import { type Place, sourceOf } from './destinations.ts';
import { Files } from './files.ts';
import type { History } from './history.ts';
import type { JournalView } from './journal-view.ts';
import { LettersView } from './letters-view.ts';
import { Removals } from './removals.ts';
import type { Watched } from './watched.ts';

export class Losses {
  readonly #watched: ReadonlyMap<MachineJournal, Watched>;
  readonly #history: History;
  readonly #nowMs: () => number;

  /** @param nowMs virtual time */
  constructor(watched: ReadonlyMap<MachineJournal, Watched>, history: History, nowMs: () => number) {
    this.#watched = watched;
    this.#history = history;
    this.#nowMs = nowMs;
  }

  /**
   * The folder of a journal is replaced by a copy of earlier. What was recorded since then is gone by the will of the operator, and
   * so are the dead letters: the folder that had them is kept aside, as the handbook says.
   */
  restored(journal: MachineJournal, replace: () => void): void {
    const watched = this.#watched.get(journal)!;
    const { view, sendsTo } = watched;
    for (const destination of sendsTo) {
      const named = [...destination.letters.named].flatMap((seq) => view.lines.get(seq)?.id ?? []);
      this.#history.leaveOut(destination.to, named);
      for (const seq of destination.letters.named) this.#history.mayBeTwice.add(view.lines.get(seq)?.id ?? '');
      // "The event in flight is doubled, and it is named": the cursor that says so is gone.
      for (const seq of sendingIn(durableCursor(journal.disk, destination.name)))
        this.#history.mayBeTwice.add(view.lines.get(seq)?.id ?? '');
      destination.letters = new LettersView();
      destination.checkedSeq = 0;
      destination.doubts = new Set();
    }
    replace();
    watched.view = view.copiedTo(journal.disk);
    // "A copy of before a destination was first sent to does not know it: a plain one gets everything again." So does a table.
    for (const { name, to } of sendsTo)
      if ('stored' in to || ('received' in to && journal.disk.durableBytes(`.forwarded-${name}`) === undefined))
        for (const { id } of watched.view.lines.values()) this.#history.mayBeTwice.add(id);
    watched.removals = new Removals(journal, this.#nowMs);
    watched.restores += 1;
    this.#history.wasRestored = true;
    watched.files = new Files(journal, this.#nowMs);
    watched.snapshot = journal.disk.durableBytes(SNAPSHOT); // it may be ahead of a copy
    this.#rollBack(journal, view, watched.view);
    for (const { to } of sendsTo) this.#asksAgain(journal, to);
  }

  /** "Lost cursor: the hub is asked; one that never heard of the journal gets all there is." Its new id may be unused yet. */
  #asksAgain(journal: MachineJournal, to: Place): void {
    const source = sourceOf(journal);
    if (source === undefined || 'received' in to) return;
    const sources = 'stored' in to ? to.sources() : this.#watched.get(to)!.view.sources();
    if (!sources.has(source)) this.#history.forgets(source);
  }

  /** @param was what a hub had before it was restored */
  #rollBack(hub: MachineJournal, was: JournalView, is: JournalView): void {
    const history = this.#history;
    const forwarded = (view: JournalView) => [...view.lines.values()].filter(({ from }) => from !== undefined);
    const ids = new Set(forwarded(is).map(({ id }) => id));
    const sources = new Set(forwarded(is).map(({ from }) => from![0]));
    for (const { seq, id } of forwarded(was)) {
      // "It gets the rest again", and sends it on again.
      if (is.lines.get(seq)?.id !== id) history.mayBeTwice.add(id);
      if (!ids.has(id)) history.rolledBack.add(id);
    }
    for (const { journal, sendsTo, view } of this.#watched.values()) {
      const source = sourceOf(journal) ?? '';
      const gone = [...view.lines.values()].filter(({ id }) => history.rolledBack.has(id));
      for (const { name, to } of sendsTo) {
        if (to !== hub) continue;
        const cursor = durableCursor(journal.disk, name);
        if (cursor === undefined && !sources.has(source)) history.forgets(source);
        // The hub had what is before that under an older id, which nobody sends any more. A cursor without the id of an event is that of
        // a new id under which nothing was taken yet.
        const begin = cursor?.id === null ? cursor.seq + 1 : (history.renamed.get(source) ?? 1);
        history.leaveOut(
          to,
          gone.filter(({ seq }) => seq < begin).map(({ id }) => id),
        );
      }
    }
  }

  /** A cursor is damaged. @param damage what does that, and returns the name of its destination, if there is one */
  losesCursor(journal: MachineJournal, damage: () => string | undefined): void {
    const watched = this.#watched.get(journal)!;
    const { view, sendsTo } = watched;
    const sending = new Map(sendsTo.map(({ name }) => [name, sendingIn(readCursor(journal.disk, name))]));
    const name = damage();
    const destination = sendsTo.find((one) => one.name === name);
    if (destination === undefined) return;
    // "The event in flight is doubled, and it is named": the cursor that says so is gone.
    for (const seq of sending.get(destination.name)!) this.#history.mayBeTwice.add(view.lines.get(seq)?.id ?? '');
    destination.doubts = new Set();
    destination.checkedSeq = 0;
    this.#asksAgain(journal, destination.to);
  }

  /** An operator broke these lines of a journal: they may be lost from now on, and no other. */
  damaged(journal: MachineJournal, seqs: ReadonlySet<number>): void {
    const watched = this.#watched.get(journal)!;
    watched.isBroken = true;
    for (const seq of seqs) {
      const { from } = watched.view.lines.get(seq) ?? {};
      // "`forward-sources.json` says that the hub had them."
      if (from !== undefined && !snapshotHas(journal.disk, from)) watched.askedFor.add(`${from}`);
    }
    watched.view.mayLose(seqs);
  }

  /** "A new destination gets the first event there is": what a repair has lost before is not named to a plain one that knows none. */
  repaired({ disk }: MachineJournal, { view, sendsTo }: Watched): void {
    const lines = [...view.lines.values()];
    const first = lines.find(({ seq }) => view.isThere(seq))?.seq ?? 0;
    const lost = lines.filter(({ seq }) => seq < first && view.mayHaveLost(seq, seq)).map(({ id }) => id);
    for (const { name, to } of sendsTo) {
      const isKnown = disk.bytes(`.forwarded-${name}`) !== undefined || readCursor(disk, name) !== undefined;
      if ('received' in to && !isKnown) this.#history.leaveOut(to, lost);
    }
  }
}
