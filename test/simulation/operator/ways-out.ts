/** What an operator does about a forwarder that is stopped: the column "do" of the table in "Watch and mend forwarding". */

import { limits } from '../../../src/config/limits.ts';
import { continueFrom, newIdentity, skip } from '../../../src/forward/by-hand.ts';
import { readLastSeq } from '../../../src/forward/folder.ts';
import { isOpen } from '../../../src/forward/ledger/letter.ts';
import { readLetterStates } from '../../../src/forward/ledger/letters.ts';
import { stateName } from '../../../src/forward/pipe/status.ts';
import { readEras, readSource } from '../../../src/forward/source.ts';
import { type Disk, unlessAbsent } from '../../../src/journal/disk.ts';
import type { Chance } from '../../world/chance.ts';
import { GATEWAY } from '../../world/network.ts';
import type { MachineJournal, Work } from '../machine.ts';
import { cursorSeq } from '../oracle/cursor.ts';
import type { Place } from '../oracle/destinations.ts';
import { lettersOf } from '../oracle/letters-view.ts';
import { ALARMED } from '../services.ts';
import type { Upstream } from '../upstream.ts';
import { linesOf, linesThere } from './checks.ts';
import { type ShownState, shownStates } from './folder.ts';
import type { OperatorParts } from './operator.ts';

export class WaysOut {
  readonly #parts: Pick<OperatorParts, 'world' | 'oracle'>;
  readonly #chance: Chance;
  readonly #stopFor: (journal: MachineJournal, work: Work) => void;
  /** The ids that journals had before an operator gave them others. */
  readonly #firstIds = new Map<MachineJournal, string | undefined>();

  constructor(
    parts: Pick<OperatorParts, 'world' | 'oracle'>,
    chance: Chance,
    stopFor: (journal: MachineJournal, work: Work) => void,
  ) {
    this.#parts = parts;
    this.#chance = chance;
    this.#stopFor = stopFor;
  }

  readonly #notDone = ({ message }: Error): void => this.#parts.world.note(`  not asked: ${message}`);

