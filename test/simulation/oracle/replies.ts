/** What a reply to a report says about the journal, and that each request gets one, also if the service stops. */

import type { CutReply, ItemProblem, Reply } from '../../../src/http/message.ts';
import type { Delivered } from '../../world/network.ts';
import type { Incarnation } from '../../world/time.ts';
import type { MachineJournal } from '../machine.ts';
import type { JournalView, SeenLine } from './journal-view.ts';
import { differing, eventsIn, type SentEvent } from './sent.ts';

/** No reply takes longer, also not that of a long poll, and none to what is to be recorded. */
const REPLY_MS = { GET: 60_000, other: 25_000 };

/** What was answered before, and whose disk has had no trouble since, is written by then, or taken back. */
const WRITTEN_MS = 5_000;

export class Unanswered {
  readonly #journal: MachineJournal;
  /** Virtual time. */
  readonly #nowMs: () => number;
  /** When each request came, and the process that got it. */
  readonly #waiting = new Map<Delivered, { readonly sinceMs: number; readonly process: Incarnation | undefined }>();
  /** Batches that got 503: the marks of the events that no other request has, and when. */
  #unsure: { readonly marks: readonly string[]; readonly atMs: number }[] = [];

  constructor(journal: MachineJournal, nowMs: () => number) {
    this.#journal = journal;
    this.#nowMs = nowMs;
  }

  received(request: Delivered): void {
    this.#waiting.set(request, { sinceMs: this.#nowMs(), process: this.#journal.machine.process });
  }

  replied(request: Delivered, reply: Reply): void {
    this.#waiting.delete(request);
    const events = sentOf(reply).status === 503 ? (eventsIn(request) ?? []) : [];
    const marks = events.flatMap(({ key, mark }) => (key === undefined ? mark : []));
    if (marks.length > 1) this.#unsure.push({ marks, atMs: this.#nowMs() });
  }

  starts(): void {
    this.#waiting.clear();
    this.#unsure = [];
  }

