/** `--deployment-metrics`: the figures of each deployment and token, and their absence without it. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sha256 } from '../../../src/deployments/tokens.ts';
import { host, rewrite } from '../../support/deployments.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import { segmentBytes } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';

const ON = ['--deployment-metrics'];

/** @returns the samples of a deployment by name and further labels */
function figuresOf(text: string, deployment: string): Record<string, number> {
  const own = [...samplesOf(text)].filter(([name]) => name.includes(`deployment="${deployment}"`));
  const short = (name: string) =>
    name
      .replace('assetlog_', '')
      .replace(`deployment="${deployment}"`, '')
      .replace(/\{,?\}?/, ' ')
      .replace('}', '')
      .trim();
  return Object.fromEntries(own.map(([name, value]) => [short(name), value]));
}

test('each deployment has its events, refusals, size and last event, and each token when it was used, also after a restart', async (t) => {
  const args = [...ON, '--segment-bytes', '4096'];
  const service = await host(t, ['prod', 'test', 'new'], { args, limits: { idleJournalMs: 60_000 } });
  const { data, file, port, report, get, tokenOf } = service;
  const before = Date.now();
  for (let count = 0; count < 40; count += 1) assert.equal((await report('prod')).status, 200);
  assert.equal((await report('test')).status, 200);
  assert.equal((await report('prod', 'x')).status, 401);
  for (const _ of [1, 2]) assert.equal((await get('/test/nowhere')).status, 401);
  const figures = async (name: string) => figuresOf(await metricsOf({ port }), name);
  const token = (name: string) =>
    `token_last_used_timestamp_seconds token="ci of ${name}",sha256="${sha256(tokenOf(name)).toString('hex', 0, 4)}"`;
  await eventually(
    'the refusals count',
    async () => (await figures('test'))['deployment_refused_total status="401"'] === 2,
  );
  const prod = await figures('prod');
  const { [token('prod')]: usedAt = 0, deployment_last_event_timestamp_seconds: lastAt = 0, ...counts } = prod;
  assert.deepEqual(counts, {
    deployment_events_total: 40,
    'deployment_refused_total status="401"': 1,
    deployment_journal_bytes: segmentBytes(join(data, 'prod')),
  });
  assert.ok(readdirSync(join(data, 'prod')).length > 3, 'several segments');
  for (const at of [usedAt, lastAt]) assert.ok(at * 1000 >= before && at * 1000 <= Date.now(), `${at}`);
  assert.deepEqual(await figures('new'), {
    deployment_events_total: 0,
    deployment_journal_bytes: 0,
    [token('new')]: 0,
  });

  assert.equal((await report('prod')).status, 200);
  assert.equal((await figures('prod'))['deployment_journal_bytes'], segmentBytes(join(data, 'prod')));
  const [
    {
      tokens: [entry],
    },
  ] = JSON.parse(readFileSync(file, 'utf8')).deployments;
  const twice = {
    name: 'prod',
    tokens: [entry, { ...entry, may: ['read'] }, { ...entry, name: 'a"\\\n', sha256: sha256('other').toString('hex') }],
  };
  rewrite(file, twice, { name: 'test', tokens: [] });
  await service.reload();
  assert.equal((await figures('prod'))[token('prod')]! >= usedAt, true, 'a reload forgets no use');
  assert.match(await metricsOf({ port }), /\{deployment="prod",token="a\\"\\\\\\n",sha256="[0-9a-f]{8}"\} 0$/m);
  await service.stop();

  const next = await serve(t, { data, args: ['--deployments', file, ...args] });
  const again = figuresOf(await metricsOf(next), 'prod');
  assert.equal(again['deployment_journal_bytes'], segmentBytes(join(data, 'prod')));
  assert.ok((again['deployment_last_event_timestamp_seconds'] ?? 0) >= lastAt);
  assert.deepEqual([again['deployment_events_total'], again[token('prod')]], [0, 0]);
});

test('the size of a journal is right after retention and an idle close', async (t) => {
  const args = [...ON, '--retain-bytes', '16KiB'];
  const { data, port, report, notices } = await host(t, ['prod'], { args, limits: { idleJournalMs: 300 } });
  const bytes = async () => figuresOf(await metricsOf({ port }), 'prod')['deployment_journal_bytes'];
  for (let count = 0; count < 150; count += 1) {
    await report('prod');
    if (count === 20) assert.equal(await bytes(), segmentBytes(join(data, 'prod')));
  }
  await eventually('segments are removed', () => notices.some((line) => line.includes('segment removed')));
  await eventually('its size is that of the files', async () => (await bytes()) === segmentBytes(join(data, 'prod')));
  await report('prod');
  await eventually('the journal is closed', () => readdirSync(join(data, 'prod')).includes('.stopped-cleanly'));
  await eventually('its size is still that', async () => (await bytes()) === segmentBytes(join(data, 'prod')));
});

test('each metric has at most so many series [deployment-metrics-2]', async (t) => {
  const { report, port, file } = await host(t, ['a', 'b', 'c'], { args: ON, limits: { deploymentSeriesMax: 2 } });
  for (const name of ['a', 'b', 'c']) await report(name);
  const seriesOf = async (metric: string) =>
    [...samplesOf(await metricsOf({ port })).keys()].filter((name) => name.startsWith(`assetlog_${metric}{`));
  const { deployments } = JSON.parse(readFileSync(file, 'utf8'));
  const [{ tokens }] = deployments;
  const many = Array.from({ length: 5 }, (_, at) => ({ ...tokens[0], sha256: sha256(`${at}`).toString('hex') }));
  for (const metric of [
    'deployment_events_total',
    'deployment_journal_bytes',
    'deployment_last_event_timestamp_seconds',
  ]) {
    assert.deepEqual(
      (await seriesOf(metric)).map((name) => name.at(-3)),
      ['a', 'b'],
      metric,
    );
  }
  rewrite(file, { name: 'a', tokens: many });
  await eventually('the tokens are read', async () => (await seriesOf('deployment_events_total')).length === 1);
  assert.equal((await seriesOf('token_last_used_timestamp_seconds')).length, 2);
});
