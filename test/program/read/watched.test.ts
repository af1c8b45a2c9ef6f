/** `--watch-asset`: the metric with the age of the oldest asset under a key, also right after a restart. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { segmentName } from '../../../src/journal/segments.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { newFolder, run, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { timedEvents } from '../../support/segments.ts';

const NAME = 'assetlog_watched_asset_age_seconds';
const HOUR_MS = 3_600_000;

/** A file of a journal. @param events such as `50 w/b` for an event recorded 50 hours ago, the oldest first */
function fileOf(events: readonly string[], first = 1): Buffer {
  const timeOf = (hours = '') => Date.now() - Number(hours) * HOUR_MS;
  const eventOf = (key = ''): PlainEvent => ({ type: 'AssetObservation', assetKey: key.split('/') });
  return timedEvents(
    events.map((event) => event.split(' ')).map(([hours, key]) => [timeOf(hours), eventOf(key)]),
    first,
  );
}

/** @returns the age of the oldest asset under each key, in hours, to a tenth */
async function agesOf(service: { readonly port: number }): Promise<Record<string, number>> {
  const ages = [...samplesOf(await metricsOf(service))].filter(([name]) => name.startsWith(NAME));
  return Object.fromEntries(
    ages.map(([name, seconds]) => [/key="(.*)"/.exec(name)?.[1] ?? '', Math.round(seconds / 360) / 10]),
  );
}

const watch = (...keys: string[]) => keys.flatMap((key) => ['--watch-asset', key]);

test('the age is that of the most silent asset under the key, also right after a restart', async (t) => {
  const data = newFolder(t);
  writeFileSync(join(data, segmentName(1)), fileOf(['90 w/a', '80 other', '50 w/b', '30 w/a', '20 w2', '10 w/c/d']));
  const args = watch('w', 'w/a', 'w/c', 'nothing', '["w/a"]', 'o"\\x');
  let service = await startService(t, { data, args });
  const nothing = { nothing: Infinity, '[\\"w/a\\"]': Infinity, 'o\\"\\\\x': Infinity };
  assert.deepEqual(await agesOf(service), { w: 50, 'w/a': 30, 'w/c': 10, ...nothing });
  await record(service, 'check/w/b?check_name=c&passed=true');
  assert.deepEqual(await agesOf(service), { w: 30, 'w/a': 30, 'w/c': 10, ...nothing });
  await record(service, 'materialization/w/a');
  await service.kill('SIGKILL');
  service = await startService(t, { data, args });
  assert.deepEqual(await agesOf(service), { w: 10, 'w/a': 0, 'w/c': 10, ...nothing });
  await record(service, 'observation/nothing');
  assert.equal((await agesOf(service))['nothing'], 0);
});

test('in hosted mode a key begins with the deployment, and idle journals are read too', async (t) => {
  const data = newFolder(t);
  const { args } = writeDeployments(t, ['prod', 'dev']);
  const service = await startService(t, { data, args: [...args, ...watch('prod/w', 'prod', 'dev')] });
  assert.deepEqual(await agesOf(service), { 'prod/w': Infinity, prod: Infinity, dev: Infinity });
  await service.kill();
  const folder = join(data, 'prod');
  assert.deepEqual(readdirSync(data).includes('prod'), false, 'a metric creates no folder');
  mkdirSync(folder, { mode: 0o700 });
  writeFileSync(join(folder, segmentName(1)), fileOf(['50 w', '40 v']));
  const again = await startService(t, { data, args: [...args, ...watch('prod/w', 'prod', 'dev')] });
  assert.deepEqual(await agesOf(again), { 'prod/w': 50, prod: 50, dev: Infinity });
});

test('without --watch-asset no age is reported, and at most 20 keys are accepted', async (t) => {
  assert.deepEqual(await agesOf(await startService(t)), {});
  const many = await run(['serve', ...watch(...Array.from({ length: 21 }, (_, at) => `a${at}`))]);
  assert.deepEqual([many.code, /--watch-asset "a20" is one more than 20/.test(many.stderr)], [2, true]);
  for (const key of ['a//b', 'a\u0007']) assert.equal((await run(['serve', '--watch-asset', key])).code, 2, key);
  const hosted = await run(['serve', '--deployments', 'x', ...watch('.x/a')]);
  assert.match(hosted.stderr, /--watch-asset starts with the deployment, as in prod\/warehouse/);
});
