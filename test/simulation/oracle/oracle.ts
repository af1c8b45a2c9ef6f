/** What is promised, checked at each step that can break it. It looks only at the durable bytes of disks, with a parser of its own. */

import { exitCodes } from '../../../src/config/exit-codes.ts';
import type { Reply } from '../../../src/http/message.ts';
import type { Machine, MachineJournal } from '../machine.ts';
import type { Delivered } from '../network.ts';
import { wrongAtEngines } from './at-engines.ts';
import { wrongAtHub, wrongPosition } from './at-hubs.ts';
import { type Folder, SNAPSHOT, snapshotSeq, tooManyLetters, wrongAtRest, wrongSnapshot } from './at-rest.ts';
import { wrongAtUpstream } from './at-upstreams.ts';
import { cursorSeq, durableCursor, forgottenBy, readCursor, sendingIn, wrongCursor } from './cursor.ts';
import { type Destinations, hostOf, idsAt, type Place, sourceOf } from './destinations.ts';
import { detailsOf } from './details.ts';
import { isJournalFile } from './files.ts';
import { History } from './history.ts';
import type { JournalView, SeenLine } from './journal-view.ts';
import { type LetterRules, lettersOf } from './letters-view.ts';
import { Losses } from './losses.ts';
import { Paces } from './pace.ts';
import { Readings } from './readings.ts';
import { markedBy, Removals } from './removals.ts';
import { countsIn, leftOutBy, wrongReply } from './replies.ts';
import { wrongRequest } from './requests.ts';
import { eventsIn } from './sent.ts';
import { type Destination, newWatched, type Watched } from './watched.ts';

/** No wait, and what happened before it, takes longer. */
const STEADY_MS = 120_000;
/** A disk that works again has been tried by then, unless a start waits for space. */
const DISK_TRIED_MS = 20_000;

export class Oracle {
  readonly #nowMs: () => number;
  readonly history = new History();
  readonly #watched = new Map<MachineJournal, Watched>();
  readonly #readings = new Readings();
  readonly #paces = new Paces();
  readonly #losses = new Losses(this.#watched, this.history, () => this.#nowMs());
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

