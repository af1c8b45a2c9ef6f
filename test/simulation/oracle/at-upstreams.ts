/** What a plain upstream may have of the journal that is forwarded to it. */

import { ONCE } from '../services.ts';
import type { Upstream } from '../upstream.ts';
import type { History } from './history.ts';
import type { JournalView } from './journal-view.ts';
import { forwardedAs } from './sent.ts';

export interface Forwarded {
  /** The name of the destination, and of the journal. */
  readonly to: string;
  readonly from: string;
  readonly view: JournalView;
  /** The seqs that dead letters name. */
  readonly named: ReadonlySet<number>;
}

/** "As recorded, unless in doubt or sent again." @returns the first event that came after a later one */
function wrongOrder(
  received: Upstream['received'],
  view: JournalView,
  named: ReadonlySet<number>,
  history: History,
): number | undefined {
  if (history.wasRestored || view.wasBroken) return undefined;
  // A hub has an event again under another id of its journal.
  const seqs = new Map<string, number>();
  for (const { id, seq } of view.lines.values()) seqs.set(id, Math.min(seq, seqs.get(id) ?? seq));
  let last = 0;
  for (const id of received.keys()) {
    const seq = seqs.get(id) ?? last;
    if (seq < last && !named.has(seq) && !history.mayBeTwice.has(id)) return seq;
    last = Math.max(last, seq);
  }
  return undefined;
}

/**
 * An upstream has only what journals have, and what it has twice is named: as in doubt, or as removed if retention removed it
 * while it was on its way. With `"inDoubt": "once"` it has nothing twice.
 * @returns what is wrong, if anything is
 */
export function wrongAtUpstream(
  { received }: Upstream,
  { to, from, view, named }: Forwarded,
  history: History,
): string | undefined {
  const swapped = wrongOrder(received, view, named, history);
  if (swapped !== undefined)
    return `${to} has event ${swapped} of ${from} after a later one, and no dead letter says so`;
  for (const id of received.keys()) if (history.get(id) === undefined) return `${to} has ${id}, which no journal has`;
  const lines = new Map<string, number>();
  for (const { id } of view.lines.values()) lines.set(id, (lines.get(id) ?? 0) + 1);
  const mayBeTwice = new Set([...named].map((seq) => view.lines.get(seq)?.id));
  for (const line of view.lines.values()) {
    const { id, seq } = line;
    const there = received.get(id);
    if (there === undefined) continue;
    const event = `event ${seq} of ${from}`;
    const member = forwardedAs(line, there.request);
    if (member !== undefined) return `${to} has ${event} with another ${member}`;
    const isNamed = to !== ONCE && mayBeTwice.has(id);
    if (there.count > lines.get(id)! && !isNamed && !history.mayBeTwice.has(id))
      return `${to} has ${event} ${there.count} times${to === ONCE ? '' : ', and no dead letter says so'}`;
  }
  return undefined;
}
