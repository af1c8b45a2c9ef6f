/**
 * The command's side of the protocol: asks the process that holds a folder to do what only the writer of its journal may do.
 *
 * A user who may create a file in the folder may ask. The command creates the empty file `.ask-<id>` and names it in the request, and
 * the holder removes the file before it acts. So the same rule applies to sockets, pipes and abstract sockets, to which any local
 * user can connect.
 */

import { randomUUID } from 'node:crypto';
import type { Limits } from '../../config/limits.ts';
import { type Disk, unlessAbsent } from '../disk.ts';
import { askAll, DENIED, type HolderSaid } from './protocol.ts';

export type Told =
  | { readonly kind: 'answered'; readonly answer: string }
  /** No process holds the folder. */
  | { readonly kind: 'nobody' }
  /** The lock belongs to another user and refuses the connection. */
  | { readonly kind: 'denied' }
  /** The holder is suspended or overloaded, and has done nothing. */
  | { readonly kind: 'unanswered' }
  /** A process is about to hold the folder. */
  | { readonly kind: 'starting' }
  /** The holder accepts no requests. */
  | { readonly kind: 'older' }
  /** The holder ended, and might have carried out a part of the request. */
  | { readonly kind: 'ended' };

/**
 * Asks the holder of a folder, and waits until it has answered. A request may be carried out twice.
 * @param request its members; `ticket` is added
 * @throws the error of a system call, since a request needs a file in the folder
 */
export async function tell(disk: Disk, request: object, limits: Limits): Promise<Told> {
  let told: Told = { kind: 'nobody' };
  for (let tries = 0; tries < limits.doorTriesMax; tries += 1) {
    const before = told;
    told = meaningOf(await askAll(disk.folder, limits));
    if (told.kind === 'nobody' && before.kind === 'ended') return before;
    if (told.kind === 'ended') told = await tellOnce(disk, request, limits);
    if (told.kind !== 'unanswered' && told.kind !== 'ended') return told;
  }
  return told;
}

/** Removes the file of a request. @returns whether it was there */
export async function takeTicket(disk: Pick<Disk, 'remove'>, ticket: unknown): Promise<boolean> {
  if (typeof ticket !== 'string' || !TICKET.test(ticket)) return false;
  return disk.remove(`${PREFIX}${ticket}`).then(() => true, unlessAbsent(false));
}

async function tellOnce(disk: Disk, request: object, limits: Limits): Promise<Told> {
  const ticket = randomUUID();
  await disk.replace(`${PREFIX}${ticket}`, Buffer.alloc(0));
  try {
    return meaningOf(await askAll(disk.folder, limits, `${JSON.stringify({ ticket, ...request })}\n`));
  } finally {
    await disk.remove(`${PREFIX}${ticket}`).catch(unlessAbsent(undefined)); // the holder has not removed it
  }
}

/** @returns `ended` if a holder accepts requests and has not answered one */
function meaningOf(all: readonly HolderSaid[]): Told {
  const answer = all.find((said) => said.answer !== undefined)?.answer;
  if (answer !== undefined) return { kind: 'answered', answer };
  const states = all.flatMap(({ state }) => state ?? []);
  const isSome = (pattern: RegExp) => states.some((state) => pattern.test(state));
  if (isSome(/^held .*\n$/)) return { kind: 'ended' };
  if (isSome(/^(held|unclear)$/)) return { kind: 'unanswered' };
  if (isSome(/^held /)) return { kind: 'older' };
  if (isSome(/^starting /)) return { kind: 'starting' };
  return { kind: states.includes(DENIED) ? 'denied' : 'nobody' };
}

const PREFIX = '.ask-';
const TICKET = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
