/** `assets --stale` and `GET /assets?stale=`: assets without an event for too long, and the exit code for a cron job. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { runHere } from '../../support/command-output.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { newFolder, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { FIRST, timedEvents } from '../../support/segments.ts';

const HOUR_MS = 3_600_000;
const ago = (hours: number) => new Date(Date.now() - hours * HOUR_MS);

const materialized = (key: string): PlainEvent => ({ type: 'AssetMaterialization', assetKey: key.split('/') });
const observed = (key: string): PlainEvent => ({ type: 'AssetObservation', assetKey: key.split('/') });
const checked = (key: string, passed: boolean): PlainEvent => ({
  type: 'AssetCheckEvaluation',
  assetKey: key.split('/'),
  checkName: 'c',
  passed,
  severity: 'ERROR',
});

/** @param events each with its age in hours, the oldest first */
function journal(t: TestContext, events: readonly (readonly [hours: number, event: PlainEvent])[]): string {
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), timedEvents(events.map(([hours, event]) => [ago(hours), event])));
  return data;
}

const OLD_AND_NEW = [
  [60, materialized('w/old')],
  [50, materialized('w/checked')],
  [50, materialized('w/observed')],
  [49, materialized('w/materialized')],
  [48, checked('w/old', false)],
  [20, checked('w/checked', true)],
  [10, observed('w/observed')],
  [1, materialized('w/materialized')],
] as const;

const keysIn = (lines: string) => [...lines.matchAll(/"asset_key":\["w","(\w+)"\]/g)].map(([, name]) => name);

test('an asset without any event for that long is stale, and the command ends with 1', async (t) => {
  const data = journal(t, OLD_AND_NEW);
  const shown = async (...args: string[]) => {
    const { code, stdout } = await runHere(['assets', data, ...args]);
    return [code, keysIn(stdout)];
  };
  assert.deepEqual(await shown('--stale', '26h'), [1, ['old']]);
  assert.deepEqual(await shown('--stale', '47h'), [1, ['old']]);
  assert.deepEqual(await shown('--stale', '49h'), [0, []]);
  assert.deepEqual(await shown('--stale', '19h'), [1, ['checked', 'old']]);
  assert.deepEqual(await shown('--stale', '30m'), [1, ['checked', 'materialized', 'observed', 'old']]);
  assert.deepEqual(await shown('--stale', '26h', '--failing'), [1, ['old']]);
  assert.deepEqual(await shown('--stale', '26h', '--key', 'w/observed'), [0, []]);
  assert.deepEqual((await shown())[0], 0);
});

test('a key without any asset is stale', async (t) => {
  const data = journal(t, OLD_AND_NEW);
  const { code, stderr } = await runHere(['assets', data, '--stale', '100d', '--key-prefix', 'x']);
  assert.equal(code, 1);
  assert.match(stderr, /no assets match; no asset matches --key-prefix or --stale alone\n/);
  assert.equal((await runHere(['assets', data, '--stale', '100d', '--key', 'w'])).code, 1);
  assert.equal((await runHere(['assets', data, '--stale', '100d', '--key-prefix', 'w'])).code, 0);
  assert.equal((await runHere(['assets', data, '--key', 'w'])).code, 0, 'without --stale');
  const wrong = await runHere(['assets', data, '--stale', '26']);
  assert.deepEqual([wrong.code, /is not a duration such as 30m, 26h or 2d/.test(wrong.stderr)], [2, true]);
});

test('an asset whose last event happened that long ago is stale, even if it was recorded since', async (t) => {
  const late = { ...observed('w/late'), eventTime: ago(40).toISOString() };
  const data = journal(t, [[1, late]]);
  const { code, stdout } = await runHere(['assets', data, '--stale', '26h']);
  assert.deepEqual([code, keysIn(stdout)], [1, ['late']]);
});

test('an asset whose last event is ahead of the clock is stale', async (t) => {
  const data = journal(t, [[-24, observed('w/ahead')]]);
  const { code, stdout } = await runHere(['assets', data, '--stale', '26h']);
  assert.deepEqual([code, keysIn(stdout)], [1, ['ahead']]);
});

test('damage takes precedence over a stale asset in the exit code', async (t) => {
  const data = journal(t, OLD_AND_NEW);
  const file = join(data, FIRST);
  writeFileSync(join(data, 'events-00000000000000000020.jsonl'), 'no line\n');
  const { code } = await runHere(['assets', data, '--stale', '26h']);
  assert.equal(code, 3, file);
});

test('a service reports the same assets over HTTP, and none after a new event', async (t) => {
  const service = await startService(t, { data: journal(t, OLD_AND_NEW) });
  const lines = async (query: string) => {
    const reply = await fetch(`${service.url}/assets${query}`, { headers: { accept: 'application/x-ndjson' } });
    return [reply.status, keysIn(await reply.text())];
  };
  assert.deepEqual(await lines('?stale=26h'), [200, ['old']]);
  assert.deepEqual(await lines('?stale=19h&key_prefix=w'), [200, ['checked', 'old']]);
  assert.deepEqual(await lines('?stale=19h&failing=true'), [200, ['old']]);
  assert.deepEqual(await lines('?stale=26'), [400, []]);
  const remote = async (...args: string[]) => {
    const { code, stdout } = await runHere(['assets', '--url', service.url, ...args]);
    return [code, keysIn(stdout)];
  };
  assert.deepEqual(await remote('--stale', '26h'), [1, ['old']]);
  assert.deepEqual(await remote('--stale', '26h', '--key', 'w/old'), [1, ['old']]);
  assert.deepEqual(await remote('--stale', '26h', '--key', 'w/observed'), [0, []]);
  assert.deepEqual(await remote('--stale', '26h', '--key', 'nothing'), [1, []]);
  await record(service, 'observation/w/old');
  assert.deepEqual(await remote('--stale', '26h'), [0, []]);
  assert.deepEqual(await lines('?stale=26h'), [200, []]);
});
