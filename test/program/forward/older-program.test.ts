/**
 * A device and a hub whose programs change at each start between version 0.2.0 and this one, and that are killed at any moment: each
 * program reads the cursors, dead letters, states and retries of the other one, and what a hub keeps of its sources.
 */

import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  assertAtHub,
  deadLettersIn,
  forwardFile,
  forwardStatus,
  reachesHub,
  sourceIn,
} from '../../support/forwarded.ts';
import { rounds } from '../../support/long.ts';
import { release020 } from '../../support/older-program.ts';
import { eventsIn, newFolder, type Running, run, startService } from '../../support/program.ts';
import { eventually } from '../../support/tools.ts';
import { startPlainUpstream } from '../../world/plain-server.ts';
import type { PlainEvent } from '../../world/plain-upstream.ts';

const CHECK = JSON.stringify({ check_name: 'c', passed: true });

/** Reports one event after the other until the service does not answer. @returns the keys that got a 200 */
async function reportUntilKilled({ url }: Running, round: number): Promise<string[]> {
  const keys: string[] = [];
  for (let count = 0; ; count += 1) {
    const key = `${count % 5 === 4 ? 'refused' : 'taken'}-${round}-${count}`;
    const headers = { 'Content-Type': 'application/json' };
    const reply = await fetch(`${url}/report_asset_check/${key}`, { method: 'POST', headers, body: CHECK }).catch(
      () => {},
    );
    if (reply === undefined) return keys;
    if (reply.status === 200) keys.push(key);
    await sleep(2);
  }
}

const keyOf = ({ asset_key }: Record<string, unknown>) => `${asset_key}`;
const isRefused = ({ key }: PlainEvent) => `${key}`.startsWith('refused');

const statusOf = async (device: string, options = {}): Promise<readonly unknown[]> =>
  JSON.parse((await run(['forward', 'status', '--json', '--data', device], options)).stdout).destinations;

test('programs of 0.2.0 and of this version, killed at any moment, continue the forwarding of the other one', {
  skip: release020.isMissing,
}, async (t) => {
  const older = [process.execPath, await release020.build(t)];
  const upstream = await startPlainUpstream(t);
  upstream.answer = (event) => (isRefused(event) ? [400, '{"error":"no"}'] : undefined);
  const [device, hub, file] = [newFolder(t), newFolder(t), join(newFolder(t), 'forward.json')];
  const startHub = (isOlder: boolean) => startService(t, { data: hub, ...(isOlder && { program: older }) });
  const startDevice = (to: string, isOlder: boolean) => {
    forwardFile(file, { name: 'hub', to }, { name: 'plain', to: upstream.url });
    return startService(t, { data: device, args: ['--forward', file], ...(isOlder && { program: older }) });
  };
  const acknowledged: string[] = [];
  const count = rounds({ long: 24, short: 4 });
  for (let round = 0; round < count; round += 1) {
    // Device and hub change their programs, so that all four pairs and all eight changes are met.
    const [isOlderDevice, isOlderHub] = [round % 2 === 0, round % 4 < 2];
    const above = await startHub(isOlderHub);
    const below = await startDevice(above.url, isOlderDevice);
    const reporting = reportUntilKilled(below, round);
    // On a busy machine the first ones would be killed before they have written anything about the destinations.
    if (round === 0) await eventually('both destinations are known', async () => (await statusOf(device)).length === 2);
    await sleep(randomInt(50, 600));
    if (round % 3 === 2) {
      const command = ['forward', 'retry', 'plain', '--data', device];
      void run(command, isOlderDevice ? {} : { program: older }).catch(() => {}); // of the other program; it dies with the device
    }
    await sleep(randomInt(0, 300));
    await (round % 2 === 0 ? above : below).kill('SIGKILL');
    await sleep(randomInt(0, 100));
    await (round % 2 === 0 ? below : above).kill('SIGKILL');
    acknowledged.push(...(await reporting));
    for (const options of [{ program: older }, {}]) {
      assert.equal((await statusOf(device, options)).length, 2);
    }
  }

  const above = await startHub(false);
  const below = await startDevice(above.url, false);
  const last = eventsIn(device).length;
  await reachesHub(above, device, last);
  await eventually(
    'the plain destination is settled',
    async () => (await forwardStatus(device, 'plain')).lag_events === 0,
  );
  const own = eventsIn(device);
  const kept = new Set(own.map(keyOf));
  assert.deepEqual(
    acknowledged.filter((key) => !kept.has(key)),
    [],
    'each acknowledged event is in the journal',
  );
  assertAtHub(hub, device);
  assert.deepEqual(deadLettersIn(device, 'hub'), []);
  const named = new Map<string, Set<string>>();
  for (const { line, outcome } of deadLettersIn(device, 'plain')) {
    const key = keyOf(line ?? {});
    named.set(key, (named.get(key) ?? new Set()).add(outcome));
  }
  const taken = new Map<string, number>();
  for (const { key } of upstream.events) taken.set(`${key}`, (taken.get(`${key}`) ?? 0) + 1);
  for (const key of kept) {
    const times = taken.get(key) ?? 0;
    assert.ok(
      times === 1 || named.has(key),
      `${key} is ${times} times at the plain destination, and no dead letter says so`,
    );
    if (times > 1) assert.ok(named.get(key)!.has('in doubt'), `${key} is there ${times} times`);
  }
  for (const options of [{ program: older }, {}]) {
    const listed = await run(['sources', '--json', '--data', hub], options);
    assert.match(listed.stdout, new RegExp(`"${sourceIn(device)}"`), listed.stderr);
  }
  assert.equal((await run(['verify', '--data', hub], { program: older })).code, 0);
  await below.kill();
  await above.kill();
});
