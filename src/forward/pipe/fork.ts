/**
 * A journal that lacks an event which its destination got from it, because its folder was restored from a backup, or copied.
 */

import { idTimeMs } from '../../journal/line/uuid.ts';
import type { Position } from '../position.ts';
import { commandText } from './backlog.ts';
import type { Sender } from './sender.ts';
import { type State, stop } from './states.ts';

/**
 * @returns whether the journal has the same event at that seq; `true` as well if retention removed the line after the
 * destination
 *   answered, as the cursor shows
 */
export async function hasSameEvent({ backlog, ledger: { value } }: Sender, at: Position): Promise<boolean> {
  const line = await backlog.lineAt(at.seq);
  if (line === undefined && value.kind === undefined) return false; // nothing shows what was sent
  const own = line?.event.id ?? (at.seq === value.seq ? value.id : null);
  return own === null || own === at.id;
}

/**
 * @param seq the seq of the event that the destination has and the journal does not. A hub that knows the journal by its earlier id
 *   continues to ask from there, so a new id that begins later would result in the same fork
 */
export async function stopAtFork(
  sender: Sender,
  problem: string,
  id: string | null,
  next: State,
  seq = Number.POSITIVE_INFINITY,
): Promise<State> {
  const { ledger, traits, lastSeq, settings, disk } = sender;
  const why = `${problem}: the folder was restored or copied`;
  // A copy continues after its own cursor.
  const { kind, seq: cursorSeq } = ledger.value;
  if (traits.truth === 'destination' && kind !== undefined && cursorSeq <= lastSeq && cursorSeq < seq)
    return stop('fork', `${why}; ${commandText(disk, 'forward identity --new')}`, next);
  const after = await firstAfter(sender, id);
  const first = after === undefined ? 'N' : Math.min(after, seq);
  const command = traits.truth === 'destination' ? 'identity --new' : `from ${settings.name}`;
  const which = `${first} is the first event recorded after that one, by the clock: a lower number sends events twice, a higher one leaves events out`;
  return stop('fork', `${why}; ${which}; ${commandText(disk, `forward ${command} --seq ${first}`)}`, next);
}

/** @param problem the problem of the cursor of a destination that cannot be asked */
export function stopAtLostCursor({ settings, disk }: Sender, problem: string, next: State): State {
  const { name, to } = settings;
  const command = commandText(disk, `forward from ${name} --seq N`);
  return stop('cursor lost', `${problem}, and ${to} cannot be asked; ${command}`, next);
}

/** @returns the first seq that was recorded after the event with this id; 1 if all events were; undefined if the id has no time */
async function firstAfter(sender: Sender, id: string | null): Promise<number | undefined> {
  const atMs = idTimeMs(id);
  if (atMs === undefined) return undefined;
  const first = await sender.firstSeq();
  let [low, high] = [first, sender.lastSeq + 1];
  while (low < high) {
    const seq = Math.floor((low + high) / 2);
    const line = await sender.backlog.lineAt(seq, high - 1); // some lines might be lost
    if (line === undefined || Date.parse(line.event.time) > atMs) high = seq;
    else low = line.seq + 1;
  }
  return low === first ? 1 : low;
}
