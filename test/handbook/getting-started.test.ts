/** The first ten minutes, step by step from the page, with a server in the place of Dagster. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { followGettingStarted } from '../support/getting-started.ts';
import { startPlainUpstream } from '../support/plain-upstream.ts';
import { noTerminal } from '../support/terminal.ts';

test('getting started: each step prints what the page shows, and each event is at Dagster once', {
  skip: noTerminal(),
}, async (t) => {
  const dagster = await startPlainUpstream(t);
  const refusal = { status: 400, text: '{"error":"Empty asset key."}' };
  dagster.answer = ({ body, key }) => ('asset_key' in body || key[0] !== 'undefined' ? undefined : refusal);
  const command = `echo INFO - Serving dagster-webserver on ${dagster.url} in process $$ && sleep 1000`;
  await followGettingStarted(t, { port: dagster.port, command }, async () => {
    const found = dagster.events.map(({ key, body }) => [key.join('/'), body['metadata']]);
    assert.deepEqual(found, [['sensors/roof', { celsius: 21.5 }], ...[1, 2, 3].map((n) => ['sensors/roof', { n }])]);
  });
});
