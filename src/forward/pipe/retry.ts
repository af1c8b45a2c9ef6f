/**
 * Sends dead letters again because an operator asked for it. `assetlog forward retry` leaves a file `forward-<name>.retry`, which
 * the service takes up, and removes when it has tried all. So the events pass through the process that has the token, and beside
 * the pipe, which is not held up.
 *
 * Before an event is sent, its letter says that it is in doubt, and after it what became of it. So a crash between leaves it in
 * doubt, and it is sent a second time only if an operator names it. The file may also say that letters are given up: only the
 * service may append to theirs.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../../config/limits.ts';
import { type Disk, describe, type ReadableDisk, unlessAbsent } from '../../journal/disk.ts';
import { readSmall } from '../../journal/file-io.ts';
import { Line } from '../../journal/look/reading.ts';
import type { Notices } from '../../telemetry/log.ts';
import { recordedUpTo } from '../destinations/answers.ts';
import type { Destination, Sent } from '../destinations/destination.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { isOpen, type Outcome, seqsOf, skipped } from '../ledger/letter.ts';
import type { LetterState } from '../ledger/letter-states.ts';
import { readDeadLetters, readLetterStates } from '../ledger/letters.ts';
import type { SeqRange } from '../position.ts';

/** What the file says: `{"seqs":{"first":7,"last":12}}`. */
export interface Retry {
  /** The letters of these seqs; if it is absent, letters that were refused: an event in doubt might be there already. */
  readonly seqs?: SeqRange | undefined;
  /** The letters of these seqs are given up instead. */
  readonly givesUp?: boolean;
  /** A service has taken it up. */
  readonly isRunning?: boolean;
}

/** What became of the letters, as numbers of events. */
export interface RetryResult {
  /** The destination took them. */
  readonly sent: number;
  /** Refused, or in doubt. */
  readonly refused: number;
  /** Not tried. */
  readonly left: number;
  /** Number of letters that were given up; undefined if they were to be sent again. */
  readonly givenUp?: number;
}

export interface RetryParts {
  /** The folder of the journal. */
  readonly disk: Disk;
  /** Of the destination. */
  readonly name: string;
  /** That of the pipe: only one may append at a time. */
  readonly ledger: Pick<Ledger, 'append'>;
  /** @returns a destination that was opened with `openForRetry` */
  readonly open: () => Destination;
  /** @returns how long to wait before the next request, in milliseconds: see `Pace.turnMs` */
  readonly turnMs: () => number;
  /** Ends the request in flight, and the retry. */
  readonly signal: AbortSignal;
  readonly limits: Pick<Limits, 'lineBytesMax'>;
}

/** @returns the name of the file: `forward-hub.retry` for `hub` */
export function retryName(name: string): string {
  return `forward-${name}.retry`;
}

/** @returns undefined if there is no file @throws SyntaxError for other content than JSON, or the error of a system call */
export async function readRetry(disk: ReadableDisk, name: string): Promise<Retry | undefined> {
  const bytes = await readSmall(disk, retryName(name), BYTES_MAX);
  return bytes && JSON.parse(`${bytes}`);
}

/** Replaces the file. @throws the error of a system call */
export async function writeRetry(disk: Disk, name: string, retry: Retry): Promise<void> {
  await disk.replace(retryName(name), Buffer.from(JSON.stringify(retry)));
}

/** Whether a letter is to be sent again. @param seqs as `Retry.seqs` */
export function isWanted({ first, last, outcome }: LetterState, seqs: SeqRange | undefined): boolean {
  if (seqs === undefined) return outcome === 'refused';
  return outcome !== 'removed' && first >= seqs.first && last <= seqs.last;
}

/**
 * Like `takeRetry`, and logs what became of it. Never rejects.
 * @returns whether there is space for other dead letters now
 */
export async function runRetry(parts: RetryParts, notices: Pick<Notices, 'info' | 'warn'>): Promise<boolean> {
  try {
    const result = await takeRetry(parts);
    if (result === undefined) return false;
    const { givenUp, ...counts } = result;
    if (givenUp === undefined) notices.info('dead letters were sent again', counts);
    else notices.info('dead letters were given up', { count: givenUp });
    return counts.sent > 0 || givenUp !== undefined;
  } catch (error) {
    const problem = describe(error as Error);
    notices.warn('dead letters could not be sent again or given up', { problem });
    return false;
  }
}

/**
 * For the service, about once a second for each destination, one call at a time: sends again what an operator asked for, if
 * anything.
 * @returns what became of it; undefined if there is nothing to do
 * @throws Error if the file is no request, or the error of a system call on the file or on the dead letters
 */
