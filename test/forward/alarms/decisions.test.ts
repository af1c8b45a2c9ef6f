/** What a hook with `on` hears, and when: second by second. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Attempt } from '../../../src/forward/alarms/decisions.ts';
import type { OpenPost } from '../../../src/forward/alarms/told-file.ts';
import { HOUR, keyIn, MINUTE, NOON, type Report, SECOND, textOf, Watched, type WatchedOptions } from './watched.ts';

const pass: Report = { passed: true };
const fail: Report = { passed: false };
const warn: Report = { passed: false, severity: 'WARN' };
const IN_2098 = Date.UTC(2098, 0, 1);
const JANUARY = Date.UTC(2026, 0, 1);
/** A materialization that happened 27 hours before the start. */
const old: Report = { eventMs: NOON - 27 * HOUR };

/** What happens at a second: a report, or a move of the clock by so many ms. */
type Step = readonly [second: number, what: Report | number];

function run(world: Watched, seconds: number, steps: readonly Step[] = []): string[] {
  const bySecond = new Map<number, () => void>();
  for (const [second, what] of steps) {
    const before = bySecond.get(second);
    bySecond.set(second, () => {
      before?.();
      if (typeof what === 'number') world.nowMs += what;
      else world.report(what);
      world.look();
    });
  }
  return world.run(seconds, bySecond);
}

/** @returns what a hook that hears of everything, or as `options` say, hears from a service that has just begun */
const posts = (seconds: number, steps: readonly Step[], options: WatchedOptions = {}) =>
  run(new Watched(options), seconds, steps);

const settings = (more: object): WatchedOptions => ({ settings: more });

/** @returns posts without their seconds */
const untimed = (all: readonly string[]) => all.map((post) => post.replace(/^\d+ /, ''));

/** @returns all posts, as they are sent */
function collect(world: Watched): OpenPost[] {
  const sent: OpenPost[] = [];
  const { answer } = world;
  world.answer = (post) => {
    sent.push(post);
    return answer(post);
  };
  return sent;
}

test('a failure is posted once it has lasted 10 s, its end 5 minutes later, and a shorter failure not at all', () => {
  assert.deepEqual(
    posts(400, [
      [0, fail],
      [20, pass],
    ]),
    ['10 failed a|c', '310 recovered a|c'],
  );
  assert.deepEqual(
    posts(400, [
      [0, fail],
      [9, pass],
      [60, fail],
      [65, pass],
    ]),
    [],
  );
  assert.deepEqual(
    posts(20, [
      [0, fail],
      [9, fail],
      [9, fail],
    ]),
    ['10 failed a|c'],
    'more failures are no other alarm',
  );
});

test('WARN that becomes ERROR is posted after 10 s, and the change back after the pause', () => {
  const told = posts(400, [
    [0, warn],
    [20, fail],
    [40, warn],
  ]);
  assert.deepEqual(told, ['10 failed a|c', '30 failed a|c', '330 failed a|c']);
});

test('an end that held in the pause after a post, and then did not, has to hold for 10 s again', () => {
  const told = posts(400, [
    [0, fail],
    [20, pass],
    [100, fail],
    [315, pass],
  ]);
  assert.deepEqual(told, ['10 failed a|c', '325 recovered a|c']);
});

test('a check that flips every 5 s is posted as failed after 5 minutes', () => {
  const steps = Array.from({ length: 64 }, (_, at): Step => [at * 5, at % 2 === 0 ? fail : pass]);
  assert.deepEqual(posts(320, steps), ['300 failed a|c']);
});

test('a pass between two looks restarts the 10 s of a failure', () => {
  const steps: Step[] = [[0, fail]];
  for (let second = 5; second < 60; second += 5) steps.push([second, pass], [second, fail]);
  const world = new Watched();
  const told = world.run(
    70,
    new Map(
      steps.map(([second]) => [
        second,
        () => {
          for (const [at, one] of steps) if (at === second) world.report(one as Report);
        },
      ]),
    ),
  );
  assert.deepEqual(told, ['65 failed a|c']);
});

