/** The relay that `assetlog relay` prints, in each version of Python that it is for, before stubs of its targets and Alertmanager. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort, newFolder, startService } from '../support/program.ts';
import { type Cases, testInEach } from '../support/pythons.ts';
import { startRelay } from '../support/relay.ts';
import { record } from '../support/report.ts';
import { eventually, missing } from '../support/tools.ts';
import type { Scripted } from '../world/http.ts';
import { startScripted } from '../world/http-server.ts';

const SECRET = '/services/T0A1B2C3D/B0E4F5G6H/abcdefghijklmnopqrstuvwx';
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

/** @returns connections to a port of this machine */
async function connectAll(port: number, count: number): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1').on('error', () => {}));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return sockets;
}

/** Starts the relay before a server that keeps what it gets. */
async function startStub(t: TestContext, python: string, form: string, path: string, seconds = 20) {
  let reply: Scripted | undefined = [200, ''];
  const { url, got } = await startScripted(t, () => reply);
  const relay = await startRelay(t, { python, form, target: url + path, seconds });
  const answer = (next: Scripted | undefined) => {
    reply = next;
  };
  const postAll = async () => {
    const [failed, recovered, ...silence] = ALARMS;
    assert.equal(await relay.post({ alarm: failed, deployment: 'prod', ...RESULT, passed: false }), 200);
    assert.equal(await relay.post({ alarm: recovered, deployment: 'prod', ...RESULT, passed: true }), 200);
    for (const alarm of silence) assert.equal(await relay.post({ alarm, asset_key: RESULT.asset_key }), 200);
    return got;
  };
  return { ...relay, got, postAll, answer };
}

