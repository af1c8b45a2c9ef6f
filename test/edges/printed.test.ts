/** What commands print, as it is used: in each version of Python with pytest and freezegun, and behind tinyproxy. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTls } from 'node:https';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { runHere } from '../support/command-output.ts';
import { Evaluator, seqsOf, Ticks, versions } from '../support/dagster.ts';
import { makeCertificate } from '../support/nginx.ts';
import { newFolder, outerEnvironment, program, root, startService } from '../support/program.ts';
import { type Cases, testInEach, withModules, withoutModules } from '../support/pythons.ts';
import { startRelay } from '../support/relay.ts';
import { record, report } from '../support/report.ts';
import { outerAddress, startOuter, startTinyproxy, withoutTinyproxy } from '../support/tinyproxy.ts';
import { HANG_MS, missing, pythonText } from '../support/tools.ts';
import { startScripted } from '../world/http-server.ts';

const run = promisify(execFile);
const address = String(outerAddress);

/** @returns a folder with the file that a command prints */
async function print(t: TestContext, command: string, file: string): Promise<string> {
  const folder = newFolder(t);
  writeFileSync(join(folder, file), (await runHere([command])).stdout);
  return folder;
}

/** @returns the variables of a proxy for everything */
const behind = (proxy: string) => ({
  ...{ http_proxy: proxy, https_proxy: proxy, HTTP_PROXY: '', HTTPS_PROXY: '', no_proxy: '', NO_PROXY: '' },
});

const TESTS = pythonText('fixtures-each.py');

/** Reports with a token, and prints what comes of it. */
const CALL = pythonText('client-call.py');

const FROZEN = pythonText('client-frozen.py');

const cases: Cases = {
  'the fixtures of pytest work, and ask no proxy': async (t, python) => {
    const folder = await print(t, 'pytest', 'conftest.py');
    const [, example = ''] = /^```python\n(.*?)^```$/ms.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? [];
    writeFileSync(join(folder, 'test_all.py'), `${TESTS}\n${example}`);
    const start = `#!/bin/sh\nexec ${program.map((word) => `'${word}'`).join(' ')} "$@"\n`;
    writeFileSync(join(folder, 'assetlog'), start, { mode: 0o755 });
    const proxy = await startTinyproxy(t);
    const env = { ...withModules(folder), ...behind(proxy.url()), ASSETLOG_PROGRAM: join(folder, 'assetlog') };
    const args = ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', folder];
    const options = { cwd: root, env: { ...outerEnvironment, ...env }, timeout: HANG_MS };
    const { stdout } = await run(python, args, options).catch((error) => assert.fail(`${error.stdout}${error.stderr}`));
    assert.match(stdout, /^4 passed/m, stdout);
    assert.doesNotMatch(proxy.log(), /Request/);
  },

  'the client ends each call while freezegun has frozen the time, also from before it is imported': async (
    t,
    python,
  ) => {
    const folder = await print(t, 'python', 'assetlog_client.py');
    const service = await startService(t);
    const away = await startScripted(t, () => [503, '']);
    const drips = createServer((_, response) => {
      const timer = setInterval(() => response.write('x'), 20);
      response.on('error', () => {}).on('close', () => clearInterval(timer));
    });
    const { url } = await startScripted(t, () => undefined, { create: () => drips });
    for (const when of ['before', 'after']) {
      const args = ['-c', FROZEN, when, service.url, away.url, url];
      const { stdout } = await run(python, args, { env: { ...process.env, ...withModules(folder) }, timeout: 60_000 });
      assert.deepEqual(stdout.trim().split('\n'), ['[]', 'Unavailable', 'Unavailable']);
    }
    assert.equal(service.events().length, 2);
  },

  'the client asks a proxy only for a service on another machine': async (t, python) => {
    const folder = await print(t, 'python', 'assetlog_client.py');
    const { certificateFile, keyFile } = makeCertificate(folder, address);
    const key = { key: readFileSync(keyFile), cert: readFileSync(certificateFile) };
    const answer = () => [200, '{"recorded": 1}'] as const;
    const service = await startScripted(t, () => [...answer()]);
    const secure = await startScripted(t, () => [...answer()], { create: (listener) => createTls(key, listener) });
    const [plain, tls] = [await startOuter(t, service.port), await startOuter(t, secure.port)];
    const proxy = await startTinyproxy(t);
    writeFileSync(join(folder, 'token'), 'top-secret');
    const own = { PYTHONPATH: folder, ASSETLOG_TOKEN_FILE: join(folder, 'token'), SSL_CERT_FILE: certificateFile };
    const call = async (url: string) => {
      const env = { ...process.env, ...own, ...behind(proxy.url()) };
      assert.equal((await run(python, ['-c', CALL, url], { env, timeout: 60_000 })).stdout, '[]\n');
    };
    for (const host of ['127.0.0.1', 'localhost']) await call(`http://${host}:${service.port}`);
    assert.doesNotMatch(proxy.log(), /Request/);
    await call(`http://${address}:${plain.port}`);
    assert.match(proxy.log(), new RegExp(`POST http://${address}:${plain.port}/report_asset_batch/`));
    await call(`https://${address}:${tls.port}`);
    assert.match(proxy.log(), new RegExp(`CONNECT ${address}:${tls.port}`));
    const tokens = [...service.got, ...secure.got].map(({ headers }) => headers['service-cloud-api-token']);
    assert.deepEqual(tokens, Array(4).fill('top-secret'));
  },

  'the relay asks a proxy only for a target on another machine': async (t, python) => {
    const target = await startScripted(t, () => [200, '']);
    const outer = await startOuter(t, target.port);
    const proxy = await startTinyproxy(t);
    const env = behind(proxy.url());
    const event = { asset_key: ['a'], check_name: 'c', severity: 'ERROR', passed: false };
    const near = await startRelay(t, { python, form: 'slack', target: `${target.url}/near`, env });
    assert.equal(await near.post(event), 200);
    assert.doesNotMatch(proxy.log(), /Request/);
    const far = await startRelay(t, { python, form: 'slack', target: `http://${address}:${outer.port}/far`, env });
    assert.equal(await far.post(event), 200);
    assert.match(proxy.log(), new RegExp(`POST http://${address}:${outer.port}/far`));
    assert.deepEqual(
      target.got.map(({ url }) => url),
      ['/near', '/far'],
    );
  },
};

