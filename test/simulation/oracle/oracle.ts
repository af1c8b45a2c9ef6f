/** What is promised, checked at each step that can break it. It looks only at the durable bytes of disks, with a parser of its own. */

import type { Reply } from '../../../src/http/message.ts';
import type { Machine, MachineJournal } from '../machine.ts';
import type { Delivered } from '../network.ts';
import type { Upstream } from '../upstream.ts';
import { type Folder, wrongAtRest } from './at-rest.ts';
import { cursorIn, type SeenCursor } from './cursor.ts';
import { JournalView, type SeenLine } from './journal-view.ts';
import { LettersView } from './letters-view.ts';
import { Readings } from './readings.ts';
import { Removals } from './removals.ts';
import { differing, eventsIn, type SentEvent } from './sent.ts';

export type Destinations = ReadonlyMap<string, MachineJournal | Upstream>;

/** What the oracle knows of one destination of a journal. */
interface Destination {
  readonly name: string;
  readonly to: MachineJournal | Upstream;
  readonly letters: LettersView;
  /** Up to here its cursor was right. */
  checkedSeq: number;
}

export interface Watched {
  readonly journal: MachineJournal;
  /** What gets every event. */
  readonly sendsTo: readonly Destination[];
  readonly view: JournalView;
  readonly removals: Removals;
}

export class Oracle {
  readonly #nowMs: () => number;
  readonly #watched = new Map<MachineJournal, Watched>();
  /** By the id of a journal. */
  readonly #sources = new Map<string, MachineJournal>();
  readonly #readings = new Readings();
  #broken: string | undefined;

  /** @param nowMs virtual time */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get broken(): string | undefined {
    return this.#broken;
  }

