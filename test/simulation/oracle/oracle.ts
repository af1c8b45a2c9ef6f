/**
 * What two processes must agree on, checked at each step that can break it: a client and a journal, a journal and what it is
 * forwarded to, a service and its readers, and a folder before and after a crash. It looks only at the durable bytes of disks, with a
 * parser of its own.
 */

import { exitCodes } from '../../../src/config/exit-codes.ts';
import type { Reply } from '../../../src/http/message.ts';
import { upTo } from '../../support/tools.ts';
import type { Delivered } from '../../world/network.ts';
import type { Stored } from '../engines/engine.ts';
import type { Machine, MachineJournal } from '../machine.ts';
import type { WayState } from '../runner/expected.ts';
import { ONCE } from '../services.ts';
import { added, begun, heard, isNew } from './beginnings.ts';
import { cursorSeq, durableCursor, readCursor, sendingIn, wrongCursor } from './cursor.ts';
import {
  type Destination,
  type Destinations,
  hostOf,
  idsAt,
  isHook,
  NEVER,
  newWatched,
  type Place,
  sourceOf,
  type Watched,
  wants,
} from './destinations.ts';
import { detailsOf } from './details.ts';
import { History } from './history.ts';
import { isJournalFile, type JournalView, markedIn, nameOf, type SeenLine } from './journal-view.ts';
import { LettersView, lettersOf } from './letters-view.ts';
import {
  cameInOrder,
  forwardedIn,
  lastOf,
  storedIn,
  wrongAtUpstream,
  wrongBetween,
  wrongCount,
  wrongEvent,
  wrongPosition,
} from './places.ts';
import { Readings } from './readings.ts';
import { wrongReply } from './replies.ts';
import { idsIn, wrongRequest } from './requests.ts';
import type { ShownStates } from './shown-states.ts';

/** What a hub has of others, beside their events. */
export const SNAPSHOT = 'forward-sources.json';
/** What is being erased. */
const ORDER = '.erase';

export class Oracle {
  readonly #nowMs: () => number;
  readonly history = new History();
  readonly #watched = new Map<MachineJournal, Watched>();
  readonly #readings = new Readings();
  /** The hosts of hubs and plain upstreams with the ids of the events that left for them while they could be reached. */
  readonly #tried = new Set<string>();
  /** All is settled since a while: nothing is left but to send dead letters again, as an operator asks for. */
  isAtRest = false;
  #broken: string | undefined;

  /** @param nowMs virtual time */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get broken(): string | undefined {
    return this.#broken;
  }

  breaks(sentence: string): void {
    this.#broken ??= sentence;
  }

