/** What a person who runs the service sees of refused requests and of recorded events. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { newToken, sha256 } from '../../src/deployments/tokens.ts';
import { shellWord } from '../../src/telemetry/printable.ts';
import { newFolder, program, type Running, root, startService } from '../support/program.ts';
import { noTerminal } from '../support/terminal.ts';
import { eventually } from '../support/tools.ts';
import { ask, errorOf, post, Wire } from '../support/wire.ts';

const CHECK = '/report_asset_check/';
const MATERIALIZATION = '/report_asset_materialization/';

function linesOf({ stderr }: Pick<Running, 'stderr'>, message: string): Record<string, unknown>[] {
  const lines = stderr()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
  return lines.filter((line) => line.message === message);
}

test('each refusal is a line with path, status and the error of the client, also those of the parser', async (t) => {
  const service = await startService(t);
  const host = 'Host: localhost';
  const requests: readonly (readonly [bytes: string, path: string | undefined])[] = [
    [post(`${CHECK}a?x=1`), `${CHECK}a`],
    [post('/nowhere'), '/nowhere'],
    [`DELETE ${CHECK} HTTP/1.1\r\n${host}\r\n\r\n`, CHECK],
    [`POST ${CHECK} HTTP/1.1\r\nHost: evil.example\r\n\r\n`, CHECK],
    ['nonsense\r\n\r\n', undefined],
    [`POST ${CHECK} HTTP/1.1\r\n${host}\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, undefined],
    [`POST ${CHECK} HTTP/1.1\r\n${host}\r\nContent-Type: application/json\r\nContent-Length: 9999999\r\n\r\n`, CHECK],
  ];
  for (const [index, [bytes, path]] of requests.entries()) {
    const reply = await ask(service.port, bytes);
    await eventually('the refusal is logged', () => linesOf(service, 'refused').length > index);
    const line = linesOf(service, 'refused')[index] ?? {};
    assert.equal(line['level'], reply.status === 403 ? 'warn' : 'info');
    assert.deepEqual([line['status'], line['path'], line['problem']], [reply.status, path, errorOf(reply)]);
  }
  assert.equal((await ask(service.port, post(`${MATERIALIZATION}a`))).status, 200);
  assert.equal(linesOf(service, 'refused').length, requests.length);
  assert.equal(linesOf(service, 'recorded').length, 0);
});

test('no line holds a token, metadata or a query [refusals-1]', async (t) => {
  const file = join(newFolder(t), 'deployments.json');
  const { token, digest } = newToken();
  writeFileSync(file, JSON.stringify({ deployments: [{ name: 'prod', tokens: [{ name: 'a', sha256: digest }] }] }));
  const service = await startService(t, { args: ['--deployments', file] });
  const header = [`Service-Cloud-Api-Token: ${token}`];
  const send = (target: string, body?: string, headers: readonly string[] = header) =>
    ask(service.port, post(target, body, headers));
  const statuses = [
    await send(`/prod${CHECK}a?asl_query=1`, undefined, ['Service-Cloud-Api-Token: asl_wrong']),
    await send(`/prod${CHECK}a`, undefined, [...header, ...header]),
    await send(`/prod${CHECK}a?passed=asl_query`),
    await send(`/prod${CHECK}a?x=asl_query%zz`),
    await send(`/prod${CHECK}?asset_key=asl_query%00`),
    await send(`/prod${MATERIALIZATION}a`, '{"metadata":"asl_metadata"}'),
    await send(`/prod${MATERIALIZATION}a`, '{"metadata":{"a":asl_metadata}}'),
    await send(`/prod${MATERIALIZATION}a`, '["asl_metadata"]'),
    await send(`/prod${CHECK}a?asl_query#x`),
    await send(`http://asl_user:asl_word@localhost/prod${CHECK}`),
  ].map(({ status }) => status);
  assert.deepEqual(statuses, [401, ...Array(9).fill(400)]);
  await eventually('all are logged', () => linesOf(service, 'refused').length === statuses.length);
  assert.doesNotMatch(service.stderr(), /asl_/);
});

test('a token in a path is neither logged nor shown, in whatever form it was sent', async (t) => {
  const file = join(newFolder(t), 'deployments.json');
  const { token } = newToken();
  const own = 'Pa55+word/with/slash/of+40+characters+==';
  const tokens = [token, own].map((one) => ({
    name: 'a',
    sha256: sha256(one).toString('hex'),
    may: ['report', 'read'],
  }));
  writeFileSync(file, JSON.stringify({ deployments: [{ name: 'prod', tokens }] }));
  const hosted = await startService(t, { args: ['--deployments', file, '--log-level', 'debug'] });
  const local = await startService(t, { args: ['--log-level', 'debug'] });
  const header = [`Service-Cloud-Api-Token: ${own}`];
  const encoded = token.replace('_', '%5f');
  const targets = [
    `/${token}${CHECK}a`,
    `/${own}${CHECK}a`,
    `/${encodeURIComponent(own)}${CHECK}a`,
    ...[token, encoded, own, encodeURIComponent(own)].map((one) => `/prod${CHECK}${one}`),
    `/prod${CHECK}a%zz/${token}`,
    `http://localhost/prod${CHECK}a%zz/${own}`,
  ];
  for (const target of targets) {
    for (const headers of [[], header]) {
      const { status } = await ask(hosted.port, post(target, undefined, headers));
      assert.ok(status === 401 || status === 400 || status === 429, `${target}: ${status}`);
    }
  }
  for (const one of [token, encoded]) {
    assert.equal((await ask(local.port, post(`${CHECK}${one}`))).status, 400);
    assert.equal((await ask(local.port, post(`${MATERIALIZATION}${one}?asset_key=b`))).status, 200);
  }
  const get = (path: string, headers: readonly string[]) =>
    [`GET ${path} HTTP/1.1`, 'Host: localhost', ...headers]
      .map((line) => `${line}\r\n`)
      .join('')
      .concat('\r\n');
  const ofHosted = (await ask(hosted.port, get('/prod/refusals', header))).body;
  const ofLocal = (await ask(local.port, get('/refusals', []))).body;
  assert.ok(ofHosted.includes(`"path":"/prod${CHECK}***"`), ofHosted);
  assert.ok(ofLocal.includes(`"path":"${CHECK}***"`), ofLocal);
  await eventually('all are logged', () => linesOf(local, 'request').length >= 4);
  assert.ok(linesOf(hosted, 'a request without a valid token was refused').length > 0);
  assert.ok(linesOf(local, 'the asset key in the path won over another one in the same request').length > 0);
  for (const text of [ofHosted, ofLocal, hosted.stderr(), local.stderr()]) {
    assert.doesNotMatch(text, /asl(_|%5f)[\w-]{9}|Pa55(\+|%2B)word/);
  }
});

test('a flood of refusals is a few lines and a count, and others are served meanwhile', async (t) => {
  const service = await startService(t);
  const count = 3_000;
  const flood = await Wire.open(service.port);
  let slowestMs = 0;
  for (let sent = 0; sent < count; sent += 10) {
    flood.send(post(`${CHECK}a`).repeat(10));
    const beganMs = performance.now();
    if (sent % 500 === 0) assert.equal((await ask(service.port, post(`${MATERIALIZATION}a`))).status, 200);
    slowestMs = Math.max(slowestMs, performance.now() - beganMs);
    for (let index = 0; index < 10; index += 1) assert.equal((await flood.reply())?.status, 400);
  }
  flood.close();
  const unlogged = () =>
    linesOf(service, 'further requests were refused').reduce((sum, line) => sum + Number(line['count']), 0);
  await eventually('each is logged or counted', () => linesOf(service, 'refused').length + unlogged() === count);
  const seconds = new Map<number, number>();
  const times = linesOf(service, 'refused').map(({ time }) => Date.parse(String(time)));
  for (const time of times) {
    const inSecond = times.filter((other) => other >= time && other < time + limits.activityMs - 50).length;
    seconds.set(time, inSecond);
  }
  assert.ok(Math.max(...seconds.values()) <= 2 * limits.refusalLinesMax, 'two intervals may meet in a second');
  assert.ok(slowestMs < 5_000, `a report took ${slowestMs} ms`);
});

/** Starts the service on a terminal. @returns its address, and what the terminal has shown so far */
async function onScreen(t: TestContext, args: readonly string[], env: Record<string, string> = {}) {
  const words = [...program, '--port', '0', '--data', newFolder(t), ...args].map(shellWord).join(' ');
  const child = spawn('script', ['-qec', `exec ${words}`, '/dev/null'], {
    cwd: root,
    env: { ...process.env, NO_COLOR: '', TERM: 'xterm', ...env },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const closed = once(child, 'close');
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (more) => {
    text += more;
  });
  t.after(async () => {
    child.stdin.write('\x03');
    const tooLong = setTimeout(() => child.kill('SIGKILL'), 5_000);
    await closed;
    clearTimeout(tooLong);
  });
  const shown = () => text.replaceAll('\r', '');
  await eventually('it listens', () => /to try it .*\n/.test(shown()));
  const port = Number(/listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(shown())?.[1]);
  return { port, shown };
}

test('a terminal shows each refusal and each recorded event in colour, on one line', {
  skip: noTerminal(),
}, async (t) => {
  const { port, shown } = await onScreen(t, []);
  const body =
    '{"asset_key":["warehouse","orders\\u202e"],"passed":false,"check_name":"no_nulls","metadata":{"a":"hidden"}}';
  assert.equal((await ask(port, post(CHECK, body))).status, 200);
  assert.equal((await ask(port, post(`${CHECK}a%1b?x=hidden`))).status, 400);
  await eventually('both are shown', () => shown().includes('refused'));
  assert.match(
    shown(),
    /\n\d\d:\d\d:\d\d \u001b\[32mrecorded\u001b\[0m AssetCheckEvaluation warehouse\/orders\\u202e no_nulls failed \(ERROR\)\n/,
  );
  assert.match(
    shown(),
    /\n\d\d:\d\d:\d\d \u001b\[33m400 refused\u001b\[0m POST \/report_asset_check\/a%1b: asset_key in the path has a control character/,
  );
  assert.doesNotMatch(shown(), /hidden/);
});

test('with --quiet a terminal shows refusals only, and without colour with NO_COLOR', {
  skip: noTerminal(),
}, async (t) => {
  const { port, shown } = await onScreen(t, ['--quiet'], { NO_COLOR: '1' });
  assert.equal((await ask(port, post(`${MATERIALIZATION}a`))).status, 200);
  assert.equal((await ask(port, post('/nowhere'))).status, 404);
  await eventually('the refusal is shown', () =>
    /\n\d\d:\d\d:\d\d 404 refused POST \/nowhere: nothing is/.test(shown()),
  );
  assert.doesNotMatch(shown(), /recorded|\u001b/);
});
