/** `Idempotency-Key` through the program: header, replies, batches. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventsIn, startService } from '../../support/program.ts';
import { reportOne } from '../../support/report.ts';

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

test('a repeated report is counted, and another event is refused with its key and the first member that differs', async (t) => {
  const service = await startService(t);
  await assertReply(await report(service.url, 'order-17/1'), 200, false);
  await assertReply(await report(service.url, '"order-17/1"'), 200, true);
  const conflict = await report(service.url, 'order-17/1', 'other');
  assert.equal(conflict.status, 422);
  const { error } = (await conflict.json()) as { error: string };
  assert.match(error, /^the Idempotency-Key "order-17\/1" was used before, for an event with another description;/);
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  assert.match(metrics, /^assetlog_idempotent_replays_total 1$/m);
  assert.match(metrics, /^assetlog_idempotency_keys 1$/m);
  assert.match(metrics, /^assetlog_events_total\{type="AssetMaterialization"\} 1$/m);
});

test('--idempotency-keys 0 ignores the header, with a warning, and the OpenAPI document does not offer it', async (t) => {
  const service = await startService(t, { args: ['--idempotency-keys', '0'] });
  for (const key of ['a', 'a', 'not, a key']) await assertReply(await report(service.url, key), 200, false);
  assert.equal(eventsIn(service.data).length, 3);
  assert.ok(eventsIn(service.data).every((line) => !('idempotency_key' in line)));
  assert.match(service.stderr(), /Idempotency-Key is ignored: a report that is sent again is recorded again/);
  const contract = await (await fetch(`${service.url}/openapi.json`)).text();
  assert.doesNotMatch(contract, /Idempotency-Key|422/);
  const other = await startService(t);
  assert.match(await (await fetch(`${other.url}/openapi.json`)).text(), /"name":"Idempotency-Key","in":"header"/);
});

test('in a batch each item gets a numbered key, known keys are duplicates, and a key of another event is a wrong item', async (t) => {
  const service = await startService(t);
  const item = (asset_key: string, idempotency_key?: string) => ({ type: 'observation', asset_key, idempotency_key });
  /** The first line is empty, and counts. */
  const send = (items: readonly object[], headers: Record<string, string>) => {
    const body = `\n${items.map((one) => JSON.stringify(one)).join('\n')}`;
    return reportOne(service, 'batch/', { body, headers: { 'Content-Type': 'application/x-ndjson', ...headers } });
  };
  const both = () => send([item('a'), item('b', 'own')], { 'Idempotency-Key': 'run' });
  assert.equal((await both()).body, '{"recorded":2}');
  assert.equal((await both()).body, '{"recorded":2,"duplicates":2}');
  assert.deepEqual(
    eventsIn(service.data).map((line) => line['idempotency_key']),
    ['run/2', 'own'],
  );
  const items = [item('c', 'new'), item('other', 'own'), item('d', 'new')];
  const wrong = await send(items, {});
  assert.equal(wrong.status, 400);
  const { error, errors } = JSON.parse(wrong.body) as { error: string; errors: { item: number; error: string }[] };
  assert.match(
    error,
    /^2 of 3 items are wrong and nothing was recorded; item 3: idempotency_key "own" was used before/,
  );
  assert.deepEqual(
    errors.map((one) => one.item),
    [3, 4],
  );
  assert.match(errors[1]?.error ?? '', /"new" is also the key of item 2, for an event with another asset_key/);
  assert.equal(eventsIn(service.data).length, 2);
  const lenient = await send(items, { Prefer: 'handling=lenient' });
  assert.deepEqual([lenient.status, lenient.body], [207, JSON.stringify({ recorded: 1, failed: 2, errors })]);
  assert.equal(eventsIn(service.data).length, 3);
});
