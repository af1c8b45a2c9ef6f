/** Services that forward to each other: a circle is stopped, and no event is anywhere twice. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits as standardLimits } from '../../src/config/limits.ts';
import { newIdentity } from '../../src/forward/by-hand.ts';
import { openDisk } from '../../src/journal/disk.ts';
import { stateIn } from '../support/forwarded.ts';
import { eventsIn, freePort, newFolder, type Scope } from '../support/program.ts';
import { named, ok, report } from '../support/report.ts';
import { type Served, serve } from '../support/service.ts';
import { eventually } from '../support/tools.ts';

const limits = { followMs: 5, forwardRetryMs: 5, forwardRetryMsMax: 50, forwardStoppedMs: 100 };

/** A folder and a port, on which a service may be started again with another destination. */
async function newSite(t: Scope) {
  const [data, port] = [newFolder(t), await freePort(t)];
  const url = `http://127.0.0.1:${port}`;
  let service: Served | undefined;
  return {
    data,
    url,
    count: () => eventsIn(data).length,
    end: async () => service?.stop(),
    reload: async () => service?.reload(),
    start: async (to?: { readonly url: string }) => {
      await service?.stop();
      const args = ['--port', `${port}`, ...(to === undefined ? [] : ['--forward-to', to.url])];
      service = await serve(t, { data, args, limits });
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

test('a circle that is closed later is stopped before an event comes back', async (t) => {
  const [near, middle, far] = [await newSite(t), await newSite(t), await newSite(t)];
  await far.start();
  await middle.start(far);
  await near.start(middle);
  for (const site of [far, middle, near]) assert.deepEqual(await report(site, named('a', 20)), ok(20));
  await eventually('the events of all are at the last', () => far.count() === 60);
  await far.start(near);
  assert.deepEqual(await report(far, ['b']), [200]);
  await eventually('the last is stopped', far.isStopped);
  assert.match(far.reason(), /itself/);
  assert.deepEqual(await report(near, ['c']), [200]); // the one between has nothing to send
  assert.equal(near.count(), 21, 'nothing came back');
  await far.start();
  await eventually('the others continue when it is open again', async () => {
    for (const site of [near, middle]) await site.reload();
    await sleep(100);
    return far.count() === 62;
  });
  assertNoIdTwice(near, middle, far);
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
  assert.match(other.reason(), /event 1 of this journal was recorded here before.*identity --new --seq N/);
  assert.equal(one.count(), 30);
  await other.end();
  await newIdentity(openDisk(other.data), 31, standardLimits);
  await other.start(one);
  await eventually('the later events', () => one.count() === 35);
  assertNoIdTwice(one, other);
});
