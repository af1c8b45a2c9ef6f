/** A minute of everything; see `soak.ts`, which runs for as long as one likes. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../support/program.ts';
import { withoutMounts, withoutPowerCut, withoutStrace } from '../support/tools.ts';

const SECONDS = 60;
const PATIENCE_MS = 110_000;

test(`${SECONDS} seconds of kills, stops, slow and full disks, power cuts, unread replies and held locks lose and double nothing`, (t) => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', import.meta.resolve('tsx'), join(root, 'test/faults/soak.ts'), '--seconds', String(SECONDS)],
    { encoding: 'utf8', timeout: PATIENCE_MS },
  );
  for (const line of stdout.trimEnd().split('\n')) t.diagnostic(line);
  assert.equal(status, 0, stdout + stderr);
  const figure = (name: string) => new RegExp(`^${name} +(.+)$`, 'm').exec(stdout)?.[1];
  for (const site of ['local', 'hosted']) {
    const figures = ['lost', 'doubled', 'seq whole'].map((name) => figure(`${site} ${name}`));
    assert.deepEqual(figures, ['0', '0', 'yes'], site);
    assert.ok(Number(figure(`${site} acknowledged`)) > 1_000, stdout);
    assert.ok(Number(figure(`${site} refused with 400`)) > 0, stdout);
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
    if (missing === false) assert.ok(Number(figure(name)) > 0, `${name}: ${stdout}`);
  }
});
