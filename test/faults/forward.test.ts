/** A minute of everything between devices, a hub and what is behind it; see `chaos.ts`, which runs for as long as one likes. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../support/program.ts';
import { withoutMounts, withoutPowerCut } from '../support/tools.ts';

const SECONDS = 60;
const PATIENCE_MS = 280_000;

test(`${SECONDS} seconds of kills, power cuts, full disks and broken links: each event is at the hub once and in order, and upstream or a dead letter`, (t) => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', import.meta.resolve('tsx'), join(root, 'test/faults/chaos.ts'), '--seconds', String(SECONDS)],
    { encoding: 'utf8', timeout: PATIENCE_MS },
  );
  for (const line of stdout.trimEnd().split('\n')) t.diagnostic(line);
  assert.equal(status, 0, stdout + stderr);
  const figure = (name: string) => new RegExp(`^${name} +(.+)$`, 'm').exec(stdout)?.[1];
  for (const device of ['d0', 'd1', 'd2']) {
    assert.deepEqual([figure(`${device} not at the hub`), figure(`${device} wrong at the hub`)], ['0', '0'], device);
    assert.ok(Number(figure(`${device} acknowledged`)) > 50, stdout);
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
    if (missing === false) assert.ok(Number(figure(name)) > 0, `${name}: ${stdout}`);
  }
});
