/**
 * The durable state of one destination of one journal: how far it is (the cursor), and the events that it does not get, or might have
 * twice (the dead letters).
 *
 * Order of durability: a dead letter is durable before the cursor passes its event. If the destination would record an event twice
 * that is sent twice, the cursor records that the event is being sent before it is sent.
 *
 * The cursor of a hub is a cache of the hub's own answers, so it lives in memory and is saved at intervals. If a crash loses its
 * latest values, nothing may change. It is therefore saved before retention removes events that it passes, before its position moves
 * back, before its kind changes, and when the hub accepts an event for the first time.
 *
 * The events that a destination lost lie between its position and the first event of the journal, so before retention removes events
 * it only has to make the cursor durable. A dead letter names the lost events when the destination is reached.
 *
 * A ledger outlives its pipe: a destination whose settings change gets a new pipe and keeps its ledger.
 */

import { Defect } from '../../config/defect.ts';
import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../../journal/disk.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { Notices } from '../../telemetry/log.ts';
import { Mutex } from '../../waiting/mutex.ts';
import { type DestinationKind, type KindTraits, kindOf, traitsOf } from '../destinations/kinds.ts';
import type { Position, SeqRange } from '../position.ts';
import type { DestinationSettings } from '../settings.ts';
import { Cursor, type CursorValue, readCursor, storedUrl } from './cursor.ts';
import type { DeadLetter, Outcome } from './letter.ts';
import { DeadLetters } from './letters.ts';

export interface LedgerOptions {
  /** The folder of the journal. */
  readonly disk: Disk;
  /** The name of the destination. */
  readonly name: string;
  /** The most bytes of the file of dead letters: see `LetterLimits`. */
  readonly letterBytesMax: number;
  readonly limits: Pick<Limits, 'lineBytesMax'>;
  /** Notices that include the name of the destination. */
  readonly notices: Notices;
}

/** The outcome of consecutive events. */
export type Step =
  /** The destination has the events; an event that was in doubt gets a dead letter. */
  | { readonly kind: 'recorded'; readonly lines: readonly Line[]; readonly letter?: Outcome | undefined }
  /** The destination does not get the event. */
  | { readonly kind: 'given up'; readonly line: Line; readonly outcome: Outcome }
  /** The journal no longer has the events, since retention removed them or a repair did not find them. */
  | { readonly kind: 'gap'; readonly gone: SeqRange; readonly reason: string }
  /** The destination does not want the events up to this one. */
  | { readonly kind: 'unwanted'; readonly last: Line };

export class Ledger {
  #value: CursorValue = { seq: 0, id: null, sending: undefined, kind: undefined, to: '' };
  /** Why the cursor is lost; undefined if it is known, or not open yet. */
  lostReason: string | undefined;
  /** Whether the URL was changed and the destination has not said yet how far it is. */
  isAtNewUrl = false;
  /** Events up to this seq that the destination does not get already have dead letters. */
  namedSeq = 0;
  /** Events that the destination might have although they are not settled. */
  readonly doubts = new Map<number, Outcome>();
  readonly #options: LedgerOptions;
  /** URL of the destination. */
  #to = '';
  /** Protects decisions that depend on both the cursor and the dead letters, and each append of a letter. */
  readonly #mutex = new Mutex();
  #letters: DeadLetters | undefined;
  #cursor: Cursor | undefined;
  /** Protects each save of the cursor, since retention can sync it concurrently with the pipe. */
  readonly #saving = new Mutex();
  /** The content of the cursor's file, and when it was saved; undefined until the cursor is known. */
  #saved: CursorValue | undefined;
  #savedMs = Number.NEGATIVE_INFINITY;
  /** The seq that the cursor on the disk had before it was opened; undefined if there was none. */
  #foundSeq: number | undefined;

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  /** How far the destination is. The cursor's file might have an earlier value. */
  get value(): CursorValue {
    return this.#value;
  }

