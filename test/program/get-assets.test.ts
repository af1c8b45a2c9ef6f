/** `GET /assets` of a running service: what `assetlog assets --json` shows of its folder. */

import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newToken } from '../../src/deployments/tokens.ts';
import { rounds } from '../support/long.ts';
import { newFolder, type Running, run, startService } from '../support/program.ts';
import { eventually } from '../support/tools.ts';
import { errorOf } from '../support/wire.ts';

async function linesAt(service: Pick<Running, 'url'>, query = '', headers: Record<string, string> = {}) {
  const reply = await fetch(`${service.url}/assets${query}`, {
    headers: { accept: 'application/x-ndjson', ...headers },
  });
  const text = await reply.text();
  assert.equal(reply.status, 200, text);
  assert.equal(reply.headers.get('content-type'), 'application/x-ndjson');
  return text;
}

async function report({ url }: Pick<Running, 'url'>, path: string, body?: object): Promise<void> {
  const json = body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const reply = await fetch(`${url}/report_asset_${path}`, { method: 'POST', ...json });
  assert.equal(reply.status, 200, await reply.text());
}

const keysIn = (lines: string) => lines.split('\n').map((line) => line && JSON.parse(line).asset_key.join('/'));
const shown = async (data: string, ...more: string[]) => (await run(['assets', data, '--json', ...more])).stdout;

test('each answer has all that was recorded before it, also after a crash, as the command shows it', async (t) => {
  let service = await startService(t);
  assert.equal(await linesAt(service), '');
  assert.deepEqual(await (await fetch(`${service.url}/assets`)).json(), { assets: [] });
  assert.match(await (await fetch(`${service.url}/metrics`)).text(), /^assetlog_reads_total\{kind="assets"\} 2$/m);
  for (let n = 0; n < rounds({ long: 30, short: 8 }); n += 1) {
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
  await service.kill('SIGKILL');
  service = await startService(t, { data: service.data });
  assert.equal(await linesAt(service), before);
  await report(service, 'check/a/0', { check_name: 'c9', passed: false });
  assert.equal(await linesAt(service), await shown(service.data));
});

test('assets are chosen by prefix and failing checks, in pages by key', async (t) => {
  const service = await startService(t);
  for (const key of ['b', 'a', 'a/2', 'a/1', 'a b', 'ab', 'c/1', 'é/1']) {
    await report(service, 'check', { asset_key: key.split('/'), check_name: 'x', passed: !key.endsWith('1') });
  }
  const all = keysIn(await linesAt(service));
  assert.deepEqual(all, ['a', 'a/1', 'a/2', 'a b', 'ab', 'b', 'c/1', 'é/1', '']);
  assert.deepEqual(keysIn(await linesAt(service, '?key_prefix=a')), ['a', 'a/1', 'a/2', '']);
  const begins = async (text: string) => keysIn(await linesAt(service, `?key_begins_with=${encodeURIComponent(text)}`));
  assert.deepEqual(await begins('a'), ['a', 'a/1', 'a/2', 'a b', 'ab', '']);
  assert.deepEqual(await begins('a/'), ['a', 'a/1', 'a/2', '']);
  assert.deepEqual(await begins('["a","1"]'), ['a/1', '']);
  assert.deepEqual(await begins('b/'), ['b', '']);
  assert.deepEqual(keysIn(await linesAt(service, '?failing=true')), ['a/1', 'c/1', 'é/1', '']);
  assert.deepEqual(keysIn(await linesAt(service, '?failing=true&key_prefix=a')), ['a/1', '']);
  assert.deepEqual(keysIn(await linesAt(service, '?limit=2&after_key=a/1')), ['a/2', 'a b', '']);
  assert.deepEqual(keysIn(await linesAt(service, '?after_key=["a","1x"]')), all.slice(2));
  assert.deepEqual(keysIn(await linesAt(service, '?key_prefix=a&after_key=b')), ['']);
  for (const [query, error] of [
    ['limit=0', /^limit/],
    ['limit=1001', /1000/],
    ['failing=yes', /true or false/],
    ['key_prefix=a//b', /key_prefix/],
    ['after_ky=a', /did you mean after_key\?/],
  ] as const) {
    const reply = await fetch(`${service.url}/assets?${query}`);
    assert.equal(reply.status, 400);
    assert.match(errorOf({ body: await reply.text() }), error);
  }
  const none = await fetch(`${service.url}/assets`, { method: 'HEAD' });
  assert.deepEqual([none.status, await none.text()], [200, '']);
});

test('what retention removes is gone from the state of the assets', async (t) => {
  const service = await startService(t, { args: ['--segment-bytes', '4096', '--retain-bytes', '40000'] });
  const files = () => readdirSync(service.data).filter((name) => name.endsWith('.jsonl'));
  // Files are removed after the reply to a report, so the command may find one less.
  const agree = (when: string) =>
    eventually(when, async () => (await linesAt(service)) === (await shown(service.data)));
  let removed = 0;
  let [oldest] = files();
  const reportAndRead = async (from: number, to: number) => {
    for (let n = from; n < to; n += 1) {
      await report(service, `${n % 3 ? 'materialization' : 'observation'}/a/${n % 250}?partition=p${n}`);
      if (n % 5 === 0) await report(service, 'check/c', { check_name: `c${Math.floor(n / 50)}`, passed: true });
      if (n % 10 !== 0) continue;
      if (files()[0] !== oldest) removed += 1;
      [oldest] = files();
      await linesAt(service);
      if (n % 200 === 0) await agree(`after ${n} reports`);
    }
  };
  await reportAndRead(0, 801);
  assert.ok(removed > 10, 'files were removed one by one between two answers');
  for (let n = 0; n < 300; n += 1) await report(service, `observation/b/${n}`);
  await agree('after several files were removed at once');
  await reportAndRead(802, 1_001);
});

test('in hosted mode a reader gets the assets of its deployment', async (t) => {
  const file = join(newFolder(t), 'deployments.json');
  const tokens = { prod: newToken(), test: newToken() };
  const deployments = Object.entries(tokens).map(([name, { digest }]) => ({
    name,
    tokens: [{ name, sha256: digest, may: ['report', 'read'] }],
  }));
  writeFileSync(file, JSON.stringify({ deployments }));
  const { url, data } = await startService(t, { args: ['--deployments', file] });
  const headers = (name: keyof typeof tokens) => ({ 'Service-Cloud-Api-Token': tokens[name].token });
  assert.equal(await linesAt({ url: `${url}/prod` }, '', headers('prod')), '');
  for (const name of ['prod', 'test'] as const) {
    const path = `${url}/${name}/report_asset_observation/in/${name}`;
    assert.equal((await fetch(path, { method: 'POST', headers: headers(name) })).status, 200);
  }
  assert.equal(await linesAt({ url: `${url}/prod` }, '', headers('prod')), await shown(join(data, 'prod')));
  assert.equal((await fetch(`${url}/test/assets`, { headers: headers('prod') })).status, 401);
  assert.equal((await fetch(`${url}/assets`, { headers: headers('prod') })).status, 401);
});

test('answers one after the other leave nothing behind that Node would warn of', async (t) => {
  const service = await startService(t);
  for (let n = 0; n < 15; n += 1) {
    await report(service, `observation/a${n}`);
    assert.equal(keysIn(await linesAt(service)).length, n + 2); // and the end of the last line
  }
  const { stderr } = await service.kill();
  assert.doesNotMatch(stderr, /Warning/);
});
