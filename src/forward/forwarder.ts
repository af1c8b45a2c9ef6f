/**
 * Forwards one journal to one destination. The journal is the queue, one request is in flight, and every step is a state:
 *
 *     starting → asking → idle → sending → idle …           a hub is asked how far it is; a plain upstream is not
 *                 ↑        ↑       ├→ suspect → idle        a plain upstream: is it this event, or an outage?
 *                 └────────┴───────┴→ waiting, stopped      backoff, or an operator has to do something; then again
 *
 * Order of durability: a dead letter before the cursor that passes its event; at a plain upstream also the cursor that says that an
 * event is being sent before the event is.
 */

import type { Limits } from '../config/limits.ts';
import { type Disk, describe } from '../journal/disk.ts';
import type { OwnProgress } from '../journal/progress.ts';
import { type Line, sizeOf } from '../journal/reader.ts';
import { idTimeMs } from '../journal/record.ts';
import { contentsOf, type GoneRange } from '../journal/segments.ts';
import type { Notices } from '../telemetry/log.ts';
import { shellWord } from '../telemetry/printable.ts';
import { Backlog, type BacklogSource, type Head, lineAt } from './backlog.ts';
import { Cursor, type CursorValue, storedUrl } from './cursor.ts';
import type { DeadLetter } from './dead-letter.ts';
import { type DeadLetters, LettersFullError } from './dead-letters.ts';
import type { Destination } from './destination.ts';
import { Pace } from './pace.ts';
import type { Again, Asked, Outgoing, Sent, StopKind, Target, TargetKind } from './target.ts';

/** What a forwarder needs: `{ destination, disk, progress, target: (kind) => openTarget(kind, …), notices, limits }`. */
export interface ForwarderParts {
  /** Its `to` is that of the deployment. */
  readonly destination: Destination;
  /** The folder of the journal. */
  readonly disk: Disk;
  readonly progress: OwnProgress;
  /** Opens the destination as this kind: as a hub first, if the kind is not known yet. */
  readonly target: (kind: TargetKind) => Target;
  /** @returns the dead letters of the destination, which others append to as well. @throws the error of a system call */
  readonly letters: () => Promise<DeadLetters>;
  readonly notices: Notices;
  readonly limits: Limits;
  /** Called with the bytes of lines that were taken. */
  readonly onForwarded?: ((bytes: number) => void) | undefined;
  /** Called when `status` begins to say something else, but not for each event. */
  readonly onChange?: (() => void) | undefined;
  /** Time of the last event that was taken before this start, if it is known. */
  readonly lastSuccess?: string | null;
}

/** All that `ForwarderStatus.state` can be. */
export const forwarderStates = ['asking', 'idle', 'sending', 'suspect', 'waiting', 'stopped'] as const;

/** How far a forwarder is, in the words of `assetlog forward status --json`: `{ name: 'hub', kind: 'hub', state: 'idle', … }`. */
export interface ForwarderStatus {
  readonly name: string;
  readonly to: string;
  /** Null until the destination has answered. */
  readonly kind: TargetKind | null;
  readonly state: (typeof forwarderStates)[number];
  /** Of a stopped one. */
  readonly why: StopKind | null;
  /** What is wrong, and what to do; null if nothing is. */
  readonly reason: string | null;
  /** Since when it works, waits or is stopped: `2026-11-20T15:19:45.266Z`. */
  readonly since: string;
  /** When one that waits or is stopped tries again; null if it works, or is trying now. */
  readonly next_try: string | null;
  /** All events up to this one are dealt with: recorded there, or in the dead letters. */
  readonly seq: number;
  /** The last event of the journal. */
  readonly last_seq: number;
  readonly lag_events: number;
  /** Age of the oldest event that is not dealt with. */
  readonly lag_seconds: number;
  readonly dead_letters: number;
  /** Events that retention removed before the destination confirmed them. */
  readonly lost_events: number;
  /** Time of the last event that was taken; null if there was none. */
  readonly last_success: string | null;
  readonly last_error: string | null;
}

type State =
  | { readonly kind: 'starting' | 'asking' | 'idle' | 'sending' }
  | { readonly kind: 'suspect'; readonly reason: string }
  | { readonly kind: 'waiting'; readonly reason: string; readonly waitMs: number; readonly next: State }
  | { readonly kind: 'stopped'; readonly why: StopKind; readonly reason: string; readonly next: State };

