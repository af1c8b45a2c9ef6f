/** The first minute: what somebody sees who starts the service by hand, and who has the address wrong. */

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { newToken } from '../../src/deployments/tokens.ts';
import { shellWord } from '../../src/telemetry/printable.ts';
import { eventsIn, newFolder, program, root, startService } from '../support/program.ts';
import { noTerminal } from '../support/terminal.ts';
import { ask, errorOf, post } from '../support/wire.ts';

/** Starts the service on a terminal. @returns what it prints there, up to the end of the example */
async function firstMinute(t: TestContext, args: readonly string[]): Promise<string> {
  const words = [...program, '--port', '0', ...args].map(shellWord).join(' ');
  const child = spawn('script', ['-qec', `exec ${words}`, '/dev/null'], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const closed = once(child, 'close');
  t.after(async () => {
    child.stdin.write('\x03'); // as a person ends it
    const tooLong = setTimeout(() => child.kill('SIGKILL'), 5_000);
    await closed;
    clearTimeout(tooLong);
  });
  let shown = '';
  for await (const text of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    shown += text;
    if (/to try it .*\r\n(?: {4}.*\r\n)?/.test(shown)) return shown.replaceAll('\r', '');
  }
  throw new Error(`it ended: ${shown}`);
}

const noCurl = noTerminal('curl');

test('on a terminal it says where it listens, where events go and one command to try, which works', {
  skip: noCurl,
}, async (t) => {
  const data = newFolder(t);
  const shown = await firstMinute(t, ['--data', data, '--path-prefix', "/it's/$a"]);
  assert.match(
    shown,
    /\nassetlog listening on http:\/\/127\.0\.0\.1:\d+\/it's\/\$a\n {2}events go to {2}\/\S+\n {2}to try it {5}curl /,
  );
  assert.ok(shown.includes(`  events go to  ${data}\n`));
  const [, command = ''] = /to try it +(curl .*)\n/.exec(shown) ?? [];
  assert.equal((await promisify(execFile)('bash', ['-c', `${command} -s`])).stdout, '{}');
  assert.deepEqual(eventsIn(data)[0]?.['asset_key'], ['warehouse', 'orders']);
});

test('in hosted mode the command names a deployment and the header of the token', { skip: noCurl }, async (t) => {
  const data = newFolder(t);
  const file = join(newFolder(t), 'deployments.json');
  const { token, digest } = newToken();
  writeFileSync(file, JSON.stringify({ deployments: [{ name: 'prod', tokens: [{ name: 'a', sha256: digest }] }] }));
  const shown = await firstMinute(t, ['--data', data, '--deployments', file, '--token-header', 'X-Token']);
  assert.ok(shown.includes(`  events go to  ${join(data, 'prod')}\n`), shown);
  const [, command = ''] = /to try it +(curl .*)\n/.exec(shown) ?? [];
  assert.match(
    command,
    /-H 'X-Token: TOKEN' http:\/\/127\.0\.0\.1:\d+\/prod\/report_asset_materialization\/warehouse\/orders$/,
  );
  const { stdout } = await promisify(execFile)('bash', ['-c', `${command.replace('TOKEN', token)} -s`]);
  assert.equal(stdout, '{}');
});

test('into a pipe it is one line', async (t) => {
  const service = await startService(t, { args: ['--path-prefix', '/a'] });
  const { stdout } = await service.kill();
  assert.equal(stdout, `assetlog listening on ${service.url}\n`);
});

test('whoever has the address wrong is told the three endpoints', async (t) => {
  const service = await startService(t, { args: ['--path-prefix', '/a'] });
  const endpoints = (prefix: string) =>
    ['materialization', 'check', 'observation'].map((kind) => `${prefix}/report_asset_${kind}/`);
  const get = (path: string) => post(path).replace('POST', 'GET');
  for (const sent of [
    get('/'),
    get('/a'),
    post('/a/'),
    post('/report_asset_check/x'),
    post('/a/reports'),
    post('/a/report_asset_checks/x'),
  ]) {
    const reply = await ask(service.port, sent);
    assert.equal(reply.status, 404);
    for (const endpoint of endpoints('/a')) assert.ok(errorOf(reply).includes(endpoint), errorOf(reply));
  }
  const file = join(newFolder(t), 'deployments.json');
  const { digest } = newToken();
  writeFileSync(file, JSON.stringify({ deployments: [{ name: 'prod', tokens: [{ name: 'a', sha256: digest }] }] }));
  const hosted = await startService(t, { args: ['--path-prefix', '/a', '--deployments', file] });
  for (const path of ['/', '/report_asset_check/x', '/a/report_asset_check/x', '/a/other/report_asset_check/x']) {
    const reply = await ask(hosted.port, post(path));
    assert.equal(reply.status, 401);
    for (const endpoint of endpoints('/a/NAME')) assert.ok(errorOf(reply).includes(endpoint), errorOf(reply));
  }
});