  /** @returns what is known of the events that a sentence names */
  detailsOf(sentence: string): string[] {
    return detailsOf(sentence, this.#watched.values());
  }

  watch(journal: MachineJournal, destinations: Destinations): void {
    this.#watched.set(journal, newWatched(journal, destinations, this.history, this.#nowMs));
  }

  viewOf(journal: MachineJournal): JournalView {
    return this.#of(journal).view;
  }

  destinationsOf(journal: MachineJournal): Destinations {
    return new Map(this.#of(journal).sendsTo.map(({ name, to }) => [name, to]));
  }

  restoresOf(journal: MachineJournal): number {
    return this.#of(journal).restores;
  }

  /** The links on which events are forwarded, as faults name them: `d0 to hub`. */
  links(): string[] {
    const links = [...this.#watched.values()].flatMap(({ journal, sendsTo }) =>
      sendsTo.map(({ to }) => `${journal.machine.name} to ${hostOf(to)}`),
    );
    return [...new Set(links)];
  }

  #of(journal: MachineJournal): Watched {
    return this.#watched.get(journal)!;
  }

  // What an operator does.

  /**
   * The folder of a journal is replaced by a copy of earlier. What was recorded since then is gone by the will of the operator, and
   * so are the dead letters: the folder that had them is kept aside, as the handbook says.
   */
  restored(journal: MachineJournal, replace: () => void): void {
    this.checkAcknowledged(journal);
    const watched = this.#of(journal);
    const { view: was, sendsTo } = watched;
    for (const destination of sendsTo) {
      const named = [...destination.letters.named].flatMap((seq) => was.lines.get(seq)?.id ?? []);
      this.history.leaveOut(destination.to, named);
      destination.letters = new LettersView();
      destination.doubts = new Set();
      destination.syncedSlot = 0;
    }
    replace();
    this.history.hasTwins = true;
    watched.view = was.copiedTo(journal.disk);
    watched.wasBeginning &&= [...watched.view.lines.values()].every(({ seq, id }) => was.lines.get(seq)?.id === id);
    // What says which event is in flight is gone, and what a hub lacks it gets again, and sends on again.
    for (const { id } of was.lines.values()) this.history.mayBeTwice.add(id);
    for (const destination of sendsTo) {
      // The copy may be of before the hook.
      const wasAdded = destination.mayBegin !== undefined || destination.beginSeq !== NEVER;
      if (isHook(destination.to) && wasAdded && isNew(journal, destination.name)) added(watched, destination);
    }
    watched.restores += 1;
    this.#part(journal);
  }

  /** A journal and its destinations, and itself and what it is a destination of, are not compared until they agree again. */
  #part(journal: MachineJournal, isSender = true): void {
    for (const { journal: from, sendsTo, view } of this.#watched.values())
      for (const destination of sendsTo)
        if ((isSender && from === journal) || destination.to === journal) destination.apartUntil = view.lastSeq;
  }

  /** A copy of the folder of another machine begins to run. */
  watchCopy(copy: MachineJournal, original: MachineJournal): void {
    this.look(original);
    this.watch(copy, this.destinationsOf(original));
    this.history.hasTwins = true;
    this.#of(copy).view = this.viewOf(original).copiedTo(copy.disk);
    for (const one of [copy, original]) this.#part(one);
  }

  /** Whether a copy of the folder of a machine runs beside it: of two with one id, a hub has the events of one. */
  #hasCopy({ machine }: MachineJournal): boolean {
    const isCopy = (other: MachineJournal) =>
      other.machine !== machine && other.machine.options.args === machine.options.args;
    return [...this.#watched.keys()].some(isCopy);
  }

  /** The folder of a copy is thrown away: what its destinations do not have is not the service's to keep. */
  unwatch(copy: MachineJournal): void {
    this.look(copy);
    this.#watched.delete(copy);
    for (const { journal } of this.#watched.values()) if (journal.machine.wasCopied) this.#part(journal);
  }

  /** A cursor is damaged. @param damage what does that, and returns the name of its destination, if there is one */
  losesCursor(journal: MachineJournal, damage: () => string | undefined): void {
    const { view, sendsTo } = this.#of(journal);
    const sending = new Map(sendsTo.map(({ name }) => [name, sendingIn(readCursor(journal.disk, name))]));
    const name = damage();
    const destination = sendsTo.find((one) => one.name === name);
    if (destination === undefined) return;
    // "The event in flight is doubled, and it is named": the cursor that says so is gone.
    for (const seq of sending.get(destination.name)!) this.history.mayBeTwice.add(view.lines.get(seq)?.id ?? '');
    destination.doubts = new Set();
    destination.checkedSeq = destination.syncedSlot = 0;
    // "Lost cursor: the hub is asked; one that never heard of the journal gets all there is." Its new id may be unused yet.
    if (destination.comparedSeq > 0) destination.apartUntil = view.lastSeq;
  }

  /**
   * An operator broke these lines of a journal: from now on they may be lost, and no others. A hub asks again for the events that its
   * snapshot does not list, unless the snapshot was deleted and retention has removed others.
   */
  mayLose(journal: MachineJournal, seqs: Iterable<number>): void {
    const snapshot = journal.disk.durableBytes(SNAPSHOT)?.toString();
    if (snapshot === undefined) this.#knowsFirst(journal, new Set(seqs));
    const { sources = [] } = JSON.parse(snapshot ?? '{}');
    const isAskedFor = ([source, seq]: readonly [source: string, seq: number]) => {
      const [, last = 0, , ahead] = sources.find(([one]: [string]) => one === source) ?? [];
      return seq > last && !(ahead ?? []).some(([first, last]: [number, number]) => first <= seq && seq <= last);
    };
    this.viewOf(journal).mayLose(seqs, isAskedFor);
    this.#part(journal, false);
  }

  repaired(journal: MachineJournal): void {
    const { view, sendsTo } = this.#of(journal);
    view.repaired(journal.disk);
    this.checkAcknowledged(journal);
    // "A new destination gets the first event there is": what a repair has lost before is not named to a plain one that knows none.
    const first = [...view.lines.keys()].find((seq) => view.isThere(seq)) ?? 0;
    for (const destination of sendsTo) {
      const { name, to } = destination;
      if ('received' in to && !isHook(to) && isNew(journal, name)) destination.beginSeq = first;
    }
  }

  /** An operator lets a destination begin with an event: `forward from`, or under a new id of the journal. */
  begins(journal: MachineJournal, name: string, seq: number, source?: string): void {
    const { sendsTo, view } = this.#of(journal);
    const destination = sendsTo.find((one) => one.name === name)!;
    // "The hub knows the earlier id": it gets what it lacks, also of before.
    if (!('machine' in destination.to)) destination.beginSeq = seq;
    destination.mayBegin = undefined;
    if (source === undefined) return;
    destination.apartUntil = view.lastSeq;
    this.history.renamed.add(source);
  }

  /**
   * The file of sources of a hub is deleted. "The first line of each journal counts as if all before it had been here", where retention
   * has removed some.
   */
  losesSources(journal: MachineJournal): void {
    this.look(journal);
    this.#part(journal, false);
    this.#knowsFirst(journal);
  }

  /** @param lost own events that are not there either */
  #knowsFirst(journal: MachineJournal, lost: ReadonlySet<number> = new Set()): void {
    const { view } = this.#of(journal);
    if (markedIn(journal.disk.durableNames()) === 0) return;
    view.hasForgotten = true;
    const isThere = ({ seq }: SeenLine) => view.isThere(seq) && !lost.has(seq);
    const first = new Map<string, number>();
    for (const { from, origin } of [...view.lines.values()].filter(isThere).sort((a, b) => a.seq - b.seq))
      for (const [source, seq] of [from, origin].filter((name) => name !== undefined))
        if (!first.has(source)) first.set(source, seq);
    for (const [source, seq] of first) view.firstKnown.set(source, Math.max(seq, view.firstKnown.get(source) ?? 0));
  }

  /** A device gets another hub, which need not have what it had removed before. */
  moves(journal: MachineJournal, name: string, to: Place): void {
    this.look(journal);
    const { sendsTo, view } = this.#of(journal);
    const destination = sendsTo.find((one) => one.name === name)!;
    Object.assign(destination, { to, apartUntil: view.lastSeq, checkedSeq: 0, comparedSeq: 0, beginSeq: 1 });
  }

  /** An operator adds a hook to the destinations of a service: see `beginnings.ts`. */
  adds(journal: MachineJournal, name: string): void {
    this.look(journal);
    const watched = this.#of(journal);
    added(watched, watched.sendsTo.find((one) => one.name === name)!);
  }

  /** The service has read its destinations again. */
  readsDestinations(journal: MachineJournal): void {
    heard(this.#of(journal));
  }

  /** Whether a journal and a place differ by nothing but one restore of the journal, which is not mended yet. */
  isRestoredOnce(journal: MachineJournal, to: Place): boolean {
    const { restores, wasBeginning, sendsTo } = this.#of(journal);
    const hub = 'machine' in to ? this.#of(to) : undefined;
    const isFirst = sendsTo.every((one) => isHook(one.to) || one.beginSeq === 1);
    const isHubWhole = hub === undefined || (hub.restores === 0 && !hub.view.wasBroken);
    return restores === 1 && wasBeginning && isFirst && isHubWhole && !journal.machine.wasCopied;
  }

  /** An operator erases events of a journal, whose service is stopped. */
  erases(journal: MachineJournal, seqs: readonly number[]): void {
    this.look(journal);
    const { view, unanswered } = this.#of(journal);
    unanswered.starts(); // half of a batch may be erased
    view.erases(seqs);
  }

  isErasing(journal: MachineJournal): boolean {
    return this.viewOf(journal).erasing.size > 0;
  }

  /** That is finished: "its texts are gone from the folder". */
  erased(journal: MachineJournal): void {
    if (!this.isErasing(journal)) return;
    this.look(journal);
    this.#check(journal.name, this.viewOf(journal).erased(journal.disk));
  }

  /** A start finds no order: it was never durable, or its process did not live to say that all was done. */
  #decideErase(journal: MachineJournal): void {
    if (!this.isErasing(journal) || journal.disk.names().includes(ORDER)) return;
    this.look(journal);
    const view = this.viewOf(journal);
    if (view.hasErased) this.erased(journal);
    else view.erasesNothing();
  }

  // What happens.

  /** A request arrived. */
  received(machine: Machine, request: Delivered): void {
    const journal = machine.journalFor(request.target);
    if (journal === undefined) return;
    this.look(journal);
    const { view, unanswered, shown } = this.#of(journal);
    unanswered.received(request);
    shown.received(request);
    this.#readings.received(view, request);
  }

  /** A service sends a piece of a reply that takes long. */
  sends(machine: Machine, request: Delivered, text: string): void {
    const journal = machine.journalFor(request.target)!;
    this.look(journal);
    this.#check(journal.name, this.#readings.sends(this.viewOf(journal), request, text));
  }

  /** It has sent all of it. */
  sent(machine: Machine, request: Delivered, text: string): void {
    const journal = machine.journalFor(request.target)!;
    const { view, restores } = this.#of(journal);
    this.#check(journal.name, this.#readings.answers(view, restores > 0, request, text));
  }

  /** A request was answered. @param arrivedMs when the service got it */
  replied(machine: Machine, request: Delivered, reply: Reply, arrivedMs: number): void {
    const journal = machine.journalFor(request.target);
    if (journal === undefined) return;
    this.look(journal);
    const { view, unanswered, shown } = this.#of(journal);
    unanswered.replied(request, reply);
    shown.replied(request, reply);
    if (reply.kind === 'error' && reply.error.includes('it is damaged'))
      this.breaks(`${journal.name} cannot be opened: ${reply.error}`);
    const lacks = (line: SeenLine) => this.#isNotAcknowledged(journal, line);
    const answer = { reply, request, open: unanswered.events(), arrivedMs, lacks };
    this.#check(journal.name, wrongPosition(view, request, reply) ?? wrongReply(view, answer));
  }

  /** @returns what became of the lines of a request to a hub that was answered */
  waysOf(journal: MachineJournal, request: Delivered, reply: Reply): WayState[] {
    const { ways, view } = this.#of(journal);
    return ways.replied(view, request, reply);
  }

  /** "With `--ack NAME` […] the reply waits until the destination NAME has the event as well." */
  #isNotAcknowledged(journal: MachineJournal, line: SeenLine): boolean {
    const destination = this.#of(journal).sendsTo.find(({ name }) => name === journal.machine.config.ack);
    if (destination === undefined || destination.apartUntil !== undefined) return false;
    // A service believes a `skip` whose process died before its sync; if the power goes, the letter is open again.
    const isOpen = destination.letters.isOpen(line.seq) && lettersOf(journal.disk, destination.name).isOpen(line.seq);
    return isOpen || !this.#settledAt(journal, destination)(line);
  }