export async function takeRetry(parts: RetryParts): Promise<RetryResult | undefined> {
  const { disk, name } = parts;
  let isThere = true;
  try {
    const asked = await readRetry(disk, name);
    isThere = asked !== undefined; // one that is written from now on is for the next call
    // A process that has died had taken up a retry that is running: which event is in doubt is in the letters.
    if (asked === undefined || asked.isRunning === true) return undefined;
    await writeRetry(disk, name, { ...asked, isRunning: true });
    return await (asked.givesUp === true ? giveUp(parts, asked.seqs) : sendAgain(parts, asked.seqs));
  } finally {
    if (isThere) await disk.remove(retryName(name)).catch(unlessAbsent(undefined));
  }
}

/** Closes each letter by one of its own. */
async function giveUp({ disk, name, ledger, limits }: RetryParts, seqs: SeqRange | undefined): Promise<RetryResult> {
  const open = seqs === undefined ? [] : await openIn(disk, name, seqs, limits);
  for (const { first, last } of open) await ledger.append(skipped({ first, last }));
  return { sent: 0, refused: 0, left: 0, givenUp: open.length };
}

/** @returns the open letters that are about these events only */
export async function openIn(
  disk: ReadableDisk,
  name: string,
  seqs: SeqRange,
  limits: RetryParts['limits'],
): Promise<LetterState[]> {
  const states = (await readLetterStates(disk, name, limits)).all.filter(isOpen);
  return states.filter(({ first, last }) => seqs.first <= first && last <= seqs.last);
}

async function sendAgain(parts: RetryParts, seqs: SeqRange | undefined): Promise<RetryResult> {
  const { disk, name, ledger, open, turnMs, signal, limits } = parts;
  const counts = { sent: 0, refused: 0 };
  const states = (await readLetterStates(disk, name, limits)).all.filter((state) => isWanted(state, seqs));
  const wanted = new Map(states.map((state) => [state.first, state]));
  const destination = open();
  const turn = async () => {
    const waitMs = turnMs();
    if (waitMs > 0) await sleep(waitMs, undefined, { signal }).catch(() => {}); // an abort
  };
  try {
    for await (const letter of readDeadLetters(disk, name, limits)) {
      const { line } = letter;
      const state = wanted.get(seqsOf(letter).first);
      if (line === undefined || state === undefined) continue;
      await turn();
      if (signal.aborted) break;
      const { kind } = await sendOne(line, state, { ledger, destination, signal, turn });
      if (kind !== 'recorded' && kind !== 'refused' && kind !== 'in doubt') break;
      wanted.delete(state.first);
      counts[kind === 'recorded' ? 'sent' : 'refused'] += 1;
    }
  } finally {
    destination.close();
  }
  return { ...counts, left: wanted.size };
}

interface Sending {
  readonly destination: Destination;
  /** Waits until a request may be sent. */
  readonly turn: () => Promise<void>;
}

async function sendOne(
  line: string,
  state: LetterState,
  { ledger, destination, signal, turn }: Pick<RetryParts, 'ledger' | 'signal'> & Sending,
): Promise<Sent> {
  const { first: seq } = state;
  const note = (result: Outcome) => ledger.append({ time: new Date().toISOString(), ...result, first: seq, last: seq });
  const reason = 'it was being sent again when the service stopped';
  await note({ outcome: 'in doubt', reason });
  const bytes = Buffer.from(line);
  const sent = await sendUnlessThere(new Line(bytes, 0, bytes.length, seq), { destination, turn }, signal);
  await note({ ...outcomeOf(sent, state), status: (sent as { status?: number }).status });
  return sent;
}

/** If the answer to the last retry was lost, its event might be the last one that the destination has. */
async function sendUnlessThere(line: Line, { destination, turn }: Sending, signal: AbortSignal): Promise<Sent> {
  const asked = await destination.ask?.(signal);
  if (asked?.kind === 'again' || asked?.kind === 'stopped') return asked;
  if (asked?.kind === 'at' && asked.id === line.event.id) return recordedUpTo(line);
  return destination.send({ lines: [line], lost: undefined, turn }, signal);
}

/** @param before what the letter said before it was sent again */
function outcomeOf(sent: Sent, { outcome, became }: LetterState): Outcome {
  const { reason = '' } = sent as { reason?: string };
  switch (sent.kind) {
    case 'recorded':
      return { outcome: 'sent again', reason };
    case 'refused':
      return { outcome: 'refused', reason };
    case 'in doubt':
      return { outcome: 'in doubt', became: 'given up', reason };
    default:
      return { outcome, became, reason };
  }
}

/** More than the file ever has. */
const BYTES_MAX = 65_536;
