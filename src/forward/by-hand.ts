/**
 * Changes that an operator makes while no service uses the folder: which events a destination does not get, and where it
 * continues.
 */

import type { Limits } from '../config/limits.ts';
import type { Disk } from '../journal/disk.ts';
import { traitsOf } from './destinations/kinds.ts';
import { readLastSeq, readLines, readNames } from './folder.ts';
import { Cursor, type CursorState, type CursorValue, readCursor } from './ledger/cursor.ts';
import { skipped } from './ledger/letter.ts';
import { DeadLetters } from './ledger/letters.ts';
import { openIn } from './pipe/retry.ts';
import { isOfAlarms, readPipeState } from './pipe/status.ts';
import type { SeqRange } from './position.ts';
import { replaceSource } from './source.ts';

/** Nothing was changed. The message says what to do. */
export class NotPossibleError extends Error {}

/** @returns why a destination has no position and no dead letters, as a sentence; undefined if it can have them */
export async function cursorProblem(disk: Disk, name: string, limits: Limits): Promise<string | undefined> {
  const written = await readPipeState(disk, name, limits);
  if (written === undefined || !isOfAlarms(written)) return undefined;
  return `${name} is a hook with "on": it gets the start and the end of alarms, and has neither a position nor dead letters`;
}

/**
 * Gives up the next events of a stopped destination, or dead letters. Each event has a dead letter before the cursor passes it.
 * @returns what was done, as a sentence
 * @throws NotPossibleError, or the error of a system call; it can then be run again
 */
export async function skip(disk: Disk, name: string, seqs: SeqRange, limits: Limits): Promise<string> {
  const state = await readCursor(disk, name);
  const value = valueIn(state);
  const { first, last } = seqs;
  const { seq, sending = 0 } = value;
  const open = await openIn(disk, name, seqs, limits);
  const letters = await openLetters(disk, name, limits);
  // An event that is gone cannot be sent, even if the cursor has not passed it yet.
  const isGone = open.some(({ outcome }) => outcome === 'removed');
  // A hub's cursor passes refused events with the next event that the hub accepts, and full dead letters stop the pipe before that.
  // After `forward from` a plain destination gets again the events that it refused.
  const areOpen = open.reduce((sum, letter) => sum + letter.last + 1 - letter.first, 0) === last + 1 - first;
  const isNext = state.kind === 'found' && !canBeAsked(value) && first === seq + 1;
  if (isGone || (areOpen && !isNext) || (state.kind === 'found' && last <= seq))
    return giveUp(letters, name, seqs, open.length);
  check(state.kind === 'found', `the cursor of ${name} is ${state.kind}; set it with forward from`);
  check(!canBeAsked(value), `${name} itself determines its next event; solve the problem that stops it`);
  check(first === seq + 1, `${name} continues with event ${seq + 1}; start there`);
  checkEnd(await readLastSeq(disk, limits), last);
  let [lines, id]: [number, string | null] = [0, null];
  for await (const line of readLines(disk, seqs, limits)) {
    const more = line.seq <= sending ? ', and the destination may have it' : '';
    await letters.append(skipped({ line: line.text }, more));
    lines += 1;
    id = line.event.id;
  }
  if (lines <= last - first) {
    await letters.append(skipped(seqs, '; not all can be read'));
    id = null;
  }
  await save(disk, name, { ...value, seq: last, id, sending: sending > last ? sending : undefined });
  return `${name} continues with event ${last + 1}`;
}

/**
 * Sets the next event that a destination gets, even if its cursor is lost or it is new. A hub or an engine that knows the
 * journal decides itself which event is next.
 * @returns and throws like `skip`
 */
export async function continueFrom(disk: Disk, name: string, seq: number, limits: Limits): Promise<string> {
  checkEnd(await readLastSeq(disk, limits), seq - 1);
  const state = await readCursor(disk, name);
  const value = valueIn(state);
  const next = value.seq + 1;
  const isFound = state.kind === 'found';
  const isAsked = canBeAsked(value);
  const leaveOut = `identity --new --seq ${seq} leaves events out`;
  check(!isAsked || seq <= next, `${name} itself determines its next event; ${leaveOut}`);
  if (isFound && next < seq) {
    const letters = await openLetters(disk, name, limits);
    await letters.append(skipped({ first: next, last: seq - 1 }));
  }
  await save(disk, name, { ...value, seq: seq - 1, id: null, sending: undefined });
  const unless = isAsked ? ', unless it knows this journal and needs another event' : '';
  return `${name} continues with event ${seq}${unless}; before, it was ${isFound ? next : state.kind}`;
}

