/** What a hub may have of the journals that are forwarded to it. */

import type { Reply } from '../../../src/http/message.ts';
import type { Delivered } from '../network.ts';
import type { History } from './history.ts';
import type { JournalView, SeenLine } from './journal-view.ts';

/**
 * A hub has each source without repeat or swap, each event as it is at its source, and without a gap but for events that its dead
 * letters name as lost.
 * @returns what is wrong, if anything is
 */
export function wrongAtHub(view: JournalView, history: History): string | undefined {
  const last = new Map<string, SeenLine>();
  const missed = new Set<string>();
  for (const line of [...view.lines.values()].sort((a, b) => a.seq - b.seq)) {
    if (line.from === undefined) continue;
    const [source, seq] = line.from;
    const before = last.get(source);
    // "A journal that has a new id since then may send it what it has under the former one."
    if (view.wasBroken && seq < (history.renamed.get(source) ?? 0)) continue;
    // "A hub that lost events of the last batches asks their journals for them again."
    if (before !== undefined && seq <= before.from![1] && view.mayLack(line.from)) continue;
    if (missed.delete(`${line.from}`)) continue;
    // What a repair lost is asked for again, and is later in the order of the hub.
    const isGap = before !== undefined && seq - before.from![1] <= 1 + view.countLost(before.seq, line.seq);
    const problem = history.wrongFrom(line, before, (lost) => {
      if (isGap) missed.add(`${source},${lost}`);
      return isGap || view.mayLack([source, lost]);
    });
    if (problem !== undefined) return `event ${line.seq}, which is ${problem}`;
    last.set(source, line);
  }
  return undefined;
}

/**
 * "A hub says of each journal up to which event it has all."
 * @returns what is wrong with a reply to a request that forwards, if anything is
 */
export function wrongPosition(
  view: JournalView,
  { method, target, body }: Delivered,
  reply: Reply,
): string | undefined {
  const [, source] = /\/forward\/([^/]+)/.exec(target) ?? [];
  if (source === undefined || reply.kind !== 'body') return undefined;
  const { seq, id } = JSON.parse(reply.body);
  if (seq > 0 && view.byOrigin.get(`${source},${seq}`)?.id !== id)
    return `says that ${id} is event ${seq} of ${source}`;
  const last = method === 'PUT' ? JSON.parse(body.toString().trimEnd().split('\n').at(-1)!).seq : 0;
  return seq < last ? `says that it has ${source} up to ${seq}, and it has just taken event ${last}` : undefined;
}
