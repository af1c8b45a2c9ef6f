/** Real neighbours between a device and what it forwards to: nginx with TLS in front of a hub, and the reference behind one. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertAtHub, deadLettersIn, forwardStatus, reachesHub, stopsForwarding } from '../support/forwarded.ts';
import { type Nginx, recommendedArgs, startNginx, withoutNginx } from '../support/nginx.ts';
import { startPostgres, withoutPostgres } from '../support/postgres.ts';
import { eventsIn, newFolder, type Running, startService } from '../support/program.ts';
import { partitionsAtReference, referenceExecutable, startReference, withoutReference } from '../support/reference.ts';
import { each, eventually, missing } from '../support/tools.ts';
import { ask, post } from '../support/wire.ts';

async function report(service: Running, key: string, text = ''): Promise<void> {
  const body = JSON.stringify({ metadata: { text } });
  const reply = await ask(service.port, post(`/report_asset_materialization/nightly?partition=${key}`, body));
  assert.equal(reply.status, 200, reply.body);
}

/** A device that forwards to a hub through nginx. */
async function startDevice(t: TestContext, nginx: Nginx, caFile: string | undefined): Promise<Running> {
  const destinations = join(newFolder(t), 'destinations.json');
  const to = `https://127.0.0.1:${nginx.port}`;
  writeFileSync(destinations, JSON.stringify({ destinations: [{ name: 'upstream', to, ...(caFile && { caFile }) }] }));
  return startService(t, { args: ['--forward', destinations] });
}

test('events pass nginx with TLS and its own authority to a hub: small ones, a megabyte each, and many', {
  skip: withoutNginx,
}, async (t) => {
  const hub = await startService(t, { args: recommendedArgs });
  const nginx = await startNginx(t, hub.port);
  const device = await startDevice(t, nginx, nginx.certificateFile);
  await report(device, '1');
  for (let large = 2; large <= 5; large += 1) await report(device, String(large), 'x'.repeat(1_000_000));
  await each(
    Array.from({ length: 2_000 }, (_, index) => index + 6),
    16,
    (number) => report(device, String(number), 'x'.repeat(1_000)),
  );
  await reachesHub(hub, device.data, 2_005);
  assertAtHub(hub.data, device.data);
  assert.equal(eventsIn(hub.data).length, 2_005);
  assert.doesNotMatch(nginx.log(), /error/);
  assert.equal((await device.kill()).code, 0);
});

test('a certificate that the device does not trust stops it with the reason, and nothing is sent', {
  skip: withoutNginx,
}, async (t) => {
  const hub = await startService(t, { args: recommendedArgs });
  const nginx = await startNginx(t, hub.port);
  const device = await startDevice(t, nginx, undefined);
  await report(device, '1');
  const { reason } = await stopsForwarding(device.data);
  assert.match(reason, /certificate/);
  assert.deepEqual(eventsIn(hub.data), []);
});

test('a hub that restarts after nginx gets each event once', { skip: withoutNginx }, async (t) => {
  let hub = await startService(t, { args: recommendedArgs });
  const nginx = await startNginx(t, hub.port);
  const device = await startDevice(t, nginx, nginx.certificateFile);
  let isReporting = true;
  let reported = 0;
  const reporting = (async () => {
    for (; isReporting; reported += 1) await report(device, String(reported + 1), 'x'.repeat(500));
  })();
  for (let round = 0; round < 4; round += 1) {
    await sleep(300);
    await hub.kill(round % 2 === 0 ? 'SIGKILL' : 'SIGTERM'); // nginx answers 502
    await sleep(200);
    hub = await startService(t, { data: hub.data, args: [...recommendedArgs, '--port', String(hub.port)] });
  }
  isReporting = false;
  await reporting;
  await reachesHub(hub, device.data, reported);
  assertAtHub(hub.data, device.data);
  assert.deepEqual(deadLettersIn(device.data), []);
});

const ROUNDS = 4;
const withoutDagsterPostgres =
  withoutReference ||
  withoutPostgres ||
  missing('the reference has no dagster-postgres', join(dirname(String(referenceExecutable)), 'python'), [
    ...['-c', 'import dagster_postgres'],
  ]);

/** What the reference keeps its events in. */
const storages = [
  { name: 'SQLite', skip: withoutReference, yaml: () => '' },
  {
    name: 'PostgreSQL',
    skip: withoutDagsterPostgres,
    yaml: (t: TestContext) =>
      `storage:\n  postgres:\n    postgres_url: postgresql://assetlog@/postgres?host=${startPostgres(t)}\n`,
  },
];

for (const { name, skip, yaml } of storages) {
  test(`the reference with ${name} has each event of a service, both killed under load, and what it may have twice is a dead letter`, {
    skip,
  }, async (t) => {
    const reference = await startReference(t, String(referenceExecutable), yaml(t));
    const data = newFolder(t);
    const args = ['--forward-to', `http://127.0.0.1:${reference.port}`];
    let service = await startService(t, { data, args });
    let count = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const end = count + 20; count < end; count += 1) await report(service, String(count + 1));
      await sleep(100 + 100 * round);
      if (round % 2 === 1) await reference.kill();
      await service.kill('SIGKILL');
      service = await startService(t, { data, args });
      if (round % 2 === 1) await reference.start();
    }
    const sent = async () => {
      await sleep(500);
      return (await forwardStatus(data)).lag_events === 0;
    };
    await eventually('all are sent', sent, 60_000);
    const partitions = await partitionsAtReference(reference.port, ['nightly']);
    const named = new Set(deadLettersIn(data).map(({ line }) => String(line?.['partition'])));
    const expected = Array.from({ length: count }, (_, index) => String(index + 1));
    assert.deepEqual([...new Set(partitions)].sort(), expected.sort());
    const doubled = partitions.filter((partition, index) => partitions.indexOf(partition) !== index);
    t.diagnostic(`${count} events, ${doubled.length} doubled, ${named.size} dead letters`);
    assert.deepEqual(
      doubled.filter((partition) => !named.has(partition)),
      [],
    );
    assert.ok(named.size <= 2 * ROUNDS, `${named.size} in doubt after ${ROUNDS} crashes of the service`);
  });
}

test('a check that the reference stores and answers with 500 is a dead letter, and is not sent again', {
  skip: withoutReference,
}, async (t) => {
  const reference = await startReference(t, String(referenceExecutable));
  const service = await startService(t, { args: ['--forward-to', `http://127.0.0.1:${reference.port}`] });
  const check = () => ask(service.port, post('/report_asset_check/nightly?check_name=c&passed=true&partition=p'));
  assert.equal((await check()).status, 200);
  assert.equal((await check()).status, 200);
  await report(service, 'after');
  const isThere = async () => (await partitionsAtReference(reference.port, ['nightly'])).includes('after');
  await eventually('the last one', isThere);
  const letters = deadLettersIn(service.data).map(({ outcome, status }) => [outcome, status]);
  assert.deepEqual(letters, [['in doubt', 500]]);
});
