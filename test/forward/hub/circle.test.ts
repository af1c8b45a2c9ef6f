/** Services that forward to each other, in chains and in circles, and older ones among them: no event is anywhere twice. */

import assert from 'node:assert/strict';
import { cpSync, rmSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits as standardLimits } from '../../../src/config/limits.ts';
import { newIdentity } from '../../../src/forward/by-hand.ts';
import { openDisk } from '../../../src/journal/disk.ts';
import { sourceIn, stateIn } from '../../support/forwarded.ts';
import { rounds } from '../../support/long.ts';
import { release020, release030 } from '../../support/older-program.ts';
import { eventsIn, freePort, newFolder, type Scope, startService } from '../../support/program.ts';
import { named, ok, report } from '../../support/report.ts';
import { type Served, serve } from '../../support/service.ts';
import { eventually, HANG_MS } from '../../support/tools.ts';

const limits = { followMs: 5, forwardRetryMs: 5, forwardRetryMsMax: 50, forwardStoppedMs: 100, forwardLingerMs: 0 };

/** A folder and a port, on which a service may be started again, with other destinations and as another program. */
async function newSite(t: Scope) {
  const [data, port] = [newFolder(t), await freePort(t)];
  const url = `http://127.0.0.1:${port}`;
  let service: Pick<Served, 'stop'> | undefined;
  const ids = () => eventsIn(data).map(({ id }) => id);
  const stop = async () => {
    await service?.stop();
    service = undefined;
  };
  return {
    data,
    url,
    stop,
    count: () => ids().length,
    reload: async () => (service as Served).reload(),
    start: async (to?: { readonly url: string }, program?: readonly string[]) => {
      await stop();
      const args = ['--port', `${port}`, ...(to === undefined ? [] : ['--forward-to', to.url])];
      if (program === undefined) service = await serve(t, { data, args, limits });
      else {
        const { kill } = await startService(t, { data, args, program });
        service = { stop: async () => void (await kill()) };
      }
    },
    state: () => stateIn(data)?.['state'],
    reason: () => `${stateIn(data)?.['reason']}`,
    assertOnce: () => assert.equal(new Set(ids()).size, ids().length, `an event is twice in ${data}`),
  };
}

type Site = Awaited<ReturnType<typeof newSite>>;

const newSites = (t: Scope, count: number) => Promise.all(Array.from({ length: count }, () => newSite(t)));

async function reaches(count: number, ...sites: readonly Site[]): Promise<void> {
  for (const site of sites) await eventually(`${site.data} has ${count} events`, () => site.count() >= count, HANG_MS);
  await sleep(100);
  for (const site of sites) {
    site.assertOnce();
    assert.equal(site.count(), count, site.data);
  }
}

for (const count of [2, 3, 5].slice(0, rounds({ long: 3, short: 2 }))) {
  test(`in a circle of ${count} services each has each event once, and none is stopped`, async (t) => {
    const sites = await newSites(t, count);
    for (const [at, site] of sites.entries()) await site.start(sites[at + 1]);
    for (const site of sites) assert.deepEqual(await report(site, named('a', 5)), ok(5));
    await reaches(5 * count, sites.at(-1)!);
    await sites.at(-1)!.start(sites[0]);
    for (const site of sites) assert.deepEqual(await report(site, ['b']), [200]);
    await reaches(6 * count, ...sites);
    for (const site of sites) await eventually('nothing is left to do', () => site.state() === 'idle', HANG_MS);
    await sites[0]!.start(sites[1]);
    assert.deepEqual(await report(sites[0]!, ['c']), [200]);
    await reaches(6 * count + 1, ...sites);
  });
}

test('a new hub that has no event of a device is no warning there, and a hub that has lost its events is one', async (t) => {
  const [old, fresh] = await Promise.all([serve(t, { limits }), newSite(t)]);
  await fresh.start();
  const device = await serve(t, { limits, args: ['--forward-to', old.url] });
  assert.deepEqual(await report(device, named('a', 3)), ok(3));
  await eventually('the old hub has them', () => eventsIn(old.data).length === 3);
  await device.stop();
  const moved = await serve(t, { limits, data: device.data, args: ['--forward-to', fresh.url] });
  await reaches(3, fresh);
  const said = () => moved.notices.map((line) => JSON.parse(line)).filter(({ had }) => had === 3);
  const newHub = { level: 'info', message: 'the new hub has no event of this journal: all are sent' };
  assert.deepEqual(
    said().map(({ level, message }) => ({ level, message })),
    [newHub],
  );
  await fresh.stop();
  rmSync(fresh.data, { recursive: true });
  await fresh.start();
  assert.deepEqual(await report(moved, ['b']), [200]);
  await reaches(4, fresh);
  assert.deepEqual(
    said().map(({ level }) => level),
    ['info', 'warn'],
  );
});

