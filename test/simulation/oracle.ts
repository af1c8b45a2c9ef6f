/** What is promised, checked at each step that can break it. It looks only at the durable bytes of disks, with a parser of its own. */

import type { Reply } from '../../src/http/message.ts';
import { JournalView, type SeenLine } from './journal-view.ts';
import type { Machine, MachineJournal } from './machine.ts';
import type { Delivered } from './network.ts';
import { Removals } from './removals.ts';
import type { Upstream } from './upstream.ts';

export type Destinations = ReadonlyMap<string, MachineJournal | Upstream>;

export interface Watched {
  readonly journal: MachineJournal;
  /** What gets every event, by the names of its destinations. */
  readonly sendsTo: Destinations;
  readonly view: JournalView;
  readonly removals: Removals;
}

export class Oracle {
  readonly #watched = new Map<MachineJournal, Watched>();
  #broken: string | undefined;

  get broken(): string | undefined {
    return this.#broken;
  }

  watch(journal: MachineJournal, sendsTo: Destinations): void {
    this.#watched.set(journal, { journal, sendsTo, view: new JournalView(), removals: new Removals(journal) });
  }

  /** The links on which events are forwarded, as faults name them: `d0 to hub`. */
  links(): string[] {
    const links = [...this.#watched.values()].flatMap(({ journal, sendsTo }) =>
      [...sendsTo.values()].map((to) => `${journal.machine.name} to ${'ids' in to ? to.name : to.machine.name}`),
    );
    return [...new Set(links)];
  }

  viewOf(journal: MachineJournal): JournalView {
    return this.#watched.get(journal)!.view;
  }

  /** "200 is sent only when the line would survive a power cut." */
  replied(machine: Machine, { method, target, body }: Delivered, reply: Reply): void {
    const journal = machine.journalFor(target);
    if (journal === undefined || method !== 'POST' || !target.includes('/report_asset_')) return;
    if (reply.kind === 'error' && reply.error.includes('it is damaged'))
      this.#breaks(`${journal.name} can not be opened: ${reply.error}`);
    if (reply.status !== 200) return;
    this.look(journal);
    const { byMark, acknowledged } = this.viewOf(journal);
    for (const mark of marksIn(body)) {
      const line = byMark.get(mark)?.at(-1);
      if (line === undefined) this.#breaks(`${journal.name} answered 200 for ${mark}, which is not durable`);
      else acknowledged.add(line.seq);
    }
  }

  /** What was answered with 200 is there, or was removed by retention. */
  checkAcknowledged(journal: MachineJournal): void {
    this.look(journal);
    const seq = this.viewOf(journal).lost(journal.disk);
    if (seq !== undefined) this.#breaks(`event ${seq} of ${journal.name} was answered with 200 and is lost`);
  }

  /** Reads what is new in the durable bytes of a journal. */
  look(journal: MachineJournal): void {
    const problem = this.viewOf(journal).refresh(journal.disk);
    if (problem !== undefined) this.#breaks(`${journal.name}: ${problem}`);
  }

  /** A file is about to be created. */
  creating(journal: MachineJournal, name: string): void {
    const problem = this.#watched.get(journal)!.removals.creating(name);
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
  }

  /** A journal file is about to be removed: only what a limit asks for, and what its destinations have. */
  removing(journal: MachineJournal, name: string): void {
    if (!/^events-\d{20}\.jsonl$/.test(name)) return;
    this.look(journal);
    const { view, removals } = this.#watched.get(journal)!;
    const problem = removals.removing(name);
    if (problem !== undefined) this.#breaks(`${journal.name} ${problem}`);
    for (const { seq } of view.linesOf(name)) view.removed.add(seq);
    const seq = this.#unsettledAt(journal, view.linesOf(name));
    if (seq !== undefined) {
      this.#breaks(
        `${journal.name} removes ${name} with event ${seq}, which is neither at its destination nor in a dead letter`,
      );
    }
  }

  /** At a hub: each source without repeat or swap, and without a gap but for events that its dead letters name as lost. */
  checkSources(): void {
    const lost = new Map<string, Set<number>>();
    for (const { journal, sendsTo } of this.#watched.values()) {
      const names = [...sendsTo].filter(([, to]) => !('ids' in to)).map(([name]) => `dead-${name}.jsonl`);
      for (const name of names) lost.set(journal.name, deadIn(journal.disk.durableBytes(name)));
    }
    for (const { journal, view } of this.#watched.values()) {
      this.checkAcknowledged(journal);
      const next = new Map<string, number>();
      for (const { from, seq, mark } of [...view.lines.values()].sort((a, b) => a.seq - b.seq)) {
        if (from === undefined) continue;
        let expected = next.get(from[0]) ?? 1;
        const named = lost.get(mark.split('-')[2] ?? '');
        while (expected < from[1] && named?.has(expected)) expected += 1;
        if (from[1] !== expected) {
          this.#breaks(`event ${seq} of ${journal.name} is ${from[1]} of a source whose next one is ${expected}`);
          return;
        }
        next.set(from[0], expected + 1);
      }
    }
  }

  /** @returns what is not settled yet; undefined once every event is where it was promised to be */
  unsettled(): string | undefined {
    this.checkSources();
    for (const { journal, view } of this.#watched.values()) {
      if (journal.machine.service === undefined) return `${journal.machine.name} does not run`;
      const seq = this.#unsettledAt(journal, view.lines.values());
      if (seq !== undefined)
        return `event ${seq} of ${journal.name} is neither at its destination nor in a dead letter`;
    }
    return undefined;
  }

  /** @returns the first event that is neither at a destination nor in its dead letters */
  #unsettledAt(journal: MachineJournal, lines: Iterable<SeenLine>): number | undefined {
    const { sendsTo } = this.#watched.get(journal)!;
    const checks = [...sendsTo].map(([name, to]) => this.#settledAt(journal, name, to));
    for (const line of lines) if (!checks.every((isSettled) => isSettled(line))) return line.seq;
    return undefined;
  }

  /** @returns whether an event of a journal is durable at its destination, or in a durable dead letter */
  #settledAt(journal: MachineJournal, name: string, to: MachineJournal | Upstream): (line: SeenLine) => boolean {
    const dead = deadIn(journal.disk.durableBytes(`dead-${name}.jsonl`));
    if ('ids' in to) return ({ id, seq }) => to.ids.has(id) || dead.has(seq);
    this.look(to);
    const { byMark } = this.viewOf(to);
    return ({ mark, seq }) => dead.has(seq) || (byMark.get(mark)?.some(({ from }) => from?.[1] === seq) ?? false);
  }

  #breaks(sentence: string): void {
    this.#broken ??= sentence;
  }
}

function marksIn(body: Buffer): string[] {
  const value = JSON.parse(body.toString());
  return (Array.isArray(value) ? value : [value]).map(({ partition }) => partition);
}

/** The seqs of the events that dead letters have or name. */
function deadIn(bytes: Buffer | undefined): Set<number> {
  const seqs = new Set<number>();
  for (const text of bytes?.toString().split('\n') ?? []) {
    if (!text.endsWith('}')) continue; // torn, or the end
    const { line, first = line?.seq, last = first } = JSON.parse(text);
    for (let seq = first; seq <= last; seq += 1) seqs.add(seq);
  }
  return seqs;
}
