/** `serve --test`: faults, resets, a folder of its own. What the client saw and what the journal has are compared. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fault } from '../support/faults.ts';
import { eventsIn, launch, newFolder, type Running, type Scope, startService } from '../support/program.ts';
import { referenceExecutable as executable, withoutReference as skip, startReference } from '../support/reference.ts';
import { eventually, missing } from '../support/tools.ts';
import { errorOf, post, Wire, type WireReply } from '../support/wire.ts';

const noRequests = missing('python3 or its package requests is missing', 'python3', ['-c', 'import requests']);
const NO_PROXY = { encoding: 'utf8', env: { ...process.env, no_proxy: '*' } } as const;

const JSON_HEAD = { 'Content-Type': 'application/json' };

interface StandIn extends Running {
  /** What the service answers, as JSON. */
  call(method: string, path: string, body?: unknown): Promise<{ status: number; json: Record<string, unknown> }>;
  faults(...faults: readonly object[]): Promise<void>;
  /** How many reports each fault met. */
  met(): Promise<number[]>;
  keys(): unknown[];
}

async function standIn(t: Scope, args: readonly string[] = ['--test'], data = newFolder(t)): Promise<StandIn> {
  const service = await startService(t, { args, data });
  const call = async (method: string, path: string, body?: unknown) => {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = { Accept: 'application/json', ...(body !== undefined && JSON_HEAD) };
    const reply = await fetch(`${service.url}${path}`, { method, headers, ...sent });
    return { status: reply.status, json: (await reply.json()) as Record<string, unknown> };
  };
  return {
    ...service,
    call,
    faults: async (...faults) => {
      const { status, json } = await call('PUT', '/test/faults', { seed: 7, faults });
      assert.equal(status, 200, JSON.stringify(json));
    },
    met: async () => {
      const { json } = await call('GET', '/test/faults');
      return (json['faults'] as { met: number }[]).map(({ met }) => met);
    },
    keys: () => service.events().map((event) => event['asset_key']),
  };
}

/** Reports on a connection of its own. @returns the reply, or what became of the connection */
async function report(service: Running, target: string, body?: string): Promise<WireReply | 'reset' | 'closed'> {
  const wire = await Wire.open(service.port);
  let isReset = false;
  wire.socket.on('error', ({ code }: NodeJS.ErrnoException) => {
    isReset = code === 'ECONNRESET';
  });
  wire.send(post(target, body));
  const reply = await wire.reply();
  wire.close();
  return reply ?? (isReset ? 'reset' : 'closed');
}

async function statusOf(service: Running, target: string, body?: string): Promise<number | string> {
  const reply = await report(service, target, body);
  return typeof reply === 'string' ? reply : reply.status;
}

test('a service for tests names its mode, and has a folder of its own that goes with it', async (t) => {
  const { child, finished } = launch(['serve', '--test', '--port', '0'], { env: { ASSETLOG_DATA: '' } });
  t.after(() => child.kill('SIGKILL'));
  const [ready] = (await once(child.stdout as NonNullable<typeof child.stdout>, 'data')) as [string];
  const [, url = ''] = /^assetlog listening on (http:\/\/127\.0\.0\.1:\d+) \(test mode\)\n$/.exec(ready) ?? [];
  assert.notEqual(url, '', ready);
  assert.deepEqual(await (await fetch(`${url}/readyz`)).json(), { status: 'ok', mode: 'test' });
  await fetch(`${url}/report_asset_observation/a`, { method: 'POST' });
  child.kill('SIGTERM');
  const { code, stderr } = await finished;
  const [, data = ''] = /"data":"([^"]+)"/.exec(stderr) ?? [];
  assert.equal(code, 0, stderr);
  assert.match(data, /assetlog-/);
  assert.equal(existsSync(data), false);
});

test('--test keeps the folder of --data, and refuses one whose journal it did not make, and --deployments', async (t) => {
  const data = newFolder(t);
  const first = await standIn(t, ['--test'], data);
  await first.call('POST', '/report_asset_observation/a');
  await first.kill();
  assert.equal(eventsIn(data).length, 1);
  const second = await standIn(t, ['--test'], data);
  assert.equal((await second.call('POST', '/report_asset_observation/b')).status, 200);
  assert.deepEqual(second.keys(), [['a'], ['b']]);
  await second.kill();

  const real = await startService(t);
  await fetch(`${real.url}/report_asset_observation/a`, { method: 'POST' });
  assert.equal((await fetch(`${real.url}/test/reset`, { method: 'POST' })).status, 404);
  await real.kill();
  const refused = await launch(['serve', '--port', '0', '--test', '--data', real.data]).finished;
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /a journal that was not made with --test/);
  assert.equal(eventsIn(real.data).length, 1);
  const hosted = await launch(['serve', '--test', '--deployments', 'file.json']).finished;
  assert.deepEqual([hosted.code, hosted.stderr.includes('--test has no --deployments')], [2, true]);
});

