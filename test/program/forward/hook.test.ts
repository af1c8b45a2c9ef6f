/** A hook for failed checks with real programs: its server fails, is slow, is unreachable, and refuses. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { runHere } from '../../support/command-output.ts';
import { rewrite, writeDeployments } from '../../support/deployments.ts';
import { deadLettersIn, forwardFile, forwardStatus, stopsForwarding } from '../../support/forwarded.ts';
import { metricsOf } from '../../support/metrics.ts';
import { freePort, journalText, newFolder, root, startService } from '../../support/program.ts';
import { record, reportOne } from '../../support/report.ts';
import { eventually, missing } from '../../support/tools.ts';
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

test('a hook is shown by its host alone, even if the hook repeats its URL [hook-7]', async (t) => {
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

const withoutPython = missing('Python is not installed', 'python3', ['--version']);

const FAILED_AT = '2026-11-20T15:00:02.000Z';
const SILENT_AT = '2026-11-20T15:00:04.000Z';
/** A failure and its end, and a stale asset and its next event. */
const ALARMS = [
  { on: 'failed', since_seq: 2, since: FAILED_AT, in_a_row: 1 },
  { on: 'recovered', because: 'passed', before: { severity: 'ERROR', since_seq: 2, since: FAILED_AT } },
  { on: 'stale', since_seq: 4, since: SILENT_AT },
  { on: 'fresh', because: 'reported', before: { since: SILENT_AT } },
] as const;

const RESULT = { asset_key: ['warehouse', 'orders'], check_name: 'no_nulls', severity: 'ERROR', partition: 'p' };
const TEXTS = [
  'prod: warehouse/orders: no_nulls failed (ERROR), p',
  `prod: warehouse/orders: no_nulls no longer fails (ERROR, passed), p, since ${FAILED_AT}`,
  `warehouse/orders: no event since ${SILENT_AT}`,
  `warehouse/orders: no longer silent (reported), since ${SILENT_AT}`,
];

/** Starts the relay that `assetlog relay` prints, before a service that keeps what it gets. */
async function startRelay(t: TestContext, form: string, path: string, seconds = 20) {
  let reply: Scripted | undefined = [503, ''];
  const { url, got } = await startScripted(t, () => reply);
  const port = await freePort(t);
  const own = {
    ALARM_FORM: form,
    ALARM_URL: url + path,
    ALARM_TOPIC: 'alarms',
    PORT: `${port}`,
    http_proxy: 'http://127.0.0.1:9',
    no_proxy: '',
  };
  const program = readFileSync(join(root, 'src/commands/printed/assetlog_relay.py'), 'utf8');
  const script = join(newFolder(t), 'assetlog_relay.py');
  assert.match(program, /^CONNECTIONS, SECONDS, BODY_BYTES = 16, 20, /m);
  writeFileSync(script, program.replace('= 16, 20, ', `= 16, ${seconds}, `));
  const child = spawn('python3', [script], { env: { ...process.env, ...own }, stdio: 'ignore' });
  t.after(() => child.kill());
  const to = `http://127.0.0.1:${port}`;
  const postText = async (body: string, headers: Readonly<Record<string, string>> = {}) =>
    (await fetch(to, { method: 'POST', body, headers }).catch(() => undefined))?.status;
  const post = (body: object) => postText(JSON.stringify(body));
  const answer = (next: Scripted | undefined) => {
    reply = next;
  };
  await eventually('it passes the status on', async () => (await post({ ...RESULT, passed: false })) === 503);
  got.length = 0;
  reply = [200, ''];
  const postAll = async () => {
    const [failed, recovered, ...silence] = ALARMS;
    assert.equal(await post({ alarm: failed, deployment: 'prod', ...RESULT, passed: false }), 200);
    assert.equal(await post({ alarm: recovered, deployment: 'prod', ...RESULT, passed: true }), 200);
    for (const alarm of silence) assert.equal(await post({ alarm, asset_key: RESULT.asset_key }), 200);
    return got;
  };
  return { to, got, post, postText, postAll, answer };
}

test('the relay sends a failed check to Slack as a text', { skip: withoutPython }, async (t) => {
  const { to, got, postAll } = await startRelay(t, 'slack', SECRET);
  for (const [at, { url, headers, body }] of (await postAll()).entries())
    assert.deepEqual(
      [url, headers['content-type'], JSON.parse(body)],
      [SECRET, 'application/json', { text: TEXTS[at], mrkdwn: false }],
    );
  const service = await startService(t, { args: ['--on-failed-check', to] });
  await check(service, false);
  await eventually('Slack gets the text', () => got.length === 5);
  assert.deepEqual(JSON.parse(got[4]!.body), {
    text: 'warehouse/orders: no_nulls failed (ERROR)',
    mrkdwn: false,
  });
});

test('the relay publishes to a topic of ntfy as JSON at its root', { skip: withoutPython }, async (t) => {
  const got = await (await startRelay(t, 'ntfy', '')).postAll();
  for (const [at, { url, body }] of got.entries()) {
    const { topic, message, priority, ...more } = JSON.parse(body);
    assert.deepEqual([url, topic, message, more], ['/', 'alarms', TEXTS[at], {}]);
    assert.ok(Number.isInteger(priority) && priority >= 1 && priority <= 5);
  }
});

