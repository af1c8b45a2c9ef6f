/** `Idempotency-Key` through the program: header, replies, batches. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventsIn } from '../../support/program.ts';
import { serve } from '../../support/service.ts';

async function report(url: string, key: string, description = 'x'): Promise<Response> {
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
  const body = JSON.stringify({ asset_key: ['a'], description });
  return fetch(`${url}/report_asset_materialization/`, { method: 'POST', headers, body });
}

async function assertReply(reply: Response, status: number, isReplayed: boolean): Promise<void> {
  const body = await reply.text();
  assert.equal(reply.status, status, body);
  assert.equal(reply.headers.get('idempotent-replayed'), isReplayed ? 'true' : null);
  if (status === 200) assert.equal(body, '{}');
}

test('--idempotency-keys 0 ignores the header, with a warning, and the OpenAPI document does not offer it', async (t) => {
  const service = await serve(t, { args: ['--idempotency-keys', '0'] });
  for (const key of ['a', 'a', 'not, a key']) await assertReply(await report(service.url, key), 200, false);
  assert.equal(eventsIn(service.data).length, 3);
  assert.ok(eventsIn(service.data).every((line) => !('idempotency_key' in line)));
  assert.match(service.notices.join(''), /Idempotency-Key is ignored: a report that is sent again is recorded again/);
  const contract = await (await fetch(`${service.url}/openapi.json`)).text();
  assert.doesNotMatch(contract, /Idempotency-Key|422/);
  const other = await serve(t);
  assert.match(await (await fetch(`${other.url}/openapi.json`)).text(), /"name":"Idempotency-Key","in":"header"/);
  for (const isReplayed of [false, true]) await assertReply(await report(other.url, 'a'), 200, isReplayed);
  const metrics = await (await fetch(`${other.url}/metrics`)).text();
  assert.match(metrics, /^assetlog_idempotent_replays_total 1\n(.*\n)*assetlog_idempotency_keys 1$/m);
});