test('a reset begins the journal anew, without faults and without what was known of keys', async (t) => {
  const service = await standIn(t, ['--test', '--segment-bytes', '4096']);
  const keyed = async (key: string) => {
    const headers = { ...JSON_HEAD, 'Idempotency-Key': key };
    const reply = await fetch(`${service.url}/report_asset_observation/${'k'.repeat(300)}`, {
      method: 'POST',
      headers,
    });
    return [reply.status, reply.headers.get('idempotent-replayed')];
  };
  for (let n = 0; n < 40; n += 1) assert.deepEqual(await keyed(`run/${n}`), [200, null]);
  assert.deepEqual(await keyed('run/1'), [200, 'true']);
  assert.ok(readdirSync(service.data).length > 3, 'several files');
  assert.equal(await statusOf(service, '/report_asset_check/a'), 400);
  assert.equal(((await service.call('GET', '/refusals')).json['refusals'] as unknown[]).length, 1);
  await service.faults(fault({}, { status: 503 }));
  assert.deepEqual(await service.call('POST', '/test/reset'), { status: 200, json: {} });
  assert.deepEqual(service.events(), []);
  const left = readdirSync(service.data).filter((name) => !name.startsWith('.lock-'));
  assert.deepEqual(left.sort(), ['.made-for-tests', 'events-00000000000000000001.jsonl']);
  assert.deepEqual((await service.call('GET', '/test/faults')).json['faults'], []);
  assert.deepEqual((await service.call('GET', '/refusals')).json, { refusals: [] });
  assert.deepEqual(await keyed('run/1'), [200, null]);
  assert.deepEqual(
    service.events().map(({ seq }) => seq),
    [1],
  );
  await service.kill();
  const verified = await launch(['verify', service.data]).finished;
  assert.equal(verified.code, 0, verified.stderr);
});

test('what is read after a reset is only what was recorded after it', async (t) => {
  const service = await standIn(t);
  const assets = async () => {
    const { assets } = (await service.call('GET', '/assets')).json as { assets: { asset_key: string[] }[] };
    return assets.map(({ asset_key }) => asset_key.join('/'));
  };
  const events = async () => (await (await fetch(`${service.url}/events`)).text()).split('\n').length - 1;
  for (const keys of [['a', 'b', 'c'], ['d'], [], ['e', 'f', 'g', 'h']]) {
    for (const key of keys) await service.call('POST', `/report_asset_observation/${key}`);
    assert.deepEqual([await assets(), await events()], [keys, keys.length]);
    await service.call('POST', '/test/reset');
    assert.deepEqual([await assets(), await events()], [[], 0]);
  }
});

test('a stream of events gets a reset, and continues with the first event after it', async (t) => {
  const service = await standIn(t);
  await service.call('POST', '/report_asset_observation/before');
  const ending = new AbortController();
  t.after(() => ending.abort());
  const headers = { Accept: 'text/event-stream' };
  const reply = await fetch(`${service.url}/events?after_seq=0`, { headers, signal: ending.signal });
  assert.ok(reply.body !== null);
  let text = '';
  const reading = (async () => {
    for await (const piece of reply.body as ReadableStream<Uint8Array>) text += Buffer.from(piece).toString();
  })().catch(() => {});
  await eventually('the first event', () => text.includes('"before"'));
  await service.call('POST', '/test/reset');
  await service.call('POST', '/report_asset_observation/after');
  await eventually('the event after the reset', () => text.includes('"after"'));
  assert.match(text, /id: 1\nevent: .*"before".*event: reset\n.*id: 1\nevent: .*"after"/s);
  ending.abort();
  await reading;
});

