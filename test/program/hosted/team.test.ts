/** What a team sees of its own deployment: whether it is well, and its refused requests in the log of the service. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { sha256 } from '../../../src/deployments/tokens.ts';
import { host } from '../../support/deployments.ts';
import { eventually } from '../../support/tools.ts';
import { ask, errorOf, get, post } from '../../support/wire.ts';

const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

test('a token that may read sees whether its own journal is well, and nothing of others', async (t) => {
  const { file, port, report, reload, headerOf } = await host(t, ['full', 'well']);
  const { deployments } = JSON.parse(readFileSync(file, 'utf8'));
  const digest = sha256('reports-only').toString('hex');
  deployments[0].maxBytes = 16_384;
  deployments[0].tokens.push({ name: 'cron', sha256: digest, may: ['report'] });
  writeFileSync(file, JSON.stringify({ deployments }));
  await reload();
  const ready = (name: string, header = headerOf(name)) => ask(port, get(`/${name}/readyz`, header));
  assert.deepEqual([(await ready('full')).status, (await ready('full')).body], [200, '{"status":"ok"}']);
  await eventually('the journal is full', async () => (await report('full')).status === 503);
  const refused = await ready('full');
  assert.deepEqual([refused.status, /maxBytes is 16384/.test(errorOf(refused))], [503, true]);
  assert.deepEqual([(await ready('well')).status, (await ready('well')).body], [200, '{"status":"ok"}']);
  const statuses = [
    ready('full', headerOf('well')),
    ready('full', 'X: y'),
    ready('full', 'Service-Cloud-Api-Token: reports-only'),
  ];
  assert.deepEqual(
    (await Promise.all(statuses)).map(({ status }) => status),
    [401, 401, 403],
  );
});

test('lines about refused requests have address, token and trace, as the list of refusals has', async (t) => {
  const hosting = await host(t, ['prod'], { args: ['--trusted-proxy', '127.0.0.1'], logLevel: 'debug' });
  const { port, notices, headerOf } = hosting;
  const send = (...headers: string[]) => ask(port, post('/prod/report_asset_check/a', undefined, headers));
  const own = headerOf('prod');
  await send(own, `Traceparent: ${TRACE}`, 'X-Forwarded-For: 192.0.2.7');
  const wrong = [
    'x',
    `${TRACE}-`,
    TRACE.toUpperCase(),
    TRACE.replace('00-', 'ff-'),
    `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
  ];
  for (const value of wrong) await send(own, `traceparent: ${value}`);
  await send(own, `traceparent: ${TRACE}`, `traceparent: ${TRACE}`);
  await send();
  const lines = notices.map((line) => JSON.parse(line));
  const fields = (one: Record<string, unknown>) => [one['address'], one['token_name'], one['traceparent']];
  const rest = Array(6).fill(['127.0.0.1', 'ci of prod', undefined]);
  const wanted = [['192.0.2.7', 'ci of prod', TRACE], ...rest, ['127.0.0.1', undefined, undefined]];
  assert.deepEqual(lines.filter(({ message }) => message === 'refused').map(fields), wanted);
  const debug = lines.filter(({ message }) => message === 'request');
  assert.deepEqual(
    debug.map(({ traceparent }) => traceparent),
    [TRACE, ...Array(7).fill(undefined)],
  );
  const listed = async () =>
    JSON.parse((await ask(port, get('/prod/refusals', own, 'Accept: application/json'))).body).refusals;
  await eventually('all are listed', async () => (await listed()).length === 8);
  assert.deepEqual((await listed()).map(fields).reverse(), wanted);
});
