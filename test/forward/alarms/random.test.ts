/** Random lives of a hook with `on`: what it believes is what holds, and each post has a cause. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failuresOf } from '../../../src/assets/check-state.ts';
import { alarmKey } from '../../../src/forward/alarms/alarm.ts';
import type { Attempt } from '../../../src/forward/alarms/decisions.ts';
import type { OpenPost } from '../../../src/forward/alarms/told-file.ts';
import { randomFrom } from '../../support/random.ts';
import { HOUR, Killed, keyIn, MINUTE, NOON, SECOND, textOf, Watched } from './watched.ts';

const ASSETS = ['a', 'b', 'c', 'd'];
const ALL_KINDS = ['failed', 'recovered', 'stale', 'fresh'] as const;

/** What the receiver answers: it takes what it takes also if the answer does not say so. */
type Mood = 'ok' | 'gone' | 'cut' | 'failing' | 'refusing';

/** A check as it is, and when that changed: of the monotonic clock. */
interface Real {
  severity: string | undefined;
  fromMs: number;
  flips: number[];
}

class Life {
  readonly world: Watched;
  readonly random: () => number;
  readonly isTight: boolean;
  mood: Mood = 'ok';
  killChance = 0;
  /** What the receiver believes, by key: the severity, or `yes`. */
  readonly belief = new Map<string, string>();
  /** Keys of alarms about which the receiver lacks something: it refused a post, or failed with it for long. */
  readonly unsure = new Set<string>();
  readonly contents = new Map<string, string>();
  readonly real = new Map<string, Real>();
  /** When a key was posted last in this life of the service. */
  readonly posted = new Map<string, number>();
  quietFromMs = 0;
  posts = 0;

  constructor(seed: number) {
    this.random = randomFrom(seed);
    this.isTight = this.is(0.3);
    const on = this.pick([[...ALL_KINDS], [...ALL_KINDS], ['failed', 'recovered'], ['stale', 'fresh']]);
    const settings = { on, begin: this.pick(['first', 'now']), staleAfter: on.includes('stale') ? '26h' : undefined };
    const limits = { ...(this.isTight && { alarmsMax: 2 }), staleCheckMs: SECOND };
    this.world = new Watched({ settings, limits, answer: (post) => this.answer(post) });
    this.world.onBegin = (post) => this.checkCause(post);
    this.world.onStep = () => {
      if (this.is(this.killChance)) throw new Killed();
    };
  }

  is(chance: number): boolean {
    return this.random() < chance;
  }

  pick<Value>(all: readonly Value[]): Value {
    return all[Math.floor(this.random() * all.length)]!;
  }

  answer(post: OpenPost): Attempt {
    switch (this.mood) {
      case 'gone':
        return 'not taken';
      case 'refusing':
        if (this.is(0.5)) this.unsure.add(keyIn(post));
        else this.receive(post);
        return this.unsure.has(keyIn(post)) ? 'refused' : 'taken';
      case 'ok':
        this.receive(post);
        return 'taken';
      default:
        if (this.is(0.5)) this.receive(post);
        if (this.mood === 'failing') this.unsure.add(keyIn(post)); // it might be given up
        return this.mood === 'cut' ? 'in doubt' : 'failed';
    }
  }

  receive(post: OpenPost): void {
    const key = keyIn(post);
    const content = JSON.stringify([post.alarm, post.about]);
    const known = this.contents.get(post.id);
    if (known !== undefined) {
      assert.equal(content, known, 'one key with two contents');
      return;
    }
    this.contents.set(post.id, content);
    this.posts += 1;
    const { on } = post.alarm;
    const believed = this.belief.get(key);
    const severity = post.about.severity ?? 'yes';
    const isSure = !this.unsure.delete(key);
    const lastMs = this.posted.get(key);
    const isRise = believed === 'WARN' && severity === 'ERROR';
    if (isSure && !isRise && lastMs !== undefined)
      assert.ok(this.world.monoMs - lastMs >= 5 * MINUTE, `${textOf(post)} after ${this.world.monoMs - lastMs} ms`);
    this.posted.set(key, this.world.monoMs);
    if (on === 'failed' || on === 'stale') {
      if (isSure) assert.notEqual(believed, severity, `${textOf(post)} repeats a belief`);
      this.belief.set(key, severity);
    } else {
      if (isSure) assert.notEqual(believed, undefined, `${textOf(post)} without a beginning`);
      this.belief.delete(key);
    }
  }

  /** A post that is chosen has a cause, which has held for 10 s or has flipped often. */
  checkCause(post: OpenPost): void {
    const { monoMs, decisions } = this.world;
    const { on } = post.alarm;
    if (on === 'stale')
      assert.ok(monoMs - this.quietFromMs >= 15 * MINUTE, `stale ${monoMs - this.quietFromMs} ms after a start`);
    const real = this.real.get(keyIn(post));
    if (real === undefined) return;
    assert.equal(real.severity, on === 'failed' ? post.about.severity : undefined, `${textOf(post)} without a cause`);
    const isFlapping = real.flips.filter((ms) => monoMs - ms <= 10 * MINUTE).length >= 3;
    assert.ok(isFlapping || monoMs - real.fromMs >= 10 * SECOND, `${textOf(post)} after ${monoMs - real.fromMs} ms`);
    assert.ok(decisions.file.told.size <= this.world.limits.alarmsMax);
  }

