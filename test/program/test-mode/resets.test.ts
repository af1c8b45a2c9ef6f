/** `serve --test`: a folder of its own, resets, and reports with unknown parameters. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { fault } from '../../support/faults.ts';
import { eventsIn, newFolder } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { standIn, statusOf } from '../../support/stand-in.ts';

test('--test keeps the folder of --data, and refuses a journal that was made without --test', async (t) => {
  const data = newFolder(t);
  for (const keys of [['a'], ['a', 'b']]) {
    const service = await standIn(t, ['--test'], data);
    await service.call('POST', `/report_asset_observation/${keys.at(-1)}`);
    assert.deepEqual(
      service.keys(),
      keys.map((key) => [key]),
    );
    await service.kill();
  }
  const real = await serve(t);
  await fetch(`${real.url}/report_asset_observation/a`, { method: 'POST' });
  assert.equal((await fetch(`${real.url}/test/reset`, { method: 'POST' })).status, 404);
  await real.stop();
  await assert.rejects(serve(t, { args: ['--test'], data: real.data }), {
    exitCode: 2,
    message: /a journal that was not made with --test/,
  });
  assert.equal(eventsIn(real.data).length, 1);
});

test('a reset empties the journal, and clears assets, faults, refusals and idempotency keys', async (t) => {
  const service = await standIn(t, ['--test', '--segment-bytes', '4096']);
  const keyed = async (key: string) => {
    const headers = { 'Idempotency-Key': key };
    const reply = await fetch(`${service.url}/report_asset_observation/${'k'.repeat(300)}`, {
      method: 'POST',
      headers,
    });
    return [reply.status, reply.headers.get('idempotent-replayed')];
  };
  for (let n = 0; n < 40; n += 1) assert.deepEqual(await keyed(`run/${n}`), [200, null]);
  assert.deepEqual(await keyed('run/1'), [200, 'true']);
  const assets = async () => ((await service.call('GET', '/assets')).json['assets'] as unknown[]).length;
  assert.equal(await assets(), 1);
  assert.ok(readdirSync(service.data).length > 3, 'several files');
  assert.equal(await statusOf(service, '/report_asset_check/a'), 400);
  assert.equal(((await service.call('GET', '/refusals')).json['refusals'] as unknown[]).length, 1);
  await service.faults(fault({}, { status: 503 }));
  assert.deepEqual(await service.call('POST', '/test/reset'), { status: 200, json: {} });
  assert.deepEqual(service.events(), []);
  const left = readdirSync(service.data).filter((name) => !name.startsWith('.lock-'));
  assert.deepEqual(left.sort(), ['.made-for-tests', 'events-00000000000000000001.jsonl']);
  assert.deepEqual((await service.call('GET', '/test/faults')).json['faults'], []);
  assert.deepEqual((await service.call('GET', '/refusals')).json, { refusals: [] });
  assert.equal(await assets(), 0);
  assert.deepEqual(await keyed('run/1'), [200, null]);
  assert.deepEqual(
    service.events().map(({ seq }) => seq),
    [1],
  );
});