  watch(journal: MachineJournal, destinations: Destinations): void {
    const sendsTo = [...destinations].map(([name, to]) => ({ name, to, letters: new LettersView(), checkedSeq: 0 }));
    this.#watched.set(journal, {
      journal,
      sendsTo,
      view: new JournalView(),
      removals: new Removals(journal, this.#nowMs),
    });
  }

  /** The links on which events are forwarded, as faults name them: `d0 to hub`. */
  links(): string[] {
    const links = [...this.#watched.values()].flatMap(({ journal, sendsTo }) =>
      sendsTo.map(({ to }) => `${journal.machine.name} to ${'received' in to ? to.name : to.machine.name}`),
    );
    return [...new Set(links)];
  }

  destinationsOf(journal: MachineJournal): string[] {
    return this.#watched.get(journal)!.sendsTo.map(({ name }) => name);
  }

  viewOf(journal: MachineJournal): JournalView {
    return this.#watched.get(journal)!.view;
  }

  /** A request arrived. */
  received(machine: Machine, request: Delivered): void {
    const journal = machine.journalFor(request.target);
    if (journal !== undefined) this.#readings.received(journal, this.viewOf(journal), request);
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

  /** A reader found something wrong. */
  read(journal: MachineJournal, problem: string): void {
    this.#breaks(`${journal.name} ${problem}`);
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
    if (reply.kind === 'error' && reply.error.includes('it is damaged'))
      this.#breaks(`${journal.name} can not be opened: ${reply.error}`);
    const { status } = reply.kind === 'cut' ? reply.reply : reply;
    const events = status === 503 || status === 408 ? undefined : eventsIn(request);
    if (events === undefined) return;
    this.look(journal);
    for (const event of events) {
      const problem =
        status === 200 ? this.#notRecorded(journal, request, event, arrivedMs) : this.#recorded(journal, event);
      if (problem !== undefined) this.#breaks(`${journal.name} answered ${status} for ${event.mark}, ${problem}`);
    }
    if (status !== 200 && status !== 422) this.#breaks(`${journal.name} answered ${status} to a report`);
  }

  /** "200 is sent only when the line would survive a power cut"; of a key that is known, its line is there. */
  #notRecorded(journal: MachineJournal, { body }: Delivered, event: SentEvent, arrivedMs: number): string | undefined {
    const { byMark, acknowledged, removed } = this.viewOf(journal);
    const line = byMark.get(event.mark)?.at(-1);
    if (line === undefined) return 'which is not durable';
    const member = differing(line, event, body);
    if (member !== undefined) return `whose ${member} is not as it was sent`;
    if (arrivedMs > (removed.get(line.seq) ?? Number.POSITIVE_INFINITY))
      return 'whose line retention had removed before the request came';
    acknowledged.add(line.seq);
    return undefined;
  }

  /** "Another 4xx: not recorded", and a key is refused only for an event that it does not belong to. */
  #recorded(journal: MachineJournal, { mark, key }: SentEvent): string | undefined {
    const { byMark, byKey, removed } = this.viewOf(journal);
    const line = byMark.get(mark)?.find(({ seq }) => !removed.has(seq));
    if (line !== undefined) return `which is event ${line.seq}`;
    if (key !== undefined && byKey.get(key) === undefined) return 'whose key belongs to no event';
    return undefined;
  }

  /** What was answered with 200 is there, or was removed by retention, and nothing is missing between two events. */
  checkAcknowledged(journal: MachineJournal): void {
    this.look(journal);
    const problem = this.viewOf(journal).lacks(journal.disk);
    if (problem !== undefined) this.#breaks(`${journal.name}: ${problem}`);
    this.#checkCursors(journal);
  }

  /** Reads what is new in the durable bytes of a journal and of its dead letters. */
  look(journal: MachineJournal): void {
    const { disk } = journal;
    const { view, sendsTo } = this.#watched.get(journal)!;
    const problems = [
      view.refresh(disk),
      ...sendsTo.map(({ name, letters }) => letters.refresh(disk.durableBytes(`dead-${name}.jsonl`))),
    ];
    const problem = problems.find((one) => one !== undefined);
    if (problem !== undefined) this.#breaks(`${journal.name}: ${problem}`);
  }

  /** A file is about to be created. */
  creating(journal: MachineJournal, name: string): void {
    const problem = this.#watched.get(journal)!.removals.creating(name);
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
  }

  /** A file is about to be truncated. */
  truncating(journal: MachineJournal): void {
    this.#watched.get(journal)!.removals.truncating();
  }

  /** A journal file is about to be removed: only what a limit asks for, and what its destinations have. */
  removing(journal: MachineJournal, name: string): void {
    if (!/^events-\d{20}\.jsonl$/.test(name)) return;
    this.look(journal);
    const { view, sendsTo, removals } = this.#watched.get(journal)!;
    const problem = removals.removing(name);
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
    for (const { seq } of view.linesOf(name)) if (!view.removed.has(seq)) view.removed.set(seq, this.#nowMs());
    const seq = this.#unsettledAt(sendsTo, view.linesOf(name));
    if (seq !== undefined) {
      this.#breaks(
        `${journal.name} removes ${name} with event ${seq}, which is neither at its destination nor in a dead letter`,
      );
    }
  }

  /**
   * At a hub: each source without repeat or swap, each event as it is at its source, and without a gap but for events that its dead
   * letters name as lost.
   */
  checkSources(): void {
    for (const { journal } of this.#watched.values()) {
      this.checkAcknowledged(journal);
      const source = journal.disk.durableBytes('.journal-id')?.toString().trim();
      if (source !== undefined) this.#sources.set(source, journal);
    }
    for (const { journal, view } of this.#watched.values()) {
      const next = new Map<string, number>();
      for (const line of [...view.lines.values()].sort((a, b) => a.seq - b.seq)) {
        if (line.from === undefined) continue;
        const [source, seq] = line.from;
        const problem = this.#wrongFrom(journal, line, next.get(source) ?? 1);
        if (problem !== undefined) {
          this.#breaks(`event ${line.seq} of ${journal.name} is ${problem}`);
          return;
        }
        next.set(source, seq + 1);
      }
    }
  }

  #wrongFrom(hub: MachineJournal, line: SeenLine, nextSeq: number): string | undefined {
    const [source, seq] = line.from!;
    const journal = this.#sources.get(source);
    if (journal === undefined) return `of the journal ${source}, which nobody has`;
    const { view, sendsTo } = this.#watched.get(journal)!;
    const lost = sendsTo.find(({ to }) => to === hub)?.letters.named;
    let expected = nextSeq;
    while (expected < seq && lost?.has(expected)) expected += 1;
    if (seq !== expected) return `${seq} of ${journal.name}, whose next one is ${expected}`;
    const { id, time, members } = view.lines.get(seq) ?? {};
    if (id === line.id && time === line.recorded && members === line.members) return undefined;
    return `${seq} of ${journal.name}, where it is another one`;
  }

  /** @returns what is not settled yet; undefined once every event is where it was promised to be */
  unsettled(): string | undefined {
    this.checkSources();
    for (const { journal, view, sendsTo } of this.#watched.values()) {
      if (journal.machine.service === undefined) return `${journal.name} does not run`;
      const seq = this.#unsettledAt(sendsTo, view.lines.values());
      if (seq !== undefined)
        return `event ${seq} of ${journal.name} is neither at its destination nor in a dead letter`;
    }
    return undefined;
  }

  /**
   * A plain upstream has only what journals have, and what it has twice is named: as in doubt, or as removed if retention removed it
   * while it was on its way.
   */
  #checkUpstreams(): void {
    const ids = new Set<string>();
    for (const { view } of this.#watched.values()) for (const { id } of view.lines.values()) ids.add(id);
    for (const { journal, view, sendsTo } of this.#watched.values()) {
      for (const { name, to, letters } of sendsTo) {
        if (!('received' in to)) continue;
        for (const id of to.received.keys()) if (!ids.has(id)) this.#breaks(`${name} has ${id}, which no journal has`);
        for (const { id, seq, mark } of view.lines.values()) {
          const received = to.received.get(id) ?? { mark, count: 0 };
          const event = `event ${seq} of ${journal.name}`;
          if (received.mark !== mark) this.#breaks(`${name} has ${received.mark} as ${event}`);
          if (received.count > 1 && !letters.named.has(seq))
            this.#breaks(`${name} has ${event} ${received.count} times, and no dead letter says so`);
        }
      }
    }
  }

  /** Everything is settled, and nothing has happened for a while. */
  async checkAtRest(): Promise<void> {
    this.#checkUpstreams();
    for (const { journal, view, sendsTo } of this.#watched.values()) {
      this.look(journal);
      const { retainBytes } = journal.machine.config;
      const folder: Folder = { disk: journal.disk, view, sendsTo: sendsTo.map(({ name }) => name), retainBytes };
      const problem = await wrongAtRest(folder);
      if (problem !== undefined) this.#breaks(`${journal.name} at rest: ${problem}`);
    }
  }

  /** A cursor passes only what its destination has, or a dead letter, and names the event that it is at. */
  #checkCursors(journal: MachineJournal): void {
    const { view, sendsTo } = this.#watched.get(journal)!;
    for (const destination of sendsTo) {
      const bytes = journal.disk.durableBytes(`forward-${destination.name}.cursor`);
      const cursor = bytes && cursorIn(bytes);
      if (cursor === undefined || cursor.seq <= destination.checkedSeq) continue;
      const problem = this.#wrongCursor(cursor, destination, view);
      if (problem !== undefined) this.#breaks(`the cursor of ${journal.name} for ${destination.name} ${problem}`);
      destination.checkedSeq = cursor.seq;
    }
  }

  #wrongCursor(cursor: SeenCursor, destination: Destination, { lines }: JournalView): string | undefined {
    const isSettled = this.#settledAt(destination);
    for (let seq = destination.checkedSeq + 1; seq <= cursor.seq; seq += 1) {
      const line = lines.get(seq);
      if (line === undefined) return `passes event ${seq}, which is not durable`;
      if (!isSettled(line)) return `passes event ${seq}, which is neither there nor in a dead letter`;
    }
    const isSame = cursor.id === null || cursor.id === lines.get(cursor.seq)!.id;
    return isSame ? undefined : `has another id for event ${cursor.seq}`;
  }

  /** @returns the first event that is neither at a destination nor in its dead letters */
  #unsettledAt(sendsTo: readonly Destination[], lines: Iterable<SeenLine>): number | undefined {
    const checks = sendsTo.map((destination) => this.#settledAt(destination));
    for (const line of lines) if (!checks.every((isSettled) => isSettled(line))) return line.seq;
    return undefined;
  }

  /** @returns whether an event of a machine is durable at its destination, or in a durable dead letter */
  #settledAt({ to, letters: { named } }: Destination): (line: SeenLine) => boolean {
    if ('received' in to) return ({ id, seq }) => to.received.has(id) || named.has(seq);
    this.look(to);
    const { byMark } = this.viewOf(to);
    return ({ mark, seq }) => named.has(seq) || (byMark.get(mark)?.some(({ from }) => from?.[1] === seq) ?? false);
  }

  #breaks(sentence: string): void {
    this.#broken ??= sentence;
  }
}
