/** Each request gets a reply, also if the service stops. */

import type { MachineJournal } from '../machine.ts';
import type { Delivered } from '../network.ts';
import type { Incarnation } from '../world.ts';
import type { JournalView } from './journal-view.ts';
import { eventsIn, type SentEvent } from './sent.ts';

/** No reply takes longer, also not that of a long poll. */
const REPLY_MS = 60_000;
/** No reply to what is to be recorded takes longer. */
const RECORDED_MS = 25_000;

/** The requests that a service has and has not answered. */
export class Unanswered {
  readonly #journal: MachineJournal;
  /** Virtual time. */
  readonly #nowMs: () => number;
  readonly #sinceMs = new Map<Delivered, number>();
  /** Has them. */
  #process: Incarnation | undefined;
  /** Of those that came with keys: the seqs of their events that had been recorded, one for each. */
  readonly #known = new WeakMap<Delivered, readonly number[]>();

  constructor(journal: MachineJournal, nowMs: () => number) {
    this.#journal = journal;
    this.#nowMs = nowMs;
  }

  received(request: Delivered, { byMark, acknowledged, removed }: JournalView): void {
    this.#sinceMs.set(request, this.#nowMs());
    this.#process = this.#journal.machine.process;
    const knownSeq = ({ key, mark }: SentEvent) => {
      const lines = key === undefined ? [] : (byMark.get(mark) ?? []);
      return lines.find(({ seq }) => acknowledged.has(seq) && !removed.has(seq))?.seq ?? [];
    };
    this.#known.set(request, eventsIn(request)?.flatMap(knownSeq) ?? []);
  }

  /** @returns how many events of a request had been recorded before it came; retention may have removed others meanwhile */
  knownOf(request: Delivered, { removed }: JournalView): number {
    return this.#known.get(request)?.filter((seq) => !removed.has(seq)).length ?? 0;
  }

  replied(request: Delivered): void {
    this.#sinceMs.delete(request);
  }

  starts(): void {
    this.#sinceMs.clear();
  }

  /** Whether one of them may record events. */
  get hasReports(): boolean {
    for (const { method } of this.#sinceMs.keys()) if (method !== 'GET') return true;
    return false;
  }

  /** @returns the events of their reports */
  events(): SentEvent[] {
    return [...this.#sinceMs.keys()].flatMap((request) => eventsIn(request) ?? []);
  }

  /** @returns what is wrong with a service that has ended by itself */
  ended(): string | undefined {
    const [first] = this.#sinceMs.keys();
    return first && `ended without a reply to ${first.method} ${first.target}`;
  }

  /** @returns what is wrong if one waits for too long */
  overdue(): string | undefined {
    const { slowMs } = this.#journal.machine.disk;
    if (!this.#process?.isAlive) return undefined;
    for (const [{ method, target }, sinceMs] of this.#sinceMs)
      if (this.#nowMs() - sinceMs > (method === 'GET' ? REPLY_MS : RECORDED_MS) && slowMs < sinceMs)
        return `no reply to ${method} ${target} for ${this.#nowMs() - sinceMs} ms`;
    return undefined;
  }
}
