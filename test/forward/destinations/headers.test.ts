/** Headers that an operator adds: each kind of destination over HTTP sends them, and no value is shown anywhere. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openClient } from '../../../src/client/connection.ts';
import { limits as standard } from '../../../src/config/limits.ts';
import type { Destination } from '../../../src/forward/destinations/destination.ts';
import { traitsOf } from '../../../src/forward/destinations/kinds.ts';
import { runHere } from '../../support/command-output.ts';
import { forwardFile, QUICK, stateIn } from '../../support/forwarded.ts';
import { newFolder } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { linesOf } from '../../support/sent-lines.ts';
import { serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import type { Scripted } from '../../world/http.ts';
import { startScripted } from '../../world/http-server.ts';

const SOURCE = '01a1fb95-0000-7000-8000-000000000001';
const NEVER = new AbortController().signal;
const SECRET = 'd41d8cd98f00b204e9800998ecf8427e';
const TEXT = 'Bearer zyxwvutsrqponmlkjihgfedcba';
const reveals = (text: string) => [SECRET, TEXT, 'zyxwvutsrq'].filter((value) => text.includes(value));

test('each destination over HTTP gets the headers, with values read again from their files', async (t) => {
  const { url, got } = await startScripted(t, () => [503, 'later']);
  const file = join(newFolder(t), 'secret');
  const batch = { lines: linesOf([{ type: 'AssetObservation', assetKey: ['a'] }]), lost: undefined };
  const places = { hub: url, api: url, hook: `hook+${url}`, clickhouse: `clickhouse+${url}/assets.events` };
  for (const [kind, to] of Object.entries(places)) {
    writeFileSync(file, `${SECRET}\n`);
    const destination: Destination = traitsOf[kind as keyof typeof places].open({
      ...{ to, source: SOURCE, tokenHeader: 'X-Token', stamp: false, limits: { ...standard, keptMs: 0 } },
      headers: { 'CF-Access-Client-Id': { file }, 'X-Team': TEXT, 'user-agent': 'other' },
    });
    t.after(() => destination.close());
    await destination.send(batch, NEVER);
    assert.equal(await destination.haveFilesChanged(NEVER), false);
    writeFileSync(file, 'second');
    assert.equal(await destination.haveFilesChanged(NEVER), true, kind);
    await destination.send(batch, NEVER);
    const seen = got.splice(0).map(({ headers }) => [headers['cf-access-client-id'], headers['x-team']]);
    assert.deepEqual(
      [seen[0], seen.at(-1)],
      [
        [SECRET, TEXT],
        ['second', TEXT],
      ],
      kind,
    );
    for (const wrong of [`${SECRET}\nX-Other: 1`, '', 'x'.repeat(9_000)]) {
      writeFileSync(file, wrong);
      const found = await destination.send(batch, NEVER);
      assert.equal(found.kind, 'stopped');
      const reason = 'reason' in found ? found.reason : '';
      assert.ok(reason.includes(file) && /one value|8192 bytes/.test(reason) && reveals(reason).length === 0, reason);
    }
    assert.equal(got.length, 0);
  }
});

test('no value of a header is in a log, a status, a dead letter or a state, whatever answer repeats it', async (t) => {
  const answers: Record<string, (values: string) => Scripted> = {
    refused: (values) => [400, `{"error":"no ${values}"}`],
    moved: (values) => [302, values, { Location: `https://login.example/?${encodeURIComponent(values)}` }],
    forbidden: (values) => [403, JSON.stringify({ error: values })],
    failing: (values) => [500, values, { 'X-Echo': values }],
    odd: (values) => [200, `<p>${values}`],
  };
  const folder = newFolder(t);
  writeFileSync(join(folder, 'secret'), SECRET);
  const headers = { 'CF-Access-Client-Secret': { file: 'secret' }, 'X-Key': TEXT };
  const destinations = await Promise.all(
    Object.entries(answers).map(async ([name, answer]) => {
      const { url } = await startScripted(t, ({ method, headers: { 'cf-access-client-secret': id, ...sent } }) =>
        method === 'GET' ? [404, ''] : answer(`${sent['x-key']} ${id}`),
      );
      return { name, to: url, headers };
    }),
  );
  const file = join(folder, 'forward.json');
  forwardFile(file, ...destinations);
  const service = await serve(t, { args: ['--forward', file], limits: QUICK, logLevel: 'debug' });
  for (let count = 0; count < 3; count += 1) await record(service, 'observation/a');
  for (const [name, part] of Object.entries({
    refused: '400',
    moved: '302',
    forbidden: '403',
    failing: '500',
    odd: '200',
  })) {
    const reasonOf = () =>
      `${stateIn(service.data, name)?.['reason']} ${stateIn(service.data, name)?.['last_refusal']}`;
    await eventually(`${name} has an answer`, () => {
      const letters = readdirSync(service.data).includes(`dead-${name}.jsonl`);
      return letters || reasonOf().includes(part);
    });
  }
  const status = await runHere(['forward', 'status', '--json', '--data', service.data]);
  const tried = await runHere(['forward', 'test', '--forward', file]);
  const kept = readdirSync(service.data, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const texts = [
    ...service.notices,
    ...kept.map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'utf8')),
  ];
  const all = [...texts, status.stdout, status.stderr, tried.stdout, tried.stderr].join('\n');
  assert.deepEqual(reveals(all), []);
  assert.match(all, /\*\*\*/);
  assert.match(tried.stdout + tried.stderr, /or check headers/);
});

test('a destination on this machine is reached directly, another one through the proxy, whose file is read again', async (t) => {
  const file = join(newFolder(t), 'proxy');
  const seen: (string | undefined)[] = [];
  const open: typeof openClient = (protocol, limits, ca, route) => {
    seen.push(route?.name);
    return openClient(protocol, { ...limits }, ca, route);
  };
  const ask = async (to: string, kind: 'hub' | 'clickhouse' = 'hub', proxy: string | { file: string } = { file }) => {
    const destination = traitsOf[kind].open({
      ...{ to, source: SOURCE, tokenHeader: 'X-Token', stamp: false, proxy, openClient: open },
      limits: { ...standard, keptMs: 0 },
    });
    t.after(() => destination.close());
    const found = await destination.ask(NEVER);
    return { destination, reason: 'reason' in found ? found.reason : '' };
  };
  writeFileSync(file, 'http://me:secret-word@127.0.0.1:1');
  const { url } = await startScripted(t, () => [503, 'later']);
  for (const to of [url, url.replace('127.0.0.1', 'localhost'), url.replace('127.0.0.1', '127.1')]) {
    assert.match((await ask(to)).reason, /answers 503: later/);
    assert.match((await ask(`clickhouse+${to}/a.b`, 'clickhouse')).reason, /answers 503: later/);
  }
  assert.deepEqual([...new Set(seen)], [undefined]);
  const { destination, reason } = await ask('http://hub.example');
  assert.equal(reason, 'cannot be reached: the proxy http://127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1');
  writeFileSync(file, 'http://127.0.0.1:2');
  await destination.ask(NEVER);
  assert.deepEqual(seen.slice(-2), ['the proxy http://127.0.0.1:1', 'the proxy http://127.0.0.1:2']);
  writeFileSync(file, 'socks5://secret');
  const wrong = await destination.ask(NEVER);
  const problem = `no request was sent: the proxy in ${file} must be a URL such as http://proxy.example:3128`;
  assert.equal('reason' in wrong && wrong.reason, problem);
});
