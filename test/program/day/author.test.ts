/** The day of an author of tests, on any system: `serve --test`, its faults and resets, and `startService`. */

import assert from 'node:assert/strict';
import { closeSync, existsSync, openSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Fault } from '../../../src/embed.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { fault } from '../../support/faults.ts';
import { launch, newFolder, readyUrl, root, startService } from '../../support/program.ts';
import { ask, get, post, Wire } from '../../support/wire.ts';

test('a service in test mode fails by its faults, has its page, and ends with its standard input without a trace', async (t) => {
  const folder = newFolder(t);
  const launched = launch(['serve', '--test', '--port', '0', '--exit-with-stdin'], {
    openInput: true,
    env: { TMPDIR: folder, TEMP: folder, TMP: folder },
  });
  t.after(() => launched.child.kill('SIGKILL'));
  const port = Number(new URL(await readyUrl(launched)).port);
  assert.equal(readdirSync(folder).length, 1);
  assert.deepEqual(JSON.parse((await ask(port, get('/readyz'))).body), { status: 'ok', mode: 'test' });
  const fault = post('/test/faults', '{"faults": [{"times": 1, "then": {"status": 503}}]}').replace('POST', 'PUT');
  assert.equal((await ask(port, fault)).status, 200);
  const report = async () => (await ask(port, post('/report_asset_observation/a'))).status;
  assert.deepEqual([await report(), await report()], [503, 200]);
  assert.equal(JSON.parse((await ask(port, get('/events'))).body).seq, 1);
  assert.match((await ask(port, get('/', 'Accept: text/html'))).body, /^<!doctype html>/i);
  launched.child.stdin?.end();
  const { code, stderr } = await launched.finished;
  assert.equal(code, 0, stderr);
  assert.deepEqual(readdirSync(folder), []);
});

test('a reset empties a journal that slow readers have open', async (t) => {
  const { port, data, endInput } = await startService(t, { args: ['--test', '--exit-with-stdin'], openInput: true });
  const body = JSON.stringify({ description: 'x'.repeat(500_000) });
  for (let round = 0; round < 4; round += 1) {
    for (let count = 0; count < 12; count += 1)
      assert.equal((await ask(port, post('/report_asset_observation/a', body))).status, 200);
    const reader = openSync(join(data, segmentName(1)), 'r');
    const slow = await Wire.open(port);
    slow.socket.pause();
    slow.send(get('/events'));
    const reset = await ask(port, post('/test/reset'));
    assert.equal(reset.status, 200, reset.body);
    assert.equal((await ask(port, get('/events'))).body, '');
    slow.close();
    closeSync(reader);
  }
  assert.equal((await endInput()).code, 0);
});

test('startService serves a test', async () => {
  const embedded = join(root, 'dist/embed.cjs');
  const embed = createRequire(import.meta.url)(embedded) as typeof import('../../../src/embed.ts');
  const service = await embed.startService({ test: true });
  const report = async () => (await ask(Number(new URL(service.url).port), post('/report_asset_observation/a'))).status;
  service.fail(fault({}, { status: 503 }, { times: 1 }) as Fault);
  assert.deepEqual([await report(), await report()], [503, 200]);
  assert.equal((await service.waitFor({ assetKey: 'a' })).seq, 1);
  await service.reset();
  assert.equal((await service.events()).length, 0);
  await service.stop();
  assert.equal(existsSync(service.data), false);
});
