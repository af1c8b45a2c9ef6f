/** Services that forward to each other: a circle is stopped, a tree is not, and no event is anywhere twice. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits as standardLimits } from '../../../src/config/limits.ts';
import { newIdentity } from '../../../src/forward/by-hand.ts';
import { openDisk } from '../../../src/journal/disk.ts';
import { stateIn } from '../../support/forwarded.ts';
import { askHub, SentJournal, sourceOf } from '../../support/forwarding.ts';
import { rounds } from '../../support/long.ts';
import { release020 } from '../../support/older-program.ts';
import { eventsIn, freePort, newFolder, type Scope, startService } from '../../support/program.ts';
import { named, ok, report } from '../../support/report.ts';
import { type Served, serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';

const limits = { followMs: 5, forwardRetryMs: 5, forwardRetryMsMax: 50, forwardStoppedMs: 100 };

/** A folder and a port, on which a service may be started again with another destination. @param program in place of this one */
async function newSite(t: Scope, program?: readonly string[]) {
  const [data, port] = [newFolder(t), await freePort(t)];
  const url = `http://127.0.0.1:${port}`;
  let service: Pick<Served, 'stop'> | undefined;
  return {
    data,
    url,
    count: () => eventsIn(data).length,
    end: async () => service?.stop(),
    reload: async () => (service as Served).reload(),
    start: async (to?: { readonly url: string }) => {
      await service?.stop();
      const args = ['--port', `${port}`, ...(to === undefined ? [] : ['--forward-to', to.url])];
      if (program === undefined) service = await serve(t, { data, args, limits });
      else {
        const { kill } = await startService(t, { data, args, program });
        service = { stop: async () => void (await kill()) };
      }
    },
    isStopped: () => stateIn(data)?.['why'] === 'loop',
    reason: () => `${stateIn(data)?.['reason']}`,
  };
}

type Site = Awaited<ReturnType<typeof newSite>>;

function assertNoIdTwice(...sites: readonly Site[]): void {
  for (const { data } of sites) {
    const ids = eventsIn(data).map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length, `an event is twice in ${data}`);
  }
}

/** Lets each site forward to the next one, whose own destination is added before or later, and waits until the last has all events. */
async function chain(sites: readonly Site[], isFromTheEnd: boolean): Promise<void> {
  const last = sites.at(-1)!;
  if (isFromTheEnd) for (const at of [...sites.keys()].reverse()) await sites[at]!.start(sites[at + 1]);
  for (const [at, site] of sites.entries()) {
    const next = sites[at + 1];
    if (!isFromTheEnd && next !== undefined) {
      await next.start();
      await site.start(next);
    }
    assert.deepEqual(await report(site, named('a', 5)), ok(5));
    if (next !== undefined) await eventually('the next one has them', () => next.count() >= 5 * (at + 1));
  }
  await eventually('the last one has all', () => last.count() === 5 * sites.length);
}

/** Lets the last site forward to the first one, and reports to both. Resolves when a site is stopped and has tried again. */
async function close(sites: readonly Site[]): Promise<void> {
  const [first, last] = [sites[0]!, sites.at(-1)!];
  await last.start(first);
  assert.deepEqual(await report(last, ['b']), [200]); // those before it have nothing to send, and hear nothing
  await eventually('one of them is stopped', () => sites.some(({ isStopped }) => isStopped()));
  assertNoIdTwice(...sites);
  assert.deepEqual(await report(first, ['b']), [200]);
  await sleep(3 * limits.forwardStoppedMs);
  assertNoIdTwice(...sites);
  assert.ok(
    sites.some(({ isStopped }) => isStopped()),
    'it stays stopped',
  );
}

for (const [order, isFromTheEnd] of [
  ['the last', true],
  ['the first', false],
] as const) {
  for (const count of [3, 5].slice(0, rounds({ long: 2, short: 1 }))) {
    test(`a circle of ${count} that is begun at ${order} is stopped before an event comes back`, async (t) => {
      const sites = await Promise.all(Array.from({ length: count }, () => newSite(t)));
      await chain(sites, isFromTheEnd);
      await close(sites);
    });
  }
}