const STARTING: State = { kind: 'starting' };
const ASKING: State = { kind: 'asking' };
const IDLE: State = { kind: 'idle' };

type Refused = Extract<Sent, { kind: 'refused' }>;

/** Why an event has a dead letter. */
type Verdict = Pick<DeadLetter, 'outcome' | 'became' | 'status' | 'reason'>;

/** One journal and one destination: `new Forwarder(parts).start()`. */
export class Forwarder {
  readonly #parts: ForwarderParts;
  readonly #notices: Notices;
  readonly #pace: Pace;
  readonly #source: BacklogSource;
  readonly #backlog: Backlog;
  /** Ends waits for events, and after `forwardStopMs` the request in flight. */
  readonly #closing = new AbortController();
  readonly #abort = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #state: State = STARTING;
  /** The last state that was reported as wrong; undefined while events pass. */
  #trouble: Extract<State, { reason: string }> | undefined;
  readonly #reported = new Set<string>();
  #since = new Date().toISOString();
  #wake: (() => void) | undefined;
  /** When the present pause ends, if it is because of a trouble. */
  #nextTry: string | null = null;

  #target: Target | undefined;
  #cursor: Cursor | undefined;
  #letters: DeadLetters | undefined;
  /** Why the cursor is not known; undefined if it is. */
  #lost: string | undefined;
  #value: CursorValue;
  #saved: CursorValue | undefined;
  /** The last seq that the hub has. */
  #hubSeq = 0;
  /** The events that were sent to the hub last. */
  #sent: GoneRange = { first: 1, last: 0 };
  /** Up to this seq, events that are gone have a dead letter. */
  #gapSeq = 0;
  /** Events that a plain upstream may have recorded though they are not dealt with. */
  readonly #doubts = new Map<number, Verdict>();
  /** Requests for the first event that left it in doubt, and refusals since the last event that was taken. */
  #tries = 0;
  #refusals = 0;

  #oldest: { readonly seq: number; readonly time: string } | undefined;
  #lastSuccess: string | null;
  #lastError: string | null = null;
  /** Events by what became of them, since the start: `recorded`, `refused`, `in doubt`. */
  readonly outcomes = new Map<string, number>();
  /** Requests by what they were answered, since the start: the kinds of `Asked` and `Sent`. */
  readonly answers = new Map<string, number>();

  constructor(parts: ForwarderParts) {
    const { destination, disk, progress, notices, limits } = parts;
    this.#parts = parts;
    this.#lastSuccess = parts.lastSuccess ?? null;
    this.#notices = notices.with({ destination: destination.name });
    this.#pace = new Pace(limits, destination.ratePerSecond);
    this.#source = { disk, progress: () => progress.of(disk.folder), limits, signal: this.#closing.signal };
    this.#backlog = new Backlog(this.#source, 0);
    this.#value = { seq: 0, id: null, sending: undefined, kind: undefined, to: storedUrl(destination.to) };
  }

  /** Begins to forward once the journal is readable. */
  start(): void {
    this.#running = this.#run();
  }

