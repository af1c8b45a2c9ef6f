/** `GET /assets` of a running service: the same as `assetlog assets --json` on its folder. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { runHere } from '../../support/command-output.ts';
import { rounds } from '../../support/long.ts';
import { type Running, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { eventually } from '../../support/tools.ts';
import { errorOf } from '../../support/wire.ts';

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

test('assets are chosen by prefix and failing checks, in pages by key', async (t) => {
  const service = await startService(t);
  for (const key of ['b', 'a', 'a/2', 'a/1', 'a b', 'ab', 'c/1', 'é/1']) {
    await report(service, 'check', { asset_key: key.split('/'), check_name: 'x', passed: !key.endsWith('1') });
  }
  const all = keysIn(await linesAt(service));
  assert.deepEqual(all, ['a', 'a/1', 'a/2', 'a b', 'ab', 'b', 'c/1', 'é/1', '']);
  assert.deepEqual(keysIn(await linesAt(service, '?key_prefix=a')), ['a', 'a/1', 'a/2', '']);
  const startingWith = async (text: string) =>
    keysIn(await linesAt(service, `?key_begins_with=${encodeURIComponent(text)}`));
  assert.deepEqual(await startingWith('a'), ['a', 'a/1', 'a/2', 'a b', 'ab', '']);
  assert.deepEqual(await startingWith('a/'), ['a', 'a/1', 'a/2', '']);
  assert.deepEqual(await startingWith('["a","1"]'), ['a/1', '']);
  assert.deepEqual(await startingWith('b/'), ['b', '']);
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

test('events that retention removed are gone from the state of the assets', async (t) => {
  const service = await startService(t, { args: ['--segment-bytes', '4096', '--retain-bytes', '40000'] });
  const files = () => readdirSync(service.data).filter((name) => name.endsWith('.jsonl'));
  // Files are removed after the reply to a report, so the command might find one less.
  const agree = (when: string) =>
    eventually(when, async () => (await linesAt(service)) === (await shown(service.data)));
  let removals = 0;
  let [oldest] = files();
  /** Sends this many reports in batches of ten, so that about one file is removed between two replies. */
  const reportAndRead = async (from: number, to: number) => {
    for (let n = from; n < to; n += 10) {
      const items = Array.from({ length: 10 }, (_, index) => itemOf(n + index));
      await report(service, 'batch/', items);
      if (files()[0] !== oldest) removals += 1;
      [oldest] = files();
      await linesAt(service);
      if (n % 200 === 0) await agree(`after ${n} reports`);
    }
  };
  const itemOf = (n: number) =>
    n % 5 === 0
      ? { type: 'check', asset_key: 'c', check_name: `c${Math.floor(n / 50)}`, passed: true }
      : { type: n % 3 ? 'materialization' : 'observation', asset_key: ['a', `${n % 250}`], partition: `p${n}` };
  await reportAndRead(0, 800);
  assert.ok(removals > 10, 'files were removed one by one between two replies');
  const many = Array.from({ length: 300 }, (_, n) => ({ type: 'observation', asset_key: ['b', `${n}`] }));
  await report(service, 'batch/', many);
  await agree('after several files were removed at once');
  await reportAndRead(800, 1_000);
});
