/** That the simulation repeats itself, and that it notices a broken promise. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { rounds } from '../support/long.ts';
import { newFolder } from '../support/program.ts';
import { bundleSimulation, live } from './bundle.ts';
import { Chance } from './chance.ts';
import { faultKinds, planFaults } from './faults.ts';

test('the same seed gives the same life, in which every promise is kept', async (t) => {
  const bundle = join(newFolder(t), 'simulation.mjs');
  await bundleSimulation(bundle);
  const steps = rounds({ long: 30_000, short: 10_000 });
  const args = ['--seed', '7', '--steps', `${steps}`];
  const lives = await Promise.all([live(bundle, args), live(bundle, args)]);
  const [first, again] = lives.map(({ code, text }) => {
    assert.equal(code, 0, text);
    const { ms: _, ...life } = JSON.parse(text);
    return life;
  });
  assert.deepEqual(first, again);
  assert.ok(
    first.steps >= steps && first.events.hub > 100 && first.events.upstream >= first.events.hub,
    JSON.stringify(first),
  );
});

test('three lives in a row have every fault in their plans, also with one that has none of the disk or the network', () => {
  const names = {
    machines: ['d0'],
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