  /** Ends a wait: a stopped forwarder tries again at once. */
  tryNow(): void {
    this.#refusals = 0;
    if (this.#state.kind === 'waiting' || this.#state.kind === 'stopped') this.#wake?.();
  }

  /** The first seq that is still to be sent, as of the cursor on the disk: 54. 1 until the cursor is known. */
  get floorSeq(): number {
    return (this.#saved?.seq ?? 0) + 1;
  }

  /** The last seq that is dealt with, which may not be on the disk yet: 53. Undefined until the cursor is known. */
  get seq(): number | undefined {
    return this.#saved && this.#value.seq;
  }

  /** @returns how long a request beside those of the forwarder has to wait, so that both together keep to `ratePerSecond` */
  turnMs(): number {
    return this.#pace.turnMs();
  }

  /** Files are not read: it may be called at any time. */
  status(): ForwarderStatus {
    const { name, to } = this.#parts.destination;
    const { seq, kind = null } = this.#value;
    const lastSeq = Math.max(this.#lastSeq, seq);
    const state = this.#trouble ?? this.#state;
    return {
      name,
      to,
      kind,
      state: state.kind === 'starting' ? 'asking' : state.kind,
      why: state.kind === 'stopped' ? state.why : null,
      reason: 'reason' in state ? state.reason : null,
      since: this.#since,
      next_try: this.#trouble === undefined ? null : this.#nextTry,
      seq,
      last_seq: lastSeq,
      lag_events: lastSeq - seq,
      lag_seconds: lastSeq === seq ? 0 : this.#lagSeconds(),
      dead_letters: this.#letters?.open ?? 0,
      lost_events: this.#letters?.lost ?? 0,
      last_success: this.#lastSuccess,
      last_error: this.#lastError,
    };
  }

  /** Stops after the request in flight, which has `forwardStopMs` to end. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#wake?.();
    const late = setTimeout(() => this.#abort.abort(), this.#parts.limits.forwardStopMs);
    await this.#running;
    clearTimeout(late);
    this.#target?.close();
    try {
      await this.#backlog.moveTo(this.#value.seq);
      if (this.#saved !== undefined) await this.#save(undefined);
    } catch (error) {
      this.#notices.warn('the cursor could not be saved', { reason: describe(error as Error) });
    }
    await this.#cursor?.close().catch((error: Error) => {
      this.#notices.warn('the cursor could not be closed', { reason: describe(error) });
    });
  }

  get #isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  get #lastSeq(): number {
    return (this.#parts.progress.nextSeq(this.#parts.disk.folder) ?? 1) - 1;
  }

  #lagSeconds(): number {
    const head = this.#backlog.head();
    const read = head?.kind === 'lines' ? head.lines[0]?.event.time : undefined;
    const time = read ?? (this.#oldest?.seq === this.#value.seq + 1 ? this.#oldest.time : undefined);
    return time === undefined ? 0 : Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000));
  }

  async #run(): Promise<void> {
    while (!this.#isClosing) {
      const state = this.#state;
      const next = await this.#step(state).catch((error: Error) => this.#waiting({ reason: describe(error) }, state));
      if (this.#isClosing) return;
      this.#state = next;
      if (state.kind === 'asking' && next.kind === 'idle') this.#changed();
      if (next.kind === 'waiting' || next.kind === 'stopped' || next.kind === 'suspect') this.#report(next);
    }
  }

  #step(state: State): Promise<State> {
    switch (state.kind) {
      case 'starting':
        return this.#begin();
      case 'asking':
        return this.#ask();
      case 'idle':
        return this.#next();
      case 'sending':
        return this.#send();
      case 'suspect':
        return this.#lookFurther();
      case 'waiting':
        return this.#pause(state.waitMs).then(() => state.next);
      case 'stopped':
        return this.#pause(this.#parts.limits.forwardStoppedMs).then(() => state.next);
    }
  }

  async #begin(): Promise<State> {
    const { letters } = this.#parts;
    const progress = this.#source.progress();
    while (!this.#isClosing && (await progress.durable()).kind === 'unsaid') await progress.more(this.#closing.signal);
    if (this.#isClosing) return STARTING;
    this.#letters ??= await letters();
    if (this.#saved === undefined) await this.#openCursor();
    const { seq, id, kind } = this.#value;
    const last = this.#lastSeq;
    await this.#backlog.moveTo(seq);
    const oldest = last > seq ? await lineAt(this.#source, seq + 1) : undefined;
    this.#oldest = oldest && { seq: seq + 1, time: oldest.event.time };
    this.#open(kind ?? 'hub');
    if (kind !== 'api') return ASKING;
    if (seq <= last && (seq === 0 || id === null || (await this.#isOurs(seq, id)))) return IDLE;
    return this.#fork(
      `event ${seq} was sent, and this journal, which ends with ${last}, does not have it`,
      id,
      STARTING,
    );
  }

  async #openCursor(): Promise<void> {
    const { disk, destination } = this.#parts;
    const { to } = this.#value;
    await this.#cursor?.close();
    this.#cursor = undefined;
    const opened = await Cursor.open(disk, destination.name);
    this.#cursor = opened.cursor;
    this.#lost = opened.kind === 'lost' ? opened.reason : undefined;
    if (opened.kind === 'found') {
      const { value } = opened;
      this.#gapSeq = await this.#letters!.buriedAfter(value.seq);
      for (let seq = value.seq + 1; seq <= (value.sending ?? 0); seq += 1) this.#doubts.set(seq, CRASHED);
      // A cursor that an operator made has no URL.
      if (value.to !== '' && value.to !== to)
        this.#notices.info('the destination has another URL and continues', { seq: value.seq, to });
      this.#value = { ...value, to };
      this.#saved = value; // last: until then all of this is repeated after an error
      return;
    }
    if (opened.kind === 'lost') return; // also with `begin` at `now`: what the destination lacks is not known
    const seq = destination.begin === 'now' ? this.#lastSeq : (await this.#firstSeq()) - 1;
    await this.#save({ ...this.#value, seq });
    this.#notices.info('forwarding begins', { to, seq: seq + 1 });
  }

  async #ask(): Promise<State> {
    const asked = await this.#opened.ask(this.#abort.signal);
    this.#count(this.answers, asked.kind);
    switch (asked.kind) {
      case 'again':
        return this.#waiting(asked, ASKING);
      case 'stopped':
        return { ...asked, next: ASKING };
      case 'at':
        return this.#continueAt(asked);
      case 'no hub':
        return this.#noHub();
    }
  }

  async #noHub(): Promise<State> {
    const { name, to } = this.#parts.destination;
    if (this.#value.kind === 'hub') {
      const reason = `${to} was a hub and does not answer as one any more; check the URL and proxies`;
      return stop('not understood', reason, ASKING);
    }
    if (this.#lost !== undefined) {
      return stop(
        'cursor lost',
        `${this.#lost}, and ${to} can not be asked; ${this.#toRun(`from ${name} --seq N`)}`,
        ASKING,
      );
    }
    await this.#save({ ...this.#value, kind: 'api' });
    return STARTING;
  }

  async #continueAt({ seq: hubSeq, id }: Extract<Asked, { kind: 'at' }>): Promise<State> {
    const { to } = this.#parts.destination;
    const had = this.#value.seq;
    if (hubSeq > this.#lastSeq || (hubSeq > 0 && !(await this.#isOurs(hubSeq, id)))) {
      const problem = `${to} has event ${hubSeq} of this journal as ${id}, and this journal, which ends with ${this.#lastSeq}, does not`;
      return this.#fork(problem, id, ASKING);
    }
    // Without an id, an operator or `begin` has said where it continues at a hub that does not know the journal. A destination
    // that took an event does not begin `now` a second time.
    const isSet = this.#value.id === null;
    // Not beyond the cursor: what retention removed after it is named.
    const seq = hubSeq > 0 ? hubSeq : isSet ? had : Math.min(had, (await this.#firstSeq()) - 1);
    if (hubSeq < had && this.#value.kind === 'hub' && !isSet) {
      this.#notices.warn('the hub has fewer events than it had: they are sent again', { had, has: hubSeq });
      this.#gapSeq = Math.min(this.#gapSeq, hubSeq);
    }
    // The hub may have taken the last request although its answer was lost.
    if (this.#sent.first <= hubSeq && hubSeq <= this.#sent.last) {
      await this.#confirmed({ ...this.#sent, last: hubSeq });
    }
    await this.#backlog.moveTo(seq);
    this.#hubSeq = hubSeq;
    await this.#save({ ...this.#value, kind: 'hub', sending: undefined, ...(seq === had ? {} : { seq, id }) });
    if (this.#lost !== undefined) this.#notices.info('the cursor was lost and forwarding continues', { seq: seq + 1 });
    this.#lost = undefined;
    this.#pace.reached();
    return IDLE;
  }

  async #next(): Promise<State> {
    const head = this.#backlog.head();
    if (head === undefined) {
      await this.#save(undefined);
      if (this.#value.seq >= this.#lastSeq) this.#recovered();
      this.#changed();
      await this.#backlog.more();
      return IDLE;
    }
    switch (head.kind) {
      case 'lines':
        return { kind: 'sending' };
      case 'gap':
        await this.#passGap(head);
        return IDLE;
      case 'damage':
        await this.#backlog.moveTo(this.#value.seq); // it is read again, since it may have been repaired
        return stop('damage', head.reason, IDLE);
      case 'another journal':
        return STARTING;
    }
  }

  /** Retention has named the events before it removed them, unless the service did not have this destination then. */
  async #passGap({ gone, reason }: Extract<Head, { kind: 'gap' }>): Promise<void> {
    const isNew = gone.last > this.#gapSeq;
    const named = isNew ? await this.#durably(() => this.#letters!.nameRemoved(gone, reason)) : [];
    for (const range of named) this.#notices.warn(LOST, { ...range, reason });
    this.#gapSeq = Math.max(this.#gapSeq, gone.last);
    for (const seq of this.#doubts.keys()) if (seq <= gone.last) this.#doubts.delete(seq);
    this.#backlog.pass(gone.last);
    // A hub passes it with the next event that it takes.
    if (this.#value.kind === 'api') this.#value = { ...this.#value, seq: gone.last, id: null };
  }

  /** Sends the lines at hand to a hub, or the first one to a plain upstream. */
  async #send(): Promise<State> {
    const isHub = this.#value.kind === 'hub';
    const head = this.#backlog.head(isHub ? this.#parts.limits.forwardBatchBytes : 0);
    if (head?.kind !== 'lines') return IDLE;
    const [line] = head.lines as [Line];
    if (isHub) {
      const lost = line.seq > this.#hubSeq + 1 ? { first: this.#hubSeq + 1, last: line.seq - 1 } : undefined;
      this.#sent = { first: line.seq, last: head.lines.at(-1)!.seq };
      const sending = this.#request({ lines: head.lines, lost });
      void this.#backlog.readAhead(head.lines.at(-1)!.seq, this.#lastSeq, this.#parts.limits.forwardBatchBytes);
      return this.#sentToHub(head.lines, await sending);
    }
    const doubt = this.#doubts.get(line.seq);
    if (doubt !== undefined && this.#parts.destination.inDoubt === 'once') {
      await this.#deal(line, doubt);
      return IDLE;
    }
    const sent = await this.#request({ lines: [line], lost: undefined });
    if (sent.kind !== 'in doubt' || sent.final) return this.#sentToUpstream(line, sent);
    this.#tries += 1;
    this.#doubt(line, sent);
    return this.#tries < this.#parts.limits.forwardTriesMax || this.#parts.destination.inDoubt === 'once'
      ? this.#waiting(sent, IDLE)
      : { kind: 'suspect', reason: sent.reason };
  }

  async #sentToHub(lines: readonly Line[], sent: Sent): Promise<State> {
    if (sent.kind === 'stopped')
      return sent.why === 'fork' ? this.#fork(sent.reason, null, ASKING) : { ...sent, next: ASKING };
    if (sent.kind === 'refused') return this.#refusedByHub(lines[0]!, sent);
    const taken = sent.kind === 'recorded' ? lines.findIndex(({ seq }) => seq === sent.seq) : -1;
    if (taken === -1 || sent.kind !== 'recorded') {
      return this.#waiting(sent.kind === 'recorded' ? { reason: `it answered with event ${sent.seq}` } : sent, ASKING);
    }
    this.#hubSeq = sent.seq;
    this.#backlog.pass(sent.seq);
    this.#value = { ...this.#value, seq: sent.seq, id: lines[taken]!.event.id };
    await this.#confirmed({ first: lines[0]!.seq, last: sent.seq });
    await this.#durably(() => this.#save(undefined));
    this.#taken(lines.slice(0, taken + 1));
    return IDLE;
  }

  /** The hub does not get the event: the next request says that it is lost. */
  async #refusedByHub(line: Line, sent: Refused): Promise<State> {
    if (this.#isOneTooMany) return this.#tooManyRefusals(line, sent);
    if (line.seq > this.#gapSeq) await this.#bury({ ...refusalOf(sent, undefined), line: line.text });
    this.#gapSeq = Math.max(this.#gapSeq, line.seq);
    this.#refusals += 1;
    this.#backlog.pass(line.seq);
    return IDLE;
  }

  /** What an answer means that leaves no doubt, or is final. */
  async #sentToUpstream(line: Line, sent: Sent): Promise<State> {
    switch (sent.kind) {
      case 'recorded':
        await this.#confirmed({ first: line.seq, last: line.seq });
        await this.#deal(line, takenAfter(this.#doubts.get(line.seq)));
        this.#taken([line]);
        return IDLE;
      case 'refused':
        if (this.#isOneTooMany) return this.#tooManyRefusals(line, sent);
        this.#refusals += 1;
        this.#pace.succeeded();
        await this.#deal(line, refusalOf(sent, this.#doubts.get(line.seq)));
        return IDLE;
      case 'in doubt':
        this.#pace.succeeded();
        this.#doubt(line, sent); // so that a stop before its dead letter leaves it as being sent
        await this.#deal(line, this.#doubts.get(line.seq));
        return IDLE;
      case 'stopped':
        return { ...sent, next: await this.#untilTaken() };
      default:
        return this.#waiting(sent, await this.#untilTaken());
    }
  }

  /** A proxy in front of a hub answers as no hub does, so that a plain upstream is asked again until it has taken an event. */
  async #untilTaken(): Promise<State> {
    if (this.#value.id !== null || this.#doubts.size > 0) return IDLE;
    this.#value = { ...this.#value, kind: undefined };
    await this.#save(undefined);
    return STARTING;
  }

  get #isOneTooMany(): boolean {
    return this.#refusals + 1 >= this.#parts.limits.forwardRefusalsMax;
  }

  #tooManyRefusals({ seq }: Line, { reason: why }: Refused): State {
    const reason = `${this.#refusals + 1} events in a row were refused, the last one is ${seq}: ${why}; if they are wrong, continue with SIGHUP`;
    return stop('refusals', reason, IDLE);
  }

  /** The first event was in doubt too often. If the upstream answers to the next one, it is this event; otherwise it is an outage. */
  async #lookFurther(): Promise<State> {
    const head = this.#backlog.head();
    if (head?.kind !== 'lines') return IDLE;
    const [line] = head.lines as [Line];
    this.#tries = this.#parts.limits.forwardTriesMax - 1; // after an outage, once before looking further again
    const isLast = this.#lastSeq === line.seq;
    let next = this.#after(line.seq);
    while (next === undefined && !this.#isClosing) {
      await this.#backlog.more();
      next = this.#after(line.seq);
    }
    if (isLast || next === undefined) return IDLE; // while there was nothing else to send, the outage may have ended
    if (next.kind === 'another journal') return STARTING;
    if (next.kind === 'damage') return stop('damage', next.reason, this.#state);
    const [second] = next.lines as [Line];
    const sent = await this.#request({ lines: [second], lost: undefined });
    if (sent.kind === 'in doubt' && !sent.final) {
      this.#doubt(second, sent);
      return this.#waiting(sent, IDLE);
    }
    if (sent.kind === 'recorded' || sent.kind === 'refused' || sent.kind === 'in doubt') {
      await this.#deal(line, this.#doubts.get(line.seq));
      const gap = this.#backlog.head();
      if (gap?.kind === 'gap') await this.#passGap(gap);
    }
    return this.#sentToUpstream(second, sent);
  }

  /** What comes after a line, gaps left out. */
  #after(seq: number): Exclude<Head, { kind: 'gap' }> | undefined {
    const head = this.#backlog.head(0, seq);
    return head?.kind === 'gap' ? this.#after(head.gone.last) : head;
  }

  async #request(outgoing: Outgoing): Promise<Sent> {
    await this.#pause(this.#pace.turnMs());
    if (this.#isClosing) return { kind: 'again', reason: 'the service stops' };
    if (this.#value.kind === 'api')
      await this.#save({ ...this.#value, sending: Math.max(outgoing.lines[0]!.seq, ...this.#doubts.keys()) });
    const sent = await this.#opened.send(outgoing, this.#abort.signal);
    this.#count(this.answers, sent.kind);
    return sent;
  }

  #doubt({ seq }: Line, sent: Extract<Sent, { kind: 'in doubt' }>): void {
    this.#doubts.set(seq, verdictOf(sent));
  }

  /** A plain upstream is done with an event: its dead letter is durable before the cursor passes it. */
  async #deal(line: Line, verdict: Verdict | undefined): Promise<void> {
    if (verdict !== undefined) await this.#bury({ ...verdict, line: line.text });
    this.#doubts.delete(line.seq);
    this.#tries = 0;
    this.#backlog.pass(line.seq);
    const sending = this.#doubts.size > 0 ? Math.max(...this.#doubts.keys()) : undefined;
    this.#value = { ...this.#value, seq: line.seq, id: line.event.id, sending };
  }

