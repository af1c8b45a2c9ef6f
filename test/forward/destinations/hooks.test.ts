/** Hooks of services over real sockets: what each answer leads to, what is sent if an event is too long, and circles. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits as standardLimits } from '../../../src/config/limits.ts';
import { openHook } from '../../../src/forward/destinations/plain.ts';
import { leadsTo } from '../../../src/service/listening.ts';
import { StartError } from '../../../src/service/start-error.ts';
import { deadLettersIn, forwardFile, QUICK, stateIn } from '../../support/forwarded.ts';
import { eventsIn, freePort, newFolder, type Scope } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { linesOf } from '../../support/sent-lines.ts';
import { type Served, serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import type { Scripted } from '../../world/http.ts';
import { type Got, startScripted } from '../../world/http-server.ts';

const NAME = 'failed-checks';
const limits = { ...QUICK, hookFailingMs: 100 };

const fail = (service: { readonly url: string }, key = 'a', metadata?: object) =>
  record(service, `check/${key}?check_name=c&passed=false`, metadata && { body: { metadata } });

const keyOf = ({ body }: Got) => JSON.parse(body).asset_key[0] as string;

/** A service whose failed checks a server gets, which answers by their keys. */
async function startHooked(t: Scope, answer: (got: Got, count: number) => Scripted) {
  const { url, got } = await startScripted(t, answer);
  const service = await serve(t, { args: ['--on-failed-check', `${url}/alarms`], limits });
  return { service, got, letters: () => deadLettersIn(service.data, NAME) };
}

test('an event that gets 500, 502 or 504 for long is given up, and one that gets 408, 429 or 503 is not', async (t) => {
  const firstMs = new Map<number, number>();
  const triesOf = (status: number) => got.filter((one) => keyOf(one) === `${status}`).length;
  const { service, got, letters } = await startHooked(t, (one) => {
    const status = Number(keyOf(one));
    const nowMs = performance.now();
    if (!firstMs.has(status)) firstMs.set(status, nowMs);
    const isLong = triesOf(status) > 4 && nowMs - firstMs.get(status)! > 3 * limits.hookFailingMs;
    return isLong && !failures.includes(status) ? [200, 'ok'] : [status, 'oops'];
  });
  const failures = [500, 502, 504];
  for (const status of [503, ...failures, 408, 429]) await fail(service, `${status}`);
  await fail(service, '200');
  await eventually('the last one is posted', () => triesOf(200) === 1);
  assert.deepEqual(
    letters().map(({ outcome, status, line }) => [outcome, status, line?.['seq']]),
    [
      ['in doubt', 500, 2],
      ['in doubt', 502, 3],
      ['in doubt', 504, 4],
    ],
  );
});

test('an event that gets 413 is sent once more without its metadata, and one below the limit with it', async (t) => {
  const { service, got, letters } = await startHooked(t, (one) =>
    one.body.length > (keyOf(one) === 'never' ? 0 : 1_000) ? [413, 'too long'] : [200, 'ok'],
  );
  await fail(service, 'short', { a: 1 });
  await fail(service, 'long', { text: 'ü'.repeat(1_000) });
  for (let count = 0; count < 25; count += 1) await fail(service, 'never', { a: 1 });
  await fail(service, 'last');
  await eventually('the last one is posted', () => got.some((one) => keyOf(one) === 'last'));
  const lines = eventsIn(service.data);
  const bodiesOf = (key: string) => got.filter((one) => keyOf(one) === key).map(({ body }) => JSON.parse(body));
  assert.deepEqual(bodiesOf('short'), [lines[0]]);
  const { metadata, crc, ...rest } = lines[1]!;
  assert.deepEqual(bodiesOf('long'), [lines[1], { ...rest, metadata_bytes: 2_011 }]);
  const [first, second] = got.filter((one) => keyOf(one) === 'long').map(({ headers }) => headers['idempotency-key']);
  assert.equal(first, second);
  assert.equal(bodiesOf('never').length, 50, 'twice each');
  assert.deepEqual(
    letters().map(({ outcome, status }) => [outcome, status]),
    Array(25).fill(['refused', 413]),
  );
});

test('in hosted mode the repetition after a 413 also begins with the deployment, and waits for its turn', async (t) => {
  const { url, got } = await startScripted(t, (one) => (one.body.length > 400 ? [413, ''] : [200, '']));
  const options = { to: `hook+${url}`, source: '', tokenHeader: 'X', stamp: false, limits: standardLimits };
  const destination = openHook({ ...options, deployment: 'prod' });
  t.after(() => destination.close());
  const lines = linesOf([{ type: 'AssetObservation', assetKey: ['a'], metadata: `{"a":"${'x'.repeat(400)}"}` }]);
  let turns = 0;
  const turn = async () => {
    turns += 1;
  };
  const sent = await destination.send({ lines, lost: undefined, turn }, new AbortController().signal);
  assert.deepEqual([sent.kind, got.length, turns], ['recorded', 2, 1]);
  assert.match(got[1]!.body, /^\{"deployment":"prod","seq":1,.*,"metadata_bytes":408\}$/);
});

