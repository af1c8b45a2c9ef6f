/** What of a journal is durable before a request with its events leaves: a crash at that moment loses nothing that would be needed. */

import type { Delivered } from '../../world/network.ts';
import { idOf } from '../upstream.ts';
import { durableCursor } from './cursor.ts';
import { type Destination, hostOf, isHook, sourceOf, type Watched, wants } from './destinations.ts';

/** @returns the ids of the events that a request to a hub or to a plain upstream has */
export function idsIn(request: Delivered): string[] {
  const { method, body } = request;
  if (method !== 'PUT') return [idOf(request)];
  const lines = body.toString().trimEnd().split('\n');
  return lines.map((text) => JSON.parse(text).id);
}

/** @returns what is wrong, if anything is */
export function wrongRequest(senders: readonly Watched[], request: Delivered): string | undefined {
  const { method, target, host, body } = request;
  const isTo = ({ to }: Destination) => hostOf(to) === host;
  const sendingTo = ({ journal, sendsTo }: Watched) =>
    durableCursor(journal.disk, sendsTo.find(isTo)!.name)?.sending ?? 0;
  const lacks = ({ view }: Watched, { seq, id }: { readonly seq: number; readonly id: string }) =>
    view.lines.get(seq)?.id === id ? undefined : `event ${seq}, which is not durable`;
  const [first] = senders as [Watched];
  const { to: engine } = first.sendsTo.find(isTo) ?? {};
  if (engine !== undefined && 'stored' in engine) {
    const lines = engine.linesIn(request);
    // "A batch's end is in the cursor from before the first try": after a crash the same rows go under the same token.
    const unsaid = engine.isTable ? lines.find(({ seq }) => sendingTo(first) < seq) : undefined;
    const problem = lines.map((line) => lacks(first, line)).find((one) => one !== undefined);
    return problem ?? (unsaid && `event ${unsaid.seq}, and no cursor says so`);
  }
  if (method === 'PUT') {
    const [, source] = /\/forward\/([^/]+)\/\d+$/.exec(target) ?? [];
    const sender = senders.find(({ journal }) => sourceOf(journal) === source);
    if (sender === undefined) return `under the id ${source}, which is not durable`;
    const lines = body.toString().trimEnd().split('\n');
    return lines.map((text) => lacks(sender, JSON.parse(text))).find((one) => one !== undefined);
  }
  const [id] = idsIn(request);
  // A hub has an event under each id that its journal had.
  const known = senders.flatMap((sender) =>
    [...sender.view.lines.values()].flatMap((line) => (line.id === id ? [{ sender, seq: line.seq }] : [])),
  );
  if (known.length === 0) return `${id}, which is not durable`;
  // "If an event that is sent twice is recorded twice, the cursor says that the event is being sent"; of a retry its letter does.
  const isSaid = ({ sender, seq }: (typeof known)[number]) =>
    sendingTo(sender) >= seq || sender.sendsTo.find(isTo)!.letters.isOpen(seq);
  if (!known.some(isSaid)) return `event ${known[0]!.seq}, and no cursor says so`;
  const isFor = ({ sender, seq }: (typeof known)[number]) => {
    const to = sender.sendsTo.find(isTo)!;
    if (!isHook(to.to) || to.letters.isOpen(seq)) return true;
    return seq >= to.beginSeq && wants(to, sender.view.lines.get(seq)!);
  };
  return known.some(isFor) ? undefined : `event ${known[0]!.seq}, which is not for ${host}`;
}