  /** Notes which checks have changed. */
  note(): void {
    const { states, monoMs } = this.world;
    const found = new Map<string, string>();
    for (const asset of states.inOrder())
      for (const [check, one] of asset.checks ?? [])
        for (const [partition, { severity }] of failuresOf(one))
          found.set(alarmKey({ asset: asset.name, check, partition }), severity);
    for (const key of new Set([...this.real.keys(), ...found.keys()])) {
      const real = this.real.get(key) ?? { severity: undefined, fromMs: monoMs, flips: [] };
      const severity = found.get(key);
      if ((severity === undefined) !== (real.severity === undefined)) {
        real.fromMs = monoMs;
        real.flips.push(monoMs);
      }
      this.real.set(key, Object.assign(real, { severity }));
    }
  }

  report(): void {
    const { world } = this;
    const eventMs = this.is(0.2) && world.nowMs > NOON ? world.nowMs - this.random() * 30 * HOUR : undefined;
    const result = { partition: this.pick([undefined, undefined, 'p']), passed: this.is(0.5) };
    const severity = this.pick(['WARN', 'ERROR']);
    world.report({ asset: this.pick(ASSETS), eventMs, severity, ...(this.is(0.75) && result) });
    this.note();
  }

  /** Time passes, and the service looks each second, or at what can be due. */
  pass(ms: number): void {
    const { world } = this;
    for (let rest = ms; rest > 0; ) {
      const part = Math.min(rest, ms <= 20 * MINUTE ? SECOND : 45 * SECOND);
      world.pass(part);
      rest -= part;
      this.step();
    }
  }

  step(): void {
    try {
      this.world.step();
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
      this.killChance = 0;
      this.restart(this.pick([SECOND, 10 * MINUTE]));
    }
  }

  restart(downMs: number): void {
    this.world.pass(downMs);
    this.world.restart();
    this.quietFromMs = this.world.monoMs;
    this.posted.clear();
    this.step();
  }

  act(): void {
    const { world } = this;
    const chance = this.random();
    this.killChance = this.is(0.2) ? 0.1 : 0;
    if (chance < 0.45) this.report();
    else if (chance < 0.75)
      this.pass(this.pick([SECOND, SECOND, 4 * SECOND, 20 * SECOND, 2 * MINUTE, 20 * MINUTE, 3 * HOUR]));
    else if (chance < 0.8) this.pass(13 * HOUR);
    else if (chance < 0.87) this.mood = this.pick(['ok', 'ok', 'gone', 'cut', 'failing', 'refusing']);
    else if (chance < 0.92) this.restart(this.pick([5 * SECOND, 10 * MINUTE, 27 * HOUR]));
    else if (chance < 0.95) {
      world.forget(this.pick(ASSETS));
      this.note();
    } else this.stopped(this.pick([2 * MINUTE, 27 * HOUR]));
    this.step();
  }

  /** The service does not run for a while, and keeps its memory. */
  stopped(ms: number): void {
    this.world.nowMs += ms;
    if (this.is(0.5)) this.world.monoMs += ms;
    this.quietFromMs = this.world.monoMs;
  }

  /** Everything is right again, and nothing happens: then what the receiver believes is what holds. */
  check(): void {
    const { world } = this;
    this.killChance = 0;
    this.mood = 'ok';
    this.step();
    this.pass(20 * MINUTE);
    this.pass(20 * MINUTE);
    const before = this.posts;
    const { told } = world.decisions.file;
    this.pass(10 * MINUTE);
    const { file, left, waiting } = world.decisions;
    assert.deepEqual([file.open, waiting], [undefined, 0]);
    const isSilent = (key: string) => told.get(key)?.on === 'stale';
    assert.ok(this.posts - before <= [...told.keys()].filter(isSilent).length, 'the posts come to an end');
    const { on, staleAfter } = world.settings;
    const holding = new Map<string, string>();
    if (on!.includes('failed'))
      for (const [key, { severity }] of this.real) if (severity !== undefined) holding.set(key, severity);
    for (const { name, aliveMs } of world.states.inOrder())
      if (staleAfter !== undefined && world.nowMs - aliveMs >= 26 * HOUR)
        holding.set(alarmKey({ asset: name, check: undefined, partition: undefined }), 'yes');
    assert.equal(told.size + left, holding.size, 'what the hook has heard of and what is left out is what holds');
    if (!this.isTight) assert.deepEqual([...told.keys()].sort(), [...holding.keys()].sort());
    for (const [key, { severity = 'yes', posted }] of told) {
      assert.equal(severity, holding.get(key), `${key} has been heard as ${severity}`);
      if (posted !== null && !this.unsure.has(key))
        assert.equal(this.belief.get(key), severity, `the belief of ${key}`);
    }
    for (const key of this.belief.keys())
      assert.ok(told.has(key) || this.unsure.has(key), `${key} is believed, and does not hold`);
  }
}

test('in random lives a hook ends with what holds, and gets nothing twice, in its pause or without a cause [alarms-5]', () => {
  let posts = 0;
  for (let seed = 1; seed <= 150; seed += 1) {
    const life = new Life(seed);
    try {
      for (let step = 0; step < 60; step += 1) life.act();
      life.check();
    } catch (error) {
      throw new Error(`life ${seed}: ${(error as Error).message}`, { cause: error });
    }
    posts += life.posts;
  }
  assert.ok(posts > 500, `${posts} posts`);
});
