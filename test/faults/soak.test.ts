/** A minute of everything; see `soak.ts`, which runs for as long as one likes. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutMounts, withoutPowerCut, withoutStrace } from '../support/tools.ts';
import { figuresOf } from './beside.ts';

const SECONDS = 60;
const PATIENCE_MS = 110_000;

test(`${SECONDS} seconds of kills, stops, slow and full disks, power cuts, unread replies and held locks lose and double nothing`, (t) => {
  const figure = figuresOf(t, 'soak.ts', SECONDS, PATIENCE_MS);
  for (const site of ['local', 'hosted']) {
    const figures = ['lost', 'doubled', 'seq whole'].map((name) => figure(`${site} ${name}`));
    assert.deepEqual(figures, ['0', '0', 'yes'], site);
    assert.ok(Number(figure(`${site} acknowledged`)) > 1_000, site);
    assert.ok(Number(figure(`${site} refused with 400`)) > 0, site);
  }
  for (const [name, missing] of [
    ['killed', false],
    ['stopped', false],
    ['unread replies', false],
    ['held lock', false],
    ['slow disk', withoutStrace],
    ['full disk', withoutMounts],
    ['power cut', withoutPowerCut],
  ] as const) {
    if (missing === false) assert.ok(Number(figure(name)) > 0, name);
  }
});