test('1,000 old results that arrive within 5 s cause one post if the last one failed, and otherwise none', () => {
  const results = (last: boolean) =>
    Array.from({ length: 1001 }, (_, at): Step => {
      return [Math.floor(at / 201), { passed: at < 1000 ? at % 300 < 150 : last, eventMs: JANUARY + at }];
    });
  const on = settings({ on: ['failed', 'recovered'], staleAfter: undefined });
  assert.deepEqual(posts(400, results(true), on), []);
  assert.deepEqual(posts(400, results(false), on), ['14 failed a|c']);
});

test('a hook has at most 1,000 alarms: ERROR before WARN before silence, then the oldest; the others are counted [alarms-5]', () => {
  const world = new Watched();
  for (let at = 0; at < 1001; at += 1) world.report({ ...fail, asset: `a${at}` });
  const told = world.run(60);
  assert.deepEqual([told.length, told[0], told.at(-1)], [1000, '10 failed a0|c', '10 failed a999|c']);
  assert.deepEqual([world.decisions.left, world.decisions.file.told.size], [1, 1000]);

  const few = new Watched({ limits: { alarmsMax: 2 } });
  few.report({ ...old, asset: 'old' });
  few.report({ ...warn, asset: 'b' });
  few.report({ ...fail, check: 'd' });
  few.report({ ...fail, check: 'e', eventMs: JANUARY });
  few.run(1000);
  assert.deepEqual([...few.decisions.file.told.values()].map(({ check }) => check).sort(), ['d', 'e']);
  assert.equal(few.decisions.left, 2);
  few.report({ ...pass, check: 'e' });
  assert.deepEqual(untimed(few.run(400)), ['recovered a|e', 'failed b|c']);
  few.report({ ...pass, check: 'd' });
  assert.deepEqual(untimed(few.run(400)), ['recovered a|d', 'stale old']);
});

test('alarms take bounded memory, and failing partitions beyond the limit are counted as left out', () => {
  const world = new Watched({ limits: { alarmBytesMax: 600, failedPartitionsMax: 2 } });
  for (const partition of ['1', '2', '3', '4']) world.report({ ...fail, partition });
  assert.equal(world.run(20).length, 2);
  assert.equal(world.decisions.left, 2);
});

test('no asset counts as silent for 15 minutes after a start, a change of the clock or a stop', () => {
  assert.deepEqual(posts(1000, [[0, old]]), ['910 stale a']);
  assert.deepEqual(
    posts(1000, [
      [0, old],
      [600, {}],
    ]),
    [],
  );
  assert.deepEqual(
    posts(1000, [
      [0, {}],
      [5, 27 * HOUR],
    ]),
    ['915 stale a'],
  );
  assert.deepEqual(
    posts(1000, [
      [0, {}],
      [5, 27 * HOUR],
      [600, {}],
    ]),
    [],
  );
  const stopped = new Watched();
  stopped.report({});
  stopped.run(5);
  stopped.pass(27 * HOUR); // by SIGSTOP: the monotonic clock continues
  assert.deepEqual(stopped.run(1000), ['910 stale a']);
  const moved = new Watched();
  moved.report({});
  moved.run(5);
  moved.pass(30 * MINUTE);
  moved.nowMs -= 30 * MINUTE; // the time of day is where it was
  moved.report({ ...old, asset: 'b' });
  assert.deepEqual(moved.run(905), []);
});

test('an event recorded while the clock was ahead, or not set, counts as recorded at the start', () => {
  assert.deepEqual(
    posts(1000, [
      [5, IN_2098 - NOON],
      [5, {}],
      [6, NOON - IN_2098],
    ]),
    [],
  );
  const world = new Watched();
  world.nowMs = IN_2098;
  world.report({});
  world.nowMs = NOON;
  world.restart();
  world.run(1);
  for (let second = 0; second < 26 * 3600 - 10; second += 30) {
    world.pass(30 * SECOND);
    world.look();
  }
  assert.equal(world.decisions.file.told.size, 0);
  assert.deepEqual(untimed(world.run(60)), ['stale a']);
});

test('a report ends the silence of an asset, and a posted silence stays while the clock is not set', () => {
  const world = new Watched();
  const sent = collect(world);
  world.report(old);
  assert.deepEqual(world.run(1000), ['910 stale a']);
  world.nowMs = 60_000; // a start in 1970
  world.restart();
  assert.deepEqual(world.run(1000), []);
  assert.equal(world.decisions.file.told.size, 1);
  world.nowMs = NOON + HOUR;
  world.report({});
  assert.deepEqual(untimed(world.run(400)), ['fresh a']);
  assert.equal(sent.at(-1)?.alarm.because, 'reported');
});

