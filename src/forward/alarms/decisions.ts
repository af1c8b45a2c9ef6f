/**
 * Decides what one hook of one journal is sent, and when. It writes and sends nothing itself: `file` has the decisions, and
 * `isChanged` means that the file must be written before anything is sent.
 *
 * There is one post at a time. It is open from before it is sent until its answer is known. An open post that might have arrived is
 * sent again with the same key and content, even if it is no longer true, since the hook might have it; the next difference then
 * corrects it.
 */

import type { AssetStates } from '../../assets/asset-state.ts';
import type { Limits } from '../../config/limits.ts';
import { EARLIEST_MS } from '../../event/event-time.ts';
import { alarmKey } from './alarm.ts';
import type { AlarmMoment } from './clock.ts';
import { type Change, difference } from './difference.ts';
import type { Former } from './former.ts';
import { Held } from './held.ts';
import { begunWith, subjectOf, timeText } from './post.ts';
import type { AlarmRules } from './rules.ts';
import { Silence } from './silence.ts';
import type { OpenPost, ToldFile } from './told-file.ts';
import { wanted } from './wanted.ts';

/** The result of an attempt to send the open post. */
export type Attempt =
  | 'taken'
  /** The post was refused, and would be refused again. */
  | 'refused'
  /** The hook failed, and might have the post. */
  | 'failed'
  /** The hook might have the post: there is no complete answer. */
  | 'in doubt'
  /** The hook does not have the post. */
  | 'not taken';

/** The outcome of a post. */
export type PostOutcome = 'taken' | 'refused' | 'in doubt';

export class Decisions {
  readonly file: ToldFile;
  readonly rules: AlarmRules;
  /** Whether the file lacks a decision. */
  isChanged = false;
  /** Number of alarms that hold but have no space. */
  left = 0;
  /** Number of changes that are due and not accepted yet. */
  waiting = 0;
  readonly #limits: Limits;
  readonly #held: Held;
  readonly #silence: Silence;
  /** Whether the hook might have the open post. */
  #mayHave: boolean;
  /** Since when all answers for the open post have been failures, by the monotonic clock. */
  #failingMs: number | undefined;
  #ready: readonly Change[] = [];

  /** @param file what the hook was sent earlier */
  constructor(file: ToldFile, rules: AlarmRules, limits: Limits) {
    this.file = file;
    this.rules = rules;
    this.#limits = limits;
    this.#held = new Held(limits);
    this.#silence = new Silence(rules, limits);
    this.#mayHave = file.open !== undefined;
  }

  /** The next change to post; undefined while there is none, or a post is open. */
  get next(): Change | undefined {
    return this.file.open === undefined ? this.#ready[0] : undefined;
  }

  /** @returns when a change can become due without an event: see `Held.dueMs` */
  dueMs(monoMs: number): number {
    return this.#held.dueMs(monoMs);
  }

