/** What of a journal is durable before a request with its events leaves: a crash at that moment loses nothing that would be needed. */

import type { Delivered } from '../network.ts';
import { wrongAtLeaving } from './at-engines.ts';
import { durableCursor } from './cursor.ts';
import { hostOf } from './destinations.ts';
import type { Destination, Watched } from './watched.ts';

/** @returns what is wrong, if anything is */
export function wrongRequest(
  senders: readonly Watched[],
  { method, target, host, headers, body }: Delivered,
): string | undefined {
  const [engine] = senders.flatMap(({ sendsTo }) => sendsTo.map(({ to }) => to)).filter((to) => hostOf(to) === host);
  if (engine !== undefined && 'stored' in engine)
    return wrongAtLeaving(senders[0]!, engine, { target, host, method, headers, body });
  if (method === 'PUT') {
    const [, source] = /\/forward\/([^/]+)\/\d+$/.exec(target) ?? [];
    const sender = senders.find(
      ({ journal }) => journal.disk.durableBytes('.journal-id')?.toString().trim() === source,
    );
    if (sender === undefined) return `under the id ${source}, which is not durable`;
    for (const text of body.toString().trimEnd().split('\n')) {
      const { seq, id } = JSON.parse(text);
      if (sender.view.lines.get(seq)?.id !== id) return `event ${seq}, which is not durable`;
    }
    return unknown(sender, host);
  }
  const id = headers[headers.indexOf('Idempotency-Key') + 1]?.slice(1, -1); // quoted
  const problems = senders.flatMap((sender) =>
    // A hub has an event under each id that its journal had.
    [...sender.view.lines.values()].filter((one) => one.id === id).map(({ seq }) => wrongReport(sender, seq, host)),
  );
  if (problems.length === 0) return `${id}, which is not durable`;
  return problems.includes(undefined) ? undefined : problems[0];
}

function wrongReport(sender: Watched, seq: number, host: string): string | undefined {
  const { name, letters } = destinationAt(sender, host);
  const { sending = 0 } = durableCursor(sender.journal.disk, name) ?? {};
  // "If an event that is sent twice is recorded twice, the cursor says that the event is being sent"; of a retry its letter does.
  if (sending < seq && !letters.isOpen(seq)) return `event ${seq}, and no cursor says so`;
  return unknown(sender, host);
}

/** "Something was sent to it" is known also without its cursor. */
function unknown(sender: Watched, host: string): string | undefined {
  const { name } = destinationAt(sender, host);
  return sender.journal.disk.durableNames().includes(`.forwarded-${name}`)
    ? undefined
    : `to ${name}, and no file says that it is known`;
}

function destinationAt({ sendsTo }: Watched, host: string): Destination {
  return sendsTo.find(({ to }) => hostOf(to) === host)!;
}
