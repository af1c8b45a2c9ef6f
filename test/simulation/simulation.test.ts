/** That the simulation repeats itself, and that it notices a broken promise. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { allMutants } from '../faults/mutants/mutant.ts';
import { rounds } from '../support/long.ts';
import { newFolder } from '../support/program.ts';
import { bundleSimulation, live } from './bundle.ts';
import { Chance } from './chance.ts';
import { faultKinds, planFaults } from './faults.ts';
import { optionsOf, type Replay } from './runner/replay.ts';
import { idleReason, savedLives } from './runner/saved.ts';
import { promiseOf, shrink } from './runner/shrink.ts';

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

test('a source that is broken on purpose breaks a promise, and so does the replay that is printed', async (t) => {
  const bundle = join(newFolder(t), 'simulation.mjs');
  const mutant = allMutants().find(({ breaks }) => breaks === 'an event is acknowledged before the sync');
  await bundleSimulation(bundle, mutant);
  const found: Replay = { seed: 7, steps: 2_000 };
  const { code, outcome } = await live(bundle, optionsOf(found));
  assert.equal(code, 1);
  // Each client that it leaves out is a life.
  const lived = outcome!.lived!.slice(0, rounds({ long: 1_000, short: 6 }));
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

test('each saved life has its defect as a mutant, and is idle without what it has to meet', () => {
  const promises = new Set(allMutants().map(({ breaks }) => breaks));
  for (const { defect, mutant, reaches } of savedLives()) {
    assert.ok(promises.has(mutant), mutant);
    assert.ok(reaches.length > 0, defect);
    assert.match(`${idleReason(undefined, reaches)}`, /^it does not meet /);
  }
});

test('three lives in a row have every fault in their plans, also with one that has none of the disk or the network', () => {
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
