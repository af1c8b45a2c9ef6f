/** What a reply to a report says about the journal. */

import type { JournalView, SeenLine } from './journal-view.ts';
import { differing, type SentEvent } from './sent.ts';

interface Answer {
  readonly status: number;
  /** Of the request. */
  readonly body: Buffer;
  /** When the service got it. */
  readonly arrivedMs: number;
  /** Whether a line is not where the reply has to wait for. */
  readonly lacks: (line: SeenLine) => boolean;
}

/** @param view has what is durable now @returns what is wrong, if anything is */
export function wrongReply(view: JournalView, events: readonly SentEvent[], answer: Answer): string | undefined {
  const { status } = answer;
  // Of a batch, an item is wrong.
  const isConflict = status === 422 || (status === 400 && events.length > 1);
  if (isConflict && !events.some((event) => isOfAnother(view, event)))
    return `for ${events[0]!.mark}, and its keys belong to no other event`;
  for (const event of events) {
    const problem = status === 200 ? notRecorded(view, event, answer) : recorded(view, event);
    if (problem !== undefined) return `for ${event.mark}, ${problem}`;
  }
  return status === 200 || isConflict ? undefined : 'to a report';
}

/** Whether a key belongs to another event. */
function isOfAnother({ byKey }: JournalView, { key = '', mark }: SentEvent): boolean {
  return byKey.get(key)?.some((line) => line.mark !== mark) ?? false;
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
