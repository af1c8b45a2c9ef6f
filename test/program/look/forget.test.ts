/** `assetlog assets forget`: ends the state of assets that are gone, beside a service and without one. */

import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { runHere } from '../../support/command-output.ts';
import { writeDeployments } from '../../support/deployments.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { newFolder, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { FIRST, timedEvents } from '../../support/segments.ts';

const observed = (key: string): PlainEvent => ({ type: 'AssetObservation', assetKey: key.split('/') });

/** @param events each with its age in hours, the oldest first */
function journal(t: TestContext, ...events: readonly (readonly [hours: number, key: string])[]): string {
  const data = newFolder(t);
  const timed = events.map(([hours, key]): [Date, PlainEvent] => [
    new Date(Date.now() - 3_600_000 * hours),
    observed(key),
  ]);
  writeFileSync(join(data, FIRST), timedEvents(timed));
  return data;
}

const OLD = [
  [100, 'tmp/a'],
  [90, 'tmp/b'],
  [80, 'w'],
  [1, 'tmp/b'],
] as const;

async function keysIn(data: string): Promise<string[]> {
  const { stdout } = await runHere(['assets', data, '--json']);
  return stdout.split('\n').flatMap((line) => (line === '' ? [] : JSON.parse(line).asset_key.join('/')));
}

test('without a service an asset is forgotten at once, and counted again from its next event', async (t) => {
  const data = journal(t, ...OLD);
  const forget = async (...args: string[]) => runHere(['assets', 'forget', '--data', data, ...args]);
  const stale = await forget('--key-prefix', 'tmp', '--stale', '2d');
  assert.deepEqual([stale.code, stale.stdout], [0, '1 asset is forgotten; its events stay\n']);
  assert.deepEqual(await keysIn(data), ['tmp/b', 'w']);
  for (const more of [['--failing'], ['--key-begins-with', 'tmp/b']]) {
    const { code, stderr } = await forget('--key-prefix', 'tmp', '--stale', '0s', ...more);
    assert.deepEqual([code, stderr.includes(`forget does not take ${more[0]}; leave it out`)], [2, true], stderr);
  }
  assert.equal((await forget('w')).code, 0);
  assert.deepEqual(await keysIn(data), ['tmp/b']);
  assert.equal((await runHere(['events', data, '--key', 'w'])).stdout.match(/"seq"/g)?.length, 1);
  const service = await startService(t, { data });
  await record(service, 'observation/w');
  const reply = await (await fetch(`${service.url}/assets?key_prefix=w`)).text();
  assert.match(reply, /^\{"assets":\[\{"asset_key":\["w"\],"alive":"[^"]+","observation":\{"count":1,"seq":5,/);
});

test('a running service forgets an asset, which stays forgotten after SIGKILL [forget-2]', async (t) => {
  const data = journal(t, ...OLD);
  const service = await startService(t, { data });
  const { code, stdout } = await runHere(['assets', 'forget', 'tmp/a', '--data', data]);
  assert.deepEqual([code, stdout], [0, '1 asset is forgotten; its events stay\n']);
  const shown = async (url: string) => (await (await fetch(`${url}/assets`)).text()).match(/"asset_key"/g)?.length;
  assert.equal(await shown(service.url), 2);
  assert.equal(readdirSync(data).includes('assets.forget'), false);
  assert.equal((await runHere(['assets', 'forget', 'w', '--data', data])).code, 0, 'without an event since');
  await service.kill('SIGKILL');
  assert.equal(await shown((await startService(t, { data })).url), 1);
  assert.deepEqual(await keysIn(data), ['tmp/b']);
});

test('in hosted mode an asset is forgotten in the folder of its deployment', async (t) => {
  const data = newFolder(t);
  const { args, tokenOf } = writeDeployments(t, ['prod']);
  const service = await startService(t, { data, args });
  const headers = { 'Service-Cloud-Api-Token': tokenOf('prod') };
  const post = (key: string) =>
    fetch(`${service.url}/prod/report_asset_observation/${key}`, { method: 'POST', headers });
  for (const key of ['a', 'b', 'c']) assert.equal((await post(key)).status, 200);
  const folder = join(data, 'prod');
  assert.equal((await runHere(['assets', 'forget', 'a', '--data', folder])).code, 0);
  assert.deepEqual(await keysIn(folder), ['b', 'c']);
});

test('a wrong call of forget changes nothing, and says what to give', async (t) => {
  const data = journal(t, ...OLD);
  for (const [args, problem] of [
    [['forget'], /give forget KEY, or forget with --key-prefix and --stale/],
    [['forget', 'w', '--key-prefix', 'w', '--stale', '1d'], /give forget KEY/],
    [['forget', '--key-prefix', 'w'], /give forget KEY/],
    [['forget', 'a//b'], /"a\/\/b" is not a key/],
    [['forget', 'w', '--url', 'http://127.0.0.1:1'], /leave --url out/],
    [['forget', 'nothing'], /has no such asset/],
  ] as const) {
    const { code, stderr } = await runHere(['assets', ...args, '--data', data]);
    assert.deepEqual([code, problem.test(stderr)], [2, true], `${args}: ${stderr}`);
  }
  const two = await runHere(['assets', data, 'other']);
  assert.deepEqual([two.code, /give one folder, or forget KEY/.test(two.stderr)], [2, true]);
  assert.deepEqual(readdirSync(data), [FIRST]);
});
