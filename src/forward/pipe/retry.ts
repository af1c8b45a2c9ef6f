/**
 * Sends dead letters again at the request of an operator (`assetlog forward retry`). The process that has the token does this
 * concurrently with the pipe, which is not held up.
 *
 * Before an event is sent, its letter records that it is in doubt; afterwards it records the outcome. So a crash in between leaves the
 * event in doubt, and it is sent a second time only if an operator names it.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../../config/limits.ts';
import type { Disk, ReadableDisk } from '../../journal/disk.ts';
import { Line } from '../../journal/look/reading.ts';
import { recordedUpTo } from '../destinations/answers.ts';
import type { Destination, Sent } from '../destinations/destination.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { isOpen, type Outcome, seqsOf, skipped } from '../ledger/letter.ts';
import type { LetterState } from '../ledger/letter-states.ts';
import { readDeadLetters, readLetterStates } from '../ledger/letters.ts';
import type { SeqRange } from '../position.ts';
import type { Sender } from './sender.ts';

/** The outcome of the letters, in numbers of events. */
export interface RetryResult {
  /** Accepted by the destination. */
  readonly sent: number;
  /** Refused, or in doubt. */
  readonly refused: number;
  /** Not tried. */
  readonly left: number;
}

export interface RetryParts {
  /** The folder of the journal. */
  readonly disk: Disk;
  /** The name of the destination. */
  readonly name: string;
  /** The ledger of the pipe, since only one may append at a time. */
  readonly ledger: Pick<Ledger, 'append'>;
  /** See `Sender.openForRetry`. */
  readonly open: () => Destination;
  /** @returns how long to wait before the next request, in milliseconds: see `Pace.turnMs` */
  readonly turnMs: () => number;
  /** Ends the request in flight, and the retry. */
  readonly signal: AbortSignal;
  /** Ends the retry after the event in flight, because the operator has disconnected. */
  readonly gone: AbortSignal;
  readonly limits: Limits;
}

/**
 * Whether a letter is to be sent again. @param seqs the seqs of the events; if undefined, the refused events are meant, since an event in
 * doubt might have arrived
 */
export function isWanted({ first, last, outcome }: LetterState, seqs: SeqRange | undefined): boolean {
  if (seqs === undefined) return outcome === 'refused';
  return outcome !== 'removed' && first >= seqs.first && last <= seqs.last;
}

/** Changes that an operator makes to dead letters while the service forwards, one at a time. */
export class LetterChanges {
  readonly #sender: Sender;
  readonly #onSpace: () => void;
  /** Resolves when the last change has ended. */
  ended: Promise<unknown> | undefined;

  /** @param onSpace called when there might be space for more dead letters */
  constructor(sender: Sender, onSpace: () => void) {
    this.#sender = sender;
    this.#onSpace = onSpace;
  }

  /**
   * Sends dead letters again.
   * @param seqs see `isWanted`
   * @param gone ends it after the event in flight
   * @throws Error if it is not possible now, or the error of a system call on the dead letters
   */
  async retry(seqs: SeqRange | undefined, gone: AbortSignal): Promise<RetryResult> {
    const { disk, settings, ledger, limits, notices, traffic } = this.#sender;
    const sending = {
      open: () => this.#sender.openForRetry(),
      turnMs: () => traffic.pace.turnMs(),
      signal: traffic.closing,
      gone,
    };
    const result = await this.#run(() => sendAgain({ disk, name: settings.name, ledger, limits, ...sending }, seqs));
    notices.info('dead letters were sent again', { ...result });
    if (result.sent > 0) this.#onSpace();
    return result;
  }

  /** Gives up dead letters. @returns the number of events. @throws the errors of `retry` */
  async giveUp(seqs: SeqRange): Promise<number> {
    const { disk, settings, ledger, limits, notices } = this.#sender;
    const count = await this.#run(() => giveUp({ disk, name: settings.name, ledger, limits }, seqs));
    notices.info('dead letters were given up', { count });
    this.#onSpace();
    return count;
  }

  async #run<Result>(change: () => Promise<Result>): Promise<Result> {
    const { settings, source, ledger, traffic } = this.#sender;
    if (this.ended !== undefined) throw new Error('another retry is in progress; wait for it');
    if (source === '' || ledger.letters === undefined || traffic.closing.aborted)
      throw new Error(`forwarding to ${settings.name} has not started, or is ending`);
    const changing = change();
    this.ended = changing.catch(() => {});
    return changing.finally(() => {
      this.ended = undefined;
    });
  }
}

/**
 * Closes each open letter about these events with another letter. @returns the number of events. @throws the error of a system call
 */
export async function giveUp(
  { disk, name, ledger, limits }: Pick<RetryParts, 'disk' | 'name' | 'ledger' | 'limits'>,
  seqs: SeqRange,
): Promise<number> {
  const open = await openIn(disk, name, seqs, limits);
  for (const { first, last } of open) await ledger.append(skipped({ first, last }));
  return open.length;
}

/** @returns the open letters that concern only these events */
export async function openIn(
  disk: ReadableDisk,
  name: string,
  seqs: SeqRange,
  limits: RetryParts['limits'],
): Promise<LetterState[]> {
  const states = (await readLetterStates(disk, name, limits)).all.filter(isOpen);
  return states.filter(({ first, last }) => seqs.first <= first && last <= seqs.last);
}

/**
 * @param seqs see `isWanted`
 * @returns the outcome of the events. @throws the error of a system call on the dead letters
 */
export async function sendAgain(parts: RetryParts, seqs: SeqRange | undefined): Promise<RetryResult> {
  const { disk, name, ledger, open, turnMs, signal, gone, limits } = parts;
  const ending = AbortSignal.any([signal, gone]);
  const counts = { sent: 0, refused: 0 };
  const states = (await readLetterStates(disk, name, limits)).all.filter((state) => isWanted(state, seqs));
  const wanted = new Map(states.map((state) => [state.first, state]));
  const destination = open();
  const turn = async () => {
    const waitMs = turnMs();
    if (waitMs > 0) await sleep(waitMs, undefined, { signal: ending }).catch(() => {}); // an abort
  };
  try {
    for await (const letter of readDeadLetters(disk, name, limits)) {
      const { line } = letter;
      const state = wanted.get(seqsOf(letter).first);
      if (line === undefined || state === undefined) continue;
      await turn();
      if (ending.aborted) break;
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

/** @param before the state of the letter before it was sent again */
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