  /** `forward status`, and what it says is to be done. The service of the machine runs. */
  look(journal: MachineJournal): void {
    const { oracle } = this.#parts;
    const states = shownStates(journal.disk).filter(({ state }) => state === 'stopped');
    const byHand = states.filter(({ why }) => why === 'fork' || why === 'cursor lost');
    const full = states.find(({ why }) => why === 'dead letters');
    const { ack } = journal.machine.config;
    if (byHand.length > 0)
      this.#stopFor(journal, async (openDisk) => this.#continue(journal, byHand, openDisk(journal.folder)));
    else if (states.some(({ why }) => why === 'refusals')) void journal.machine.service?.reload();
    else if (full !== undefined && this.#chance.happens(0.5)) this.#giveUp(journal, full.name);
    else if (full !== undefined || this.#chance.happens(0.05))
      this.#retry(journal, full !== undefined && this.#chance.happens(0.3)).catch(this.#notDone);
    // "503 each time as long as that is open."
    else if (lettersOf(journal.disk, ack).open.length > 0 && this.#chance.happens(0.1)) this.#giveUp(journal, ack);
    else if (this.#chance.happens(0.1)) this.#ask(journal).catch(this.#notDone);
    // An upstream says nothing of its events, so that only another folder leads to a fork.
    const isPlain = (name: string) => 'received' in oracle.destinationsOf(journal).get(name)!;
    const isChanged = oracle.restoresOf(journal) > 0 || oracle.viewOf(journal).wasBroken;
    const isOwn = ({ why, name }: ShownState) => why === 'fork' && isPlain(name) && !isChanged;
    const isOfGateway = ({ reason }: ShownState) => reason?.includes(GATEWAY);
    const wrong = states.find((state) => (state.why === 'damage' && !isOfGateway(state)) || isOwn(state));
    if (wrong !== undefined) oracle.breaks(`${journal.name} stops forwarding without a reason: ${wrong.reason}`);
  }

  async #continue(journal: MachineJournal, states: readonly ShownState[], disk: Disk): Promise<void> {
    const { oracle } = this.#parts;
    for (const { name, reason } of states) {
      const to = oracle.destinationsOf(journal).get(name)!;
      if ('received' in to) await this.#continuePlain(journal, name, to, disk);
      else await this.#rename(journal, name, to, reason ?? '', disk);
      await disk.remove(stateName(name)).catch(unlessAbsent(undefined)); // "may be deleted": what it says is done
    }
  }

  /** "Find the last event that it has, and `forward from NAME --seq N` with the next." */
  async #continuePlain(journal: MachineJournal, name: string, to: Upstream, disk: Disk): Promise<void> {
    const { oracle } = this.#parts;
    const lines = linesOf(oracle, journal);
    const seq = 1 + Math.max(0, ...lines.filter(({ id }) => to.received.has(id)).map((line) => line.seq));
    oracle.begins(journal, name, seq);
    // Its last request may still be on its way, and the cursor that would name it is gone.
    for (const { id, seq: own } of lines) if (own >= seq) oracle.history.mayBeTwice.add(id);
    await continueFrom(disk, name, seq, limits);
  }

  /** "`forward status` prints the command that continues." */
  async #rename(
    journal: MachineJournal,
    name: string,
    to: Exclude<Place, Upstream>,
    reason: string,
    disk: Disk,
  ): Promise<void> {
    const { oracle } = this.#parts;
    const [, hasSeq, printed] = /forward identity --new( --seq (\d+|N))?/.exec(reason) ?? [];
    let seq: number | undefined;
    if (hasSeq !== undefined) {
      // A hub that knows the journal by its earlier id would be the same fork again.
      const [, forkSeq = Number.POSITIVE_INFINITY] = /has event (\d+) of this journal/.exec(reason) ?? [];
      seq = Math.min(this.#firstAfter(journal, to), Number(forkSeq));
      // "N is the first event recorded after the restore, as far as the clock was right." What a letter has named as lost is not there.
      const [low, high] = [Math.min(seq, Number(printed)), Math.max(seq, Number(printed))];
      const isBetween = (line: { id: string; seq: number }) =>
        low <= line.seq && line.seq < high && !oracle.history.isLeftOut(to, line.id);
      const there = linesThere(oracle, journal);
      // The id of an event has the time of the device that it came from, which is before those that were reported meanwhile.
      const isOwn = there.every(({ from }) => from === undefined);
      const isKnown = isOwn && oracle.isRestoredOnce(journal, to) && !journal.machine.clock.hasJumped;
      if (isKnown && there.some(isBetween))
        oracle.breaks(`${journal.name} says that ${name} continues with ${printed}, and it is ${seq}`);
    }
    await this.#giveId(journal, seq, disk);
  }

  /** "A restored device needs `forward identity --new` before it forwards to a new hub." */
  async renew(journal: MachineJournal, disk: Disk): Promise<void> {
    await this.#giveId(journal, 1 + (await readLastSeq(disk, limits)), disk);
  }

  /** @param seq the first event under the new id */
  async #giveId(journal: MachineJournal, seq: number | undefined, disk: Disk): Promise<void> {
    const { oracle } = this.#parts;
    const first = this.#firstIds.get(journal) ?? (await readSource(disk));
    this.#firstIds.set(journal, first);
    while ((await this.#renameOrContinue(journal, seq, disk)) !== undefined);
    const source = await readSource(disk);
    // Also those of commands that a crash or a failing disk has ended: lines may have the name of each.
    const given = source === undefined ? [] : await readEras(disk, source);
    for (const [, id] of given) if (id !== first) oracle.history.renamed.add(id);
    for (const [name, to] of oracle.destinationsOf(journal))
      if (!('received' in to)) oracle.begins(journal, name, cursorSeq(journal.disk, name) + 1, source);
  }

  /** @returns the destination that had to be continued first, since it could not be asked yet: then it is tried again */
  async #renameOrContinue(journal: MachineJournal, seq: number | undefined, disk: Disk): Promise<string | undefined> {
    try {
      await newIdentity(disk, seq, limits);
      return undefined;
    } catch (error) {
      const [, lost] = /^the cursor of (\S+) is lost; set it with forward from$/.exec((error as Error).message) ?? [];
      const to = lost === undefined ? undefined : this.#parts.oracle.destinationsOf(journal).get(lost);
      if (lost === undefined || to === undefined) throw error;
      if ('received' in to) await this.#continuePlain(journal, lost, to, disk);
      else await continueFrom(disk, lost, this.#firstAfter(journal, to), limits);
      return lost;
    }
  }

  /** @returns the seq after the last event that a hub or an engine got from a journal. Events from others say nothing of its own reports */
  #firstAfter(journal: MachineJournal, to: Exclude<Place, Upstream>): number {
    const { oracle } = this.#parts;
    // An engine has only events that the journal sent.
    const isEngine = 'stored' in to;
    const got = new Set(isEngine ? to.counts.keys() : linesOf(oracle, to).map(({ id, from }) => `${id} ${from?.[1]}`));
    const sent = linesOf(oracle, journal).filter(({ id, seq }) => got.has(isEngine ? id : `${id} ${seq}`));
    return 1 + Math.max(0, ...sent.map(({ seq }) => seq));
  }

  /** "`forward skip`": gives open letters up, with the service stopped. */
  #giveUp(journal: MachineJournal, name: string): void {
    this.#stopFor(journal, async (openDisk) => {
      const disk = openDisk(journal.folder);
      const letters = [...(await readLetterStates(disk, name, limits)).all];
      await disk.remove(stateName(name)).catch(unlessAbsent(undefined));
      for (const { first, last } of letters.filter(isOpen)) await skip(disk, name, { first, last }, limits);
    });
  }

  /** "`forward retry`", beside the service: sends events in doubt again; or `forward skip`. */
  async #retry(journal: MachineJournal, givesUp: boolean): Promise<void> {
    const { oracle } = this.#parts;
    const { machine, folder, disk } = journal;
    const names = [...oracle.destinationsOf(journal)].filter(([, to]) => 'received' in to).map(([name]) => name);
    for (const name of names) {
      const open = (await readLetterStates(disk.afterCrash(), name, limits)).all.filter(isOpen);
      if (open.length === 0) continue;
      for (const { id, seq } of linesOf(oracle, journal))
        if (!givesUp && open.some(({ first, last }) => first <= seq && seq <= last)) oracle.history.mayBeTwice.add(id);
      const seqs = { first: open[0]!.first, last: open.at(-1)!.last };
      await machine.tell(folder, { do: givesUp ? 'give up' : 'retry', name, seqs });
    }
  }

  /** "`forward status`", and "`assets forget`" of an asset that nothing reports. */
  async #ask(journal: MachineJournal): Promise<void> {
    const { machine, folder } = journal;
    const answer = await machine.tell(folder, { do: 'forward status' });
    const names = answer === undefined ? [] : (JSON.parse(answer).done ?? []).map(({ name }: ShownState) => name);
    const known = this.#parts.oracle.destinationsOf(journal);
    if (names.some((name: string) => !known.has(name) && name !== ALARMED))
      this.#parts.oracle.breaks(`${journal.name} says that it forwards to ${names}`);
    await machine.tell(folder, { do: 'forget assets', forget: { key: ['nothing', 'reports', 'this'] } });
  }
}
