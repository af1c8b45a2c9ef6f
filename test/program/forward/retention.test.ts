/** The limits of retention while the link to a destination is gone: reports are refused, or unsent events removed. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type CuttingProxy, startCuttingProxy, uncut } from '../../support/cutting-proxy.ts';
import { type Running, startService } from '../../support/program.ts';
import { eventually } from '../../support/tools.ts';
import { ask, errorOf, post } from '../../support/wire.ts';

interface Link {
  readonly hub: Running;
  readonly proxy: CuttingProxy;
  isUp: boolean;
}

/** A hub, and a link to it that is down at first. */
async function startHub(t: TestContext): Promise<Link> {
  const hub = await startService(t);
  const link = { hub, isUp: false };
  const cutOf = () => (link.isUp ? uncut : { requestBytes: 0, replyBytes: 0 });
  return Object.assign(link, { proxy: await startCuttingProxy(t, hub.port, cutOf) });
}

async function report(port: number, number: number): Promise<{ status: number; error: string }> {
  const reply = await ask(
    port,
    post(`/report_asset_observation/a/${number}`, `{"description":"${'x'.repeat(1_000)}"}`),
  );
  return { status: reply.status ?? 0, error: reply.status === 200 ? '' : errorOf(reply) };
}

/** Reports until one is refused. @returns how many were recorded, and the reason */
async function fill(port: number): Promise<{ count: number; error: string }> {
  for (let count = 0; count < 200; count += 1) {
    const { status, error } = await report(port, count + 1);
    if (status !== 200) return { count, error };
  }
  throw new Error('nothing was refused');
}

function assetsIn(data: string): string[] {
  return readdirSync(data)
    .filter((name) => name.endsWith('.jsonl') && name.startsWith('events-'))
    .sort()
    .flatMap((name) => readFileSync(join(data, name), 'utf8').trim().split('\n'))
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line).asset_key.join('/'));
}

function retainArgs({ proxy }: Link, bytes: number): string[] {
  return ['--retain-bytes', `${bytes}`, '--segment-bytes', '5000', '--forward-to', proxy.url];
}

test('at the limit of retention, reports are refused until the destination has the oldest events, also after a crash [forward-retention-1]', async (t) => {
  const link = await startHub(t);
  const args = retainArgs(link, 20_000);
  const crashing = await startService(t, { args });
  const { count, error } = await fill(crashing.port);
  assert.match(error, /^the destination upstream has not received event 1 yet; /);
  const ready = await ask(crashing.port, 'GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  assert.equal(ready.status, 503);
  assert.match(ready.body, /the destination upstream has not received event 1 yet/);
  await crashing.kill('SIGKILL');
  const device = await startService(t, { args, data: crashing.data });
  assert.match(
    (await report(device.port, 0)).error,
    /has not received event 1 yet/,
    'nor by the first report of a start',
  );
  assert.equal(assetsIn(device.data).length, count, 'nothing is removed');
  link.isUp = true;
  await eventually('reports are recorded again', async () => (await report(device.port, count + 1)).status === 200);
  await eventually('the hub has all', () => assetsIn(link.hub.data).length === count + 1);
  const expected = Array.from({ length: count + 1 }, (_, at) => `a/${at + 1}`);
  assert.deepEqual(assetsIn(link.hub.data), expected, 'each once and in order');
  assert.ok(!existsSync(join(device.data, 'events-00000000000000000001.jsonl')));
});

test('with --when-behind remove, unsent events are removed and named in the dead letters', async (t) => {
  const link = await startHub(t);
  const device = await startService(t, { args: [...retainArgs(link, 20_000), '--when-behind', 'remove'] });
  for (let number = 1; number <= 40; number += 1) assert.equal((await report(device.port, number)).status, 200);
  const letters = () => {
    const file = join(device.data, 'dead-upstream.jsonl');
    return existsSync(file)
      ? readFileSync(file, 'utf8')
          .trim()
          .split('\n')
          .map((line): { outcome: string; became?: string; first: number; last: number } => JSON.parse(line))
      : [];
  };
  await eventually('events were removed', () => readdirSync(device.data).some((name) => name.endsWith('.removed')));
  link.isUp = true;
  await eventually('the hub has the last', () => assetsIn(link.hub.data).at(-1) === 'a/40');
  const sent = assetsIn(link.hub.data).map((key) => Number(key.slice(2)));
  const named = new Set<number>();
  for (const { outcome, became, first, last } of letters()) {
    assert.equal(outcome, 'removed');
    // An event that was on its way when it was named is taken after all.
    for (let seq = first; seq <= last; seq += 1) became === 'taken' ? named.delete(seq) : named.add(seq);
  }
  const all = Array.from({ length: 40 }, (_, at) => at + 1);
  assert.ok(named.size > 0 && sent.length > 0);
  assert.deepEqual([...named, ...sent], all, 'each event is at the hub or in the dead letters, once');
});

test('the files of a device say what they are, and a missing cursor is not taken for a new destination', async (t) => {
  const link = await startHub(t);
  link.isUp = true;
  const args = ['--forward-to', link.proxy.url];
  const device = await startService(t, { args });
  assert.equal((await report(device.port, 1)).status, 200);
  await eventually('the hub has it', () => assetsIn(link.hub.data).length === 1);
  await device.kill('SIGKILL');
  const names = readdirSync(device.data);
  for (const name of ['.journal-id', '.forwarded-upstream', 'forward-upstream.cursor'])
    assert.ok(names.includes(name), name);
  writeFileSync(join(device.data, 'forward-upstream.cursor'), '');
  const again = await startService(t, { args, data: device.data });
  assert.equal((await report(again.port, 2)).status, 200);
  await eventually('the hub has both', () => assetsIn(link.hub.data).length === 2);
  assert.deepEqual(assetsIn(link.hub.data), ['a/1', 'a/2']);
});