  /**
   * The first seq that the destination might still need, according to its own answers or the cursor on the disk; 1 until the cursor is
   * known.
   */
  get floorSeq(): number {
    if (this.#saved === undefined) return (this.#foundSeq ?? 0) + 1;
    return (this.#isCache ? this.#value : this.#saved).seq + 1;
  }

  /** The last seq that is known to be settled. */
  get seq(): number {
    return this.isKnown ? this.#value.seq : (this.#foundSeq ?? 0);
  }

  /** The last seq that is settled or named. If a destination is new or has lost its cursor, no event is known to be missing. */
  get namedOrSettledSeq(): number {
    if (this.isKnown) return Math.max(this.#value.seq, this.namedSeq);
    return this.#foundSeq ?? Number.POSITIVE_INFINITY;
  }

  /** Whether it is known how far the destination is. */
  get isKnown(): boolean {
    return this.#saved !== undefined;
  }

  /** The kind as which the destination is asked until it has answered. */
  get kind(): DestinationKind {
    return this.#value.kind ?? kindOf(this.#to, 'destination');
  }

  get traits(): KindTraits {
    return traitsOf[this.kind];
  }

  /** Whether the destination itself reports how far it is, and never forgets an event. */
  get #isCache(): boolean {
    return this.traits.isHub;
  }

  /** The numbers of dead letters; undefined until they are open. */
  get letters(): Pick<DeadLetters, 'open' | 'lost' | 'lostTotal'> | undefined {
    return this.#letters;
  }

  /**
   * Determines, before the journal is opened, which events must not be removed from it. @throws the error of a system
   * call
   */
  async readFloor(): Promise<void> {
    const found = await readCursor(this.#options.disk, this.#options.name);
    if (found.kind === 'found') this.#foundSeq = found.value.seq;
  }

  /**
   * Opens dead letters and cursor for a pipe, after `close` was called for its predecessor. Can be called again after a
   * rejection.
   * @param firstSeq returns the first event of a new destination
   * @throws the error of a system call
   */
  async open({ to }: DestinationSettings, firstSeq: () => number | Promise<number>): Promise<void> {
    if (this.#cursor !== undefined && this.#saved !== undefined) return;
    const { disk, name, notices } = this.#options;
    await this.#mutex.run(() => this.#openLetters());
    await this.#cursor?.close();
    this.#cursor = undefined;
    const opened = await Cursor.open(disk, name);
    this.#cursor = opened.cursor;
    this.#saved = undefined;
    this.doubts.clear();
    this.namedSeq = 0;
    this.lostReason = opened.kind === 'lost' ? opened.reason : undefined;
    this.#to = to;
    const url = storedUrl(to);
    const asked = kindOf(to, 'destination');
    const kind = traitsOf[asked].truth === 'cursor' ? asked : undefined; // the scheme of a hook implies it
    if (opened.kind === 'found') {
      const { value } = opened;
      this.namedSeq = await this.namedAfter(value.seq);
      if (!traitsOf[value.kind ?? asked].repeatsBatches) {
        for (let seq = value.seq + 1; seq <= (value.sending ?? 0); seq += 1) this.doubts.set(seq, CRASHED);
      }
      // A cursor that an operator created has no URL.
      this.isAtNewUrl = value.to !== '' && value.to !== url;
      if (this.isAtNewUrl) notices.info('the destination has another URL and continues', { seq: value.seq, to: url });
      this.#value = { ...value, kind: value.kind ?? kind, to: url };
      this.#saved = value; // last, so that all of this is repeated after an error
      return;
    }
    this.#value = { seq: 0, id: null, sending: undefined, kind, to: url };
    if (opened.kind === 'lost') return; // even if it starts later, since it is unknown which events the destination is missing
    const seq = await firstSeq();
    await this.#save({ ...this.#value, seq: seq - 1 });
    notices.info('forwarding begins', { to: url, seq });
  }

  /** Runs a task with the dead letters, after all earlier tasks. */
  #withLetters<Result>(task: (letters: DeadLetters) => Promise<Result>): Promise<Result> {
    return this.#mutex.run(async () => task(await this.#openLetters()));
  }

  async #openLetters(): Promise<DeadLetters> {
    const { disk, name, letterBytesMax: bytesMax, limits } = this.#options;
    this.#letters ??= await DeadLetters.open(disk, name, { ...limits, bytesMax });
    return this.#letters;
  }

  /**
   * Saves a value durably, first to the disk and then to memory. @throws the error of a system call; it can be called
   * again then
   */
  #save(value: CursorValue): Promise<void> {
    return this.#saving.run(async () => {
      await this.#write(value);
      this.#value = value;
    });
  }

  async #write(value: CursorValue): Promise<void> {
    if (this.#saved === undefined || !isSame(value, this.#saved)) {
      await this.#cursor?.save(value);
      this.#savedMs = performance.now();
    }
    this.#saved = value;
  }

  /**
   * Keeps a value that the destination reports again when it is asked, and saves it if a crash must not lose it. @throws the errors
   * of `#save`
   */
  #cache(value: CursorValue): Promise<void> {
    const isFirst = this.#saved === undefined || this.#saved.id === null;
    if (!this.#isCache || isFirst) return this.#save(value);
    return this.#saving.run(async () => {
      this.#value = value;
    });
  }

  get #isSaved(): boolean {
    return this.#saved !== undefined && isSame(this.#value, this.#saved);
  }

  /**
   * Called at intervals: saves a cursor that is only in memory. @throws the error of a system call; it can be called again
   * then
   */
  async saveIfMoved(): Promise<void> {
    if (this.isKnown && !this.#isSaved) await this.#saveNow();
  }

  /**
   * Makes the value durable, concurrently with the pipe, even if an earlier save failed. @throws the error of a system
   * call
   */
  #saveNow(): Promise<void> {
    return this.#saving.run(async () => {
      if (this.isKnown) await this.#write(this.#value);
    });
  }

  /** Only events in doubt, and the rest of a request that is repeated unchanged, are still being sent. */
  get #settled(): CursorValue {
    const { sending, seq } = this.#value;
    const isSending = this.doubts.size > 0 || (this.traits.repeatsBatches && sending !== undefined && sending > seq);
    return { ...this.#value, sending: isSending ? sending : undefined };
  }

  /**
   * Saves how far the destination is. For a hub it saves only what a crash must not lose. @throws the error of a system
   * call
   */
  save(): Promise<void> {
    return this.#cache(this.#settled);
  }

  /**
   * The destination has answered as one of this kind; undefined if its kind is unknown again. @throws the error of a system
   * call
   */
  decideKind(kind: DestinationKind | undefined): Promise<void> {
    return this.#save({ ...this.#settled, kind });
  }

  /** Saves the position that the destination has reported. @throws the error of a system call */
  moveTo({ seq, id }: Position): Promise<void> {
    return this.#mutex.run(async () => {
      const { sending = 0, ...value } = this.#value;
      // Together with the events before it, a request would have no size limit.
      const isSentAgain = value.seq <= seq && seq < sending;
      const at = seq === value.seq ? {} : { seq, id };
      await this.#save({ ...value, ...at, kind: this.kind, sending: isSentAgain ? sending : undefined });
      // A power cut might have undone the cursor, so events that were refused after this position already have dead
      // letters.
      if (value.seq < seq) this.namedSeq = Math.max(this.namedSeq, await this.#letters!.namedAfter(seq));
      if (this.lostReason !== undefined)
        this.#options.notices.info('the cursor was lost and forwarding continues', { seq: seq + 1 });
      this.lostReason = undefined;
      this.isAtNewUrl = false;
    });
  }

  /**
   * Called before a request: after a crash the destination might have the events up to this one. @throws the error of a system
   * call
   */
  async begin(seq: number): Promise<void> {
    // After a crash, only the destination knows which events it has, or nobody does.
    if (this.traits.repeatsBatches || this.traits.truth === 'cursor')
      await this.#save({ ...this.#value, sending: Math.max(seq, ...this.doubts.keys()) });
  }

  /** @returns for how many milliseconds a position that passed only unwanted events is not yet worth a sync */
  unwantedWaitMs(everyMs: number): number {
    if (this.#value === this.#saved || this.#saved?.sending !== undefined) return 0;
    return Math.max(0, this.#savedMs + everyMs - performance.now());
  }

  /**
   * Makes the outcome of events durable: first the dead letters, then the position that passes the events. After an error it can be
   * called again with the same step.
   * @returns the last event of the step @throws the errors of `append`, or Defect if it would pass earlier events whose outcome is
   * unknown
   */
  async record(step: Step): Promise<Position> {
    const last = endOf(step);
    this.#checkNext(step);
    const isAsked = this.traits.truth === 'destination';
    switch (step.kind) {
      case 'recorded':
        if (step.letter !== undefined) await this.#addLetter(step.lines[0]!, step.letter);
        this.#passTo(last);
        if (isAsked) await this.save(); // otherwise with the next request
        break;
      case 'given up':
        if (last.seq > this.namedSeq || !isAsked) await this.#addLetter(step.line, step.outcome);
        this.#passLost(last);
        break;
      case 'gap':
        if (last.seq > this.namedSeq) await this.#nameGone(step.gone, step.reason);
        this.#passLost(last);
        break;
      case 'unwanted':
        this.#passTo(last);
        break;
    }
    return last;
  }

  #checkNext(step: Step): void {
    const first = startOf(step);
    const nextSeq = this.namedOrSettledSeq + 1;
    if (first === undefined || first <= nextSeq) return;
    throw new Defect(`events ${nextSeq} to ${first - 1} would be passed, and no dead letter names them`);
  }

  /** Everything up to a position is settled: recorded by the destination, in the dead letters, or unwanted. */
  #passTo({ seq, id }: Position): void {
    for (const one of this.doubts.keys()) if (one <= seq) this.doubts.delete(one);
    const inDoubt = this.doubts.size > 0 ? Math.max(...this.doubts.keys()) : undefined;
    const sending = this.traits.truth === 'cursor' ? inDoubt : this.#value.sending;
    this.#value = { ...this.#value, seq, id, sending };
  }

  /** Everything up to a position is lost or was passed before, and the dead letters name the lost events. */
  #passLost(position: Position): void {
    this.namedSeq = Math.max(this.namedSeq, position.seq);
    if (!this.traits.isHub) this.#passTo(position); // otherwise the cursor passes it with the next accepted event
  }

  #addLetter(line: Line, outcome: Outcome): Promise<void> {
    return this.append({ time: new Date().toISOString(), ...outcome, line: line.text });
  }

  /** Appends a dead letter. @throws the errors of `DeadLetters.append` */
  append(letter: DeadLetter): Promise<void> {
    return this.#withLetters((letters) => letters.append(letter));
  }

  /** Like `DeadLetters.namedAfter`. @throws the error of a system call */
  namedAfter(seq: number): Promise<number> {
    return this.#withLetters((letters) => letters.namedAfter(seq));
  }

  /** Whether an open dead letter concerns an event of a range. */
  isMissing(range: SeqRange): boolean {
    return this.#letters?.isMissing(range) === true;
  }

  /**
   * Makes the cursor durable before events are removed that it passes, even if it is not open yet. @throws the error of a
   * system call
   */
  async makeDurable(): Promise<void> {
    if (this.#cursor !== undefined) return this.#saveNow();
    if (this.#isSaved) return;
    const { disk, name } = this.#options;
    const { kind } = await readCursor(disk, name);
    if (kind === 'found') await (await Cursor.open(disk, name)).cursor.close();
  }

  /** An event that was being sent might have arrived, so it remains in doubt. */
  #nameGone(gone: SeqRange, reason: string): Promise<void> {
    return this.#withLetters(async (letters) => {
      for (const [seq, doubt] of this.doubts) {
        const range = { first: seq, last: seq };
        if (seq < gone.first || gone.last < seq || letters.isMissing(range)) continue;
        const why = { outcome: doubt.outcome, status: doubt.status, reason: `${doubt.reason}; ${reason}` };
        await letters.append({ time: new Date().toISOString(), ...why, ...range });
      }
      for (const range of await letters.nameRemoved(gone, reason))
        this.#options.notices.warn(LOST, { ...range, reason });
    });
  }

  /**
   * Saves how far the destination is, and closes the cursor.
   * @param isSettled whether the consequences of the last answer are durable. Otherwise its events still count as being
   * sent
   * @throws the error of a system call; the cursor is closed then too
   */
  async close(isSettled: boolean): Promise<void> {
    try {
      if (this.#cursor === undefined || this.#saved === undefined) return;
      await this.#save(isSettled ? this.#settled : { ...this.#value, sending: this.#saved.sending });
    } finally {
      const cursor = this.#cursor;
      this.#cursor = undefined;
      await cursor?.close();
    }
  }
}

/** Log message about events that a destination does not get. */
const LOST = 'events are gone that a destination has not confirmed; a dead letter names them';

/** @returns the first seq of a step, if the step determines it */
function startOf(step: Step): number | undefined {
  if (step.kind === 'gap') return step.gone.first;
  if (step.kind === 'recorded') return step.lines[0]!.seq;
  return step.kind === 'given up' ? step.line.seq : undefined;
}

function endOf(step: Step): Position {
  if (step.kind === 'gap') return { seq: step.gone.last, id: null };
  const line = step.kind === 'recorded' ? step.lines.at(-1)! : step.kind === 'given up' ? step.line : step.last;
  return { seq: line.seq, id: line.event.id };
}

const CRASHED: Outcome = {
  outcome: 'in doubt',
  became: 'given up',
  reason: 'it was being sent when the service stopped without a reply; it may be there, once or twice',
};

function isSame(one: CursorValue, other: CursorValue): boolean {
  const textOf = ({ seq, id, sending, kind, to }: CursorValue) => `${[seq, id, sending, kind, to]}`;
  return textOf(one) === textOf(other);
}