  /**
   * A service sends a request to a destination: what would be needed after a crash is durable.
   * @param isUp whether it can be reached
   */
  forwards(machine: Machine, request: Delivered, isUp: boolean): void {
    if (request.method === 'GET') return;
    for (const journal of machine.journals) this.look(journal);
    const senders = machine.journals.map((journal) => this.#of(journal));
    const isIdle = this.isAtRest && /\/forward\/[^/]+\/\d+$/.test(request.target);
    const problem = isIdle ? `${request.method} ${request.target} at rest` : wrongRequest(senders, request);
    if (problem !== undefined) this.breaks(`${machine.name} sends ${problem}`);
    const isOfEngine = senders.some(({ sendsTo }) => sendsTo.some(({ to }) => 'stored' in to));
    if (isUp && !isOfEngine) for (const id of idsIn(request)) this.#tried.add(`${request.host} ${id}`);
  }

  /** A journal file is about to be removed: a durable marker says so. What a destination lacks of it gets a dead letter later. */
  removing(journal: MachineJournal, name: string): void {
    if (!isJournalFile(name)) return;
    this.look(journal);
    const { view, sendsTo } = this.#of(journal);
    const lines = view.linesOf(name);
    const lastSeq = lines.at(-1)?.seq ?? 0;
    if (lastSeq > markedIn(journal.disk.durableNames()))
      this.breaks(`${journal.name} removes ${name} before that is noted durably`);
    const compared = sendsTo.filter(({ apartUntil }) => apartUntil === undefined);
    // "A file with events that a destination has not received yet stays." A cursor that is lost says nothing.
    const isHeld = journal.machine.config.whenBehind === 'refuse';
    const isBehind = ({ name }: Destination) => (durableCursor(journal.disk, name)?.seq ?? lastSeq) < lastSeq;
    const lacking = isHeld ? compared.find(isBehind) : undefined;
    if (lacking !== undefined) this.breaks(`${journal.name} removes ${name}, which ${lacking.name} has not received`);
    for (const line of lines) if (!view.removed.has(line.seq)) view.removed.set(line.seq, this.#nowMs());
  }

  /** A file was synced, or with an empty name its folder: it is right from now on, also if the power goes. */
  synced(journal: MachineJournal, name: string): void {
    this.look(journal);
    if (!name.endsWith('.cursor')) return;
    this.#checkCursors(journal);
    for (const destination of this.#of(journal).sendsTo)
      if (name === `forward-${destination.name}.cursor`)
        destination.syncedSlot = durableCursor(journal.disk, destination.name)?.number ?? 0;
  }

  /** A file is about to take the place of another one. */
  renaming(journal: MachineJournal, from: string): void {
    if (from.startsWith('dead-')) this.look(journal); // closed dead letters are about to be removed
  }

  /** A start found the folder as the last process left it. */
  starts(journal: MachineJournal): void {
    const watched = this.#of(journal);
    watched.startedMs = this.#nowMs();
    watched.view.knowsFrom = 1;
    watched.unanswered.starts();
    watched.shown.starts();
    this.#decideErase(journal);
    this.checkAcknowledged(journal);
    heard(watched);
    for (const destination of watched.sendsTo) {
      const cursor = readCursor(journal.disk, destination.name);
      if ('received' in destination.to) destination.doubts = new Set(sendingIn(cursor));
      const { name, syncedSlot } = destination;
      if ((cursor?.number ?? 0) < syncedSlot)
        this.breaks(`${journal.name} has lost a synced cursor for ${name}, and finds event ${cursor?.seq}`);
    }
  }

  /** A process ended by itself. @param changes of the disk that it has begun, and whose end it has not heard of */
  ended(journal: MachineJournal, code: number, changes: number): void {
    const { unanswered, startedMs } = this.#of(journal);
    if (code === exitCodes.done && changes > 0)
      this.breaks(`${journal.name} ended before ${changes} changes of its disk had`);
    if (code === exitCodes.diskFailed && journal.machine.disk.troubledMs < startedMs)
      this.breaks(`${journal.name} ended with 5, and no call of its disk had failed`);
    this.#check(journal.name, unanswered.ended());
  }

  #check(name: string, problem: string | undefined): void {
    if (problem !== undefined) this.breaks(`${name} ${problem}`);
  }

  // What is there.

  /** Reads what is new in the durable bytes of a journal and of its dead letters. */
  look(journal: MachineJournal): void {
    const { disk, machine } = journal;
    const { view, sendsTo } = this.#of(journal);
    const lettersBytesMax = (machine.config.retainBytes ?? Number.POSITIVE_INFINITY) / 4;
    const isRight = (seq: number, line: string) => view.wasBroken || view.isLine(seq, line);
    const problem = view.refresh(disk);
    if (problem !== undefined) this.breaks(`${journal.name}: ${problem}`);
    for (const { name, to, letters } of sendsTo) {
      // What an engine would refuse its sender does not send, and with `"inDoubt": "once"` what a crash leaves is given up at once.
      const wasTried = (seq: number) =>
        'stored' in to || name === ONCE || this.#tried.has(`${hostOf(to)} ${view.lines.get(seq)?.id}`);
      const wrong = letters.refresh(disk.durableBytes(`dead-${name}.jsonl`), isRight, wasTried, lettersBytesMax);
      if (wrong !== undefined) this.breaks(`${journal.name}: ${wrong}`);
    }
  }

  /** @returns whether a destination has an event of a journal now */
  #atPlace(to: Place): (line: SeenLine) => boolean {
    if (!('machine' in to)) return ({ id }) => idsAt(to).has(id);
    this.look(to);
    const { byMark } = this.viewOf(to);
    return ({ mark, seq, id, from: isForwarded }) =>
      byMark.of(mark).some((one) => one.id === id || (!isForwarded && nameOf(one)?.[1] === seq));
  }

  /** @returns whether an event of a journal is durable at a destination, or in a durable dead letter, or need not be there */
  #settledAt(journal: MachineJournal, destination: Destination): (line: SeenLine) => boolean {
    const { to, letters, beginSeq } = destination;
    const { removed } = this.viewOf(journal);
    const isThere = this.#atPlace(to);
    // "An event is here with another id": its journal was restored or copied, and a hub on the way does not know that.
    const others = this.history.hasTwins && 'machine' in to ? this.viewOf(to).byName : undefined;
    const hasTwin = (line: SeenLine) => line.from !== undefined && others?.has(`${nameOf(line)}`) === true;
    const firstKnown = 'machine' in to ? this.viewOf(to).firstKnown : new Map<string, number>();
    const isBefore = (line: SeenLine) =>
      [nameOf(line), [sourceOf(journal), line.seq] as const].some(
        (name) => name !== undefined && name[1] < (firstKnown.get(name[0] ?? '') ?? 0),
      );
    // "What neither has any more is in the dead letters of the one that sent first."
    const isOfCopy = ({ seq }: SeenLine) => journal.machine.wasCopied && removed.has(seq);
    return (line) =>
      letters.named.has(line.seq) ||
      isThere(line) ||
      hasTwin(line) ||
      isBefore(line) ||
      line.seq < beginSeq ||
      !wants(destination, line) ||
      this.history.isLeftOut(to, line.id) ||
      isOfCopy(line);
  }

