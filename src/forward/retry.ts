/**
 * Sends dead letters again because an operator asked for it. `assetlog forward retry` leaves a file `forward-<name>.retry`, the
 * service takes it up, and replaces it by the result. So the events pass through the process that has the token, and beside the
 * forwarder, which is not held up.
 *
 * Before an event is sent, its letter says that it is in doubt, and after it what became of it. So a crash between leaves it in
 * doubt, and it is sent a second time only if an operator names it.
 */

import { isObject } from '../config/json-file.ts';
import { type Disk, describe, type ReadableDisk, unlessAbsent } from '../journal/disk.ts';
import { Line } from '../journal/reader.ts';
import type { GoneRange } from '../journal/segments.ts';
import { type DeadLetter, type DeadLetters, readDeadLetters } from './dead-letters.ts';
import { type LetterState, readLetterStates, seqsOf } from './open-letters.ts';
import type { Sent, Target } from './target.ts';

/** What the file says: `{ kind: 'asked', seqs: { first: 7, last: 12 } }`. */
export type Retry =
  /** The letters of these seqs; without seqs those that were refused, since one in doubt may be there already. */
  { readonly kind: 'asked' | 'running'; readonly seqs?: GoneRange | undefined } | RetryResult;

/** What became of the letters: `{ kind: 'done', sent: 3, refused: 1, left: 0, reason: null }`. */
export interface RetryResult {
  readonly kind: 'done';
  /** The destination took so many. */
  readonly sent: number;
  /** So many were refused, or are in doubt. */
  readonly refused: number;
  /** So many were not tried. */
  readonly left: number;
  /** Why some were not taken, such as the last refusal; null if all were. */
  readonly reason: string | null;
}

/** What a retry needs: `{ disk, name: 'hub', letters, target: () => openTarget('api', …), signal }`. */
export interface RetryParts {
  /** The folder of the journal. */
  readonly disk: Disk;
  /** Of the destination. */
  readonly name: string;
  /** Those of the forwarder, if it has any open: only one may append at a time. */
  readonly letters: Pick<DeadLetters, 'append'>;
  /** @returns the three report endpoints of the destination, also of a hub, which takes an event out of order as a report of its own */
  readonly target: () => Target;
  /** Ends the request in flight, and the retry. */
  readonly signal: AbortSignal;
}

/** @returns the name of the file: of `hub` it is `forward-hub.retry` */
export function retryName(name: string): string {
  return `forward-${name}.retry`;
}

/** @returns undefined if there is no file, or no whole one @throws the error of a system call */
export async function readRetry(disk: ReadableDisk, name: string): Promise<Retry | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of disk.read(retryName(name), 0, BYTES_MAX)) chunks.push(chunk);
    const retry: unknown = JSON.parse(Buffer.concat(chunks).toString());
    return isObject(retry) ? (retry as unknown as Retry) : undefined;
  } catch (error) {
    return error instanceof SyntaxError ? undefined : unlessAbsent(undefined)(error as NodeJS.ErrnoException);
  }
}

/** Replaces the file. @throws the error of a system call */
export async function writeRetry(disk: Disk, name: string, retry: Retry): Promise<void> {
  await disk.replace(retryName(name), Buffer.from(`${JSON.stringify(retry)}\n`));
}

/** Whether a letter is to be sent again: `isWanted({ first: 7, last: 7, outcome: 'refused', at: 0 }, undefined)` is `true`. */
export function isWanted({ first, last, outcome }: LetterState, seqs: GoneRange | undefined): boolean {
  if (seqs === undefined) return outcome === 'refused';
  return outcome !== 'sent again' && outcome !== 'removed' && first >= seqs.first && last <= seqs.last;
}

/**
 * For the service, about once a second for each destination, one call at a time: sends again what an operator asked for, if
 * anything.
 * @returns the result, which is in the file as well; undefined if there is nothing to do
 * @throws the error of a system call on the file
 */
export async function takeRetry(parts: RetryParts): Promise<RetryResult | undefined> {
  const { disk, name } = parts;
  const asked = await readRetry(disk, name);
  if (asked === undefined || asked.kind === 'done') return undefined;
  // One that is running was begun by a process that has died: which event is in doubt is in the letters.
  const isNew = asked.kind === 'asked';
  if (isNew) await writeRetry(disk, name, { ...asked, kind: 'running' });
  const result = isNew
    ? await sendAgain(parts, asked.seqs)
    : resultOf({ reason: 'the service stopped meanwhile; retry' });
  await writeRetry(disk, name, result);
  return result;
}

async function sendAgain({ disk, name, letters, target: open, signal }: RetryParts, seqs: GoneRange | undefined) {
  const counts = { sent: 0, refused: 0 };
  const wanted = new Map<number, LetterState>();
  let reason: string | null = null;
  let target: Target | undefined;
  try {
    for (const state of (await readLetterStates(disk, name)).values()) {
      if (isWanted(state, seqs)) wanted.set(state.first, state);
    }
    target = open();
    for await (const letter of readDeadLetters(disk, name)) {
      const state = letter.line === undefined ? undefined : wanted.get(seqsOf(letter).first);
      if (state === undefined) continue;
      if (signal.aborted) throw new Error('the service stops; retry');
      const sent = await sendOne(letter as DeadLetter & { line: string }, state, { letters, target, signal });
      if ('reason' in sent) ({ reason } = sent);
      if (sent.kind !== 'recorded' && sent.kind !== 'refused' && sent.kind !== 'in doubt') break;
      wanted.delete(state.first);
      counts[sent.kind === 'recorded' ? 'sent' : 'refused'] += 1;
    }
  } catch (error) {
    reason = describe(error as Error);
  }
  target?.close();
  return resultOf({ ...counts, left: wanted.size, reason });
}

async function sendOne(
  { line }: { readonly line: string },
  { first: seq, outcome: before }: LetterState,
  { letters, target, signal }: { letters: RetryParts['letters']; target: Target; signal: AbortSignal },
): Promise<Sent> {
  const note = (outcome: DeadLetter['outcome'], reason: string, status?: number) =>
    letters.append({ time: new Date().toISOString(), outcome, status, reason, first: seq, last: seq });
  await note('in doubt', 'it was being sent again when the service stopped');
  const bytes = Buffer.from(line);
  const sent = await target.send({ lines: [new Line(bytes, 0, bytes.length, seq)], lost: undefined }, signal);
  if (sent.kind === 'recorded') await note('sent again', 'the destination took it');
  else if (sent.kind === 'refused' || sent.kind === 'in doubt') await note(sent.kind, sent.reason, sent.status);
  else await note(before, sent.reason); // nothing was recorded
  return sent;
}

function resultOf(result: Partial<RetryResult>): RetryResult {
  return { kind: 'done', sent: 0, refused: 0, left: 0, reason: null, ...result };
}

/** More than the file ever has; a reason is at most a few hundred characters. */
const BYTES_MAX = 65_536;
