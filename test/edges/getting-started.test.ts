/** The first ten minutes, step by step from the page, with Dagster. */

import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { shellWord } from '../../src/telemetry/printable.ts';
import { followGettingStarted } from '../support/getting-started.ts';
import { freePort } from '../support/program.ts';
import { partitionsAtReference, referenceExecutable, withoutReference } from '../support/reference.ts';
import { noTerminal } from '../support/terminal.ts';
import { eventually, HANG_MS } from '../support/tools.ts';

test('getting started: each step prints what the page shows, and Dagster has each event once', {
  skip: withoutReference || noTerminal(),
}, async (t) => {
  const port = await freePort(t);
  const command = `DAGSTER_DISABLE_TELEMETRY=yes exec ${shellWord(join(dirname(String(referenceExecutable)), 'dagster'))} "$@"`;
  await followGettingStarted(t, { port, command }, async () => {
    // It says that it serves before it does.
    const found = () => partitionsAtReference(port, ['sensors', 'roof']).catch(() => []);
    await eventually('the web server', async () => (await found()).length > 0, HANG_MS);
    assert.equal((await found()).length, 4);
  });
});
