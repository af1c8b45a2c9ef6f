/** `GET /assets` of a running service: the same as `assetlog assets --json` on its folder. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runHere } from '../../support/command-output.ts';
import { rounds } from '../../support/long.ts';
import { type Running, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { serve } from '../../support/service.ts';

async function linesAt(service: Pick<Running, 'url'>, query = '', headers: Record<string, string> = {}) {
  const reply = await fetch(`${service.url}/assets${query}`, {
    headers: { accept: 'application/x-ndjson', ...headers },
  });
  const text = await reply.text();
  assert.equal(reply.status, 200, text);
  assert.equal(reply.headers.get('content-type'), 'application/x-ndjson');
  return text;
}

const report = (service: Pick<Running, 'url'>, what: string, body?: object) => record(service, what, { body });

const keysIn = (lines: string) => lines.split('\n').map((line) => line && JSON.parse(line).asset_key.join('/'));
const shown = async (data: string, ...more: string[]) => (await runHere(['assets', data, '--json', ...more])).stdout;

test('each reply has all events recorded before it, also after a crash, and equals the output of the command', async (t) => {
  let service = await startService(t);
  assert.equal(await linesAt(service), '');
  assert.deepEqual(await (await fetch(`${service.url}/assets`)).json(), { assets: [] });
  assert.match(await (await fetch(`${service.url}/metrics`)).text(), /^assetlog_reads_total\{kind="assets"\} 2$/m);
  for (let n = 0; n < rounds({ long: 30, short: 12 }); n += 1) {
    await report(service, `materialization/a/${n % 7}?partition=p${n}&data_version=v${n}`);
    await report(service, `check/a/${n % 5}`, { check_name: `c${n % 3}`, passed: n % 4 > 0, severity: 'WARN' });
    if (n % 2 === 0) await report(service, `observation/b?description=${n}`);
    assert.equal(
      (await linesAt(service)).match(/"count":/g)?.length ?? 0,
      (await shown(service.data)).match(/"count":/g)?.length,
    );
  }
  const before = await linesAt(service);
  assert.equal(before, await shown(service.data));
  const document = await (await fetch(`${service.url}/assets`)).text();
  assert.equal(document, `{"assets":[${before.trimEnd().replaceAll('\n', ',')}]}`);
  const { stderr } = await service.kill('SIGKILL');
  assert.doesNotMatch(stderr, /Warning/, 'Node warns of listeners that pile up');
  service = await startService(t, { data: service.data });
  assert.equal(await linesAt(service), before);
  await report(service, 'check/a/0', { check_name: 'c9', passed: false });
  assert.equal(await linesAt(service), await shown(service.data));
});

test('assets are sent in pages by key', async (t) => {
  const service = await serve(t);
  for (const key of ['b', 'a', 'a/2', 'a/1', 'a b'])
    await report(service, 'observation', { asset_key: key.split('/') });
  assert.deepEqual(keysIn(await linesAt(service, '?limit=2&after_key=a/1')), ['a/2', 'a b', '']);
  assert.deepEqual(keysIn(await linesAt(service, '?after_key=["a","1x"]')), ['a/2', 'a b', 'b', '']);
  assert.deepEqual(keysIn(await linesAt(service, '?key_prefix=a&after_key=b')), ['']);
  assert.equal((await fetch(`${service.url}/assets?limit=1001`)).status, 400);
});

test('in the order of states failed assets are first, then the most silent ones', async (t) => {
  const service = await serve(t);
  const failing = (key: string, severity: string) =>
    report(service, 'check', { asset_key: key, check_name: 'c', passed: false, severity });
  await report(service, 'observation/old');
  await failing('warned', 'WARN');
  await failing('e2', 'ERROR');
  await failing('e1', 'ERROR');
  await report(service, 'observation/new');
  await report(service, 'observation/e2');
  const all = ['e1', 'e2', 'warned', 'old', 'new'];
  assert.deepEqual(keysIn(await linesAt(service, '?sort=state')), [...all, '']);
  assert.deepEqual(keysIn(await linesAt(service, '?sort=state&limit=2')), ['e1', 'e2', '']);
  assert.deepEqual(keysIn(await linesAt(service, '?sort=state&failing=true')), ['e1', 'e2', 'warned', '']);
  assert.deepEqual(keysIn(await linesAt(service, '?sort=key')), [...all].sort().concat(''));
});