  async #bury(letter: Omit<DeadLetter, 'time'>): Promise<void> {
    await this.#durably(() => this.#letters!.append({ time: new Date().toISOString(), ...letter }));
    const { outcome, became, reason } = letter;
    if (became === 'taken') return; // it is counted as recorded
    if (!this.outcomes.has(outcome))
      this.#notices.warn('there are new dead letters; this is the first', { outcome, reason });
    this.#count(this.outcomes, outcome);
  }

  /** Closes the letters about events that retention removed while they were on their way, or whose removal a power cut undid. */
  #confirmed(taken: GoneRange): Promise<void> {
    return this.#durably(() => this.#letters!.taken(taken));
  }

  /** Repeats a write until it succeeds: nothing passes meanwhile. Reports are not touched. */
  async #durably<Result>(write: () => Promise<Result>): Promise<Result> {
    const before = this.#state;
    for (;;) {
      try {
        const result = await write();
        if (this.#state !== before && this.#trouble === this.#state) this.#recovered();
        this.#state = before;
        return result;
      } catch (error) {
        const reason = describe(error as Error);
        const isFull = error instanceof LettersFullError;
        const state = isFull ? stop('dead letters', reason, before) : this.#waiting({ reason }, before);
        this.#state = state;
        this.#report(state);
        await this.#pause(state.kind === 'waiting' ? state.waitMs : this.#parts.limits.forwardStoppedMs);
        if (this.#isClosing) throw error;
      }
    }
  }

  /** @param value undefined for the present one, without an event that is being sent unless one is in doubt */
  async #save(value: CursorValue | undefined): Promise<void> {
    const { sending, ...rest } = this.#value;
    const saved = value ?? { ...rest, sending: this.#doubts.size > 0 ? sending : undefined };
    if (this.#saved === undefined || !isSame(saved, this.#saved)) await this.#cursor?.save(saved);
    this.#value = this.#saved = saved;
  }

  #taken(lines: readonly Line[]): void {
    this.#refusals = 0;
    this.#pace.succeeded();
    const isFirst = this.#lastSuccess === null;
    this.#lastSuccess = new Date().toISOString();
    this.#count(this.outcomes, 'recorded', lines.length);
    this.#parts.onForwarded?.(sizeOf(lines));
    this.#recovered();
    if (isFirst) this.#changed();
  }

  #waiting({ reason, afterMs }: Pick<Again, 'reason' | 'afterMs'>, next: State): Extract<State, { kind: 'waiting' }> {
    return { kind: 'waiting', reason, waitMs: this.#pace.failed(afterMs), next };
  }

  /** Logs what is wrong, once until events pass again. */
  #report(state: Extract<State, { reason: string }>): void {
    const { kind, reason } = state;
    if (this.#trouble === undefined) this.#since = new Date().toISOString();
    this.#trouble = state;
    this.#lastError = reason;
    const { forwardStoppedMs } = this.#parts.limits;
    const waitMs = kind === 'waiting' ? state.waitMs : forwardStoppedMs;
    this.#nextTry = kind === 'suspect' ? null : new Date(Date.now() + waitMs).toISOString();
    this.#changed();
    const name = state.kind === 'stopped' ? state.why : kind;
    if (this.#reported.has(name)) return;
    this.#reported.add(name);
    const { seq, lag_events } = this.status();
    this.#notices.warn(messages[kind], { reason, seq, lag: lag_events });
  }

  #recovered(): void {
    if (this.#trouble === undefined) return;
    this.#trouble = undefined;
    this.#reported.clear();
    const { seq, lag_events } = this.status();
    this.#notices.info('events are forwarded again', { seq, lag: lag_events, since: this.#since });
    this.#since = new Date().toISOString();
    this.#changed();
  }

  #changed(): void {
    this.#parts.onChange?.();
  }

  get #opened(): Target {
    return this.#target!;
  }

  #open(kind: TargetKind): void {
    if (this.#target?.kind === kind) return;
    this.#target?.close();
    this.#target = this.#parts.target(kind);
  }

  /**
   * @returns whether the line with the seq has this id; also `true` if retention removed the line after the destination answered,
   *   as the cursor shows
   */
  async #isOurs(seq: number, id: string | null): Promise<boolean> {
    const line = await lineAt(this.#source, seq);
    if (line === undefined && this.#value.kind === undefined) return false; // nothing shows what was sent
    const own = line?.event.id ?? (seq === this.#value.seq ? this.#value.id : null);
    return own === null || own === id;
  }

  /** The first seq of the journal's first file. */
  async #firstSeq(): Promise<number> {
    return contentsOf(await this.#parts.disk.list()).segments[0]?.firstSeq ?? 1;
  }

  /** @param id of the event that the destination has and this journal has not */
  async #fork(problem: string, id: string | null, next: State): Promise<State> {
    const { seq, kind } = this.#value;
    const why = `${problem}: the folder was restored or copied`;
    // A copy continues after its own cursor.
    if (kind === 'hub' && seq <= this.#lastSeq) return stop('fork', `${why}; ${this.#toRun('identity --new')}`, next);
    const first = (await this.#firstAfter(id)) ?? 'N';
    const command = kind === 'api' ? `from ${this.#parts.destination.name}` : 'identity --new';
    const which = `${first} is the first event recorded after that one, by the clock; a lower number sends events twice, a higher one leaves events out`;
    return stop('fork', `${why}; ${this.#toRun(`${command} --seq ${first}`)} (${which})`, next);
  }

  /** @returns the first seq that was recorded after the event with this id; 1 if all there are were; undefined if the id has no time */
  async #firstAfter(id: string | null): Promise<number | undefined> {
    const atMs = idTimeMs(id);
    if (atMs === undefined) return undefined;
    const first = await this.#firstSeq();
    let [low, high] = [first, this.#lastSeq + 1];
    while (low < high) {
      const seq = Math.floor((low + high) / 2);
      const line = await lineAt(this.#source, seq);
      if (line !== undefined && Date.parse(line.event.time) > atMs) high = seq;
      else low = seq + 1;
    }
    return low === first ? 1 : low;
  }

  #toRun(command: string): string {
    return `stop the service and run assetlog forward ${command} --data ${shellWord(this.#parts.disk.folder)}`;
  }

  #count(counts: Map<string, number>, name: string, more = 1): void {
    counts.set(name, (counts.get(name) ?? 0) + more);
  }

  /** Waits, until `tryNow` or `close`. */
  #pause(ms: number): Promise<void> {
    if (ms <= 0 || this.#isClosing) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        this.#nextTry = null;
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.#wake = end;
    });
  }
}

