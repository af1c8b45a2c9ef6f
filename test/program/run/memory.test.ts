/** The memory of a running service, on any version of Node. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { newFolder, program, startService } from '../../support/program.ts';
import { eventually } from '../../support/tools.ts';

/** On SIGUSR2, works so that V8's young generation grows to its limit, and prints the MiB of its halves before and after. */
const WORK = `
const halfMib = () => {
  const space = require('node:v8').getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
  return Math.round((space.space_used_size + space.space_available_size) / 1024 / 1024);
};
process.on('SIGUSR2', async () => {
  const before = halfMib();
  let kept = [];
  for (let round = 0; round < 200; round += 1) {
    if (round % 20 === 0) kept = [];
    for (let at = 0; at < 5_000; at += 1) kept.push({ at, text: 'x' + at });
    await new Promise(setImmediate);
  }
  process.stderr.write('MiB: ' + before + ', ' + halfMib() + '\\n');
});`;

test('the young generation of a service grows to its limit and no further', async (t) => {
  const work = join(newFolder(t), 'work.cjs');
  writeFileSync(work, WORK);
  const [node = '', ...rest] = program;
  const service = await startService(t, { program: [node, '--require', work, ...rest] });
  process.kill(service.pid, 'SIGUSR2');
  const printed = () => /^MiB: (\d+), (\d+)$/m.exec(service.stderr())?.slice(1).map(Number);
  await eventually('it has worked', () => printed() !== undefined);
  const [before = 0, after] = printed() ?? [];
  // From the source, the loader has let the young generation grow before the program starts.
  assert.equal(after, Math.max(before, limits.youngHalfBytesMax / 1024 / 1024));
});
