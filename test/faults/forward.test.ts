/** A minute of everything between devices, a hub and its upstream; see `chaos.ts`, which runs for as long as one likes. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutMounts, withoutPowerCut } from '../support/tools.ts';
import { figuresOf } from './beside.ts';

const SECONDS = 60;
const PATIENCE_MS = 280_000;

test(`${SECONDS} seconds of kills, power cuts, full disks and broken links: each event is at the hub once and in order, and upstream or a dead letter`, (t) => {
  const figure = figuresOf(t, 'chaos.ts', SECONDS, PATIENCE_MS);
  for (const device of ['d0', 'd1', 'd2']) {
    assert.deepEqual([figure(`${device} not at the hub`), figure(`${device} wrong at the hub`)], ['0', '0'], device);
    assert.ok(Number(figure(`${device} acknowledged`)) > 50, device);
  }
  const none = ['doubled at the hub', 'neither upstream nor dead letter', 'of them without a dead letter'];
  assert.deepEqual(none.map(figure), ['0', '0', '0']);
  for (const [name, missing] of [
    ['device killed', false],
    ['hub killed', false],
    ['upstream killed', false],
    ['device link down', false],
    ['device link cuts', false],
    ['device link delays and doubles', false],
    ['device link lies', false],
    ['hub link cuts', false],
    ['hub link lies', false],
    ['device disk full', withoutMounts],
    ['hub disk full', withoutMounts],
    ['device power cut', withoutPowerCut],
    ['hub power cut', withoutPowerCut],
  ] as const) {
    if (missing === false) assert.ok(Number(figure(name)) > 0, name);
  }
});