test('the relay sends alarms to Alertmanager, and the end of an alarm resolves its alert', {
  skip: withoutPython,
}, async (t) => {
  const got = await (await startRelay(t, 'alertmanager', '/api/v2/alerts')).postAll();
  const alerts = got.map(({ body }) => {
    const [alert, ...others] = JSON.parse(body);
    assert.equal(others.length, 0);
    for (const [name, value] of Object.entries(alert.labels))
      assert.ok(/^[a-zA-Z_]\w*$/.test(name) && typeof value === 'string', name);
    return alert;
  });
  const [failure, recovery, stale, fresh] = alerts;
  assert.deepEqual(recovery.labels, failure.labels, 'they are one alert');
  assert.deepEqual(fresh.labels, stale.labels, 'they are one alert');
  const spans = alerts.map(({ startsAt, endsAt }) => [startsAt, Date.parse(endsAt) > Date.now()]);
  assert.deepEqual(spans, [
    [FAILED_AT, true],
    [FAILED_AT, false],
    [SILENT_AT, true],
    [SILENT_AT, false],
  ]);
  assert.notEqual(stale.labels.alertname, failure.labels.alertname);
  assert.deepEqual(
    alerts.map(({ annotations }) => annotations.summary),
    TEXTS,
  );
});

test('the relay does not take a redirect for a delivery, and returns the status of its target', {
  skip: withoutPython,
}, async (t) => {
  const { post, answer, got } = await startRelay(t, 'slack', SECRET);
  const elsewhere = await startScripted(t, () => [200, '']);
  const event = { ...RESULT, passed: false };
  for (const status of [301, 302, 303, 307, 308]) {
    answer([status, '', { Location: `${elsewhere.url}/x` }]);
    assert.equal(await post(event), 502, `${status}`);
  }
  assert.deepEqual([got.length, elsewhere.got.length], [5, 0]);
  for (const status of [204, 400, 404, 429, 500]) {
    answer([status, '']);
    assert.equal(await post(event), status);
  }
  answer(undefined);
  assert.equal(await post(event), 503);
});

test('alarms of two deployments, and of keys with a slash, become different alerts', {
  skip: withoutPython,
}, async (t) => {
  const { post, answer, got } = await startRelay(t, 'alertmanager', '/api/v2/alerts');
  answer([200, '']);
  const names = ['prod', 'dev'];
  for (const deployment of names)
    for (const asset_key of [['a', 'b'], ['a/b']])
      assert.equal(await post({ deployment, ...RESULT, asset_key, passed: false }), 200);
  const alerts = got.map(({ body }) => JSON.parse(body)[0]);
  assert.equal(new Set(alerts.map(({ labels }) => JSON.stringify(labels))).size, 4);
  const texts = names.flatMap((name) => ['a/b', '["a/b"]'].map((key) => `${name}: ${key}: no_nulls failed (ERROR), p`));
  assert.deepEqual(
    alerts.map(({ annotations }) => annotations.summary),
    texts,
  );
});

test('names with markup and control characters are sent as text to Slack and to a ping', {
  skip: withoutPython,
}, async (t) => {
  const event = {
    ...RESULT,
    asset_key: ['<!channel>', '*a* & \u202eb\n'],
    check_name: '<https://a.example|c>',
    passed: false,
  };
  const text = '<!channel>/*a* & \ufffdb\ufffd: <https://a.example|c> failed (ERROR), p';
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  for (const [form, wanted] of [
    ['slack', JSON.stringify({ text: escaped, mrkdwn: false })],
    ['ping', text],
  ] as const) {
    const { post, answer, got } = await startRelay(t, form, SECRET);
    answer([200, '']);
    assert.equal(await post(event), 200);
    const { body } = got[0]!;
    assert.deepEqual(form === 'slack' ? JSON.parse(body) : body, form === 'slack' ? JSON.parse(wanted) : wanted);
  }
});

test('the relay refuses requests of web pages and bodies that are no alarm, and no connection blocks the others', {
  skip: withoutPython,
}, async (t) => {
  const { to, post, postText, answer, got } = await startRelay(t, 'slack', SECRET, 1);
  answer([200, '']);
  assert.equal(await postText(JSON.stringify({ ...RESULT, passed: false }), { Origin: 'https://evil.example' }), 403);
  for (const text of [
    '',
    'x',
    '[]',
    'null',
    '{}',
    '{"asset_key":5}',
    '{"alarm":{"on":"x"},"asset_key":["a"]}',
    '['.repeat(99_999),
  ])
    assert.equal(await postText(text), 400, text.slice(0, 50));
  assert.deepEqual(got, []);
  const slow = Array.from({ length: 16 }, () => connect(Number(new URL(to).port), '127.0.0.1'));
  const timer = setInterval(() => {
    for (const socket of slow) if (socket.writable) socket.write('P');
  }, 50);
  const ended = slow.map((socket) => once(socket.on('error', () => {}).resume(), 'close'));
  await Promise.all(slow.map((socket) => once(socket, 'connect')));
  assert.equal(await post({ ...RESULT, passed: false }), 200);
  await Promise.all(ended);
  clearInterval(timer);
});

test('the relay pings a URL for success and for failure', { skip: withoutPython }, async (t) => {
  const path = '/0b2f1c9e-5a41-4d0f-9d0e-3f0a1c2b4d5e';
  const got = await (await startRelay(t, 'ping', path)).postAll();
  assert.deepEqual(
    got.map(({ method, url, body }) => [method, url, body]),
    [`${path}/fail`, path, `${path}/fail`, path].map((url, at) => ['POST', url, TEXTS[at]]),
  );
});
