/** A hook for failed checks with real programs: its server fails, is slow, is unreachable, and refuses. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runHere } from '../../support/command-output.ts';
import { rewrite, writeDeployments } from '../../support/deployments.ts';
import { deadLettersIn, forwardFile, forwardStatus, stopsForwarding } from '../../support/forwarded.ts';
import { metricsOf } from '../../support/metrics.ts';
import { freePort, journalText, newFolder, startService } from '../../support/program.ts';
import { record, reportOne } from '../../support/report.ts';
import { eventually } from '../../support/tools.ts';
import type { Scripted } from '../../world/http.ts';
import { type Got, startScripted } from '../../world/http-server.ts';

const NAME = 'failed-checks';
const SECRET = '/services/T0A1B2C3D/B0E4F5G6H/abcdefghijklmnopqrstuvwx';

const seqOf = ({ body }: Got): number => JSON.parse(body).seq;

async function check(service: { readonly url: string }, passed: boolean): Promise<void> {
  await record(service, `check/warehouse/orders?check_name=no_nulls&passed=${passed}`);
}

test('each failed check is posted at least once and in order, despite errors of the hook and crashes', async (t) => {
  const accepted: number[] = [];
  const answer = (post: Got, count: number): Scripted | undefined => {
    if (count % 7 === 0) return undefined; // the reply is lost
    if (count % 7 === 2) return [503, 'later', { 'Retry-After': '0' }];
    if (count % 7 === 4) return [500, 'oops'];
    accepted.push(seqOf(post));
    return [200, 'ok'];
  };
  const hook = await startScripted(t, answer, { port: await freePort(t) });
  const { url, got } = hook;
  const args = ['--on-failed-check', url + SECRET];
  let service = await startService(t, { args });
  const { data } = service;
  await check(service, false); // at once after the ready line
  await eventually('the first check is posted', () => accepted.length === 1);
  for (let at = 0; at < 60; at += 1) {
    await check(service, at % 3 !== 0);
    await record(service, `observation/a${at}`);
    if (at === 20) await hook.kill();
    if (at === 30) await hook.start();
    if (at % 20 !== 15) continue;
    await service.kill('SIGKILL');
    service = await startService(t, { data, args });
  }
  const lines = journalText(data).trimEnd().split('\n');
  const failed = lines.filter((line) => line.includes('"passed":false'));
  assert.equal(failed.length, 21);
  const all = failed.map((line) => JSON.parse(line).seq as number);
  await eventually('each failed check is posted', () => all.every((seq) => got.map(seqOf).includes(seq)), 60_000);
  assert.deepEqual(
    accepted,
    accepted.toSorted((a, b) => a - b),
    'in order',
  );
  for (const post of got) {
    assert.ok(failed.includes(post.body), post.body);
    assert.deepEqual([post.url, post.headers['content-type']], [SECRET, 'application/json']);
    assert.equal(post.headers['idempotency-key'], `"hook/1/${JSON.parse(lines[seqOf(post) - 1]!).id}"`);
  }
  await eventually(
    'the cursor is at the end of the journal',
    async () => (await forwardStatus(data, NAME)).lag_events === 0,
  );
  assert.equal((await forwardStatus(data, NAME)).dead_letters, 0);
  const metrics = await metricsOf(service);
  assert.match(metrics, /^assetlog_forward_state\{destination="failed-checks",state="idle"\} 1$/m);
  assert.match(metrics, /^assetlog_forward_lag_events\{destination="failed-checks"\} 0$/m);
});

test('a hook is shown by its host alone, even if the hook repeats its URL', async (t) => {
  const [, , team = '', channel = '', key = ''] = SECRET.split('/');
  const answers: Scripted[] = [
    [400, `no webhook at ${SECRET}`],
    [422, JSON.stringify({ error: `${encodeURIComponent(SECRET)} ${SECRET.replaceAll('/', '\\/')} ${key}` })],
    [413, `${'x'.repeat(185)}${SECRET} and ${key}`],
    [302, '', { Location: `https://hooks.example${SECRET}` }],
  ];
  const hook = await startScripted(t, (post) => answers[Math.min(seqOf(post), answers.length) - 1]!);
  const service = await startService(t, { args: ['--on-failed-check', hook.url + SECRET, '--log-level', 'debug'] });
  const { data } = service;
  for (const _ of answers) await check(service, false);
  const { reason } = await stopsForwarding(data, NAME);
  assert.match(reason, /^answers 302: it is at https:\/\/hooks\.example\*+ now/);
  assert.equal(deadLettersIn(data, NAME).length, 3);
  const status = async (...more: string[]) => (await runHere(['forward', 'status', '--data', data, ...more])).stdout;
  const shown = await status();
  assert.match(shown, new RegExp(`failed-checks: hook\\+${hook.url}/… \\(hook\\)`));
  const texts = [shown, await status('--json'), await metricsOf(service), service.stderr()];
  texts.push((await runHere(['forward', 'dead', NAME, '--json', '--data', data])).stdout);
  texts.push(await (await fetch(`${service.url}/readyz`)).text());
  const files = readdirSync(data).filter((name) => !name.startsWith('.lock'));
  texts.push(...files.map((name) => readFileSync(join(data, name), 'latin1')));
  for (const text of texts) for (const part of [team, channel, key]) assert.ok(!text.includes(part), text);
});

test('a hook from the file gets the events of its filter, and in hosted mode the name of the deployment', async (t) => {
  const hook = await startScripted(t, () => [200, 'ok']);
  const forward = join(newFolder(t), 'forward.json');
  const deployments = writeDeployments(t, ['prod', 'dev']);
  const to = `hook+${hook.url}/{deployment}?key=0123456789`;
  forwardFile(forward, { name: 'team', to, only: { type: 'check', passed: false, key_prefix: 'warehouse' } });
  const service = await startService(t, { args: ['--forward', forward, ...deployments.args] });
  for (const name of ['prod', 'dev']) {
    const at = { url: `${service.url}/${name}` };
    const headers = { 'Service-Cloud-Api-Token': deployments.tokenOf(name) };
    for (const key of ['other', 'warehouse/orders'])
      await record(at, `check/${key}?check_name=c&passed=false`, { headers });
    await eventually(name, () => hook.got.some(({ url }) => url === `/${name}?key=0123456789`));
    const line = journalText(join(service.data, name)).split('\n')[1]!;
    assert.equal(hook.got.at(-1)?.body, `{"deployment":"${name}",${line.slice(1)}`);
  }
  assert.equal(hook.got.length, 2);
});

test('a deployment that was removed with its folder and added again starts at its first event', async (t) => {
  const hook = await startScripted(t, () => [200, 'ok']);
  const forward = join(newFolder(t), 'forward.json');
  const deployments = writeDeployments(t, ['prod']);
  const listed = readFileSync(deployments.file, 'utf8');
  forwardFile(forward);
  const service = await startService(t, { args: ['--forward', forward, ...deployments.args] });
  const at = { url: `${service.url}/prod` };
  const headers = { 'Service-Cloud-Api-Token': deployments.tokenOf('prod') };
  const fail = () => reportOne(at, 'check/a?check_name=c&passed=false', { headers });
  for (let count = 0; count < 3; count += 1) assert.equal((await fail()).status, 200);
  rewrite(deployments.file, { name: 'dev', tokens: [] });
  process.kill(service.pid, 'SIGHUP');
  await eventually(
    'the deployment is removed',
    async () => (await fetch(`${at.url}/events`, { headers })).status === 401,
  );
  await eventually(
    'the journal is closed',
    () => !readdirSync(join(service.data, 'prod')).some((name) => /^\.lock/.test(name)),
  );
  rmSync(join(service.data, 'prod'), { recursive: true });
  forwardFile(forward, { name: 'team', to: `hook+${hook.url}`, begin: 'now' });
  writeFileSync(deployments.file, listed);
  process.kill(service.pid, 'SIGHUP');
  // 401 until the deployment is added, and 503 until its previous journal is closed.
  await eventually('the deployment records', async () => (await fail()).status === 200);
  await eventually('the event is posted', () => hook.got.length === 1);
  assert.equal(seqOf(hook.got[0]!), 1);
});