test('the end of an alarm has its reason: the check passed, another severity, another `only`, or forgotten', () => {
  const becauseOf = (change: (world: Watched) => void, more: object = {}) => {
    const world = new Watched(settings(more));
    const sent = collect(world);
    world.report(fail);
    world.run(400);
    change(world);
    world.run(400);
    assert.deepEqual(sent.map(textOf), ['failed a|c', 'recovered a|c']);
    assert.equal(world.decisions.file.told.size, 0);
    return [sent[1]!.alarm.because, sent[1]!.about.passed];
  };
  assert.deepEqual(
    becauseOf((world) => world.report(pass)),
    ['passed', true],
  );
  assert.deepEqual(
    becauseOf((world) => world.report({ ...pass, severity: 'WARN' })),
    ['passed', true],
  );
  const errors = { only: { severity: 'ERROR' } };
  assert.deepEqual(
    becauseOf((world) => world.report(warn), errors),
    ['severity', false],
  );
  assert.deepEqual(
    becauseOf((world) => world.set({ only: { severity: 'WARN' } })),
    ['settings', false],
  );
  assert.deepEqual(
    becauseOf((world) => world.set({ only: { keyPrefix: ['b'] } })),
    ['settings', false],
  );
  assert.deepEqual(
    becauseOf((world) => world.set({ only: { checkName: 'd' } })),
    ['settings', false],
  );
  assert.deepEqual(
    becauseOf((world) => world.forget('a')),
    ['forgotten', true],
  );
});

test('`only` selects by key, check, partition and current severity', () => {
  const told = (only: object) => {
    const world = new Watched(settings({ only, staleAfter: undefined, on: ['failed', 'recovered'] }));
    for (const asset of ['a', 'a\0b', 'ab']) world.report({ ...fail, asset });
    world.report({ ...warn, asset: 'a', partition: 'p' });
    world.report({ ...fail, asset: 'a', check: 'n'.repeat(300) });
    return world.run(10).map((post) =>
      post
        .slice(3)
        .replace(/n{9,}.*/, 'long')
        .replace('\0', '/'),
    );
  };
  assert.deepEqual(told({ assetKey: ['ab'] }), ['failed ab|c']);
  assert.deepEqual(told({ keyPrefix: ['a'], severity: 'ERROR', checkName: 'c' }), ['failed a|c', 'failed a/b|c']);
  assert.deepEqual(told({ keyStart: ['a'], checkName: 'c' }).length, 4);
  assert.deepEqual(told({ partition: 'p' }), ['failed a|c|p']);
  assert.deepEqual(told({ checkName: 'n'.repeat(300) }), ['failed a|long']);
});

test('a hook gets the end of a failure that lasted, and a new hook no end of what failed before it began', () => {
  const flip: Step[] = [
    [0, fail],
    [60, pass],
  ];
  assert.deepEqual(posts(400, flip, settings({ on: ['failed'] })), ['10 failed a|c']);
  assert.deepEqual(posts(400, flip, settings({ on: ['recovered'] })), ['70 recovered a|c']);
  assert.deepEqual(
    posts(
      400,
      [
        [0, fail],
        [5, pass],
      ],
      settings({ on: ['recovered'] }),
    ),
    [],
    'it was too short',
  );
  assert.deepEqual(
    posts(
      400,
      [
        [0, fail],
        [20, pass],
      ],
      settings({ on: ['stale', 'fresh'] }),
    ),
    [],
  );
  const noted = settings({ begin: 'now' });
  assert.deepEqual(posts(400, flip, noted), [], 'it held before the hook began');
  assert.deepEqual(
    posts(
      400,
      [
        [0, warn],
        [60, fail],
        [90, pass],
      ],
      noted,
    ),
    ['70 failed a|c', '370 recovered a|c'],
  );
});