test('a circle with a hub of 0.2.0 at any place is stopped before an event comes back, wherever it is begun', {
  skip: release020.isMissing,
}, async (t) => {
  const program = [process.execPath, await release020.build(t)];
  const { data, url, stop } = await serve(t);
  const sent = new SentJournal(2);
  assert.equal((await sent.put(url, 1, 2, { headers: { 'Assetlog-Through': sourceOf(1) } })).status, 200);
  await stop();
  const older = await startService(t, { data, program });
  assert.equal((await askHub(older.url)).body['seq'], 2, 'it reads the file with the names');
  assert.doesNotMatch(older.stderr(), /forward-sources/);
  await older.kill();
  for (const isFromTheEnd of [false, true].slice(0, rounds({ long: 2, short: 1 }))) {
    await Promise.all(
      [0, 1, 2].map(async (place) => {
        const sites = await Promise.all([0, 1, 2].map((at) => newSite(t, at === place ? program : undefined)));
        await chain(sites, isFromTheEnd);
        await close(sites);
      }),
    );
  }
});

test('50 hubs with devices, the hub that they forward to, and the next one are no circle', async (t) => {
  const top = await serve(t, { limits });
  const middle = await serve(t, { limits, args: ['--forward-to', top.url] });
  const site = () => serve(t, { limits, args: ['--forward-to', middle.url] });
  const sites = await Promise.all(Array.from({ length: rounds({ long: 50, short: 10 }) }, site));
  let count = 0;
  for (const [at, { url }] of sites.entries()) {
    for (let device = 0; device < (at === 0 ? 40 : 2); device += 1) {
      count += 1;
      const sent = new SentJournal(2, sourceOf(count));
      assert.equal((await sent.put(url, 1, 2)).status, 200);
    }
  }
  const events = () => eventsIn(top.data);
  await eventually('the last one has all', () => events().length === 2 * count);
  assert.deepEqual(
    events().map(({ id }) => id),
    eventsIn(middle.data).map(({ id }) => id),
  );
  await eventually('nothing is left to do', () => stateIn(middle.data)?.['state'] === 'idle');
});

test('a circle is stopped also if a site has not heard from its destination since its start', async (t) => {
  const sites = await Promise.all([0, 1, 2].map(() => newSite(t)));
  const [near, middle, far] = sites as [Site, Site, Site];
  await chain(sites, true);
  await middle.end();
  await near.start(middle);
  await far.start(near);
  assert.deepEqual(await report(far, ['b']), [200]);
  await eventually('the last is stopped', far.isStopped);
  assertNoIdTwice(near, far);
  assert.equal(near.count(), 5);
});

test('a circle that is opened again lets the others continue', async (t) => {
  const sites = await Promise.all([0, 1, 2].map(() => newSite(t)));
  const [near, middle, far] = sites as [Site, Site, Site];
  await chain(sites, true);
  await close(sites);
  await far.start();
  await eventually('all events are at the last', async () => {
    for (const site of [near, middle]) await site.reload();
    await sleep(100);
    return far.count() === 17;
  });
  assertNoIdTwice(...sites);
});

test('two services whose direction is turned around double nothing, and a new id lets later events through', async (t) => {
  const [one, other] = [await newSite(t), await newSite(t)];
  await other.start();
  await one.start(other);
  assert.deepEqual(await report(one, named('a', 30)), ok(30));
  await eventually('the other has them', () => other.count() === 30);
  await one.start();
  await other.start(one);
  assert.deepEqual(await report(other, named('b', 5)), ok(5));
  await eventually('it is stopped', other.isStopped);
  assert.match(other.reason(), /event 1 of this journal was here before.*identity --new --seq N/);
  assert.equal(one.count(), 30);
  await other.end();
  await newIdentity(openDisk(other.data), 31, standardLimits);
  await other.start(one);
  await eventually('the later events', () => one.count() === 35);
  assertNoIdTwice(one, other);
});