  /**
   * Looks at a state that includes all events. Yields after each part of the work.
   * @returns after everything that does not need a post is noted
   */
  *look(states: AssetStates, at: AlarmMoment): Generator<void, void> {
    const { file } = this;
    if (file.made === undefined) yield* this.#make(states, at, () => true);
    // Only now it is known which assets have been silent since before the hook started.
    else if (Date.parse(file.made) < EARLIEST_MS && at.nowMs >= EARLIEST_MS)
      yield* this.#make(states, at, ({ on }) => on === 'stale');
    const { holding, left } = yield* wanted(states, file.told, at, this.#wanting);
    this.left = left;
    for (const [key, now] of holding) {
      const before = file.told.get(key);
      if (before === undefined || before.severity !== now.severity || before.sinceSeq === now.sinceSeq) continue;
      file.told.set(key, { ...now, posted: before.posted });
      this.isChanged = true;
    }
    const changes = difference(file.told, holding);
    this.#held.follow(changes, at.monoMs);
    this.#dropOpen(changes);
    const held = changes.filter((change) => this.#held.hasHeld(change, at.monoMs));
    if (file.open === undefined) for (const one of held) if (!this.#isPosted(one)) this.note(one);
    this.#ready = held.filter((one) => this.#isPosted(one) && !this.#held.isPaused(one));
    this.#count();
  }

  /** Records a change as known to the hook although it is not posted. */
  note(change: Change): void {
    const { key, now, before } = change;
    if (now === undefined) this.file.told.delete(key);
    else this.file.told.set(key, { ...now, posted: before?.posted ?? null });
    this.isChanged = true;
    this.#held.settled(key);
    this.#settled(key);
  }

  /** Opens a post. The file must be written before the post is sent. */
  begin(post: OpenPost): void {
    this.file.open = post;
    this.isChanged = true;
    this.#mayHave = false;
    this.#failingMs = undefined;
    this.#count();
  }

  /** @returns the outcome of the open post; undefined if it must be sent again */
  answered(attempt: Attempt, { nowMs, monoMs }: AlarmMoment): PostOutcome | undefined {
    if (attempt === 'failed' || attempt === 'in doubt') this.#mayHave = true;
    if (attempt === 'failed') this.#failingMs ??= monoMs;
    else this.#failingMs = undefined;
    const isGivenUp = this.#failingMs !== undefined && monoMs - this.#failingMs >= this.#limits.hookFailingMs;
    if (attempt !== 'taken' && attempt !== 'refused' && !isGivenUp) return undefined;
    const { file } = this;
    const key = this.#openKey!;
    const begun = begunWith(file.open!);
    if (begun === undefined) file.told.delete(key);
    else file.told.set(key, { ...begun, posted: timeText(nowMs) });
    file.open = undefined;
    this.isChanged = true;
    this.#held.posted(key, monoMs);
    this.#settled(key);
    return attempt === 'taken' || attempt === 'refused' ? attempt : 'in doubt';
  }

  /**
   * Records as known what an earlier version posted to the hook: stale assets, and checks that have failed since before its
   * last event.
   */
  *continueAfter({ seq, stale }: Former, states: AssetStates, at: AlarmMoment): Generator<void, void> {
    const { file } = this;
    file.made = timeText(at.nowMs);
    this.isChanged = true;
    for (const alarm of stale) file.told.set(alarmKey(alarm), alarm);
    const { holding } = yield* wanted(states, file.told, at, this.#wanting);
    for (const [key, alarm] of holding)
      if (alarm.on === 'failed' && alarm.sinceSeq <= seq) file.told.set(key, { ...alarm, posted: file.made });
  }

  /** Notes the alarms that hold when a hook is new, or when the clock is set. */
  *#make(states: AssetStates, at: AlarmMoment, isNoted: (alarm: { on: string }) => boolean): Generator<void, void> {
    const { file, rules } = this;
    if (rules.begin === 'now') {
      const { holding } = yield* wanted(states, file.told, at, this.#wanting, true);
      for (const [key, alarm] of holding)
        if (!file.told.has(key) && isNoted(alarm)) file.told.set(key, { ...alarm, posted: null });
    }
    file.made = timeText(at.nowMs);
    this.isChanged = true;
  }

  /** Drops an open post that the hook certainly does not have, if it is no longer true. */
  #dropOpen(changes: readonly Change[]): void {
    const { open } = this.file;
    if (open === undefined || this.#mayHave) return;
    const { on } = open.alarm;
    const [key, begun] = [this.#openKey, begunWith(open)];
    if (changes.some((one) => one.key === key && one.on === on && one.now?.severity === begun?.severity)) return;
    this.file.open = undefined;
    this.isChanged = true;
  }

  /** Whether a change is posted to the hook: a start if it wants starts, an end if it was sent the start or wants only ends. */
  #isPosted({ on, now, before }: Change): boolean {
    if (!this.rules.on.has(on)) return false;
    return now !== undefined || before!.posted !== null || !this.rules.on.has(before!.on);
  }

  #settled(key: string): void {
    this.#ready = this.#ready.filter((one) => one.key !== key);
    this.#count();
  }

  #count(): void {
    const key = this.#openKey;
    const isAmong = key === undefined || this.#ready.some((one) => one.key === key);
    this.waiting = this.#ready.length + (isAmong ? 0 : 1);
  }

  /** The alarm key of the open post; undefined without an open post. */
  get #openKey(): string | undefined {
    const { open } = this.file;
    return open && alarmKey(subjectOf(open.about));
  }

  get #wanting() {
    return { rules: this.rules, silence: this.#silence, limits: this.#limits };
  }
}
