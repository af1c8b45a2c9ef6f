/**
 * One journal and one destination. The journal is the queue, one request is in flight, and every step is a state:
 *
 *     opening → asking → idle → sending → settling → idle …    only one that can be asked: a hub, an engine
 *                ↑        ↑       ├→ suspect → settling        a plain upstream: is it this event, or an outage?
 *                │        ├→ lingering → settling              a hub: few events gather for one request
 *                └────────┴───────┴→ waiting, stopped          backoff, or an operator has to do something; then again
 *
 * A step that fails is repeated after a pause. `settling` makes durable what an answer means: of its steps, only the one that failed
 * and those after it are repeated.
 */

import type { OpenClient } from '../../client/connection.ts';
import { Defect } from '../../config/defect.ts';
import type { Limits } from '../../config/limits.ts';
import { type Disk, describe } from '../../journal/disk.ts';
import { NotRemovableError } from '../../journal/follower.ts';
import { type Line, sizeOf } from '../../journal/look/reading.ts';
import type { OwnProgress, Progress } from '../../journal/progress.ts';
import { contentsOf } from '../../journal/segments.ts';
import type { Notices } from '../../telemetry/log.ts';
import type { Ack } from '../acks.ts';
import type { Batch, Destination, Opening, Sent } from '../destinations/destination.ts';
import { type DestinationKind, type KindTraits, kindOf, kindsWith, traitsOf } from '../destinations/kinds.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Outcome } from '../ledger/letter.ts';
import { LettersFullError } from '../ledger/letters.ts';
import type { SeqRange } from '../position.ts';
import type { Deployment, DestinationSettings } from '../settings.ts';
import { readBegin, readVia, type Through, writeVia } from '../source.ts';
import { Alarms, type KnownAssets } from './alarms.ts';
import { AskedSending, stopForAck } from './asked.ts';
import { Backlog } from './backlog.ts';
import type { SendingContext } from './context.ts';
import { PlainSending } from './plain.ts';
import { LetterChanges } from './retry.ts';
import { Stale } from './stale.ts';
import { ASKING, IDLE, OPENING, type Settling, type State, settle, stop } from './states.ts';
import { type DestinationStatus, StateFile, statusOf } from './status.ts';
import { count, Traffic } from './traffic.ts';
import { Trouble } from './trouble.ts';

export interface PipeOptions {
  /** That of the journal. */
  readonly deployment: Deployment;
  /** Its `to` is that of the deployment. */
  readonly settings: DestinationSettings;
  /** The folder of the journal. */
  readonly disk: Disk;
  readonly progress: OwnProgress;
  /** Resolves when the pipe that this one replaces has ended: both write the same files. */
  readonly after?: Promise<void> | undefined;
  /** @returns the id of the journal, which is made if there is none. @throws the error of a system call */
  readonly source: () => Promise<string>;
  /** Like `Opening.through`. */
  readonly through?: (() => Promise<Through>) | undefined;
  /** Like `Opening.sourceName`. */
  readonly sourceName?: string | undefined;
  readonly openClient?: OpenClient | undefined;
  /** Opens the destination; that of its kind if it is absent. */
  readonly openAs?: ((kind: DestinationKind, opening: Opening) => Destination) | undefined;
  /** Of the destination. */
  readonly ledger: Ledger;
  readonly notices: Notices;
  readonly limits: Limits;
  /** The assets of the journal; only a hook with `on` needs them. */
  readonly assets?: (() => KnownAssets) | undefined;
  /** Called with the bytes of lines that were taken. */
  readonly onForwarded?: ((bytes: number) => void) | undefined;
  /** Of the destination of `--ack`: hears what it has. */
  readonly ack?: Ack | undefined;
}

/** Nothing is sent before the first `check`. */
export class Pipe implements SendingContext {
  readonly settings: DestinationSettings;
  readonly disk: Disk;
  readonly limits: Limits;
  readonly notices: Notices;
  readonly ledger: Ledger;
  readonly backlog: Backlog;
  readonly traffic: Traffic;
  readonly ack: Ack | undefined;
  readonly alarms: Alarms | undefined;
  /** The ids of the journals that the destination said its events reach, its own first, as the disk has them. */
  via: readonly string[] = [];
  /** Events by what became of them, since the start: `recorded`, `refused`, `in doubt`. */
  readonly outcomes = new Map<string, number>();
  /** Known when it is open. */
  beginSeq = 1;