  /** @returns the first event that is neither at one of these destinations nor in its dead letters */
  #unsettledAt(
    journal: MachineJournal,
    sendsTo: readonly Destination[],
    lines: Iterable<SeenLine>,
  ): number | undefined {
    const checks = sendsTo.map((destination) => this.#settledAt(journal, destination));
    for (const line of lines) if (!checks.every((isSettled) => isSettled(line))) return line.seq;
    return undefined;
  }

  /** What was answered with 200 is there, or was removed by retention, and nothing is missing between two events. */
  checkAcknowledged(journal: MachineJournal): void {
    this.look(journal);
    const { view, unanswered } = this.#of(journal);
    const problem = view.lacks(journal.disk) ?? unanswered.overdue() ?? unanswered.split(view);
    if (problem !== undefined) this.breaks(`${journal.name}: ${problem}`);
    this.#checkCursors(journal);
  }

  /** A cursor passes only what its destination has, or a dead letter, and names the event that it is at. */
  #checkCursors(journal: MachineJournal): void {
    const { view, sendsTo } = this.#of(journal);
    for (const destination of sendsTo) {
      const cursor = durableCursor(journal.disk, destination.name);
      if (cursor === undefined) continue;
      this.#check(`${journal.name}'s ${destination.name}`, begun(destination, cursor));
      if (destination.apartUntil !== undefined) continue;
      const problem = wrongCursor(cursor, destination, view, this.#settledAt(journal, destination));
      if (problem !== undefined) this.breaks(`the cursor of ${journal.name} for ${destination.name} ${problem}`);
      destination.checkedSeq = Math.max(destination.checkedSeq, cursor.seq);
    }
  }

  /** What hubs and engines have of the journals that are forwarded to them. */
  checkSources(): void {
    for (const journal of this.#watched.keys()) this.checkAcknowledged(journal);
    const destinations = [...this.#watched.values()].flatMap(({ sendsTo }) => sendsTo.map(({ to }) => to));
    for (const place of new Set<Place>([...this.#watched.keys(), ...destinations])) this.#checkPlace(place);
  }

  #checkPlace(place: Place): void {
    const events = this.#eventsAt(place);
    const twice = 'stored' in place ? wrongCount(place, this.history) : undefined;
    this.#check(`${place.name} has`, wrongEvent(events, this.history) ?? twice);
    for (const watched of this.#watched.values())
      for (const destination of watched.sendsTo.filter(({ to }) => to === place)) {
        if (destination.apartUntil !== undefined) this.#join(watched, destination, events);
        else if (!('received' in place))
          this.#check(
            `${place.name} has`,
            wrongBetween(watched, destination, events, this.#settledAt(watched.journal, destination)),
          );
      }
  }

  /** @returns what a hub or an engine has of other journals */
  #eventsAt(place: Place): readonly Stored[] {
    if ('received' in place) return [];
    return 'stored' in place ? storedIn(place) : forwardedIn(this.viewOf(place));
  }

  /** Compares a journal and its destination again if the destination has all that was there, and the cursor says so. */
  #join({ journal, view }: Watched, destination: Destination, events: readonly Stored[]): void {
    const { name, apartUntil = 0 } = destination;
    const seq = durableCursor(journal.disk, name)?.seq;
    if (seq === undefined || seq < apartUntil || this.#hasCopy(journal)) return;
    const lines = [...view.lines.values()].filter((line) => line.seq <= seq);
    if (this.#unsettledAt(journal, [destination], lines) !== undefined) return;
    destination.comparedSeq = Math.max(seq, lastOf(sourceOf(journal), events));
    destination.checkedSeq = seq;
    destination.apartUntil = undefined;
  }

  /** @returns what is not settled yet; undefined once every event is where it was promised to be */
  unsettled(): string | undefined {
    this.checkSources();
    for (const { journal, view, sendsTo } of this.#watched.values()) {
      if (journal.machine.service === undefined) return `${journal.name} does not run`;
      const hook = sendsTo.find(({ mayBegin }) => mayBegin !== undefined);
      if (hook !== undefined) return `${hook.name} of ${journal.name} has not begun`;
      const seq = this.#unsettledAt(journal, sendsTo, view.lines.values());
      if (seq !== undefined)
        return `event ${seq} of ${journal.name} is neither at its destination nor in a dead letter`;
    }
    return undefined;
  }

  /** @returns the states that a hub has to list for its sources */
  shownAt(hub: MachineJournal): ShownStates {
    return this.#of(hub).shown;
  }

  /** By the id of a journal that was always compared with a hub: the last event of it that the hub has confirmed. */
  lastAt(hub: MachineJournal): Map<string, number> {
    const events = this.#eventsAt(hub);
    const last = new Map<string, number>();
    for (const { journal, sendsTo } of this.#watched.values()) {
      const source = sourceOf(journal);
      const compared = sendsTo.find(
        ({ to, apartUntil, comparedSeq }) => to === hub && apartUntil === undefined && comparedSeq === 0,
      );
      // Lines can be on the disk of the hub before it has synced them, and said so.
      const confirmedSeq = compared && readCursor(journal.disk, compared.name)?.seq;
      const seq = Math.min(lastOf(source, events), confirmedSeq ?? 0);
      if (source !== undefined && seq > 0) last.set(source, seq);
    }
    return last;
  }

  /**
   * @param lastSeq up to here a hub needs no event of another journal
   * @returns how many before it the hub lacks; undefined if what an operator did can have changed that
   */
  missingAt(hub: MachineJournal, source: string, lastSeq: number): number | undefined {
    const { view, restores, ways } = this.#of(hub);
    // A crash takes for some seconds why its lines were left out: then they count as lost.
    if (ways.leftOut.has(source)) return undefined;
    const from = [...this.#watched.values()].find(({ journal }) => sourceOf(journal) === source);
    const isSure = restores === 0 && !view.wasBroken && !view.hasForgotten && !this.history.hasTwins;
    if (from === undefined || from.view.wasBroken || !isSure || this.history.renamed.size > 0) return undefined;
    // What came to it from others has their names, and a hub that does not get it from there cannot know that it is none of its own.
    if (from.view.byName.size > 0) return undefined;
    const isThere = this.#atPlace(hub);
    const named = [...view.byName.values()].map(nameOf).filter((name) => name?.[0] === source);
    return upTo(Math.max(lastSeq, ...named.map((name) => name![1]))).filter((seq) => {
      const line = from.view.lines.get(seq);
      return line === undefined || !isThere(line);
    }).length;
  }

  /** Everything is settled, and nothing has happened for a while. */
  checkAtRest(): void {
    for (const watched of this.#watched.values()) {
      const { journal, view, sendsTo } = watched;
      this.look(journal);
      const still = view.saysStill(journal.disk, view.erasedTexts);
      if (still !== undefined) this.breaks(`${journal.name} at rest: ${still}`);
      const markers = journal.disk.names().filter((name) => markedIn([name]) > 0);
      if (markers.length > 1) this.breaks(`${journal.name} at rest has ${markers.length} markers of retention`);
      for (const destination of sendsTo) {
        const { name, to } = destination;
        const problem = 'received' in to ? wrongAtUpstream(to, destination, watched, this.history) : undefined;
        if (problem !== undefined) this.breaks(problem);
        // By another way, or by a request that was late, which its sender does not know.
        const wasSent = ({ seq }: SeenLine) =>
          !('machine' in to) || cameInOrder(this.viewOf(to), [sourceOf(journal) ?? '', seq]);
        const isAt = this.#atPlace(to);
        const isThere = (line: SeenLine) => isAt(line) && wasSent(line);
        const isWhole = destination.comparedSeq === 0 && !view.wasBroken && !journal.machine.wasCopied;
        const lost = destination.letters.lost.map((gone) => view.lines.get(gone)!);
        const both = lost.find((line) => isWhole && isThere(line) && !this.history.mayBeTwice.has(line.id));
        if (both !== undefined)
          this.breaks(`${name} has event ${both.seq} of ${journal.name}, and a dead letter calls it removed`);
        const seq = cursorSeq(journal.disk, name);
        if (seq !== view.lastSeq) this.breaks(`${journal.name} at rest: the cursor for ${name} is at ${seq}`);
      }
    }
  }
}
