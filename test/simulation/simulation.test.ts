/** That the simulation repeats itself, and that it notices a broken promise. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { allMutants } from '../faults/mutants/mutant.ts';
import { rounds } from '../support/long.ts';
import { newFolder } from '../support/program.ts';
import { Chance } from '../world/chance.ts';
import type { MessageFault } from '../world/network.ts';
import { World } from '../world/time.ts';
import { bundleSimulation, live } from './bundle.ts';
import { endsOf, type FaultKind, faultKinds, planFaults, requestKinds } from './faults.ts';
import { strikeRequests } from './links.ts';
import { optionsOf, type Replay } from './runner/replay.ts';
import { idleReason, savedLives } from './runner/saved.ts';
import { promiseOf, shrink } from './runner/shrink.ts';
import type { Targets } from './strikes.ts';

test('the same seed gives the same life, in which every promise is kept', async (t) => {
  const bundle = join(newFolder(t), 'simulation.mjs');
  await bundleSimulation(bundle);
  const steps = rounds({ long: 30_000, short: 4_000 });
  const args = ['--seed', '7', '--steps', `${steps}`];
  const lives = await Promise.all([live(bundle, args), live(bundle, args)]);
  const [first, again] = lives.map(({ code, text, outcome }) => {
    assert.equal(code, 0, text);
    const { ms: _, ...life } = outcome!;
    return life;
  });
  assert.deepEqual(first, again);
  const { events, states } = first!;
  assert.ok(first!.steps >= steps && events['hub']! > 20 && events['upstream']! > 20, JSON.stringify(first));
  const met = ['journal starting', 'journal open', 'hub asked', 'hub all new', 'key new', 'forwarder sending'];
  assert.deepEqual(
    met.filter((name) => !states[name]),
    [],
  );
});

test('a source that is broken on purpose breaks a promise, and the printed replay breaks it too', async (t) => {
  const bundle = join(newFolder(t), 'simulation.mjs');
  const mutant = allMutants().find(({ breaks }) => breaks === 'an event is acknowledged before the sync');
  await bundleSimulation(bundle, mutant);
  const found: Replay = { seed: 7, steps: 2_000 };
  const { code, outcome } = await live(bundle, optionsOf(found));
  assert.equal(code, 1);
  // Each client that it leaves out is a life: there are those of the service that broke the promise, at least.
  const [service] = outcome!.broken!.split(' ');
  const isOfAny = rounds({ long: 1, short: 0 }) > 0;
  const lived = outcome!.lived!.filter((name) => isOfAny || name.endsWith(`-${service}`));
  const shrunk = await shrink(
    found,
    { ...outcome!, lived },
    (replay) => live(bundle, optionsOf(replay), { quiet: true }),
    60_000,
  );
  // No fault is needed, but without one the promise may first break at another service.
  assert.ok(shrunk.only!.length <= 1 && shrunk.clients!.length === 1, optionsOf(shrunk).join(' '));
  const again = await live(bundle, optionsOf(shrunk));
  assert.equal(again.code, 1);
  assert.equal(promiseOf(again.outcome!), promiseOf(outcome!));
});

test('each saved life has its defect as a mutant, and is idle if it meets nothing that it is about', () => {
  const promises = new Set(allMutants().map(({ breaks }) => breaks));
  for (const { defect, mutant, reaches } of savedLives()) {
    assert.ok(promises.has(mutant), mutant);
    assert.ok(reaches.length > 0, defect);
    assert.match(`${idleReason(undefined, reaches)}`, /^it does not meet /);
  }
});

test('three lives in a row plan every fault, although one of them plans none of the disk or the network', () => {
  const names = {
    machines: ['d0'],
    mayBeCopied: ['d0'],
    removing: ['d0'],
    upstreams: ['u'],
    clientLinks: ['c to d0'],
    hubLinks: ['d0 to h'],
    plainLinks: ['d0 to u'],
  };
  // What a life of 100,000 steps takes, at least.
  const untilMs = 150_000;
  for (let first = 0; first < 300; first += 1) {
    const plans = [first, first + 1, first + 2].map((seed) => planFaults(seed, new Chance(seed), untilMs, names));
    const planned = new Set(plans.flat().map(({ kind }) => kind));
    assert.deepEqual([...planned].sort(), [...faultKinds].sort(), `${first}`);
  }
});

test('half of the lives have all ends of processes, the others fewer, and none after 80,000 steps', () => {
  const shares = Array.from({ length: 200 }, (_, seed) => {
    const happens = endsOf(new Chance(seed));
    assert.ok(!happens(1, 'crash', 80_001) && happens(1, 'disk full', 80_001));
    const struck = Array.from({ length: 800 }, (_, at) => happens(at, 'crash', 100 * at));
    return struck.filter(Boolean).length / struck.length;
  });
  const [all, few] = [shares.filter((share) => share === 1), shares.filter((share) => share < 0.2)];
  assert.ok(all.length > 80 && all.length < 130 && few.length > 30, `${shares}`);
});

test('some requests on a link are struck in each way, and no strike denies a delivery to a plain destination', () => {
  const world = new World(1);
  const targets = {
    world,
    upstreams: new Map([['u', {}]]),
    engines: new Map(),
    forwards: ['d0 to u'],
    machines: new Map(),
  };
  const strikes = (leftOut?: number) => {
    const numbers: number[] = [];
    const begins = (number: number) => {
      numbers.push(number);
      return number !== leftOut;
    };
    const next = strikeRequests(begins, () => targets as unknown as Targets);
    return { faults: Array.from({ length: 20_000 }, () => next('d0 to u')), numbers };
  };
  const { faults, numbers } = strikes();
  const struck = faults.filter((fault): fault is MessageFault => fault !== undefined);
  const kinds = new Set<FaultKind>(struck.map(({ kind }) => kind));
  assert.deepEqual([...kinds].sort(), [...requestKinds, 'forged reply'].sort());
  assert.ok(struck.length > 500 && struck.length < 700, `${struck.length}`);
  for (const fault of struck)
    if ('reply' in fault && fault.isDelivered)
      assert.ok([502, 504].includes(fault.reply.status), JSON.stringify(fault));
  // Without one of them, all others are as they were.
  const without = strikes(numbers[3]).faults;
  const changed = faults.flatMap((fault, at) => (fault?.kind === without[at]?.kind ? [] : [at]));
  assert.equal(changed.length, 1);
  assert.equal(without[changed[0]!], undefined);
});