  /** @returns the events of the reports that wait */
  events(): SentEvent[] {
    return [...this.#waiting.keys()].flatMap((request) => eventsIn(request) ?? []);
  }

  /** @returns what is wrong with a service that has ended by itself */
  ended(): string | undefined {
    const [first] = this.#waiting.keys();
    return first && `ended without a reply to ${first.method} ${first.target}`;
  }

  /** "The service records a batch whole or not at all, except after a crash." @returns what is wrong with one that got 503 */
  split({ byMark }: JournalView): string | undefined {
    const { disk, config } = this.#journal.machine;
    const writtenMs = this.#nowMs() - WRITTEN_MS;
    // A hosted journal that has failed is opened again by the same process.
    if (config.deployments !== '' || Math.max(disk.troubledMs, disk.slowMs) > writtenMs) return undefined;
    const isThere = (mark: string) => byMark.of(mark).length > 0;
    const written = this.#unsure.filter(({ atMs }) => atMs < writtenMs);
    this.#unsure = this.#unsure.filter(({ atMs }) => atMs >= writtenMs);
    const half = written.find(({ marks }) => marks.some(isThere) && !marks.every(isThere));
    return half && `has ${half.marks.find(isThere)} of a batch that got 503, and not all of it`;
  }

  /** @returns what is wrong if one waits for too long */
  overdue(): string | undefined {
    const { slowMs } = this.#journal.machine.disk;
    for (const [{ method, target }, { sinceMs, process }] of this.#waiting) {
      const waitMs = this.#nowMs() - sinceMs;
      if (process?.isAlive && waitMs > REPLY_MS[method === 'GET' ? 'GET' : 'other'] && slowMs < sinceMs)
        return `no reply to ${method} ${target} for ${waitMs} ms`;
    }
    return undefined;
  }
}

interface Answer {
  readonly reply: Reply;
  readonly request: Delivered;
  /** Events of reports that the service has not answered: a key belongs to the first of them, which may fail yet. */
  readonly open: readonly SentEvent[];
  /** When the service got it. */
  readonly arrivedMs: number;
  /** Whether a line is not where the reply has to wait for. */
  readonly lacks: (line: SeenLine) => boolean;
}

/** @param view has what is durable now @returns what is wrong with a reply to a report, if anything is */
export function wrongReply(view: JournalView, answer: Answer): string | undefined {
  const { reply, request, open } = answer;
  const { status } = sentOf(reply);
  // Nothing is known of what a reply says may have been recorded.
  const events = status === 503 || status === 408 ? undefined : eventsIn(request);
  if (events === undefined) return undefined;
  // Of a batch, an item is wrong.
  const isConflict = status === 422 || (status === 400 && events.length > 1);
  const others = isConflict ? [...events, ...open] : open;
  const isWrong = (event: SentEvent) => event.members['type'] === undefined || isOfAnother(view, others, event);
  const answered = `answered ${status}`;
  if (isConflict && !events.some(isWrong))
    return `${answered} for ${events[0]!.mark}, and its keys belong to no other event`;
  const leftOut = leftOutBy(reply);
  for (const [index, event] of events.entries()) {
    const isLeftOut = leftOut.has(index + 1);
    if (isLeftOut && !isWrong(event)) return `${answered} for ${event.mark}, and leaves it out`;
    const isRecorded = status === 200 || (status === 207 && !isLeftOut);
    // An item with a key may have been recorded before, by a crash in the middle of a batch as well.
    const mayBeThere = status === 400 && event.key !== undefined;
    const problem = isRecorded ? notRecorded(view, event, answer) : mayBeThere ? undefined : recorded(view, event);
    if (problem !== undefined) return `${answered} for ${event.mark}, ${problem}`;
  }
  if (status !== 200 && status !== 207 && !isConflict) return `${answered} to a report`;
  const problem = wrongOrder(view, events);
  return problem && `${answered} ${problem}`;
}

/** @returns what is sent before a connection is cut */
export function sentOf(reply: Reply): Exclude<Reply, CutReply> {
  return reply.kind === 'cut' ? reply.reply : reply;
}

/** @returns the positions of the items that a lenient reply calls wrong, from 1 */
function leftOutBy(reply: Reply): Set<number> {
  const { errors = [] } = reply.kind === 'body' && reply.status === 207 ? JSON.parse(reply.body) : {};
  return new Set(errors.map(({ item }: ItemProblem) => item));
}

/** "In the order of the request and with consecutive `seq`": those without a key are new, and so are others between them, or known. */
function wrongOrder({ byMark }: JournalView, events: readonly SentEvent[]): string | undefined {
  let before: { readonly index: number; readonly seq: number } | undefined;
  for (const [index, { key, mark }] of events.entries()) {
    const seq = key === undefined ? byMark.of(mark).at(-1)?.seq : undefined;
    if (seq === undefined) continue;
    if (before !== undefined && (seq <= before.seq || seq - before.seq > index - before.index))
      return `for ${mark}, which is event ${seq} and follows event ${before.seq}`;
    before = { index, seq };
  }
  return undefined;
}

/** Whether a key belongs to another event: to a line, or to one of these. */
function isOfAnother({ byKey }: JournalView, others: readonly SentEvent[], { key = '', mark }: SentEvent): boolean {
  const withKey = [...byKey.of(key), ...others.filter((one) => one.key === key)];
  return withKey.some((one) => one.mark !== mark);
}

/** "200 is sent only when the line would survive a power cut"; of a key that is known, its line is there. */
function notRecorded(view: JournalView, event: SentEvent, { request, arrivedMs, lacks }: Answer): string | undefined {
  const { byMark, acknowledged, removed } = view;
  // A restored journal has again what retention had removed, and not what its client recorded then a second time.
  const lines = byMark.of(event.mark);
  const line = lines.findLast(({ seq }) => view.isThere(seq)) ?? lines.at(-1);
  if (line === undefined) return 'which is not durable';
  const member = differing(line, event, request.body);
  if (member !== undefined) return `whose ${member} is not as it was sent`;
  if (arrivedMs > (removed.get(line.seq) ?? Number.POSITIVE_INFINITY) && !view.isThere(line.seq))
    return 'whose line retention had removed before the request came';
  if (lacks(line)) return `which is event ${line.seq} and not at the destination of --ack`;
  acknowledged.add(line.seq);
  return undefined;
}

/** "Another 4xx: not recorded". */
function recorded({ byMark, removed }: JournalView, { mark }: SentEvent): string | undefined {
  const line = byMark.of(mark).find(({ seq }) => !removed.has(seq));
  return line && `which is event ${line.seq}`;
}
