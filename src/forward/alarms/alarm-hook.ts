/**
 * A hook with `on`, for one journal: it learns which alarms start and which end. It has no cursor and no dead letters, and never keeps
 * retention from removing events.
 *
 * It checks the state of the assets when there are events, at most once in `alarmLookMs`, and also at intervals. Each post is written to
 * the hook's file before it is sent, and its answer before the next post is sent.
 */

import type { AssetStates } from '../../assets/asset-state.ts';
import type { Limits } from '../../config/limits.ts';
import { type Disk, describe } from '../../journal/disk.ts';
import { createUuids } from '../../journal/line/uuid.ts';
import { readJournal } from '../../journal/look/reader.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { Progress } from '../../journal/progress.ts';
import type { Notices } from '../../telemetry/log.ts';
import { endingAfter } from '../../waiting/ending-after.ts';
import { Waiters } from '../../waiting/waiters.ts';
import type { Destination, Sent } from '../destinations/destination.ts';
import { traitsOf } from '../destinations/kinds.ts';
import { hooksPassed } from '../destinations/plain.ts';
import type { ForwardedJournal, ForwardingParts, KnownAssets } from '../pipe/sender.ts';
import { type BlockedState, IDLE, OPENING, SENDING, type State } from '../pipe/states.ts';
import { type DestinationStatus, StateFile, statusOf, WITHOUT_CURSOR } from '../pipe/status.ts';
import { count, Traffic } from '../pipe/traffic.ts';
import { TroubleLog } from '../pipe/trouble.ts';
import type { DestinationSettings } from '../settings.ts';
import type { AlarmClock, AlarmMoment } from './clock.ts';
import { type Attempt, Decisions, type PostOutcome } from './decisions.ts';
import { readFormer } from './former.ts';
import { postOf } from './post.ts';
import { rulesOf } from './rules.ts';
import { newToldFile, type OpenPost, readTold, toldName, writeTold } from './told-file.ts';

export interface AlarmHookOptions extends ForwardingParts, ForwardedJournal {
  /** The destination, with a `to` that is specific to the deployment. */
  readonly settings: DestinationSettings;
  readonly clock: AlarmClock;
  /** Resolves when the hook that this one replaces has ended, since both write the same files. */
  readonly after?: Promise<void> | undefined;
}

/** Posts nothing before `begin`. */
export class AlarmHook {
  readonly settings: DestinationSettings;
  /** The folder of the journal. */
  readonly disk: Disk;
  readonly limits: Limits;
  readonly notices: Notices;
  readonly traffic: Traffic;
  /** Number of posts since the start, by alarm and outcome: `failed taken`. */
  readonly posts = new Map<string, number>();
  readonly #options: AlarmHookOptions;
  readonly #assets: KnownAssets;
  readonly #progress: Progress;
  readonly #stateFile: StateFile;
  readonly #trouble: TroubleLog;
  readonly #woken = new Waiters();
  /** Undefined until the file is read. */
  #decisions: Decisions | undefined;
  #destination: Destination | undefined;
  #running: Promise<void> | undefined;
  #looking: Promise<void> = Promise.resolve();
  #state: State = OPENING;
  #lastSuccess: string | null = null;
  /** Whether the hook did not accept the last post. */
  #hasFailed = false;
  /** When the pause after a failure ends, and when the next look may start, by the monotonic clock. */
  #pausedMs = Number.NEGATIVE_INFINITY;
  #nextLookMs = Number.NEGATIVE_INFINITY;

  constructor(options: AlarmHookOptions) {
    const { settings, disk, limits, notices, progress, assets } = options;
    this.#options = options;
    this.settings = settings;
    this.disk = disk;
    this.traffic = new Traffic(limits, settings, false);
    this.limits = this.traffic.limits;
    this.notices = notices.with({ destination: settings.name });
    this.#assets = assets!();
    this.#progress = progress.of(disk.folder);
    this.#stateFile = new StateFile(this, () => this.status);
    this.#trouble = new TroubleLog(this, () => void this.#stateFile.write());
  }