testInEach(cases, withoutModules || withoutTinyproxy || missing('openssl is not installed', 'openssl', ['version']));

for (const { name, python, skip } of versions)
  test(`${name}: the sensor asks a proxy only for a service on another machine`, {
    skip: skip || withoutTinyproxy,
  }, async (t) => {
    const service = await startService(t, { args: ['--allowed-host', address] });
    await report(service, ['a', 'b']);
    const outer = await startOuter(t, service.port);
    const proxy = await startTinyproxy(t);
    const evaluator = new Evaluator(t, python, newFolder(t), undefined, behind(proxy.url()));
    const readAll = async (url: string) =>
      assert.equal((await new Ticks(evaluator, url).tick()).message, '2 events, up to seq 2');
    for (const host of ['127.0.0.1', 'localhost']) await readAll(`http://${host}:${service.port}`);
    assert.doesNotMatch(proxy.log(), /Request/);
    await readAll(`http://${address}:${outer.port}`);
    assert.match(proxy.log(), new RegExp(`GET http://${address}:${outer.port}/events`));
  });

const dagsterPythons = (process.env['ASSETLOG_TEST_DAGSTER_PYTHONS'] ?? '').split(':').filter(Boolean);

test('the sensor stores an event of each kind in the oldest Python and Dagster, and in the newest', {
  skip: dagsterPythons.length === 0 && 'no Pythons with Dagster here: name them in ASSETLOG_TEST_DAGSTER_PYTHONS',
}, async (t) => {
  const service = await startService(t);
  const metadata = { rows: 5, title: { type: 'md', raw_value: '# A' }, own: { __class__: 'X' }, big: 1e21 };
  await record(service, 'materialization/a', { body: { metadata, event_time: '2026-11-20T16:19:45.25+01:00' } });
  await record(service, 'observation/a?data_version=v');
  for (const _ of [1, 2]) await record(service, 'check/a?check_name=c&passed=false&partition=p');
  for (const python of dagsterPythons) {
    const evaluator = new Evaluator(t, python, newFolder(t));
    const { stored, lines, message } = await new Ticks(evaluator, service.url).tick();
    assert.deepEqual([seqsOf(stored), lines, message], [[1, 2, 3, 4], [], '4 events, up to seq 4'], python);
    const { title, own, 'dagster/last_updated_timestamp': updated } = stored[0]?.metadata ?? assert.fail();
    const wanted = [
      ['Markdown', '# A'],
      ['Text', '{"__class__": "X"}'],
      ['Timestamp', '1795187985.25'],
    ];
    assert.deepEqual([title, own, updated], wanted, python);
  }
});
