/** What hubs, engines and plain upstreams may have of the journals that are forwarded to them. */

import type { Reply } from '../../../src/http/message.ts';
import type { Delivered } from '../../world/network.ts';
import type { Engine, Stored } from '../engines/engine.ts';
import { ONCE } from '../services.ts';
import type { Upstream } from '../upstream.ts';
import { type Destination, sourceOf, type Watched } from './destinations.ts';
import type { History } from './history.ts';
import type { JournalView, SeenLine } from './journal-view.ts';
import { forwardedAs, senderOf } from './sent.ts';

/** @returns what a hub has of other journals, in its order */
export function forwardedIn({ lines }: JournalView): readonly Stored[] {
  const sorted = [...lines.values()].sort((a, b) => a.seq - b.seq);
  return sorted.flatMap(({ id, members, from, origin, recorded }) =>
    from === undefined ? [] : [{ id, members, source: from[0], seq: from[1], origin, time: recorded! }],
  );
}

/** Whether a hub got a line from its journal, and before the later ones. */
export function cameInOrder({ byOrigin, lines }: JournalView, [source, seq]: NonNullable<SeenLine['from']>): boolean {
  const own = byOrigin.get(`${source},${seq}`);
  const isLater = ({ from, seq: at }: SeenLine) => from?.[0] === source && from[1] > seq && at < own!.seq;
  return own !== undefined && ![...lines.values()].some(isLater);
}

/** @returns what an engine has. A table says how far a journal is by the largest seq */
export function storedIn({ stored, isTable }: Engine): readonly Stored[] {
  const before = (a: Stored, b: Stored) => a.seq - b.seq || (a.id < b.id ? -1 : Number(a.id !== b.id));
  return isTable ? [...stored].sort(before) : stored;
}

/** @returns the seq of the last event of a journal among these; 0 if there is none */
export function lastOf(source: string | undefined, events: readonly Stored[]): number {
  return Math.max(0, ...events.flatMap((event) => (event.source === source ? [event.seq] : [])));
}

/** @returns the first event that is not as the journal recorded it that it came from */
export function wrongEvent(events: readonly Stored[], history: History): string | undefined {
  for (const { id, source, seq, origin = [source, seq] as const, time, members } of events) {
    const own = history.get(id);
    if (own === undefined) return `event ${seq} of ${source}, which none recorded`;
    if (!history.isNamed(id, origin))
      return `event ${seq} of ${source} with the origin ${origin}, and it has another one`;
    if (own.seq !== origin[1] || own.time !== time || own.members !== members)
      return `event ${seq} of ${source}, which is another one there`;
  }
  return undefined;
}

/**
 * A hub or an engine has the events of a journal once and in their order, and without a gap but for events that dead letters name, or
 * that came to it by another way.
 * @param events of all journals, in the order of the destination
 * @param isSettled whether the destination has an event, or need not have it
 * @returns what is wrong, if anything is
 */
export function wrongBetween(
  { journal, view }: Watched,
  { to, letters, comparedSeq }: Destination,
  events: readonly Stored[],
  isSettled: (line: SeenLine) => boolean,
): string | undefined {
  const source = sourceOf(journal);
  const isTable = 'stored' in to && to.isTable;
  let last: Pick<Stored, 'seq' | 'id'> = { seq: comparedSeq, id: '' };
  for (const { source: from, seq, id } of events) {
    // Whether a table has one twice is known by its number.
    if (from !== source || seq <= comparedSeq || (isTable && id === last.id)) continue;
    if (seq <= last.seq && letters.named.has(seq)) continue; // a request that came after its lines were called lost
    const own = view.lines.get(seq);
    if (own?.id !== id && journal.machine.wasCopied) continue; // of the copy, which the hub heard first
    if (own?.id !== id) return `event ${seq} of ${journal.name}, which has another one`;
    const isNamed = (gone: number) => {
      const line = view.lines.get(gone);
      return letters.named.has(gone) || (line !== undefined && isSettled(line));
    };
    let next = last.seq + 1;
    while (next < seq && isNamed(next)) next += 1;
    if (next !== seq) return `event ${seq} of ${journal.name}, whose next one is ${next}`;
    last = { seq, id };
  }
  return undefined;
}

/** @returns which event an engine has more often than it may: once from each journal */
export function wrongCount({ stored, isTable, mayBeTwice }: Engine, history: History): string | undefined {
  const seen = new Set<string>();
  for (const { source, seq, id } of stored) {
    const isExcused = mayBeTwice.has(id) || (isTable && history.mayBeTwice.has(id));
    if (seen.has(`${source} ${id}`) && !isExcused) return `event ${seq} of ${source} twice`;
    seen.add(`${source} ${id}`);
  }
  return undefined;
}

/**
 * "A hub says of each journal up to which event it has all."
 * @returns what is wrong with a reply to a request that forwards, if anything is
 */
export function wrongPosition(view: JournalView, request: Delivered, reply: Reply): string | undefined {
  const { method, body } = request;
  const source = senderOf(request);
  if (source === undefined || reply.kind !== 'body') return undefined;
  const { seq, id } = JSON.parse(reply.body);
  // It has no id if the journal had another one then; what came by another way was left out under this one.
  const own = view.byOrigin.get(`${source},${seq}`)?.id;
  const isHere =
    id === null || own === id || (own === undefined && [...view.lines.values()].some((line) => line.id === id));
  if (seq > 0 && !isHere) return `says that ${id} is event ${seq} of ${source}`;
  const last = method === 'PUT' ? JSON.parse(body.toString().trimEnd().split('\n').at(-1)!).seq : 0;
  return seq < last ? `says that it has ${source} up to ${seq}, and it has just taken event ${last}` : undefined;
}

/**
 * An upstream has only what journals have, as recorded unless in doubt or sent again, and what it has twice is named. With
 * `"inDoubt": "once"` it has nothing twice.
 * @returns what is wrong, if anything is
 */
export function wrongAtUpstream(
  { received }: Upstream,
  { name, letters: { named } }: Destination,
  { journal, view, restores }: Watched,
  history: History,
): string | undefined {
  // A hub has an event again under another id of its journal.
  const byId = new Map<string, SeenLine[]>();
  for (const line of [...view.lines.values()].sort((a, b) => a.seq - b.seq))
    byId.set(line.id, [...(byId.get(line.id) ?? []), line]);
  const isSteady = restores === 0 && !view.wasBroken;
  let last = 0;
  for (const [id, { request, count }] of received) {
    if (history.get(id) === undefined) return `${name} has ${id}, which no journal has`;
    const lines = byId.get(id) ?? [];
    const [first] = lines;
    if (first === undefined) continue;
    const event = `event ${first.seq} of ${journal.name}`;
    const [member, ...others] = (history.erased.get(id) ?? [first]).map((line) => forwardedAs(line, request));
    if (member !== undefined && !others.includes(undefined)) return `${name} has ${event} with another ${member}`;
    const mayBeTwice = history.mayBeTwice.has(id);
    if (isSteady && first.seq < last && !named.has(first.seq) && !mayBeTwice)
      return `${name} has ${event} after a later one, and no dead letter says so`;
    const isNamed = name !== ONCE && lines.some(({ seq }) => named.has(seq));
    if (count > lines.length && !isNamed && !mayBeTwice)
      return `${name} has ${event} ${count} times${name === ONCE ? '' : ', and no dead letter says so'}`;
    last = Math.max(last, first.seq);
  }
  return undefined;
}
