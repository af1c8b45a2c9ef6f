/** A device that forwards to a hub through nginx, with TLS and a private certificate authority. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertAtHub, deadLettersIn, reachesHub } from '../support/forwarded.ts';
import { type Nginx, recommendedArgs, startNginx, withoutNginx } from '../support/nginx.ts';
import { eventsIn, freePort, newFolder, type Running, startService } from '../support/program.ts';
import { record } from '../support/report.ts';
import { each } from '../support/tools.ts';

const report = (service: Running, key: string, text = '') =>
  record(service, `materialization/nightly?partition=${key}`, { body: { metadata: { text } } });

async function startDevice(t: TestContext, nginx: Nginx, caFile: string | undefined): Promise<Running> {
  const destinations = join(newFolder(t), 'destinations.json');
  const to = `https://127.0.0.1:${nginx.port}`;
  writeFileSync(destinations, JSON.stringify({ destinations: [{ name: 'upstream', to, ...(caFile && { caFile }) }] }));
  return startService(t, { args: ['--forward', destinations] });
}

test('events reach a hub through nginx with TLS and a private authority: small, of a megabyte each, and many', {
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

test('a hub that restarts behind nginx gets each event once', { skip: withoutNginx }, async (t) => {
  const args = [...recommendedArgs, '--port', String(await freePort(t))];
  let hub = await startService(t, { args });
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
    hub = await startService(t, { data: hub.data, args });
  }
  isReporting = false;
  await reporting;
  await reachesHub(hub, device.data, reported);
  assertAtHub(hub.data, device.data);
  assert.deepEqual(deadLettersIn(device.data), []);
});