/** Log message about events that a destination does not get. */
export const LOST = 'events are gone that a destination has not confirmed; a dead letter names them';

const CRASHED: Verdict = {
  outcome: 'in doubt',
  became: 'given up',
  reason: 'it was being sent when the service stopped without a reply; it may be there, once or twice',
};

const messages = {
  waiting: 'events can not be forwarded now',
  suspect: 'an event is in doubt: the next one shows whether it is an outage',
  stopped: 'forwarding is stopped',
};

function verdictOf({ status, reason }: Extract<Sent, { kind: 'in doubt' }>): Verdict {
  return { outcome: 'in doubt', became: 'given up', status, reason };
}

/** @returns the verdict on an event that the upstream took at a later try */
function takenAfter(doubt: Verdict | undefined): Verdict | undefined {
  return doubt && { ...doubt, became: 'taken' };
}

function refusalOf({ status, reason }: Refused, doubt: Verdict | undefined): Verdict {
  if (doubt === undefined) return { outcome: 'refused', status, reason };
  return {
    ...doubt,
    status,
    reason: `${reason}; an earlier request may have been recorded: ${doubt.reason}`,
  };
}

function isSame(one: CursorValue, other: CursorValue): boolean {
  const textOf = ({ seq, id, sending, kind, to }: CursorValue) => `${[seq, id, sending, kind, to]}`;
  return textOf(one) === textOf(other);
}

function stop(why: StopKind, reason: string, next: State): Extract<State, { kind: 'stopped' }> {
  return { kind: 'stopped', why, reason, next };
}
