/**
 * What a hub has of another journal, and what it does with lines of it. A hub that answers a request twice in the same way is what
 * makes forwarding exactly once: a request may be repeated, cut or overtaken, and each event is recorded one time.
 */

import type { Received } from './received.ts';

/** The last event of a source that the hub has: `{ seq: 7, id: '01a1fb95-…' }`. */
export interface Watermark {
  readonly seq: number;
  readonly id: string;
}

/** What is done with lines: `{ kind: 'record', from: 2 }` records those from the third one on. */
export type Decision =
  /** @see Received.events: from this index on; the number of lines if all of them are there already */
  | { readonly kind: 'record'; readonly from: number }
  /** The journal, or its copy, has recorded something else since. */
  | { readonly kind: 'fork' }
  /** Events are missing between what the hub has and the first line. */
  | { readonly kind: 'gap' };

/**
 * @param known what the hub has of the source, undefined if nothing
 * @returns for lines from 6 to 9 and the watermark 7 `{ kind: 'record', from: 2 }`, if the line 7 has its id
 */
export function decide(known: Watermark | undefined, { firstSeq, lost, events }: Received): Decision {
  const { seq, id } = known ?? { seq: 0, id: undefined };
  if (firstSeq > seq + 1) {
    const isKnownToBeLost = lost !== undefined && lost.first <= seq + 1 && lost.last === firstSeq - 1;
    return isKnownToBeLost ? { kind: 'record', from: 0 } : { kind: 'gap' };
  }
  const from = Math.min(seq - firstSeq + 1, events.length);
  const line = events[seq - firstSeq]; // undefined if the watermark is before or after the lines
  return line !== undefined && line.origin.id !== id ? { kind: 'fork' } : { kind: 'record', from };
}
