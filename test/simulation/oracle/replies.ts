/** What a reply to a report says about the journal. */

import type { ItemProblem, Reply } from '../../../src/http/message.ts';
import type { JournalView, SeenLine } from './journal-view.ts';
import { differing, type SentEvent } from './sent.ts';

interface Counts {
  readonly recorded: number;
  readonly duplicates?: number;
}

interface Answer {
  readonly status: number;
  /** The positions of the items that a lenient reply calls wrong, from 1. */
  readonly leftOut: ReadonlySet<number>;
  /** How many events it says are recorded, and of these how many were before; undefined if it does not say that. */
  readonly counts: Counts | undefined;
  /** How many were recorded before the request came. */
  readonly known: number;
  /** Events of reports that the service has not answered: a key belongs to the first of them, which may fail yet. */
  readonly open: readonly SentEvent[];
  /** Of the request. */
  readonly body: Buffer;
  /** When the service got it. */
  readonly arrivedMs: number;
  /** Whether a line is not where the reply has to wait for. */
  readonly lacks: (line: SeenLine) => boolean;
}

/** @returns the positions of the items that a lenient reply calls wrong, from 1 */
export function leftOutBy(reply: Reply): Set<number> {
  const { errors = [] } = reply.kind === 'body' && reply.status === 207 ? JSON.parse(reply.body) : {};
  return new Set(errors.map(({ item }: ItemProblem) => item));
}

/** @returns what a reply says of the numbers of events */
export function countsIn(reply: Reply, isBatch: boolean): Counts | undefined {
  if (reply.kind !== 'body' || reply.status > 207) return undefined;
  if (isBatch) return JSON.parse(reply.body);
  return { recorded: 1, duplicates: reply.headers?.includes('Idempotent-Replayed') ? 1 : 0 };
}

/** "`duplicates` counts those that were recorded before"; of an event in flight either reply is right. */
function wrongCounts(events: readonly SentEvent[], { counts, leftOut, known }: Answer): string | undefined {
  if (counts === undefined) return undefined;
  const { recorded, duplicates = 0 } = counts;
  if (recorded !== events.length - leftOut.size) return `that ${recorded} of ${events.length} events are recorded`;
  const keyed = events.filter(({ key }) => key !== undefined).length;
  const isWrong = duplicates < known || duplicates > keyed;
  return isWrong ? `that ${duplicates} events were recorded before, and ${known} were` : undefined;
}

/** @param view has what is durable now @returns what is wrong, if anything is */
export function wrongReply(view: JournalView, events: readonly SentEvent[], answer: Answer): string | undefined {
  const { status, leftOut, open } = answer;
  // Of a batch, an item is wrong.
  const isConflict = status === 422 || (status === 400 && events.length > 1);
  const others = isConflict ? [...events, ...open] : open;
  const isWrong = (event: SentEvent) => event.members['type'] === undefined || isOfAnother(view, others, event);
  if (isConflict && !events.some(isWrong)) return `for ${events[0]!.mark}, and its keys belong to no other event`;
  for (const [index, event] of events.entries()) {
    const isLeftOut = leftOut.has(index + 1);
    if (isLeftOut && !isWrong(event)) return `for ${event.mark}, and leaves it out`;
    const isRecorded = status === 200 || (status === 207 && !isLeftOut);
    // An item with a key may have been recorded before, by a crash in the middle of a batch as well.
    const mayBeThere = status === 400 && event.key !== undefined;
    const problem = isRecorded ? notRecorded(view, event, answer) : mayBeThere ? undefined : recorded(view, event);
    if (problem !== undefined) return `for ${event.mark}, ${problem}`;
  }
  const isRight = status === 200 || status === 207 || isConflict;
  return isRight ? (wrongCounts(events, answer) ?? wrongOrder(view, events)) : 'to a report';
}

/** "In the order of the request and with consecutive `seq`": those without a key are new, and so are others between them, or known. */
function wrongOrder({ byMark }: JournalView, events: readonly SentEvent[]): string | undefined {
  let before: { readonly index: number; readonly seq: number } | undefined;
  for (const [index, { key, mark }] of events.entries()) {
    const seq = key === undefined ? byMark.get(mark)?.at(-1)?.seq : undefined;
    if (seq === undefined) continue;
    if (before !== undefined && (seq <= before.seq || seq - before.seq > index - before.index))
      return `for ${mark}, which is event ${seq} and follows event ${before.seq}`;
    before = { index, seq };
  }
  return undefined;
}

/** Whether a key belongs to another event: to a line, or to one of these. */
function isOfAnother({ byKey }: JournalView, others: readonly SentEvent[], { key = '', mark }: SentEvent): boolean {
  const withKey = [...(byKey.get(key) ?? []), ...others.filter((one) => one.key === key)];
  return withKey.some((one) => one.mark !== mark);
}

/** "200 is sent only when the line would survive a power cut"; of a key that is known, its line is there. */
function notRecorded(view: JournalView, event: SentEvent, { body, arrivedMs, lacks }: Answer): string | undefined {
  const { byMark, acknowledged, removed } = view;
  const line = byMark.get(event.mark)?.at(-1);
  if (line === undefined) return 'which is not durable';
  const member = differing(line, event, body);
  if (member !== undefined) return `whose ${member} is not as it was sent`;
  if (arrivedMs > (removed.get(line.seq) ?? Number.POSITIVE_INFINITY) && !view.isThere(line.seq))
    return 'whose line retention had removed before the request came';
  if (lacks(line)) return `which is event ${line.seq} and not at the destination of --ack`;
  acknowledged.add(line.seq);
  return undefined;
}

/** "Another 4xx: not recorded". */
function recorded({ byMark, removed }: JournalView, { mark }: SentEvent): string | undefined {
  const line = byMark.get(mark)?.find(({ seq }) => !removed.has(seq));
  return line && `which is event ${line.seq}`;
}