  /** Logged: how much is due. */
  get position(): { readonly alarms_waiting: number } {
    return { alarms_waiting: this.#decisions?.waiting ?? 0 };
  }

  /** Does not read a file. */
  get status(): DestinationStatus {
    const { name, to } = this.settings;
    return statusOf({
      ...WITHOUT_CURSOR,
      ...this.#trouble.facts(this.#state),
      name,
      deployment: this.#options.deployment ?? null,
      to,
      last_seq: (this.#options.progress.nextSeq(this.disk.folder) ?? 1) - 1,
      alarms: this.alarms,
      last_success: this.#lastSuccess,
    });
  }

  /** Part of the status. */
  get alarms(): { readonly alarms: number; readonly alarms_waiting: number; readonly alarms_left_out: number } {
    const { file, waiting = 0, left = 0 } = this.#decisions ?? {};
    return { alarms: file?.told.size ?? 0, alarms_waiting: waiting, alarms_left_out: left };
  }

  /** Starts posting when the journal is open. Can be called more than once. */
  begin(): void {
    if (!this.traffic.closing.aborted) this.#running ??= this.#run();
  }

  /** Called at intervals while the journal is open, one call at a time. Never rejects. */
  look(): Promise<void> {
    this.#looking = this.traffic.closing.aborted ? Promise.resolve() : this.#look();
    return this.#looking;
  }

  async #look(): Promise<void> {
    // The hook might wait for another token or CA.
    const isStopped = this.status.state === 'stopped';
    if (isStopped && (await this.#destination?.haveFilesChanged(this.traffic.closing))) this.tryNow();
    this.#woken.wake();
    await this.#stateFile.write();
  }

  /** Ends a pause: a hook that waits or is stopped tries again at once. */
  tryNow(): void {
    this.#pausedMs = Number.NEGATIVE_INFINITY;
    this.traffic.wake();
    this.#woken.wake();
  }

  /** Ends after the request in flight, which gets `limits.forwardStopMs` to finish. Never rejects. */
  async close(): Promise<void> {
    const ended = async () => {
      await this.#looking;
      await this.#running;
    };
    await this.traffic.close(ended());
    this.#destination?.close();
    await this.#stateFile.write(true);
  }

  async #run(): Promise<void> {
    const { closing } = this.traffic;
    await this.#options.after;
    this.#lastSuccess = await this.#stateFile.lastSuccess();
    while (!closing.aborted) {
      if ((await this.#progress.durable()).kind === 'unsaid') {
        await this.#progress.more(closing);
        continue;
      }
      const waitMs = await this.#round().catch((error: Error) => this.#failed(error));
      await this.#woken.wait(closing, this.limits.alarmLookMs);
      await this.#wait(waitMs - this.limits.alarmLookMs);
    }
    // Saves the answer to the last post.
    await this.#save().catch((error: Error) => void this.#failed(error));
  }

  /** Waits for events, for `tryNow`, for a look or for the end, but at most `ms`. */
  async #wait(ms: number): Promise<void> {
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, this.traffic.closing]);
    const untilLook = ms < this.limits.forwardLookMs ? Math.max(0, ms) : undefined; // a look comes before a longer time has passed
    await Promise.race([this.#progress.more(signal), this.#woken.wait(signal, untilLook)]);
    over.abort();
  }

  /**
   * Looks, and posts what is due. @returns how long nothing will be due unless an event arrives. @throws the error of a system call, or of the
   * state
   */
  async #round(): Promise<number> {
    const { traffic } = this;
    for (;;) {
      const states = await this.#states();
      this.#decisions ??= await this.#open(states);
      const decisions = this.#decisions;
      const { monoMs } = await this.#lookAt(states, decisions);
      const isDue = decisions.file.open !== undefined || decisions.next !== undefined;
      if (!isDue || monoMs < this.#pausedMs) {
        await this.#save();
        if (!isDue) this.#idle();
        return Math.min(isDue ? this.#pausedMs : Number.POSITIVE_INFINITY, decisions.dueMs(monoMs)) - monoMs;
      }
      await traffic.pause(traffic.pace.turnMs());
      if (traffic.closing.aborted) return 0;
      await this.#lookAt(states, decisions);
      await this.#postNext(states, decisions);
    }
  }

  /**
   * Nothing is due. If the hook did not accept the last post, the status still shows that, since the hook might not accept another
   * one either.
   */
  #idle(): void {
    this.#state = IDLE;
    if (!this.#hasFailed) this.#trouble.end();
  }

  /** @returns why nothing can be posted, and for how long */
  #failed(error: Error): number {
    const { forwardCheckMs } = this.limits;
    return this.#block(
      { kind: 'waiting', reason: describe(error), waitMs: forwardCheckMs, next: IDLE },
      forwardCheckMs,
    );
  }