test('a restored site gets its own events back from its devices, and the hub after it leaves out what it has', async (t) => {
  const [device, site, top] = (await newSites(t, 3)) as [Site, Site, Site];
  await top.start();
  await site.start(top);
  await device.start(site);
  assert.deepEqual(await report(device, named('a', 5)), ok(5));
  await reaches(5, site, top);
  await site.stop();
  const backup = newFolder(t);
  cpSync(site.data, backup, { recursive: true });
  await site.start(top);
  assert.deepEqual(await report(device, named('b', 5)), ok(5));
  await reaches(10, site, top);
  await site.stop();
  rmSync(site.data, { recursive: true });
  cpSync(backup, site.data, { recursive: true });
  await site.start(top);
  await eventually('it is stopped', () => site.state() === 'stopped');
  await site.stop();
  await newIdentity(openDisk(site.data), 6, standardLimits);
  await site.start(top);
  await device.reload();
  assert.deepEqual(await report(device, ['c']), [200]);
  await reaches(11, site, top);
  const { from, origin } = eventsIn(top.data).at(-1)!;
  assert.deepEqual(
    [from, origin],
    [
      [sourceIn(site.data), 11],
      [sourceIn(device.data), 11],
    ],
  );
});

test('a device with a new id that moves to a new hub before it has sent anything sends all its events there', async (t) => {
  const [device, old, fresh] = (await newSites(t, 3)) as [Site, Site, Site];
  await old.start();
  await device.start(old);
  assert.deepEqual(await report(device, named('a', 5)), ok(5));
  await reaches(5, old);
  await device.stop();
  await newIdentity(openDisk(device.data), 6, standardLimits);
  await fresh.start();
  await device.start(fresh);
  assert.deepEqual(await report(device, ['b']), [200]);
  await reaches(6, fresh);
  await device.start(old);
  await reaches(6, old);
});

const older = { '0.2.0': release020, '0.3.0': release030 };

for (const [version, { isMissing, build }] of Object.entries(older)) {
  test(`hubs and devices of ${version} can be upgraded in any order, and no event is lost or doubled`, {
    skip: isMissing,
  }, async (t) => {
    const program = [process.execPath, await build(t)];
    const orders = [
      ['top', 'site', 'device'],
      ['device', 'site', 'top'],
      ['site', 'device', 'top'],
    ] as const;
    for (const order of orders.slice(0, rounds({ long: 3, short: 1 }))) {
      const [device, site, top] = (await newSites(t, 3)) as [Site, Site, Site];
      const upgraded = new Set<string>();
      const startAll = async () => {
        await top.start(undefined, upgraded.has('top') ? undefined : program);
        await site.start(top, upgraded.has('site') ? undefined : program);
        await device.start(site, upgraded.has('device') ? undefined : program);
      };
      for (let round = 0; round <= 3; round += 1) {
        await startAll();
        assert.deepEqual(await report(device, named(`a${round}`, 5)), ok(5));
        await reaches(5 * (round + 1), site, top);
        const next = order[round];
        if (next !== undefined) upgraded.add(next);
      }
      for (const one of [site, top]) await one.stop();
      await site.start(top, program);
      await top.start(undefined, program);
      assert.deepEqual(await report(device, ['back']), [200]);
      await reaches(21, site, top);
      for (const one of [device, site, top]) await one.stop();
    }
  });

  test(`a line with an origin waits until a hub of ${version} is upgraded, and goes round a circle with it once at most`, {
    skip: isMissing,
  }, async (t) => {
    const program = [process.execPath, await build(t)];
    const [device, near, far, top] = (await newSites(t, 4)) as [Site, Site, Site, Site];
    await top.start(undefined, program);
    await far.start(top);
    await near.start(far);
    await device.start(near);
    assert.deepEqual(await report(device, named('a', 5)), ok(5));
    await reaches(5, near, far);
    await eventually('it is stopped', () => far.state() === 'stopped');
    assert.match(far.reason(), /^this hub is older than 0\.4; upgrade it, then forwarding continues$/);
    assert.equal(top.count(), 0);
    await top.start();
    await reaches(5, top);
    for (const one of [device, near, far, top]) await one.stop();

    const circle = (await newSites(t, 3)) as [Site, Site, Site];
    await circle[2].start(circle[0], program);
    await circle[0].start(circle[1]);
    await circle[1].start(circle[2]);
    for (const site of circle) assert.deepEqual(await report(site, named('a', 3)), ok(3));
    await sleep(1_500);
    for (const site of circle) await site.stop();
    for (const { data } of circle) {
      const counts = new Map<unknown, number>();
      for (const { id } of eventsIn(data)) counts.set(id, (counts.get(id) ?? 0) + 1);
      for (const [id, count] of counts) assert.ok(count <= 2, `${id} goes round: ${count} times in ${data}`);
    }
  });
}
