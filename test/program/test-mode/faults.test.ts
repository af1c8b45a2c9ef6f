/** `serve --test`: the reply to a report that meets a fault, and the events in the journal. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fault } from '../../support/faults.ts';
import type { Running } from '../../support/program.ts';
import { standIn, statusOf } from '../../support/stand-in.ts';
import { post, Wire } from '../../support/wire.ts';

const service = await standIn({ after });
beforeEach(() => service.call('POST', '/test/reset'));

test('each effect of a fault gives the client and the journal what the fault says, recorded or not', async () => {
  const rows: readonly (readonly [object, number | string, boolean])[] = [
    [{ status: 503 }, 503, false],
    [{ status: 503, recorded: true }, 503, true],
    [{ status: 599, recorded: false }, 599, false],
    [{ delay_ms: 1 }, 200, true],
    [{ delay_ms: 1, recorded: true }, 200, true],
    [{ delay_ms: 1, status: 400 }, 400, false],
    [{ delay_ms: 1, status: 400, recorded: true }, 400, true],
    [{ drop: 'request' }, 'reset', false],
    [{ drop: 'request', recorded: false }, 'reset', false],
    [{ drop: 'request', delay_ms: 1 }, 'reset', false],
    [{ drop: 'reply' }, 'closed', true],
    [{ drop: 'reply', recorded: true }, 'closed', true],
    [{ drop: 'reply', recorded: false }, 'closed', false],
    [{ drop: 'reply', delay_ms: 1 }, 'closed', true],
    [{ drop: 'half' }, 'half of 200', true],
    [{ drop: 'half', recorded: true }, 'half of 200', true],
    [{ drop: 'half', recorded: false }, 'half of 200', false],
    [{ drop: 'half', status: 502 }, 'half of 502', false],
    [{ drop: 'half', status: 502, recorded: true }, 'half of 502', true],
  ];
  const expected: unknown[] = [];
  for (const [index, [effect, seen, recorded]] of rows.entries()) {
    for (const match of [{ type: 'observation' }, { asset_key: ['k', String(index)] }]) {
      await service.faults(fault(match, effect));
      const path = `/report_asset_observation/k/${index}`;
      assert.equal(await outcomeOf(service, path, '{"metadata":{"rows":1}}'), seen, JSON.stringify(effect));
      if (recorded) expected.push(['k', String(index)]);
      assert.deepEqual(service.keys(), expected, JSON.stringify(effect));
      assert.deepEqual(await service.met(), [1]);
    }
  }
  await service.call('DELETE', '/test/faults');
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  const counted = [...metrics.matchAll(/endpoint="report_asset_observation",status="(\d+)"\} (\d+)/g)];
  assert.deepEqual(Object.fromEntries(counted.map(([, status, count]) => [status, Number(count)])), {
    200: 4, // a reply that was cut off is not counted
    400: 4,
    503: 4,
    599: 2,
  });
  assert.match(metrics, new RegExp(`assetlog_events_total\\{type="AssetObservation"\\} ${expected.length}\n`));
  assert.deepEqual((await service.call('GET', '/refusals')).json, { refusals: [] }, 'a fault is no refusal');
});

/** @returns the status of the reply, or how the connection ended: `reset`, `closed`, `half of 200` */
async function outcomeOf(service: Running, target: string, body: string): Promise<number | string> {
  const socket = connect({ port: service.port, host: '127.0.0.1' });
  let text = '';
  let isReset = false;
  socket.setEncoding('latin1').on('data', (more) => {
    text += more;
  });
  socket.on('error', ({ code }: NodeJS.ErrnoException) => {
    isReset = code === 'ECONNRESET';
  });
  socket.write(post(target, body, ['Connection: close']));
  await new Promise((resolve) => socket.once('close', resolve));
  if (text === '') return isReset ? 'reset' : 'closed';
  const [, status, length] = /^HTTP\/1\.1 (\d+) .*\r\nContent-Length: (\d+)\r\n/s.exec(text) ?? [];
  const received = text.length - text.indexOf('\r\n\r\n') - 4;
  if (received === Number(length)) return Number(status);
  assert.equal(received, Math.floor(Number(length) / 2));
  return `half of ${status}`;
}