  /** @returns what is known of the events that a sentence names */
  detailsOf(sentence: string): string[] {
    return detailsOf(sentence, this.#watched.values());
  }

  watch(journal: MachineJournal, destinations: Destinations): void {
    this.#watched.set(journal, newWatched(journal, destinations, this.history, this.#nowMs));
  }

  /** A copy of the folder of another machine begins to run. */
  watchCopy(copy: MachineJournal, original: MachineJournal): void {
    this.history.wasRestored = true;
    this.look(original);
    this.watch(copy, this.destinationsOf(original));
    const watched = this.#watched.get(copy)!;
    watched.view = this.viewOf(original).copiedTo(copy.disk);
    watched.removals = new Removals(copy, this.#nowMs);
    for (const destination of watched.sendsTo) destination.checkedSeq = cursorSeq(copy.disk, destination.name);
  }

  /** The folder of a machine is thrown away: what its destinations do not have is not the service's to keep. */
  unwatch(journal: MachineJournal): void {
    this.look(journal);
    this.nameLost();
    this.#watched.delete(journal);
  }

  destinationsOf(journal: MachineJournal): Destinations {
    return new Map(this.#watched.get(journal)!.sendsTo.map(({ name, to }) => [name, to]));
  }

  restored(journal: MachineJournal, replace: () => void): void {
    this.checkAcknowledged(journal);
    this.nameLost();
    this.#losses.restored(journal, replace);
  }

  losesCursor(journal: MachineJournal, damage: () => string | undefined): void {
    this.checkAcknowledged(journal);
    this.#losses.losesCursor(journal, damage);
  }

  damaged(journal: MachineJournal, seqs: ReadonlySet<number>): void {
    this.#losses.damaged(journal, seqs);
  }

  repaired(journal: MachineJournal): void {
    const watched = this.#watched.get(journal)!;
    watched.isBroken = false;
    watched.view.repaired(journal.disk);
    this.checkAcknowledged(journal);
    this.#losses.repaired(journal, watched);
  }

  restoresOf(journal: MachineJournal): number {
    return this.#watched.get(journal)!.restores;
  }

  breaks(sentence: string): void {
    this.#breaks(sentence);
  }

  /** The links on which events are forwarded, as faults name them: `d0 to hub`. */
  links(): string[] {
    const links = [...this.#watched.values()].flatMap(({ journal, sendsTo }) =>
      sendsTo.map(({ to }) => `${journal.machine.name} to ${hostOf(to)}`),
    );
    return [...new Set(links)];
  }

  viewOf(journal: MachineJournal): JournalView {
    return this.#watched.get(journal)!.view;
  }

  /** A request arrived. */
  received(machine: Machine, request: Delivered): void {
    const journal = machine.journalFor(request.target);
    if (journal === undefined) return;
    this.look(journal);
    this.#watched.get(journal)!.unanswered.received(request, this.viewOf(journal));
    this.#readings.received(this.viewOf(journal), request);
  }

  /** A service sends a piece of a reply that takes long. */
  sends(machine: Machine, request: Delivered, text: string): void {
    const journal = machine.journalFor(request.target)!;
    this.look(journal);
    const problem = this.#readings.sends(this.viewOf(journal), request, text);
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
  }

  /** It has sent all of it. */
  sent(machine: Machine, request: Delivered, text: string): void {
    const journal = machine.journalFor(request.target)!;
    const mayBeGone = (seq: number) => this.mayBeGone(journal, seq, seq);
    const problem = this.#readings.answers(this.viewOf(journal), mayBeGone, request, text);
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
  }

  /** Whether retention may have removed these events, both included. */
  mayBeGone(journal: MachineJournal, first: number, last: number): boolean {
    const { view, removals } = this.#watched.get(journal)!;
    for (let seq = Math.max(first, removals.markedSeq + 1); seq <= last; seq += 1)
      if (!view.removed.has(seq)) return false;
    return true;
  }

  /** A report was answered. @param arrivedMs when the service got it */
  replied(machine: Machine, request: Delivered, reply: Reply, arrivedMs: number): void {
    const journal = machine.journalFor(request.target);
    if (journal === undefined) return;
    const { ackGate, unanswered } = this.#watched.get(journal)!;
    unanswered.replied(request);
    if (reply.kind === 'error' && reply.error.includes('it is damaged'))
      this.#breaks(`${journal.name} cannot be opened: ${reply.error}`);
    const isBlamed = reply.kind === 'error' && /the disk (failed|refuses)|key cannot be read/.test(reply.error);
    if (isBlamed && machine.disk.troubledMs < this.#nowMs() - DISK_TRIED_MS)
      this.#breaks(`${journal.name} still says: ${reply.error}`);
    this.look(journal);
    const position = this.history.wasRestored ? undefined : wrongPosition(this.viewOf(journal), request, reply);
    if (position !== undefined) this.#breaks(`${journal.name} ${position}`);
    const { status } = reply.kind === 'cut' ? reply.reply : reply;
    if (reply.kind === 'error' && reply.error.includes('not yet at')) ackGate.isLate(this.viewOf(journal));
    const events = status === 503 || status === 408 ? undefined : eventsIn(request);
    if (events === undefined) return;
    const lacks = (line: SeenLine) => this.#isNotAcknowledged(journal, line);
    const leftOut = leftOutBy(reply);
    const counts = countsIn(reply, request.target.endsWith('batch/'));
    const known = unanswered.knownOf(request, this.viewOf(journal));
    const answer = { status, leftOut, counts, known, open: unanswered.events(), body: request.body, arrivedMs, lacks };
    const problem = wrongReply(this.viewOf(journal), events, answer);
    if (problem !== undefined) this.#breaks(`${journal.name} answered ${status} ${problem}`);
  }

  /** "With `--ack NAME` […] the reply waits until the destination NAME has the event as well." */
  #isNotAcknowledged(journal: MachineJournal, line: SeenLine, mayBeNamed = false): boolean {
    const { ack } = journal.machine.config;
    const destination = this.#watched.get(journal)!.sendsTo.find(({ name }) => name === ack);
    // A hub that was restored says at the next request what it has.
    if (destination === undefined || this.history.rolledBack.has(line.id)) return false;
    // A service believes a `skip` whose process died before its sync; if the power goes, the letter is open again.
    const isOpen = () =>
      destination.letters.isOpen(line.seq) && lettersOf(journal.disk, destination.name).isOpen(line.seq);
    return (!mayBeNamed && isOpen()) || !this.#settledAt(journal, destination)(line);
  }

  /** What was answered with 200 is there, or was removed by retention, and nothing is missing between two events. */
  checkAcknowledged(journal: MachineJournal): void {
    this.look(journal);
    const { view, isBroken, unanswered, files } = this.#watched.get(journal)!;
    const problem =
      (isBroken ? undefined : view.lacks(journal.disk)) ?? unanswered.overdue() ?? files.runsOn() ?? files.leftOpen();
    if (problem !== undefined) this.#breaks(`${journal.name}: ${problem}`);
    this.#checkCursors(journal);
  }

  /** A process ended by itself. @param changes of the disk that it has begun, and whose end it has not heard of */
  ended(journal: MachineJournal, code: number, changes: number): void {
    const { unanswered, files } = this.#watched.get(journal)!;
    const problem =
      code === exitCodes.done && changes > 0
        ? `ended before ${changes} changes of its disk had`
        : (unanswered.ended() ?? files.ended(code));
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
  }

  /** A start found the folder as the last process left it. */
  starts(journal: MachineJournal): void {
    this.checkAcknowledged(journal);
    const watched = this.#watched.get(journal)!;
    const { ackGate, unanswered, view, sendsTo } = watched;
    ackGate.starts(view);
    unanswered.starts();
    for (const destination of sendsTo)
      if ('received' in destination.to)
        destination.doubts = new Set(sendingIn(readCursor(journal.disk, destination.name)));
  }

  /** Reads what is new in the durable bytes of a journal and of its dead letters. */
  look(journal: MachineJournal): void {
    const { disk } = journal;
    const { view, sendsTo, isBroken } = this.#watched.get(journal)!;
    const problems = [
      isBroken ? undefined : view.refresh(disk),
      ...sendsTo.map((destination) => {
        const bytes = disk.durableBytes(`dead-${destination.name}.jsonl`);
        return destination.letters.refresh(bytes, this.#rulesOf(journal, destination, view));
      }),
    ];
    const problem = problems.find((one) => one !== undefined);
    if (problem !== undefined) this.#breaks(`${journal.name}: ${problem}`);
  }

  #rulesOf({ machine, disk }: MachineJournal, { name, to, checkedSeq }: Destination, view: JournalView): LetterRules {
    const { wasRestored } = this.history;
    const isRight = (seq: number, line: string) => view.wasBroken || view.lines.get(seq)?.text === line;
    const mayRepeat = machine.disk.troubledMs > 0 || wasRestored;
    // A hub that lost events asks for them again, and those that are not there any more get letters.
    const mayLack = wasRestored || view.wasBroken || ('machine' in to && this.viewOf(to).wasBroken) || 'stored' in to;
    if (mayLack) return { mayRepeat, isRight };
    const isThere = (seq: number) => this.#atPlace(to)(view.lines.get(seq)!);
    // A power cut may take the cursor of a hub back, until the hub is asked.
    return { mayRepeat, isRight, passedSeq: Math.min(checkedSeq, cursorSeq(disk, name)), isThere };
  }

  /** @returns whether a destination has an event of a journal now */
  #atPlace(to: Place): (line: SeenLine) => boolean {
    if (!('machine' in to)) return ({ id }) => idsAt(to).has(id);
    this.look(to);
    const { byMark } = this.viewOf(to);
    return ({ mark, seq }) => byMark.get(mark)?.some(({ from }) => from?.[1] === seq) ?? false;
  }

  /** A file is about to be created. */
  creating(journal: MachineJournal, name: string): void {
    const { removals, view, files } = this.#watched.get(journal)!;
    const problem = removals.creating(name) ?? files.creating(name);
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
    if (markedBy(name) === undefined) return;
    this.look(journal);
    const lines = [...view.lines.values()].filter(({ seq }) => seq <= removals.markedSeq && !view.removed.has(seq));
    const covered = snapshotSeq(journal.disk);
    if (lines.some(({ seq, from }) => from !== undefined && seq > covered))
      this.#breaks(`${journal.name} marks ${name}, and forward-sources.json does not have its sources`);
    if (!this.history.wasRestored) this.#checkSettled(journal, lines, `marks ${name}`);
  }

  /** A file is about to be truncated. */
  truncating(journal: MachineJournal): void {
    this.#watched.get(journal)!.removals.truncating();
  }

  /** The sync of a file failed. */
  syncFailed(journal: MachineJournal, name: string): void {
    this.#watched.get(journal)!.files.syncFailed(name);
  }

  /** A service sends a request to a destination: what would be needed after a crash is durable. */
  forwards(machine: Machine, request: Delivered): void {
    if (request.method === 'GET') return;
    for (const journal of machine.journals) this.look(journal);
    const senders = machine.journals.map((journal) => this.#watched.get(journal)!);
    const isIdle = this.isAtRest && /\/forward\/[^/]+\/\d+$/.test(request.target);
    const problem = isIdle ? `${request.method} ${request.target} at rest` : wrongRequest(senders, request);
    if (problem !== undefined) this.#breaks(`${machine.name} sends ${problem}`);
  }

  /** A file was synced, or with an empty name its folder: it is right from now on, also if the power goes. */
  synced(journal: MachineJournal, name: string): void {
    this.look(journal);
    // What a restore changes is known to the oracle a little later.
    if (name.endsWith('.cursor') && !this.history.wasRestored) this.#checkCursors(journal);
    const watched = this.#watched.get(journal)!;
    const { view, sendsTo, heldBack, ackGate } = watched;
    // "Those after it pass": what has a dead letter is waited for by its own reply alone.
    const lacks = (line: SeenLine) => this.#isNotAcknowledged(journal, line, true);
    const held =
      heldBack.look(sendsTo, view.lines.size, isJournalFile(name)) ??
      heldBack.overdue() ??
      (name.startsWith('dead-') ? tooManyLetters(journal.disk, name, journal.machine.config.retainBytes) : undefined) ??
      (isJournalFile(name) ? ackGate.appended(view, lacks) : undefined);
    if (held !== undefined) this.#breaks(`${journal.name} ${held}`);
    const bytes = journal.disk.durableBytes(SNAPSHOT);
    if (name !== '' || bytes === undefined || watched.snapshot?.equals(bytes)) return;
    watched.snapshot = bytes;
    const problem = wrongSnapshot(journal.disk, view);
    if (problem !== undefined) this.#breaks(`${journal.name}: ${problem}`);
  }

  /** A file was replaced, or appended to. */
  written(machine: Machine, path: string, bytes: Buffer): void {
    const clockMs = machine.clock.steadyMs(STEADY_MS);
    const problem = /forward-[^/]*\.state$/.test(path)
      ? this.#paces.written(path, bytes.toString(), clockMs)
      : undefined;
    if (problem !== undefined) this.#breaks(problem);
  }

  /** A file is about to be written to. */
  writing(journal: MachineJournal, name: string): void {
    const isIdle = this.isAtRest && /^events-|\.cursor$/.test(name);
    const problem = isIdle ? `writes to ${name} at rest` : this.#watched.get(journal)!.files.writing(name);
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
  }

  /** A file is about to take the place of another one. */
  renaming(journal: MachineJournal, from: string): void {
    if (from.startsWith('dead-')) this.look(journal); // closed dead letters are about to be removed
    const problem = this.#watched.get(journal)!.files.renaming(from);
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
  }

  /** A journal file is about to be removed: only what a limit asks for, and what its destinations have. */
  removing(journal: MachineJournal, name: string): void {
    if (!isJournalFile(name)) return;
    this.look(journal);
    const { view, removals, sendsTo } = this.#watched.get(journal)!;
    // What was marked was settled then, though a hub that was restored may have said since that it has less.
    const lines = view.linesOf(name).filter(({ seq }) => seq > removals.markedSeq);
    const problem = removals.removing(name, this.history.wasRestored ? [] : sendsTo);
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
    for (const { seq } of view.linesOf(name)) if (!view.removed.has(seq)) view.removed.set(seq, this.#nowMs());
    this.#checkSettled(journal, lines, `removes ${name}`);
  }

  /** Retention is to remove these lines. */
  #checkSettled(journal: MachineJournal, lines: readonly SeenLine[], what: string): void {
    const seq = this.#unsettledAt(journal, lines, (line) => this.#wasThere(line));
    if (seq !== undefined)
      this.#breaks(
        `${journal.name} ${what} with event ${seq}, which is neither at its destination nor in a dead letter`,
      );
  }

  /** What hubs and engines have of the journals that are forwarded to them. */
  checkSources(): void {
    for (const { journal } of this.#watched.values()) this.checkAcknowledged(journal);
    this.nameLost();
    const wrong = wrongAtEngines(this.#watched.values(), this.history);
    if (wrong !== undefined) this.#breaks(wrong);
    for (const { journal, view } of this.#watched.values()) {
      const problem = wrongAtHub(view, this.history);
      if (problem !== undefined) this.#breaks(`${journal.name} has ${problem}`);
    }
  }

  /** Remembers what dead letters name as lost, under the ids of their journals: a folder may be replaced or thrown away. */
  nameLost(): void {
    for (const { journal, sendsTo, view } of this.#watched.values()) {
      const source = sourceOf(journal);
      if (source === undefined) continue;
      if (journal.machine.wasCopied) this.look(journal);
      for (const { to, letters } of sendsTo) {
        if ('received' in to) continue;
        this.history.name(source, letters.named);
        for (const seq of letters.named) this.history.lost.add(view.lines.get(seq)?.id ?? '');
      }
    }
  }

  /** @returns what is not settled yet; undefined once every event is where it was promised to be */
  unsettled(): string | undefined {
    this.checkSources();
    for (const { journal, view } of this.#watched.values()) {
      if (journal.machine.service === undefined) return `${journal.name} does not run`;
      const seq = this.#unsettledAt(journal, view.lines.values());
      if (seq !== undefined)
        return `event ${seq} of ${journal.name} is neither at its destination nor in a dead letter`;
    }
    return this.history.wasRestored ? undefined : this.#notSentAgain();
  }

  /** "A hub that lost events of the last batches asks their journals for them again." What these do not have any more, they name. */
  #notSentAgain(): string | undefined {
    for (const { journal: hub, view, askedFor } of this.#watched.values()) {
      if (askedFor.size === 0) continue;
      const count = new Map<string, number>();
      for (const { from } of view.lines.values()) count.set(`${from}`, (count.get(`${from}`) ?? 0) + 1);
      for (const { journal, view: own, sendsTo } of this.#watched.values()) {
        const named = sendsTo.find(({ to }) => to === hub)?.letters.named;
        for (const { seq } of own.lines.values()) {
          const from = `${sourceOf(journal)},${seq}`;
          if (askedFor.has(from) && count.get(from) === 1 && !(own.removed.has(seq) && named?.has(seq)))
            return `event ${seq} of ${journal.name}, which ${hub.name} has lost, was neither sent again nor named`;
        }
      }
    }
    return undefined;
  }

  /** Everything is settled, and nothing has happened for a while. */
  async checkAtRest(): Promise<void> {
    for (const { journal, view, sendsTo } of this.#watched.values()) {
      this.look(journal);
      for (const { name, to, letters } of sendsTo) {
        const forwarded = { to: name, from: journal.name, view, named: letters.named };
        const problem = 'received' in to ? wrongAtUpstream(to, forwarded, this.history) : undefined;
        if (problem !== undefined) this.#breaks(problem);
      }
      const { config, clock } = journal.machine;
      const names = sendsTo.map(({ name }) => name);
      const folder: Folder = {
        disk: journal.disk,
        view,
        sendsTo: names,
        retainBytes: config.retainBytes,
        isLookedAt: config.deployments === '',
        hasJumped: clock.hasJumped,
      };
      const problem = await wrongAtRest(folder);
      if (problem !== undefined) this.#breaks(`${journal.name} at rest: ${problem}`);
    }
  }

  /** A cursor passes only what its destination has, or a dead letter, and names the event that it is at. */
  #checkCursors(journal: MachineJournal): void {
    const { view, sendsTo } = this.#watched.get(journal)!;
    for (const destination of sendsTo) {
      const cursor = durableCursor(journal.disk, destination.name);
      const isSettled = this.#settledAt(journal, destination);
      // A hub that was restored since has said that it has the event.
      const problem =
        wrongCursor(cursor, destination, view, (line) => isSettled(line) || this.#wasThere(line)) ??
        (this.history.wasRestored || cursor === undefined
          ? undefined
          : forgottenBy(cursor, destination, view, this.history.mayBeTwice));
      if (problem !== undefined) this.#breaks(`the cursor of ${journal.name} for ${destination.name} ${problem}`);
      if (cursor !== undefined && cursor.seq > destination.checkedSeq) {
        destination.letters.passed(journal.disk.bytes(`dead-${destination.name}.jsonl`));
        destination.checkedSeq = cursor.seq;
      }
    }
  }

  /** @returns the first event that is neither at a destination nor in its dead letters */
  #unsettledAt(
    journal: MachineJournal,
    lines: Iterable<SeenLine>,
    isExcused: (line: SeenLine) => boolean = () => false,
  ): number | undefined {
    const checks = this.#watched.get(journal)!.sendsTo.map((destination) => {
      const isSettled = this.#settledAt(journal, destination);
      return (line: SeenLine) => isSettled(line) || isExcused(line);
    });
    for (const line of lines) if (!checks.every((isSettled) => isSettled(line))) return line.seq;
    return undefined;
  }