  #block(state: BlockedState, waitMs: number): number {
    this.#state = state;
    this.#trouble.report(state, waitMs);
    return waitMs;
  }

  /** @returns the state with all events. @throws Error if reading it takes too long, or fails */
  async #states(): Promise<AssetStates> {
    if (!this.#assets.isLive)
      await this.#assets.whenCurrent(endingAfter(this.limits.assetsWaitMs, this.traffic.closing));
    const { isLive, current } = this.#assets;
    if (isLive && current !== undefined) return current.states;
    throw new Error('the state of the assets is being read');
  }

  async #open(states: AssetStates): Promise<Decisions> {
    const { settings, disk, limits, notices } = this;
    const { name } = settings;
    const rules = rulesOf(settings);
    const { deployment, openClient } = this.#options;
    this.#destination ??= traitsOf.hook.open({ ...settings, deployment, openClient, source: '', limits });
    const found = await readTold(disk, name, limits);
    if (found === undefined) {
      notices.warn('the file of a hook is damaged, so the hook counts as new', {
        file: toldName(name),
      });
      return new Decisions(newToldFile(), rules, limits);
    }
    const decisions = new Decisions(found, rules, limits);
    const former = found.made === undefined ? await readFormer(disk, name, limits) : undefined;
    if (former !== undefined) await inTurns(decisions.continueAfter(former, states, this.#options.clock.look()));
    return decisions;
  }

  /** Looks, unless the last look was a short time ago. */
  async #lookAt(states: AssetStates, decisions: Decisions): Promise<AlarmMoment> {
    const at = this.#options.clock.look();
    if (at.monoMs < this.#nextLookMs) return at;
    const workedMs = await inTurns(decisions.look(states, at));
    this.#nextLookMs = performance.now() + Math.max(this.limits.alarmLookMs, workedMs * WORK_FACTOR);
    return at;
  }

  async #postNext(states: AssetStates, decisions: Decisions): Promise<void> {
    const { file, next } = decisions;
    let { open } = file;
    const post = open ?? (next && postOf(next, states, decisions.rules));
    if (post === undefined) return;
    const line = post.seq === undefined ? undefined : await this.#lineAt(post.seq);
    if (open === undefined) {
      const hooks = 1 + (line === undefined ? 0 : hooksPassed(line.event));
      if (hooks > this.limits.hooksPassedMax) {
        this.notices.rated.warn(CIRCLE, { seq: post.seq });
        decisions.note(next!);
        return;
      }
      open = { id: createUuids(new Date())(), hooks, ...post };
      decisions.begin(open);
    }
    await this.#save();
    await this.#send(open, line, decisions);
  }

  async #send(open: OpenPost, line: Line | undefined, decisions: Decisions): Promise<void> {
    const { traffic, limits } = this;
    this.#state = SENDING;
    const { id, hooks, alarm, about } = open;
    const turn = () => traffic.pause(traffic.pace.turnMs());
    const own = {
      key: `hook/${hooks}/${id}`,
      alarm: JSON.stringify(alarm),
      line,
      members: JSON.stringify(about),
      turn,
    };
    const sent = await traffic.answered(this.#destination!.post!(own, traffic.signal));
    const at = this.#options.clock.look();
    const outcome = decisions.answered(attemptOf(sent), at);
    if (outcome !== undefined) this.#settled(open, outcome, sent);
    else if (sent.kind === 'stopped') this.#pause(at, { ...sent, next: IDLE }, limits.forwardStoppedMs);
    else if ('reason' in sent) {
      const waitMs = traffic.pace.failed('afterMs' in sent ? sent.afterMs : undefined);
      this.#pause(at, { kind: 'waiting', reason: sent.reason, waitMs, next: IDLE }, waitMs);
    }
  }

  #pause({ monoMs }: AlarmMoment, state: BlockedState, waitMs: number): void {
    this.#hasFailed = true;
    this.#pausedMs = monoMs + this.#block(state, waitMs);
  }

  #settled({ alarm, about }: OpenPost, outcome: PostOutcome, sent: Sent): void {
    this.traffic.pace.succeeded();
    count(this.posts, `${alarm.on} ${outcome}`);
    this.#state = IDLE;
    this.#hasFailed = outcome === 'in doubt';
    if (outcome === 'taken') this.#lastSuccess = new Date().toISOString();
    if (!this.#hasFailed) this.#trouble.end();
    if ('reason' in sent)
      this.notices.rated.warn('a hook does not accept an alarm; it is not posted again', {
        on: alarm.on,
        asset: about.asset_key.join('/'),
        reason: sent.reason,
      });
  }

  /** Saves the file durably. @throws the error of a system call; the next round then tries again */
  async #save(): Promise<void> {
    const decisions = this.#decisions;
    if (decisions?.isChanged !== true) return;
    await writeTold(this.disk, this.settings.name, decisions.file);
    decisions.isChanged = false;
  }

  /** @returns the line with a seq; undefined if the journal no longer has it. @throws the error of a system call */
  async #lineAt(seq: number): Promise<Line | undefined> {
    const { disk, limits } = this;
    const filter = { afterSeq: seq - 1, untilSeq: seq };
    const progress = this.#options.progress.of(disk.folder);
    const reading = { filter, seek: true, follow: AbortSignal.abort(), progress, limits }; // reads once
    for await (const [line] of readJournal(disk, reading, () => {})) if (line !== undefined) return line;
    return undefined;
  }
}

/** Runs work in parts, between which other work gets its turn. @returns how long it took, in ms */
async function inTurns(work: Generator<void, void>): Promise<number> {
  for (let workedMs = 0; ; await new Promise(setImmediate)) {
    const fromMs = performance.now();
    const { done } = work.next();
    workedMs += performance.now() - fromMs;
    if (done) return workedMs;
  }
}

function attemptOf(sent: Sent): Attempt {
  switch (sent.kind) {
    case 'recorded':
      return 'taken';
    case 'refused':
      return 'refused';
    case 'in doubt':
      return sent.status === undefined ? 'in doubt' : 'failed';
    default:
      return 'not taken';
  }
}

/** The looks of a hook use at most a twentieth of the time. */
const WORK_FACTOR = 20;
const CIRCLE = 'an event has passed too many hooks and is not posted; check whether the hooks post in a circle';
