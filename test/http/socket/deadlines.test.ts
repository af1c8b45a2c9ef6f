/** When the deadlines of connections are looked at, over real sockets. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Limits, limits } from '../../../src/config/limits.ts';
import { createRawServer, takeTimeouts } from '../../../src/http/socket/node-classes.ts';
import { connectionsOf } from '../../support/metrics.ts';
import { serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { errorOf, get, post, Wire } from '../../support/wire.ts';

const LIVE = get('/livez');
/** No other timer has the interval of the looks. */
const LIMITS: Partial<Limits> = { headersMs: 200, requestMs: 3_600_000, deadlineCheckMs: 23, discardMs: 100 };

/** Counts the looks that are planned at the interval. */
function countLooks(t: TestContext): { readonly looks: number } {
  const counted = { looks: 0 };
  const { setTimeout: begin, setInterval: repeat } = globalThis;
  const count = (ms: number | undefined) => {
    if (ms === LIMITS.deadlineCheckMs) counted.looks += 1;
  };
  t.mock.method(globalThis, 'setTimeout', (...given: Parameters<typeof begin>) => {
    count(given[1]);
    return begin(...given);
  });
  t.mock.method(globalThis, 'setInterval', (run: () => void, ms?: number) => {
    return repeat(() => {
      count(ms);
      run();
    }, ms);
  });
  return counted;
}

/** @returns a connection with one answered request. On a busy machine a new one can get 408 before its first bytes are read */
async function openAnswered(port: number): Promise<Wire> {
  for (;;) {
    const wire = await Wire.open(port);
    wire.send(LIVE);
    const reply = await wire.reply();
    if (reply?.status === 200) return wire;
    assert.equal(reply?.status, 408);
  }
}

/** Resolves when the looks have ended. */
async function looksEnd(counted: { readonly looks: number }): Promise<void> {
  await eventually('no look is planned', async () => {
    const before = counted.looks;
    await sleep(10 * LIMITS.deadlineCheckMs!);
    return counted.looks === before;
  });
}

test('deadlines are not checked without a connection, nor before the next one is near', async (t) => {
  const counted = countLooks(t);
  const { port } = await serve(t, { limits: { ...LIMITS, idleMs: 3_600_000 } });
  await sleep(200);
  assert.equal(counted.looks, 0, 'before the first connection');
  const wire = await openAnswered(port);
  assert.ok(counted.looks > 0);
  await looksEnd(counted);
  const before = counted.looks;
  wire.send(LIVE);
  assert.equal((await wire.reply())?.status, 200);
  await eventually('a request begins the looks again', () => counted.looks > before);
  await looksEnd(counted);
  const idle = counted.looks;
  wire.close();
  await sleep(200);
  assert.ok(counted.looks <= idle + 1, 'after the last connection');
});

test('a connection whose deadlines are not being checked still gets 408 for a part of a request or of a body', async (t) => {
  const counted = countLooks(t);
  const body = post('/report_asset_materialization/a', '{"description":"x"}').slice(0, -3);
  for (const [part, timeouts, error] of [
    ['GET /livez HT', {}, /^the request took too long/],
    [body, { requestMs: 400 }, /^the body took too long/],
  ] as const) {
    const { port } = await serve(t, { limits: { ...LIMITS, idleMs: 3_600_000, ...timeouts } });
    const wire = await openAnswered(port);
    await looksEnd(counted);
    wire.send(part);
    const reply = await wire.reply();
    assert.deepEqual([reply?.status, reply?.headers.get('connection')], [408, 'close'], part);
    assert.match(errorOf(reply), error);
    assert.ok(await wire.ends());
    const silent = await Wire.open(port); // the first request is due as well
    assert.equal((await silent.reply())?.status, 408);
  }
});

test('an idle connection ends at its timeout, although its deadline was not checked before', async (t) => {
  const counted = countLooks(t);
  const service = await serve(t, { limits: { ...LIMITS, idleMs: 1_500 } });
  const wires = [await openAnswered(service.port), await openAnswered(service.port)];
  const before = counted.looks;
  for (const wire of wires) assert.ok(await wire.ends());
  // On a busy machine there are fewer looks, never more.
  const most = 1_500 / LIMITS.deadlineCheckMs!;
  assert.ok(counted.looks - before < most / 2, 'the next look is at the end');
  await eventually('only the connection that asks', async () => (await connectionsOf(service)) === 1);
});

test('Node checks the timeouts of requests only on demand', async (t) => {
  const server = createRawServer({ ...limits, deadlineCheckMs: 5 });
  let checks = 0;
  // Each check reads it.
  Object.defineProperty(server, 'headersTimeout', {
    get: () => {
      checks += 1;
      return limits.headersMs;
    },
  });
  server.listen(0);
  t.after(() => server.close());
  await once(server, 'listening');
  const check = takeTimeouts(server);
  checks = 0;
  await sleep(100);
  assert.equal(checks, 0);
  check?.();
  assert.ok(checks > 0);
});
