/** `--watch-asset`: the metric with the age of the oldest asset under a key, also right after a restart. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { segmentName } from '../../../src/journal/segments.ts';
import { agedEvents } from '../../support/aged-events.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import { newFolder, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';

const NAME = 'assetlog_watched_asset_age_seconds';
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
  writeFileSync(
    join(data, segmentName(1)),
    agedEvents([
      '90 observed w/a',
      '80 observed other',
      '50 observed w/b',
      '30 observed w/a',
      '20 observed w2',
      '10 observed w/c/d',
    ]),
  );
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
  writeFileSync(join(folder, segmentName(1)), agedEvents(['50 observed w', '40 observed v']));
  const again = await startService(t, { data, args: [...args, ...watch('prod/w', 'prod', 'dev')] });
  assert.deepEqual(await agesOf(again), { 'prod/w': 50, prod: 50, dev: Infinity });
});