  /** @returns whether an event of a machine is durable at its destination, or in a durable dead letter */
  #settledAt(journal: MachineJournal, { to, letters: { named } }: Destination): (line: SeenLine) => boolean {
    const { history } = this;
    const { removed } = this.viewOf(journal);
    const isExcused = ({ id }: SeenLine) => history.isLeftOut(to, id);
    const isThere = this.#atPlace(to);
    if (!('machine' in to)) return (line) => isThere(line) || named.has(line.seq) || isExcused(line);
    // "What neither has any more is in the dead letters of the one that sent first."
    if (journal.machine.wasCopied) this.nameLost();
    const source = sourceOf(journal) ?? '';
    const isNamed = ({ seq }: SeenLine) =>
      journal.machine.wasCopied && removed.has(seq) && history.isNamed(source, seq);
    return (line) => named.has(line.seq) || isNamed(line) || isThere(line) || isExcused(line);
  }

  /**
   * "A hub restored from a backup has less than it had. At the next request of a device the hub says what it has": until then the
   * device counts on what it was answered. A removal that had begun when the device heard continues, and the letter comes with the
   * next request: "What neither has any more is in the dead letters".
   */
  #wasThere({ id }: SeenLine): boolean {
    return this.history.rolledBack.has(id);
  }

  #breaks(sentence: string): void {
    this.#broken ??= sentence;
  }
}
