/** Assets, and a hook that hears of them: second by second, without a journal and a network. What is durable survives a kill. */

import { randomUUID } from 'node:crypto';
import { AssetStates } from '../../../src/assets/asset-state.ts';
import { type Limits, limits as standardLimits } from '../../../src/config/limits.ts';
import { alarmKey } from '../../../src/forward/alarms/alarm.ts';
import { AlarmClock, type AlarmMoment } from '../../../src/forward/alarms/clock.ts';
import { type Attempt, Decisions } from '../../../src/forward/alarms/decisions.ts';
import { postOf, subjectOf } from '../../../src/forward/alarms/post.ts';
import { rulesOf } from '../../../src/forward/alarms/rules.ts';
import { newToldFile, type OpenPost, type ToldFile } from '../../../src/forward/alarms/told-file.ts';
import type { AlarmKind, DestinationSettings } from '../../../src/forward/settings.ts';
import type { Reported } from '../../../src/journal/line/reported.ts';

export const NOON = Date.UTC(2026, 10, 28, 12);
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;

export interface Report {
  readonly asset?: string;
  /** Undefined of a materialization. */
  readonly check?: string | undefined;
  readonly partition?: string | undefined;
  readonly passed?: boolean;
  readonly severity?: string;
  /** When it says that it happened. */
  readonly eventMs?: number | undefined;
}

/** The settings of a hook that hears of everything, and `more`. */
function hookSettings(more: object = {}): DestinationSettings {
  const on: AlarmKind[] = ['failed', 'recovered', 'stale', 'fresh'];
  const own = {
    name: 'hook',
    to: 'hook+http://127.0.0.1:3000/…',
    tokenHeader: 'Authorization',
    stamp: false,
    inDoubt: 'again',
  };
  return { ...own, begin: 'first', hold: false, on, staleAfter: '26h', ...more } as DestinationSettings;
}

export interface WatchedOptions {
  readonly settings?: object;
  readonly limits?: Partial<Limits>;
  /** What becomes of a post. */
  readonly answer?: (post: OpenPost) => Attempt;
}

export class Watched {
  readonly limits: Limits;
  readonly states: AssetStates;
  nowMs = NOON;
  monoMs = 0;
  settings: DestinationSettings;
  /** The file, as it was written last. */
  durable: ToldFile = newToldFile();
  decisions: Decisions;
  clock: AlarmClock;
  answer: (post: OpenPost) => Attempt;
  #seq = 0;

  constructor({ settings = {}, limits = {}, answer = () => 'taken' }: WatchedOptions = {}) {
    this.limits = { ...standardLimits, ...limits };
    this.states = new AssetStates({ limits: this.limits });
    this.settings = hookSettings(settings);
    this.answer = answer;
    this.clock = this.#newClock();
    this.decisions = this.#newDecisions();
  }

  report({ asset = 'a', check = 'c', partition, passed, severity = 'ERROR', eventMs }: Report): void {
    this.#seq += 1;
    const isCheck = passed !== undefined;
    const event: Reported = {
      type: isCheck ? 'AssetCheckEvaluation' : 'AssetMaterialization',
      key: asset,
      partition,
      checkName: isCheck ? check : undefined,
      passed,
      severity: isCheck ? severity : undefined,
      dataVersion: undefined,
      eventTime: eventMs === undefined ? undefined : new Date(eventMs).toISOString(),
      isErased: false,
      source: undefined,
      sourceSeq: undefined,
      recorded: undefined,
    };
    this.states.take(this.#seq, this.nowMs, event);
  }

  forget(asset: string): void {
    this.states.forget(({ name }) => name === asset);
  }

  /** The service is killed, and begins again with what is durable. Time passes as the caller says. */
  restart(): void {
    this.clock = this.#newClock();
    this.set();
  }

  /** The hook has these settings now. */
  set(settings: object = {}): void {
    this.settings = { ...this.settings, ...settings };
    this.decisions = this.#newDecisions();
  }

  /** Both clocks go on. */
  pass(ms: number): void {
    this.nowMs += ms;
    this.monoMs += ms;
  }

  look(): AlarmMoment {
    const at = this.clock.look();
    const look = this.decisions.look(this.states, at);
    while (look.next().done !== true);
    return at;
  }

  /** Looks, and posts what is due. */
  step(): void {
    const { decisions } = this;
    let at = this.look();
    for (;;) {
      const change = decisions.next;
      if (change !== undefined) {
        const post = { id: randomUUID(), hooks: 1, ...postOf(change, this.states, decisions.rules) };
        decisions.begin(post);
      }
      this.#write();
      const { open } = decisions.file;
      if (open === undefined) return;
      const outcome = decisions.answered(this.answer(structuredClone(open)), at);
      if (outcome === undefined) return;
      at = this.look();
    }
  }

  /** @returns what is posted within a time, second by second: `10 failed a|c` */
  run(seconds: number, steps: ReadonlyMap<number, () => void> = new Map()): string[] {
    const posts: string[] = [];
    const { answer } = this;
    for (let second = 0; second <= seconds; second += 1) {
      steps.get(second)?.();
      this.answer = (post) => {
        posts.push(`${second} ${textOf(post)}`);
        return answer(post);
      };
      this.step();
      this.pass(SECOND);
    }
    this.answer = answer;
    return posts;
  }

  #write(): void {
    const { decisions } = this;
    if (decisions.isChanged) this.durable = structuredClone(decisions.file);
    decisions.isChanged = false;
  }

  #newClock(): AlarmClock {
    return new AlarmClock(() => ({ nowMs: this.nowMs, monoMs: this.monoMs }));
  }

  #newDecisions(): Decisions {
    return new Decisions(structuredClone(this.durable), rulesOf(this.settings), this.limits);
  }
}

/** @returns a post in short: `recovered a|c` */
export function textOf({ alarm, about }: OpenPost): string {
  const { asset, check, partition } = subjectOf(about);
  const parts = [asset, check, partition].filter((part) => part !== undefined);
  return `${alarm.on} ${parts.join('|')}`;
}

/** @returns the key of what a post is about */
export function keyIn({ about }: OpenPost): string {
  return alarmKey(subjectOf(about));
}