test('reports that arrive during resets are all answered 200, and those after the last reset are recorded', async (t) => {
  const service = await standIn(t);
  const statuses: (number | string)[] = [];
  let resets = 0;
  const reporters = Array.from({ length: 4 }, async (_, n) => {
    for (let i = 0; resets < 12; i += 1)
      statuses.push(await statusOf(service, `/report_asset_observation/r/${n}/${i}`));
  });
  for (; resets < 12; resets += 2) {
    const pair = await Promise.all([service.call('POST', '/test/reset'), service.call('POST', '/test/reset')]);
    assert.deepEqual(
      pair.map(({ status }) => status),
      [200, 200],
    );
  }
  await Promise.all(reporters);
  assert.ok(statuses.length > 12 && statuses.every((status) => status === 200), `${statuses}`);
  assert.equal((await service.call('POST', '/test/reset')).status, 200);
  await Promise.all([1, 2, 3].map((n) => service.call('POST', `/report_asset_observation/after/${n}`)));
  assert.deepEqual(
    service.events().map(({ seq }) => seq),
    [1, 2, 3],
  );
});

test('a fault meets the reports that match, as often as it says, and leaves readings alone', async (t) => {
  const service = await standIn(t);
  await service.faults(
    fault({ type: 'check', asset_key: ['warehouse', 'orders'] }, { status: 503, retry_after: 4 }, { times: 2 }),
    fault({ partition: null, method: 'POST' }, { status: 429, body: { slow: 'down' } }, { after: 1 }),
    fault({ check_name: 'fresh' }, { status: 502, html: true }),
  );
  const check = '/report_asset_check/warehouse/orders?passed=true&check_name=';
  const first = await report(service, `${check}no_nulls`);
  assert.ok(typeof first !== 'string');
  assert.deepEqual([first.status, first.headers.get('retry-after')], [503, '4']);
  assert.match(errorOf(first), /set to answer 503/);
  assert.equal(await statusOf(service, `${check}no_nulls&partition=p`), 503);
  assert.equal(await statusOf(service, `${check}no_nulls`), 200, 'used up, and the first of the second');
  const third = await report(service, `${check}no_nulls`);
  assert.ok(typeof third !== 'string');
  assert.deepEqual([third.status, third.body], [429, '{"slow":"down"}']);
  const fourth = await report(service, `${check}fresh&partition=p`);
  assert.ok(typeof fourth !== 'string');
  assert.deepEqual([fourth.status, fourth.headers.get('content-type')], [502, 'text/html']);
  assert.match(fourth.body, /<h1>502/);
  assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
  assert.equal(await statusOf(service, '/report_asset_check/a'), 400, 'not a report');
  assert.deepEqual(await service.met(), [2, 1, 1]);
  assert.equal(service.events().length, 1);
  assert.equal(service.stderr().match(/"message":"a report met a fault"/g)?.length, 4);
  assert.equal((await service.call('DELETE', '/test/faults')).status, 200);
  assert.equal(await statusOf(service, `${check}fresh&partition=p`), 200);
});

test('--exit-with-stdin stops a service when its standard input is closed', async (t) => {
  const { child, finished } = launch(['serve', '--test', '--port', '0', '--exit-with-stdin'], { openInput: true });
  t.after(() => child.kill('SIGKILL'));
  const [ready] = (await once(child.stdout as NonNullable<typeof child.stdout>, 'data')) as [string];
  const port = Number(/:(\d+)/.exec(String(ready))?.[1]);
  const open = connect({ port, host: '127.0.0.1' });
  await once(open, 'connect');
  open.destroy();
  child.stdin?.end();
  const { code, stderr } = await finished;
  assert.equal(code, 0, stderr);
  assert.match(stderr, /standard input is closed/);
  const [, data = ''] = /"data":"([^"]+)"/.exec(stderr) ?? [];
  assert.equal(existsSync(join(data, 'events-00000000000000000001.jsonl')), false);
});

test('--strict refuses a report with an unknown parameter, and without it the parameter is ignored', async (t) => {
  for (const args of [['--strict'], ['--test']]) {
    const strict = await standIn(t, args);
    const reply = await report(strict, '/report_asset_observation/a?colour=red&partitoin=1');
    assert.ok(typeof reply !== 'string');
    assert.equal(reply.status, 400);
    assert.equal(errorOf(reply), 'a report of kind observation has no "partitoin"; did you mean partition?');
    assert.equal(await statusOf(strict, '/report_asset_observation', '{"asset_key":"a","uri":"x"}'), 400);
    assert.deepEqual(strict.events(), []);
  }
  const lenient = await standIn(t, []);
  assert.equal(await statusOf(lenient, '/report_asset_observation/a?colour=red'), 200);
});

