/** `assetlog forward test`: it tries good and bad destinations before the service runs, and changes nothing. */

import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runHere } from '../../support/command-output.ts';
import { entryOf, rewrite, writeDeployments } from '../../support/deployments.ts';
import { forwardFile } from '../../support/forwarded.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import { newFolder, run, type Scope, startService } from '../../support/program.ts';
import { startScripted } from '../../world/http-server.ts';

/** @returns the exit code of `forward test`, and each line of its output */
async function runTest(t: Scope, ...args: string[]): Promise<[code: unknown, ...lines: string[]]> {
  const data = join(newFolder(t), 'absent');
  const { code, stdout, stderr } = await runHere(['forward', 'test', '--data', data, ...args]);
  return [code, ...`${stdout}${stderr}`.trimEnd().split('\n')];
}

function tokenFile(t: Scope, token: string): string {
  const file = join(newFolder(t), 'hub.token');
  writeFileSync(file, token, { mode: 0o600 });
  return file;
}

test('forward test works with a token that may forward, and stores nothing at the hub', async (t) => {
  const { file, args, tokenOf } = writeDeployments(t, ['prod', 'test']);
  rewrite(file, entryOf('prod', tokenOf('prod')), entryOf('test', tokenOf('test'), { may: ['report'] }));
  const hub = await startService(t, { args });
  const folder = newFolder(t);
  const own = join(folder, 'own.json');
  rewrite(own, entryOf('prod', 'x'), entryOf('test', 'x'));
  const options = (name: string) => ['--forward-to', `${hub.url}/${name}`, '--forward-token-file'];
  // Like a user runs it, with the variables of the service.
  const env = { ASSETLOG_FORWARD_TO: `${hub.url}/prod`, ASSETLOG_FORWARD_TOKEN_FILE: tokenFile(t, tokenOf('prod')) };
  const data = join(folder, 'data');
  const works = await run(['forward', 'test', '--data', data], { env });
  const says = 'it is a hub, and reports how many events of the journal it has';
  assert.deepEqual([works.code, works.stdout], [0, `upstream: works: ${hub.url}/prod: ${says}\n`], works.stderr);
  assert.deepEqual(readdirSync(folder), ['own.json']);
  const [code, line] = await runTest(t, ...options('test'), tokenFile(t, tokenOf('test')));
  assert.equal(code, 1);
  assert.match(`${line}`, /^upstream: DOES NOT WORK: \S+: answers 403: this token may not forward; /);
  const wrong = tokenFile(t, 'nonsense-of-nobody');
  const [refused, reason] = await runTest(t, ...options('prod'), wrong);
  assert.equal(refused, 1);
  assert.ok(reason?.includes(`answers 401 for the deployment in ${hub.url}/prod; check the token in ${wrong}`), reason);
  for (const to of [hub.url, `${hub.url}/`]) {
    const [lacking, name] = await runTest(t, '--forward-to', to, '--forward-token-file', tokenFile(t, tokenOf('prod')));
    assert.equal(lacking, 1);
    const says = `answers 401, and its URL lacks the deployment; add the name, as in ${hub.url}/prod`;
    assert.equal(name, `upstream: DOES NOT WORK: ${hub.url}: ${says}`);
  }
  const [absent, missing] = await runTest(t, ...options('prod'), join(folder, 'no.token'));
  assert.equal(absent, 1);
  assert.match(`${missing}`, /no request was sent: ENOENT/);
  const [, notFile] = await runTest(t, ...options('prod'), folder);
  assert.ok(notFile?.endsWith(`: no request was sent: ${folder} is a folder; give a file`), notFile);

  const each = ['--deployments', own, '--json', ...options('{deployment}'), tokenFile(t, tokenOf('prod'))];
  const [both, json] = await runTest(t, ...each);
  const { destinations } = JSON.parse(`${json}`);
  assert.equal(both, 1);
  assert.deepEqual(
    destinations.map(({ deployment, to, kind, works }: Record<string, unknown>) => [deployment, to, kind, works]),
    [
      ['prod', `${hub.url}/prod`, 'hub', true],
      ['test', `${hub.url}/test`, 'hub', false],
    ],
  );
  const samples = samplesOf(await metricsOf(hub));
  const figures = ['assetlog_hub_sources', 'assetlog_last_seq'].map((name) => samples.get(name));
  assert.deepEqual(figures, [0, 0]);
});

test('each destination of a file is tried, and each failure is printed with what to do', async (t) => {
  const takes = await startScripted(t, ({ method }) => [method === 'GET' ? 404 : 400, '{"error":"no asset key"}']);
  const page = await startScripted(t, ({ method }) => [method === 'GET' ? 200 : 405, '<html>welcome</html>']);
  const anything = await startScripted(t, ({ method }) => [method === 'GET' ? 404 : 200, '{}']);
  const busy = await startScripted(t, () => [503, '{"error":"the service is stopping"}']);
  const hook = await startScripted(t, () => [405, 'no']);
  const closed = await startScripted(t, () => [200, '{}']);
  await new Promise((resolve) => closed.server.close(resolve));
  const file = join(newFolder(t), 'forward.json');
  const all = { takes, page, anything, busy, closed };
  forwardFile(file, ...Object.entries(all).map(([name, { url }]) => ({ name, to: url })));
  const [code, called, ...lines] = await runTest(t, '--forward', file, '--on-failed-check', `${hook.url}/s3cret/path`);
  assert.equal(code, 1);
  const expected = [
    /^takes: works: \S+: it is not a hub but accepts reports, as its refusal of a report without a key shows$/,
    /^page: DOES NOT WORK: \S+: answers 405: <html>welcome<\/html>; check the URL, and a proxy in front of it$/,
    /^anything: DOES NOT WORK: \S+: answers 200: \{\}; check the URL$/,
    /^busy: DOES NOT WORK: \S+: answers 503: the service is stopping$/,
    /^closed: DOES NOT WORK: \S+: cannot be reached: .*ECONNREFUSED/,
  ];
  for (const [at, pattern] of expected.entries()) assert.match(lines[at] ?? '', pattern);
  const says = 'it answers; whether it accepts a failed check was not tried';
  assert.equal(called, `failed-checks: works: hook+${hook.url}/…: ${says}`);
  assert.deepEqual(
    hook.got.map(({ method, url }) => [method, url]),
    [['OPTIONS', '/s3cret/path']],
  );
  assert.deepEqual(
    takes.got.map(({ method, body }) => [method, body]),
    [
      ['GET', ''],
      ['POST', '{}'],
    ],
  );
  assert.equal((await runTest(t, '--forward', file, 'takes'))[0], 0);
  assert.deepEqual(await runTest(t, '--forward', file, 'none'), [
    2,
    'assetlog: there is no destination none; leave the name out to try all',
  ]);
  assert.deepEqual(await runTest(t), [
    2,
    'assetlog: there is no destination; give --forward-to URL, or --forward FILE, as to the service',
  ]);
  forwardFile(file, { name: 'a', to: 'ftp://a' });
  const [wrong, problem] = await runTest(t, '--forward', file);
  assert.equal(wrong, 2);
  assert.match(`${problem}`, /^assetlog: \S+, line 1: destinations\[0\]\.to has the scheme ftp/);
});