const cases: Cases = {
  'the relay sends a failed check to Slack as a text': async (t, python) => {
    const { to, got, postAll } = await startStub(t, python, 'slack', SECRET);
    for (const [at, { url, headers, body }] of (await postAll()).entries())
      assert.deepEqual(
        [url, headers['content-type'], JSON.parse(body)],
        [SECRET, 'application/json', { text: TEXTS[at], mrkdwn: false }],
      );
    const service = await startService(t, { args: ['--on-failed-check', to] });
    await record(service, 'check/warehouse/orders?check_name=no_nulls&passed=false');
    await eventually('Slack gets the text', () => got.length === 5);
    assert.deepEqual(JSON.parse(got[4]!.body), {
      text: 'warehouse/orders: no_nulls failed (ERROR)',
      mrkdwn: false,
    });
  },

  'the relay publishes to a topic of ntfy as JSON at its root': async (t, python) => {
    const got = await (await startStub(t, python, 'ntfy', '')).postAll();
    for (const [at, { url, body }] of got.entries()) {
      const { topic, message, priority, ...more } = JSON.parse(body);
      assert.deepEqual([url, topic, message, more], ['/', 'alarms', TEXTS[at], {}]);
      assert.ok(Number.isInteger(priority) && priority >= 1 && priority <= 5);
    }
  },

  'the relay sends alarms to Alertmanager, and the end of an alarm resolves its alert': async (t, python) => {
    const got = await (await startStub(t, python, 'alertmanager', '/api/v2/alerts')).postAll();
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
    for (const [alert, since] of [
      [failure, FAILED_AT],
      [stale, SILENT_AT],
    ] as const)
      assert.deepEqual([alert.startsAt, Date.parse(alert.endsAt) > Date.now() + 1e12], [since, true]);
    // Before the clock of an Alertmanager that is behind, since it ignores an end that is ahead.
    for (const { startsAt, endsAt } of [recovery, fresh])
      assert.ok(startsAt === endsAt && Math.abs(Date.now() - 60_000 - Date.parse(endsAt)) < 30_000, endsAt);
    assert.notEqual(stale.labels.alertname, failure.labels.alertname);
    assert.deepEqual(
      alerts.map(({ annotations }) => annotations.summary),
      TEXTS,
    );
  },

  'the relay does not take a redirect for a delivery, and returns the status of its target': async (t, python) => {
    const { post, answer, got } = await startStub(t, python, 'slack', SECRET);
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
  },

  'alarms of two deployments, and of keys with a slash, become different alerts': async (t, python) => {
    const { post, answer, got } = await startStub(t, python, 'alertmanager', '/api/v2/alerts');
    answer([200, '']);
    const names = ['prod', 'dev'];
    for (const deployment of names)
      for (const asset_key of [['a', 'b'], ['a/b']])
        assert.equal(await post({ deployment, ...RESULT, asset_key, passed: false }), 200);
    const alerts = got.map(({ body }) => JSON.parse(body)[0]);
    assert.equal(new Set(alerts.map(({ labels }) => JSON.stringify(labels))).size, 4);
    const texts = names.flatMap((name) =>
      ['a/b', '["a/b"]'].map((key) => `${name}: ${key}: no_nulls failed (ERROR), p`),
    );
    assert.deepEqual(
      alerts.map(({ annotations }) => annotations.summary),
      texts,
    );
  },

  'names with markup and control characters are sent as text to Slack and to a ping': async (t, python) => {
    const event = {
      ...RESULT,
      asset_key: ['<!channel>', 'a *b* & \u202ec\n'],
      check_name: '<https://a.example|c>',
      passed: false,
    };
    const text = '<!channel>/a *b* & \ufffdc\ufffd: <https://a.example|c> failed (ERROR), p';
    const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
    for (const [form, wanted] of [
      ['slack', JSON.stringify({ text: escaped, mrkdwn: false })],
      ['ping', text],
    ] as const) {
      const { post, answer, got } = await startStub(t, python, form, SECRET);
      answer([200, '']);
      assert.equal(await post(event), 200);
      const { body } = got[0]!;
      assert.deepEqual(form === 'slack' ? JSON.parse(body) : body, form === 'slack' ? JSON.parse(wanted) : wanted);
    }
  },

  'the relay refuses requests of web pages and bodies that are no alarm, and no connection blocks the others': async (
    t,
    python,
  ) => {
    const { port, post, postText, got } = await startStub(t, python, 'slack', SECRET, 2);
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
    const slow = await connectAll(port, 16);
    const timer = setInterval(() => {
      for (const socket of slow) if (socket.writable) socket.write('P');
    }, 50);
    t.after(() => clearInterval(timer));
    const ended = slow.map((socket) => once(socket.resume(), 'close'));
    assert.equal(await post({ ...RESULT, passed: false }), 200);
    await Promise.all(ended);
  },

  'the relay serves at most 16 connections at a time [edges-relay-1]': async (t, python) => {
    const { port, got, post } = await startStub(t, python, 'slack', SECRET);
    const [first, ...others] = await connectAll(port, 16);
    const posted = post({ ...RESULT, passed: false });
    await sleep(500); // in which nothing must happen
    assert.deepEqual(got, []);
    first?.destroy();
    assert.equal(await posted, 200);
    for (const socket of others) socket.destroy();
  },

  'the relay logs one line, and no traceback, for a sender whose connection breaks': async (t, python) => {
    const { port, got, post, stderr } = await startStub(t, python, 'slack', SECRET);
    const head = (length: number) => `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`;
    const event = JSON.stringify({ ...RESULT, passed: false });
    for (const [sent, isWhole] of [
      [head(1_000) + event, false],
      [head(event.length) + event, true],
    ] as const) {
      const [socket = assert.fail()] = await connectAll(port, 1);
      socket.write(sent);
      if (isWhole) await eventually('the target is asked', () => got.length === 1);
      else await eventually('the part is sent', () => socket.bytesWritten === sent.length);
      socket.resetAndDestroy();
    }
    assert.equal(await post({ ...RESULT, passed: false }), 200);
    await eventually('a line', () => /\[Errno \d+\] /.test(stderr()));
    assert.doesNotMatch(stderr(), /Traceback/);
  },

  'the relay pings a URL for success and for failure': async (t, python) => {
    const path = '/0b2f1c9e-5a41-4d0f-9d0e-3f0a1c2b4d5e';
    const got = await (await startStub(t, python, 'ping', path)).postAll();
    assert.deepEqual(
      got.map(({ method, url, body }) => [method, url, body]),
      [`${path}/fail`, path, `${path}/fail`, path].map((url, at) => ['POST', url, TEXTS[at]]),
    );
  },
};

testInEach(cases);