test('a new hook with begin now does not post what was already silent, also once the clock is set', () => {
  assert.deepEqual(posts(1000, [[0, old]], settings({ begin: 'now' })), []);
  const world = new Watched(settings({ begin: 'now' }));
  world.report(old);
  world.report({ ...old, asset: 'b' });
  world.nowMs = 60_000;
  world.restart();
  assert.deepEqual(world.run(5), []);
  world.nowMs = NOON;
  assert.deepEqual(world.run(1000), []);
  assert.equal(world.decisions.file.told.size, 2);
});

test('a pass of one partition leaves another one failing, and a pass without a partition ends all failures', () => {
  const steps: Step[] = [
    [0, { ...fail, partition: '26' }],
    [1, { ...fail, partition: '27' }],
    [20, { ...pass, partition: '27' }],
    [400, pass],
  ];
  const told = ['10 failed a|c|26', '11 failed a|c|27', '311 recovered a|c|27', '410 recovered a|c|26'];
  assert.deepEqual(posts(500, steps), told);
});

test('after an outage a hook gets what still holds, and nothing of 50 flips', () => {
  let isAway = true;
  const world = new Watched({ answer: (): Attempt => (isAway ? 'not taken' : 'taken') });
  const steps = Array.from({ length: 50 }, (_, at): Step => [at * 30, at % 2 === 0 ? fail : pass]);
  run(world, 1600, steps);
  assert.equal(world.decisions.file.open, undefined, 'the last result is a pass, and no post is open');
  isAway = false;
  assert.deepEqual(world.run(400), []);
  isAway = true;
  world.report(fail);
  world.run(100);
  assert.equal(world.decisions.waiting, 1);
  isAway = false;
  assert.deepEqual(world.run(0), ['0 failed a|c']);
  assert.equal(world.decisions.waiting, 0);
});

test('a post that might have arrived is repeated unchanged, also after a restart and if it no longer holds', () => {
  let attempt: Attempt = 'in doubt';
  const world = new Watched({ answer: () => attempt });
  const sent = collect(world);
  world.report(fail);
  world.run(12);
  world.restart();
  world.report(pass);
  world.run(12);
  assert.ok(sent.length > 3);
  assert.equal(new Set(sent.map((post) => JSON.stringify(post))).size, 1);
  attempt = 'taken';
  const count = sent.length;
  world.run(400);
  assert.deepEqual(sent.slice(count).map(textOf), ['failed a|c', 'recovered a|c']);
});

test('a post ends when it is refused or fails for 5 minutes, and no outage ends it', () => {
  const after = (attempt: Attempt) => {
    const world = new Watched({ answer: () => attempt });
    world.report(fail);
    const count = world.run(1000).length;
    return [count, [...world.decisions.file.told.values()].map(({ posted }) => posted !== null)];
  };
  assert.deepEqual(after('refused'), [1, [true]]);
  assert.deepEqual(after('failed'), [301, [true]]);
  assert.deepEqual(after('in doubt'), [991, []]);
  assert.deepEqual(after('not taken'), [991, []]);
});

test('a hook that is removed and added again gets the difference', () => {
  const world = new Watched();
  world.report(fail);
  world.report({ ...fail, check: 'd' });
  world.run(400);
  world.report(pass);
  world.report({ ...fail, check: 'e' });
  world.pass(HOUR);
  world.restart();
  const [first, ...more] = world.run(400);
  assert.deepEqual([first, more], ['10 failed a|e', ['10 recovered a|c']]);
});

test('a failure that is noted without a post ends without a post', () => {
  const world = new Watched();
  world.report(fail);
  world.run(9);
  world.look();
  const change = world.decisions.next!;
  assert.equal(change.on, 'failed');
  world.decisions.note(change);
  assert.equal(world.decisions.next, undefined);
  world.report(pass);
  assert.deepEqual(world.run(400), []);
  assert.equal(world.decisions.file.told.size, 0);
});

test('a late event of the asset that is silent for longest is noticed within 5 minutes', () => {
  const world = new Watched();
  world.report({});
  world.run(1000);
  world.report({ ...old, asset: 'b' });
  assert.deepEqual(untimed(world.run(320)), ['stale b']);
  world.report({ ...old, asset: 'c', eventMs: NOON - 40 * HOUR });
  const sent = collect(world);
  world.run(320);
  assert.deepEqual(sent.map(keyIn), ['["c",null,null]']);
});