/**
 * Gives the journal a new id, for a copy that continues next to its original. To a hub or an engine it then is another
 * journal, which starts after the events that were already sent; a plain destination does not notice.
 * @param seq the next event for each hub and engine; undefined to continue each one after its cursor
 * @returns and throws like `skip`
 */
export async function newIdentity(disk: Disk, seq: number | undefined, limits: Limits): Promise<string> {
  const last = await readLastSeq(disk, limits);
  if (seq !== undefined) checkEnd(last, seq - 1);
  let begin = seq;
  for (const name of await readNames(disk)) {
    const state = await readCursor(disk, name);
    const value = valueIn(state);
    const isAsked = canBeAsked(value) ?? (await couldBeAsked(disk, name, limits));
    if (isAsked === false || (state.kind === 'new' && (seq === undefined || isAsked === undefined))) continue;
    // Otherwise a plain destination would miss events without a dead letter for them.
    check(state.kind !== 'lost' || isAsked === true, `the cursor of ${name} is lost; set it with forward from`);
    if (seq === undefined) checkKnown(state, name, last);
    const next = seq !== undefined && isAsked === true ? seq : value.seq + 1;
    // Saved without an id: the destination does not have this event under the new id, and gets no event before it.
    await save(disk, name, { ...value, seq: next - 1, id: null, sending: undefined });
    if (isAsked === true) begin = Math.min(begin ?? next, next);
  }
  return `the journal has the id ${await replaceSource(disk, begin, begin ?? last + 1)} now`;
}

/**
 * @param last the last event of the journal @throws NotPossibleError if the cursor does not show which events the destination
 * is missing
 */
function checkKnown(state: CursorState, name: string, last: number): void {
  const problem = state.kind === 'found' ? 'ahead of the journal' : 'lost';
  check(
    state.kind === 'found' && state.value.seq <= last,
    `the cursor of ${name} is ${problem}; add --seq N, the first event that it lacks`,
  );
}

async function giveUp(letters: DeadLetters, name: string, seqs: SeqRange, open: number): Promise<string> {
  check(open > 0, `${name} has no open dead letter of these events`);
  await letters.append(skipped(seqs));
  return `given up: ${open}`;
}

function openLetters(disk: Disk, name: string, limits: Limits): Promise<DeadLetters> {
  return DeadLetters.open(disk, name, { ...limits, bytesMax: Number.POSITIVE_INFINITY });
}

function checkEnd(last: number, seq: number): void {
  check(seq <= last, `the journal ends with event ${last}`);
}

function check(isPossible: boolean, problem: string): void {
  if (!isPossible) throw new NotPossibleError(problem);
}

/**
 * Whether a destination whose cursor has no kind can be asked, concluded from why it was stopped; undefined if that does not
 * show it.
 */
async function couldBeAsked(disk: Disk, name: string, limits: Limits): Promise<boolean | undefined> {
  const { why, kind } = (await readPipeState(disk, name, limits)) ?? {};
  if (kind != null) return traitsOf[kind].truth === 'destination';
  if (why === 'cursor lost') return false;
  return why === 'fork' ? true : undefined;
}

/** @returns undefined if the kind is unknown */
function canBeAsked({ kind }: CursorValue): boolean | undefined {
  return kind && traitsOf[kind].truth === 'destination';
}

function valueIn(state: CursorState): CursorValue {
  return state.kind === 'found' ? state.value : { seq: 0, id: null, sending: undefined, kind: undefined, to: '' };
}

async function save(disk: Disk, name: string, value: CursorValue): Promise<void> {
  const { cursor } = await Cursor.open(disk, name);
  await cursor.save(value).finally(() => cursor.close());
}