test('what the client sees and what the journal has are as the fault says, for each effect and recorded or not [test-mode-1]', async (t) => {
  const service = await standIn(t);
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
  await service.kill();
  assert.equal((await launch(['verify', service.data]).finished).code, 0);
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

test('a request that a fault drops is reset while its body is uploaded', async (t) => {
  const service = await standIn(t);
  await service.faults(fault({ type: 'materialization' }, { drop: 'request' }, { times: 1 }));
  const socket = connect({ port: service.port, host: '127.0.0.1' });
  const head = ['POST /report_asset_materialization/a HTTP/1.1', 'Host: localhost', 'Content-Type: application/json'];
  socket.write(`${head.join('\r\n')}\r\nContent-Length: 1000000\r\n\r\n{"asset_key":`);
  const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
  assert.equal(error.code, 'ECONNRESET');
  assert.deepEqual(await service.met(), [1]);
  assert.equal(await statusOf(service, '/report_asset_materialization/a'), 200);
});

test('a reply that is cut off comes after the replies to earlier requests of its connection, and ends it', async (t) => {
  const service = await standIn(t);
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

test('a delayed report is recorded before its reply, which a reset or the end of its client sends at once', async (t) => {
  const service = await standIn(t);
  await service.faults(fault({ asset_key: 'late' }, { delay_ms: 250_000 }), fault({}, { delay_ms: [200, 200] }));
  const startedMs = performance.now();
  assert.equal(await statusOf(service, '/report_asset_observation/soon'), 200);
  assert.ok(performance.now() - startedMs >= 199);
  const wire = await Wire.open(service.port);
  t.after(() => wire.close());
  wire.send(post('/report_asset_observation/late'));
  while (service.events().length < 2) await sleep(5);
  const gone = await Wire.open(service.port);
  gone.send(post('/report_asset_observation/late'));
  while (service.events().length < 3) await sleep(5);
  gone.close();
  assert.equal((await service.call('POST', '/test/reset')).status, 200);
  assert.equal((await wire.reply())?.status, 200);
  await service.faults(fault({}, { delay_ms: 250_000 }));
  wire.send(post('/report_asset_observation/late'));
  while (service.events().length < 1) await sleep(5);
  const { code } = await service.kill('SIGTERM');
  assert.equal(code, 0);
  assert.equal((await wire.reply())?.status, 200, 'a stop sends it');
});

test('no reading meets a fault, nor does a report that is wrong', async (t) => {
  const service = await standIn(t);
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

test('a batch meets a fault as a whole', async (t) => {
  const service = await standIn(t);
  const items = ['a', 'b'].map((key) => ({ type: 'observation', asset_key: key }));
  const batch = () => statusOf(service, '/report_asset_batch', JSON.stringify(items));
  await service.faults(
    fault({ asset_key: 'b' }, { status: 503 }, { times: 1 }),
    fault({ asset_key: 'c' }, { status: 500 }),
  );
  assert.deepEqual([await batch(), await batch()], [503, 200]);
  assert.deepEqual(service.keys(), [['a'], ['b']]);
  await service.faults(fault({}, { drop: 'reply' }));
  assert.equal(await batch(), 'closed');
  assert.equal(service.events().length, 4);
});

test('as the reference: the second report of a check with a partition is 500, recorded, and its connection is closed', async (t) => {
  const service = await standIn(t);
  await service.faults(fault({}, { as: 'reference' }));
  const check = '/report_asset_check/a?check_name=fresh&passed=true';
  const wire = await Wire.open(service.port);
  wire.send(post(`${check}&partition=p`));
  assert.equal((await wire.reply())?.status, 200);
  wire.send(post(`${check}&partition=p`));
  const reply = await wire.reply();
  assert.deepEqual([reply?.status, reply?.body], [500, 'Internal Server Error']);
  assert.equal(reply?.headers.get('content-type'), 'text/plain; charset=utf-8');
  assert.equal(reply?.headers.get('connection'), 'keep-alive', 'the reference does not announce the end');
  assert.ok(await wire.ends());
  assert.deepEqual([await statusOf(service, check), await statusOf(service, check)], [200, 200]);
  assert.equal(service.events().length, 4);
});

test('the reference answers a second report of a check as the fault does', { skip }, async (t) => {
  const service = await standIn(t);
  await service.faults(fault({}, { as: 'reference' }));
  const reference = await startReference(t, executable as string);
  const seen = await Promise.all(
    [reference.port, service.port].map(async (port) => {
      const wire = await Wire.open(port);
      const seen: unknown[] = [];
      for (const partition of ['p', 'q', 'p']) {
        wire.send(post(`/report_asset_check/a?check_name=fresh&passed=true&partition=${partition}`));
        const reply = await wire.reply();
        seen.push([reply?.status, reply?.headers.get('content-type'), reply?.body]);
      }
      seen.push(await wire.ends());
      return seen;
    }),
  );
  assert.deepEqual(seen[0], seen[1]);
  assert.deepEqual(seen[1]?.slice(2), [[500, 'text/plain; charset=utf-8', 'Internal Server Error'], true]);
});

test('assetlog report loses and doubles nothing, whatever fault its requests meet', async (t) => {
  const service = await standIn(t);
  const once = (effect: object) => fault({}, effect, { times: 1 });
  await service.faults(once({ drop: 'reply' }), once({ status: 502, recorded: true }), once({ drop: 'request' }));
  const single = await launch(['report', 'observation', 'single', '--url', service.url]).finished;
  assert.equal(single.code, 0, single.stderr);
  assert.deepEqual([await service.met(), service.keys()], [[1, 1, 1], [['single']]]);
  await service.faults(once({ drop: 'half' }), once({ status: 503, html: true }), once({ drop: 'reply' }));
  const lines = Array.from({ length: 60 }, (_, n) => JSON.stringify({ type: 'observation', asset_key: `k${n}` }));
  const many = await launch(['report', '--from', '-', '--url', service.url], { input: `${lines.join('\n')}\n` })
    .finished;
  assert.equal(many.code, 0, many.stderr);
  assert.deepEqual(await service.met(), [1, 1, 1]);
  assert.deepEqual(
    service.keys().slice(1),
    lines.map((_, n) => [`k${n}`]),
  );
});

test('the retries of urllib3 double a report whose reply is lost, unless it has a key', {
  skip: noRequests,
}, async (t) => {
  const service = await standIn(t);
  const script = `
import sys, requests, urllib3
session = requests.Session()
retry = urllib3.util.Retry(total=4, status_forcelist=[503], allowed_methods=None, backoff_factor=0.01)
session.mount('http://', requests.adapters.HTTPAdapter(max_retries=retry))
headers = {'Idempotency-Key': sys.argv[3]} if len(sys.argv) > 3 else {}
print(session.post(sys.argv[1] + '/report_asset_observation/' + sys.argv[2], headers=headers).status_code)
`;
  const python = (...args: readonly string[]) =>
    execFileSync('python3', ['-c', script, service.url, ...args], NO_PROXY);
  const faults = [fault({}, { status: 503, retry_after: 1 }, { times: 1 }), fault({}, { drop: 'reply' }, { times: 1 })];
  await service.faults(...faults);
  const startedMs = performance.now();
  assert.equal(python('plain'), '200\n');
  assert.ok(performance.now() - startedMs >= 1000, 'it waits as Retry-After says');
  assert.deepEqual(
    [await service.met(), service.keys()],
    [
      [1, 1],
      [['plain'], ['plain']],
    ],
  );
  await service.faults(...faults);
  assert.equal(python('keyed', 'run/1'), '200\n');
  assert.deepEqual([await service.met(), service.keys().slice(2)], [[1, 1], [['keyed']]]);
});

test('wrong faults are refused with the path of the member, and the old ones stay', async (t) => {
  const service = await standIn(t);
  await service.faults(fault({}, { status: 503 }));
  const { status, json } = await service.call('PUT', '/test/faults', {
    faults: [fault({ typ: 'check' }, { status: 503 })],
  });
  assert.deepEqual([status, json['error']], [400, 'faults[0].match.typ is unknown; did you mean type?']);
  assert.equal((await service.call('PUT', '/test/faults')).status, 400);
  assert.equal((await service.call('PUT', '/test/faults', [])).status, 400);
  assert.equal((await service.call('POST', '/test/faults', {})).status, 405);
  const page = await fetch(`${service.url}/test/reset`, { method: 'POST', headers: { Origin: 'https://a.example' } });
  assert.equal(page.status, 403, 'no web page can reset');
  assert.equal(await statusOf(service, '/report_asset_observation/a'), 503);
  const shown = (await service.call('GET', '/test/faults')).json;
  assert.deepEqual(shown, { seed: 7, reports: 1, faults: [{ ...fault({}, { status: 503 }), matched: 1, met: 1 }] });
});