/** Services whose hooks report the failed checks of each to the next one, and those of the last to the first or to none. */
async function startRing(t: Scope, count: number, isCircle: boolean) {
  const ports: number[] = [];
  for (let at = 0; at < count; at += 1) ports.push(await freePort(t));
  return Promise.all(
    ports.map((port, at) => {
      const next = ports[at + 1] ?? (isCircle ? ports[0] : undefined);
      const hook = next === undefined ? [] : ['--on-failed-check', `http://127.0.0.1:${next}/report_asset_check/`];
      return serve(t, { args: ['--port', `${port}`, ...hook], limits });
    }),
  );
}

/** How many hooks each event of a service has passed. */
const passedIn = ({ data }: { readonly data: string }) =>
  eventsIn(data).map(({ idempotency_key: key = 'hook/0' }) => Number(`${key}`.split('/')[1]));

test('a circle of hooks ends after three rounds, and a chain of four services is not taken for one', async (t) => {
  const [a, b] = (await startRing(t, 2, true)) as [Served, Served];
  await fail(a);
  await eventually('a warning', () => b.notices.some((line) => /too many hooks/.test(line)));
  assert.deepEqual(
    [passedIn(a), passedIn(b)],
    [
      [0, 2],
      [1, 3],
    ],
  );
  const [first, second] = [eventsIn(a.data)[0]!, eventsIn(b.data)[0]!];
  assert.equal(second['idempotency_key'], `hook/1/${first['id']}`);
  await fail(b, 'b');
  await eventually('another one', () => a.notices.some((line) => /too many hooks/.test(line)));
  assert.deepEqual(
    [passedIn(a), passedIn(b)],
    [
      [0, 2, 1, 3],
      [1, 3, 0, 2],
    ],
  );

  const chain = await startRing(t, 4, false);
  for (const key of ['a', 'b', 'c']) await fail(chain[0]!, key);
  await eventually('the last one has them', () => eventsIn(chain[3]!.data).length === 3);
  for (const [at, service] of chain.entries()) assert.deepEqual(passedIn(service), [at, at, at]);
  assert.ok(!chain.some(({ notices }) => /too many hooks/.test(notices.join())));
});

test('a hook with the URL of its own service ends the start with 2, and is refused at a reload', async (t) => {
  const port = await freePort(t);
  const itself = (url: string) => `posts to ${url}, which is this service itself; give it another URL`;
  const args = ['--port', `${port}`, '--on-failed-check', `http://localhost:${port}/report_asset_check/`];
  await assert.rejects(serve(t, { args }), (error) => {
    assert.ok(error instanceof StartError);
    assert.deepEqual([error.exitCode, error.message], [2, `the hook ${NAME} ${itself(`http://localhost:${port}`)}`]);
    return true;
  });
  const forward = join(newFolder(t), 'forward.json');
  forwardFile(forward);
  const service = await serve(t, { args: ['--forward', forward] });
  forwardFile(forward, { name: 'team', to: `hook+${service.url}/report_asset_check/` });
  await service.reload();
  assert.match(service.notices.at(-1)!, new RegExp(`forward.json, line 1: the hook team ${itself(service.url)}`));
  assert.equal(stateIn(service.data, 'team'), undefined);
  forwardFile(forward, { name: 'team', to: `hook+http://127.0.0.2:${service.port}` });
  await service.reload();
  assert.match(service.notices.join(), /the destinations were read again/);
});

test('a URL that leads to the service itself is recognized', () => {
  const own = 'http://127.0.0.1:3000';
  const table: readonly (readonly [string, address: string, boolean])[] = [
    [own, '127.0.0.1', true],
    ['http://127.1:3000/x', '127.0.0.1', true],
    ['https://127.0.0.1:3000', '127.0.0.1', true],
    ['http://localhost:3000', '127.0.0.1', true],
    ['http://localhost:3000', '::1', true],
    ['http://0.0.0.0:3000', '127.0.0.1', true],
    ['http://named.example:3000', '127.0.0.1', true],
    ['http://[::1]:3000', '::1', true],
    ['http://[0:0::1]:3000', '::', true],
    [own, '0.0.0.0', true],
    [own, '::', true],
    ['http://127.0.0.9:3000', '0.0.0.0', true],
    ['http://10.0.0.5:3000', '10.0.0.5', true],
    ['http://127.0.0.1:3001', '127.0.0.1', false],
    ['http://127.0.0.1', '127.0.0.1', false],
    ['http://127.0.0.2:3000', '127.0.0.1', false],
    ['http://[::1]:3000', '127.0.0.1', false],
    ['http://[::1]:3000', '0.0.0.0', false],
    ['http://localhost:3000', '10.0.0.5', false],
    ['http://other.example:3000', '0.0.0.0', false],
    ['http://192.0.2.1:3000', '0.0.0.0', false],
  ];
  for (const [url, address, expected] of table)
    assert.equal(leadsTo(new URL(url), { address, port: 3000 }, ['named.example']), expected, `${url} at ${address}`);
  assert.ok(leadsTo(new URL('http://127.0.0.1/'), { address: '127.0.0.1', port: 80 }, []));
  assert.ok(leadsTo(new URL('https://[::1]/'), { address: '::1', port: 443 }, []));
  assert.ok(leadsTo(new URL('http://[::1]/'), { address: '127.0.0.1', alsoAddress: '::1', port: 80 }, []));
});