const withoutAlertmanager = missing(
  'Alertmanager is not installed (Debian: prometheus-alertmanager)',
  'prometheus-alertmanager',
  ['--version'],
);

/** Starts Alertmanager, which posts to a receiver. It ends with the test. */
async function startAlertmanager(t: TestContext, receiver: string) {
  const [folder, port] = [newFolder(t), await freePort(t)];
  const config = join(folder, 'alertmanager.yml');
  const route = { receiver: 'hook', group_wait: '1s', group_interval: '1s', repeat_interval: '1h' };
  const receivers = [{ name: 'hook', webhook_configs: [{ url: receiver, send_resolved: true }] }];
  writeFileSync(config, JSON.stringify({ route, receivers })); // JSON is YAML
  const args = [`--config.file=${config}`, `--storage.path=${folder}`, '--cluster.listen-address='];
  const child = spawn('prometheus-alertmanager', [...args, `--web.listen-address=127.0.0.1:${port}`], {
    stdio: 'ignore',
  });
  const ended = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const url = `http://127.0.0.1:${port}/api/v2/alerts`;
  await eventually('Alertmanager listens', async () => (await fetch(url).catch(() => undefined))?.ok === true);
  /** @returns the alerts that it shows, by their texts */
  const shown = async () => {
    type Alert = { readonly annotations: { readonly summary: string }; readonly startsAt: string };
    const alerts = (await (await fetch(url)).json()) as readonly Alert[];
    return Object.fromEntries(alerts.map(({ annotations, startsAt }) => [annotations.summary, startsAt]));
  };
  return { url, shown };
}

test('Alertmanager shows an alarm begin, change and end, and again, beside those of others', {
  skip: withoutAlertmanager,
}, async (t) => {
  const receiver = await startScripted(t, () => [200, '']);
  const { url, shown } = await startAlertmanager(t, receiver.url);
  const { post } = await startRelay(t, { python: 'python3', form: 'alertmanager', target: url });
  const check = (deployment: string, severity: string, alarm: object) =>
    post({ alarm, deployment, ...RESULT, severity, passed: false });
  const textOf = (severity: string, deployment = 'prod') =>
    `${deployment}: warehouse/orders: no_nulls failed (${severity}), p`;
  const before = { severity: 'WARN', since: FAILED_AT, since_seq: 2 };
  const told = (status: string) =>
    receiver.got
      .flatMap(({ body }) => JSON.parse(body).alerts as { status: string; annotations: { summary: string } }[])
      .filter((alert) => alert.status === status)
      .map(({ annotations }) => annotations.summary);

  const silence = { alarm: ALARMS[2], asset_key: RESULT.asset_key };
  const others = { [textOf('ERROR', 'dev')]: FAILED_AT, [TEXTS[2]!]: SILENT_AT };
  assert.equal(await check('dev', 'ERROR', { on: 'failed', since: FAILED_AT }), 200);
  assert.equal(await post(silence), 200);
  assert.equal(await check('prod', 'WARN', { on: 'failed', since: FAILED_AT }), 200);
  assert.deepEqual(await shown(), { ...others, [textOf('WARN')]: FAILED_AT });
  await eventually('a text of the beginning', () => told('firing').includes(textOf('WARN')));
  assert.equal(await check('prod', 'ERROR', { on: 'failed', since: SILENT_AT, before }), 200);
  assert.deepEqual(await shown(), { ...others, [textOf('ERROR')]: FAILED_AT });
  assert.equal(await post({ alarm: ALARMS[1], deployment: 'prod', ...RESULT, passed: true }), 200);
  assert.deepEqual(await shown(), others);
  await eventually('a text of the end', () => told('resolved').includes(TEXTS[1]!));
  assert.equal(await check('prod', 'ERROR', { on: 'failed', since: new Date().toISOString() }), 200);
  assert.deepEqual(Object.keys(await shown()).sort(), [...Object.keys(others), textOf('ERROR')].sort());
  assert.equal(await post({ alarm: ALARMS[3], asset_key: RESULT.asset_key }), 200);
  assert.deepEqual(Object.keys(await shown()).sort(), [textOf('ERROR', 'dev'), textOf('ERROR')].sort());
});