  readonly #options: PipeOptions;
  readonly #progress: Progress;
  readonly #asked: AskedSending = new AskedSending(this);
  readonly #plain: PlainSending = new PlainSending(this);
  readonly #stateFile: StateFile;
  /** What an operator does about dead letters, beside the pipe and the checks. */
  readonly letterChanges: LetterChanges;
  /** The first event of a new destination that begins `now`: what is recorded while the cursor is being made counts as well. */
  readonly #nowSeq: number | undefined;
  /** The id of the journal, once it is known. */
  #source = '';
  #destination: { readonly kind: DestinationKind; readonly opened: Destination } | undefined;

  #running: Promise<void> | undefined;
  #checking: Promise<void> = Promise.resolve();

  #state: State = OPENING;
  readonly #trouble: Trouble;
  /** Of a hook with `staleAfter`. */
  readonly #stale: Stale | undefined;
  /** The first event that was not settled at the start. */
  #oldest: { readonly seq: number; readonly time: string } | undefined;
  /** Refusals since the last event that was taken. */
  #refusals = 0;
  /** Time of the last event that was taken, also before this start; null if it is not known. */
  #lastSuccess: string | null = null;

  constructor(options: PipeOptions) {
    const { settings, disk, progress, notices, ledger, ack } = options;
    this.#options = options;
    this.settings = settings;
    this.disk = disk;
    this.ledger = ledger;
    this.ack = ack;
    this.notices = notices.with({ destination: settings.name });
    this.traffic = new Traffic(options.limits, settings, ack !== undefined);
    this.limits = this.traffic.limits;
    this.#progress = progress.of(disk.folder);
    const { only, on } = settings;
    if (on !== undefined) this.alarms = new Alarms({ on, assets: options.assets!(), limits: this.limits });
    this.backlog = new Backlog({
      disk,
      progress: () => progress.of(disk.folder),
      limits: this.limits,
      only: on === undefined ? only : { ...only, type: 'AssetCheckEvaluation' },
      isWanted: this.alarms && ((line) => this.alarms!.isWanted(line)),
      signal: this.traffic.closing,
    });
    this.#stateFile = new StateFile(disk, settings.name, () => this.status, options);
    this.#trouble = new Trouble({
      notices: this.notices,
      progress: () => this.#how(),
      onChange: () => this.#changed(),
    });
    if (settings.staleAfter !== undefined)
      this.#stale = new Stale(this, options.assets!(), () => this.traits.openForRetry(this.#opening));
    this.letterChanges = new LetterChanges({
      ...{ disk, name: settings.name, ledger, limits: this.limits, notices: this.notices },
      open: () => this.traits.openForRetry(this.#opening),
      turnMs: () => this.traffic.pace.turnMs(),
      signal: this.traffic.closing,
      isPossible: () => this.#source !== '' && ledger.letters !== undefined,
      onSpace: () => this.status.state === 'stopped' && this.tryNow(),
    });
    this.#nowSeq = progress.nextSeq(disk.folder);
  }

  /** Until the destination has answered, the kind as which it is asked. */
  get #kind(): DestinationKind {
    return this.ledger.value.kind ?? kindOf(this.settings.to, 'destination');
  }

  get traits(): KindTraits {
    return traitsOf[this.#kind];
  }

  get destination(): Destination {
    return this.#destination!.opened;
  }

  get lastSeq(): number {
    return (this.#options.progress.nextSeq(this.disk.folder) ?? 1) - 1;
  }

  async firstSeq(): Promise<number> {
    return contentsOf(await this.disk.list()).segments[0]?.firstSeq ?? 1;
  }

  /** Reads no file. */
  get status(): DestinationStatus {
    const { settings, ledger, lastSeq } = this;
    const { name, to } = settings;
    const { seq } = ledger;
    const last_seq = Math.max(lastSeq, seq);
    return statusOf({
      ...this.#trouble.facts(this.#state, this.traffic.unanswered),
      name,
      deployment: this.#options.deployment ?? null,
      to,
      kind: ledger.value.kind,
      seq,
      last_seq,
      oldest: last_seq === seq ? undefined : this.#oldestTime(),
      letters: ledger.letters,
      last_success: this.#lastSuccess,
    });
  }

  /** @returns the time of the first event that is not settled; undefined if it is not known */
  #oldestTime(): string | undefined {
    const head = this.backlog.head(0);
    const loaded = head?.kind === 'lines' ? head.lines[0]?.event.time : undefined;
    return loaded ?? (this.#oldest?.seq === this.ledger.value.seq + 1 ? this.#oldest.time : undefined);
  }

  /** Finds out before the journal is opened what must not be removed from it, and what its events reach. */
  async readFloor(): Promise<void> {
    if (this.#running !== undefined) return;
    try {
      this.via = await readVia(this.disk, this.settings.name);
      await this.ledger.readFloor();
    } catch {
      // There is no folder yet, or the pipe will report why it cannot be read. Until then nothing is removed.
    }
  }

  /**
   * Like `Follower.removing`: names in the dead letters what of it the destination has not confirmed.
   * @throws NotRemovableError if that is not possible now
   */
  async removing(gone: SeqRange): Promise<void> {
    const { name, to } = this.settings;
    try {
      const reason = `retention removed them, and ${to} had not confirmed them`;
      const lacked = await this.ledger.nameRemoved(gone, reason, this.settings);
      if (lacked === undefined) return;
      // What is on its way is still sent.
      const first = Math.max(lacked.first, (this.ledger.value.sending ?? 0) + 1);
      if (first <= lacked.last) this.backlog.remove({ first, last: lacked.last }, reason);
    } catch (error) {
      const problem = describe(error as Error);
      throw new NotRemovableError(
        `the oldest events would be removed, and no dead letter can name them for the destination ${name}: ${problem}`,
      );
    }
  }

  /** Called about once a second, and once at first. Never rejects. */
  check(): Promise<void> {
    this.#checking = this.traffic.closing.aborted ? Promise.resolve() : this.#check();
    return this.#checking;
  }

  async #check(): Promise<void> {
    const { ledger, traffic } = this;
    if (this.#running === undefined) {
      this.#lastSuccess = await this.#stateFile.lastSuccess();
      this.#running = this.#run();
    }
    // It might wait for another token or CA.
    else if (this.status.state === 'stopped' && (await this.#destination?.opened.haveFilesChanged(traffic.closing)))
      this.tryNow();
    await ledger.saveIfDue().catch(this.#warnOfCursor);
    if (this.#source !== '') this.#stale?.check();
    await this.#stateFile.write();
  }

  /** Ends a pause: what waits or is stopped tries again at once, and a hub that has all events is asked, as it can name another way of them. */
  tryNow(): void {
    this.#refusals = 0;
    this.traffic.wake();
  }

  /** Ends after the request in flight, which has `limits.forwardStopMs`. Never rejects. */
  async close(): Promise<void> {
    const { traffic, ledger, backlog } = this;
    const ended = async () => {
      await this.#checking;
      await Promise.all([this.#running, this.letterChanges.ended, this.#stale?.ended()]);
    };
    await traffic.close(ended());
    this.#destination?.opened.close();
    await backlog.moveTo(ledger.value.seq).catch(this.#warnOfCursor);
    const last = 'next' in this.#state ? [this.#state, this.#state.next] : [this.#state];
    const isSettled = last.every(({ kind }) => kind !== 'settling');
    await ledger.close(isSettled).catch(this.#warnOfCursor);
    this.ack?.reset();
    await this.#stateFile.write(true);
  }

  readonly #warnOfCursor = (error: Error): void => {
    this.notices.rated.warn('the cursor could not be saved', { reason: describe(error) });
  };

  async #run(): Promise<void> {
    const { closing } = this.traffic;
    // A stop still sends what lingers, and settles the last answer.
    while (!closing.aborted || this.#state.kind === 'lingering' || this.#state.kind === 'settling') {
      const state = this.#state;
      const next = await this.#step(state).catch((error: Error) => this.#failed(error, state));
      this.#state = next;
      if (closing.aborted) continue;
      if (state.kind === 'asking' && next.kind === 'idle') this.#changed();
      if ('reason' in next && next.kind !== state.kind) this.#trouble.report(next, this.#waitMs(next));
    }
  }

  async #step(state: State): Promise<State> {
    switch (state.kind) {
      case 'opening':
        return this.#open();
      case 'asking':
        return this.#asked.ask();
      case 'idle':
        return this.#next();
      case 'sending':
        return this.traits.truth === 'destination' ? this.#asked.send() : this.#plain.send();
      case 'lingering':
        return this.#asked.linger();
      case 'settling':
        return this.#settle(state);
      case 'suspect':
        return this.#plain.lookFurther(state);
      case 'waiting':
      case 'stopped':
        await this.traffic.pause(this.#waitMs(state)!);
        this.#trouble.tries();
        return state.next;
    }
  }

  #failed(error: Error, state: State): State {
    if (error instanceof LettersFullError) return stop('dead letters', error.message, state);
    if (error instanceof Defect) return stop('damage', error.message, state);
    return this.traffic.waiting({ reason: describe(error) }, state);
  }

  /** @returns how long the state lasts; undefined if until something happens */
  #waitMs(state: State): number | undefined {
    const { forwardCheckMs, forwardStoppedMs } = this.limits;
    if (state.kind === 'stopped') return state.why === null ? forwardCheckMs : forwardStoppedMs;
    return state.kind === 'waiting' ? state.waitMs : undefined;
  }

  async #open(): Promise<State> {
    const { settings, disk, ledger, backlog, limits } = this;
    const { closing } = this.traffic;
    if ((await this.#progress.durable()).kind === 'unsaid') {
      await this.#progress.more(closing);
      return OPENING;
    }
    await this.#options.after;
    try {
      const source = await this.#options.source();
      this.beginSeq = await readBegin(disk, source);
      this.#source = source;
    } catch (error) {
      const again = `it is tried again every ${limits.forwardCheckMs / 1000} s`;
      return stop(null, `${describe(error as Error)}; ${again}`, OPENING);
    }
    if (closing.aborted) return OPENING;
    const nowSeq = () => this.#nowSeq ?? this.#options.progress.openedSeq(disk.folder) ?? this.lastSeq + 1;
    await ledger.open(settings, settings.begin === 'now' ? nowSeq : () => this.firstSeq());
    const kind = this.#kind;
    if (!kindsWith(settings.to).includes(kind)) return this.#stopAtOtherKind();
    const { truth } = this.traits;
    if (this.ack !== undefined && truth === 'cursor') return stopForAck(settings);
    const { seq } = ledger.value;
    await backlog.moveTo(seq);
    const oldest = this.lastSeq > seq ? await backlog.lineAt(seq + 1) : undefined;
    this.#oldest = oldest && { seq: seq + 1, time: oldest.event.time };
    if (this.#destination?.kind !== kind) {
      this.#destination?.opened.close();
      const { openAs = (one, opening) => traitsOf[one].open(opening) } = this.#options;
      this.#destination = { kind, opened: openAs(kind, this.#opening) };
    }
    return truth === 'destination' ? ASKING : this.#plain.begin();
  }

  get #opening(): Opening {
    const { settings, beginSeq, limits } = this;
    const { deployment, sourceName, through, openClient } = this.#options;
    const own = { deployment, source: this.#source, sourceName, beginSeq };
    return { ...settings, ...own, through, limits, openClient, onVia: this.#onVia };
  }

  /** Durable before an event is sent: it might come back by the hub after a crash, before the hub is heard again. */
  readonly #onVia = async (via: readonly string[]): Promise<void> => {
    if (`${via}` === `${this.via}`) return;
    await writeVia(this.disk, this.settings.name, via);
    this.via = via;
  };

  /** A cursor says nothing of a destination of another kind, which has none of the events. */
  #stopAtOtherKind(): State {
    const { name, to } = this.settings;
    const reason = `${name} was a destination of another kind than ${to}; give it a name of its own`;
    return stop('not understood', reason, OPENING);
  }

  async #next(): Promise<State> {
    const { ledger, backlog, lastSeq } = this;
    const head = backlog.head(0);
    if (head === undefined) {
      await this.#saveIdle();
      if (backlog.head(0) !== undefined) return IDLE; // the save let the journal be read on; no later event might come
      if (Math.max(ledger.value.seq, ledger.namedSeq) >= lastSeq) this.#trouble.end();
      this.#changed();
      return (await this.#isQuiet()) ? ASKING : IDLE;
    }
    switch (head.kind) {
      case 'lines':
        return this.#asked.next(head.lines[0]!.seq);
      case 'gap':
      case 'unwanted':
        return settle([head]);
      case 'damage':
        await backlog.moveTo(ledger.value.seq); // it is read again, since it might have been repaired
        return stop('damage', head.reason, IDLE);
      case 'another journal':
        return OPENING;
    }
  }

  /** Unwanted events are not worth a sync each: while all are, about one a second is saved. */
  async #saveIdle(): Promise<void> {
    const { ledger, settings, limits, traffic } = this;
    const waitMs = (settings.only ?? settings.on) === undefined ? 0 : ledger.unwantedWaitMs(limits.forwardCheckMs);
    if (waitMs > 0 && ledger.value.seq < this.lastSeq) return;
    await traffic.pause(waitMs);
    await ledger.save();
  }

  /**
   * Waits for events.
   * @returns whether there was none for so long that a destination that lists its sources is to hear of this one
   * @throws as `Backlog.more`
   */
  async #isQuiet(): Promise<boolean> {
    const more = this.backlog.more();
    if (this.traits.listsSources) return this.traffic.isLate(more, this.limits.forwardIdleMs);
    return more.then(() => false);
  }

  async moreEvents(count: number, signal: AbortSignal): Promise<void> {
    const seq = this.lastSeq + count;
    while (this.lastSeq < seq && !signal.aborted) {
      await this.#progress.durable();
      await this.#progress.more(signal);
    }
  }

  request(batch: Batch, isLast = false): Promise<Sent> {
    return this.traffic.send(this.destination, batch, () => this.ledger.begin(batch.lines.at(-1)!.seq), isLast);
  }

  refused(sent: Extract<Sent, { kind: 'refused' }>, line: Line, outcome: Outcome): State {
    const refusals = this.#refusals + 1;
    if (this.traits.passesFailed || refusals < this.limits.forwardRefusalsMax)
      return settle([{ kind: 'given up', line, outcome }]);
    const reason = `${refusals} events in a row were refused, the last one is ${line.seq}: ${sent.reason}; if they are wrong, continue with SIGHUP`;
    return stop('refusals', reason, IDLE);
  }

  async #settle(state: Settling): Promise<State> {
    const [step, ...steps] = state.steps;
    if (step === undefined) return state.next;
    const { seq } = await this.ledger.record(step);
    this.#trouble.endIfAt(state);
    this.backlog.pass(seq);
    if (step.kind === 'recorded') this.#taken(step.lines);
    if (step.kind === 'given up') this.#givenUp(step.outcome);
    if (step.kind === 'given up' || step.kind === 'gap') this.ack?.lacks(seq);
    return { ...state, steps };
  }

  #givenUp({ outcome, reason }: Outcome): void {
    if (!this.outcomes.has(outcome))
      this.notices.warn('there are new dead letters; this is the first', { outcome, reason });
    count(this.outcomes, outcome);
    if (outcome === 'refused') this.#refusals += 1;
  }

  #taken(lines: readonly Line[]): void {
    this.#refusals = 0;
    this.traffic.pace.succeeded();
    const isFirst = this.#lastSuccess === null;
    this.#lastSuccess = new Date().toISOString();
    count(this.outcomes, 'recorded', lines.length);
    this.#options.onForwarded?.(sizeOf(lines));
    this.#trouble.end();
    if (isFirst) this.#changed();
  }

  /** How far it is, for the log. */
  #how(): { readonly seq: number; readonly lag: number } {
    const { seq } = this.ledger.value;
    return { seq, lag: Math.max(0, this.lastSeq - seq) };
  }

  /** `status` says something else; not called for each event. */
  #changed(): void {
    void this.#stateFile.write();
    this.ack?.setStopped(this.status.state === 'stopped');
  }
}