test('the reply of a fault can be a false success, a redirect or a page of a proxy, with any header and any body', async () => {
  const date = 'Fri, 20 Nov 2026 15:04:05 GMT';
  const rows: readonly (readonly [object, number, Readonly<Record<string, string | null>>, RegExp])[] = [
    [{ status: 200, html: true }, 200, { 'content-type': 'text/html' }, /<h1>200<\/h1>/],
    [{ status: 200 }, 200, { 'content-type': 'application/json' }, /set to answer 200 here/],
    [{ status: 503, retry_after: 4 }, 503, { 'retry-after': '4' }, /set to answer 503/],
    [{ status: 429, body: { slow: 'down' } }, 429, { 'content-type': 'application/json' }, /^\{"slow":"down"\}$/],
    [
      { status: 302, headers: { Location: 'https://login.example/' } },
      302,
      { location: 'https://login.example/' },
      /302/,
    ],
    [
      { status: 503, retry_after: date, headers: { 'X-Proxy': '' } },
      503,
      { 'retry-after': date, 'x-proxy': '' },
      /503/,
    ],
    [
      { status: 200, body: '{"a":', headers: { 'content-type': 'application/json', 'Content-Encoding': 'identity' } },
      200,
      { 'content-type': 'application/json', 'content-encoding': 'identity' },
      /^\{"a":$/,
    ],
    [{ status: 204 }, 204, { 'content-length': null }, /^$/],
    [{ status: 304 }, 304, { 'content-length': '0' }, /^$/],
    [{ status: 201, body: { id: 1 }, body_delay_ms: 1 }, 201, { 'transfer-encoding': 'chunked' }, /^\{"id":1\}$/],
    [{ body_delay_ms: [1, 2] }, 200, { 'content-type': 'application/json' }, /^\{\}$/],
  ];
  const post = () =>
    fetch(`${service.url}/report_asset_observation/a`, { method: 'POST', redirect: 'manual', keepalive: true });
  for (const [effect, status, headers, body] of rows) {
    await service.faults(fault({}, effect));
    const reply = await post();
    assert.equal(reply.status, status, JSON.stringify(effect));
    for (const [name, value] of Object.entries(headers)) assert.equal(reply.headers.get(name), value, name);
    assert.match(await reply.text(), body);
  }
  assert.equal(service.events().length, 1, 'only the last one is recorded');
});

test('the delayed second half of a body is sent at a reset or at a stop', async (t) => {
  const service = await standIn(t);
  const halves = async () => {
    await service.faults(fault({}, { status: 502, body: 'broken', body_delay_ms: 250_000 }));
    const reply = await fetch(`${service.url}/report_asset_observation/a`, { method: 'POST' });
    const reader = reply.body!.getReader();
    const read = async () => Buffer.from((await reader.read()).value ?? '').toString();
    return { first: await read(), read };
  };
  for (const end of [() => service.call('POST', '/test/reset'), () => service.kill()]) {
    const { first, read } = await halves();
    assert.equal(first, 'bro');
    await end();
    assert.deepEqual([await read(), await read()], ['ken', '']);
  }
});

test('a request that a fault drops is reset during its upload', async () => {
  await service.faults(fault({ type: 'materialization' }, { drop: 'request' }, { times: 1 }));
  const socket = connect({ port: service.port, host: '127.0.0.1' });
  const head = ['POST /report_asset_materialization/a HTTP/1.1', 'Host: localhost', 'Content-Type: application/json'];
  socket.write(`${head.join('\r\n')}\r\nContent-Length: 1000000\r\n\r\n{"asset_key":`);
  const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
  assert.equal(error.code, 'ECONNRESET');
  assert.deepEqual(await service.met(), [1]);
  assert.equal(await statusOf(service, '/report_asset_materialization/a'), 200);
});

test('a reply that is cut off comes after the earlier replies of its connection, and ends the connection', async () => {
  await service.faults(
    fault({ asset_key: 'early' }, { delay_ms: 100 }),
    fault({ asset_key: 'cut' }, { drop: 'reply' }),
  );
  const wire = await Wire.open(service.port);
  wire.send(['early', 'cut', 'later'].map((key) => post(`/report_asset_observation/${key}`)).join(''));
  assert.equal((await wire.reply())?.status, 200);
  assert.ok(await wire.ends());
  assert.deepEqual(service.keys().slice(0, 2), [['early'], ['cut']]);
  assert.equal(await statusOf(service, '/report_asset_observation/other'), 200);
});

test('a delayed report is recorded before its reply, and a stop sends the reply at once', async (t) => {
  const service = await standIn(t);
  await service.faults(fault({ asset_key: 'late' }, { delay_ms: 250_000 }), fault({}, { delay_ms: [200, 200] }));
  const startedMs = performance.now();
  assert.equal(await statusOf(service, '/report_asset_observation/soon'), 200);
  assert.ok(performance.now() - startedMs >= 199);
  const { port } = service;
  const [kept, gone] = [await Wire.open(port), await Wire.open(port)];
  for (const wire of [kept, gone]) wire.send(post('/report_asset_observation/late'));
  while (service.events().length < 3) await sleep(5);
  gone.close();
  assert.equal((await service.kill('SIGTERM')).code, 0);
  assert.equal((await kept.reply())?.status, 200);
});

test('readings and invalid reports do not meet a fault', async () => {
  await service.call('POST', '/report_asset_observation/a');
  for (const effect of [{ drop: 'request' }, { status: 503 }]) {
    await service.faults(fault({}, effect));
    for (const path of ['/events', '/refusals', '/readyz', '/metrics', '/openapi.json', '/test/faults'])
      assert.equal((await fetch(`${service.url}${path}`)).status, 200, path);
    assert.equal(await statusOf(service, '/nothing'), 404);
    assert.deepEqual(await service.met(), [0]);
  }
  assert.equal(await statusOf(service, '/report_asset_check/a'), 400);
  assert.deepEqual(await service.met(), [0]);
});

test('POST adds faults, PUT replaces them, and an invalid fault is refused and changes nothing', async () => {
  const [first, second] = [fault({}, { status: 502 }), fault({}, { status: 503 })];
  await service.faults(fault({}, { status: 500 }));
  await service.faults(first);
  assert.equal((await service.call('POST', '/test/faults', { faults: [second] })).status, 200);
  for (const [body, method, error] of [
    [
      { faults: [fault({ typ: 'check' }, { status: 503 })] },
      'PUT',
      /^faults\[0\]\.match\.typ is unknown; did you mean type\?$/,
    ],
    [undefined, 'PUT', /./],
    [[], 'PUT', /./],
    [{}, 'POST', /./],
    [{ faults: [fault({}, { status: 500 }), {}] }, 'POST', /^faults\[1\]\.then is missing/],
    [{ seed: 7, faults: [] }, 'POST', /^seed goes with the first faults/],
  ] as const) {
    const { status, json } = await service.call(method, '/test/faults', body);
    assert.equal(status, 400);
    assert.match(`${json['error']}`, error);
  }
  const page = await fetch(`${service.url}/test/reset`, { method: 'POST', headers: { Origin: 'https://a.example' } });
  assert.equal(page.status, 403, 'no web page can reset');
  assert.equal(await statusOf(service, '/report_asset_observation/a'), 502);
  assert.deepEqual((await service.call('GET', '/test/faults')).json, {
    seed: 7,
    reports: 1,
    faults: [
      { ...first, matched: 1, met: 1 },
      { ...second, matched: 1, met: 0 },
    ],
  });
});
