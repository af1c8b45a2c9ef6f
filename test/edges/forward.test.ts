/** A device that forwards to a hub through nginx, with TLS and a private certificate authority. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertAtHub, deadLettersIn, forwardFile, reachesHub } from '../support/forwarded.ts';
import { recommendedArgs, startNginx, withoutNginx } from '../support/nginx.ts';
import { freePort, newFolder, type Running, startService } from '../support/program.ts';
import { record } from '../support/report.ts';
import { each } from '../support/tools.ts';

const report = (service: Running, key: string, text = '') =>
  record(service, `materialization/nightly?partition=${key}`, { body: { metadata: { text } } });

test('large events and many events reach a hub through nginx with a private authority, also while the hub restarts', {
  skip: withoutNginx,
}, async (t) => {
  const args = [...recommendedArgs, '--port', String(await freePort(t))];
  let hub = await startService(t, { args });
  const nginx = await startNginx(t, hub.port);
  const file = join(newFolder(t), 'destinations.json');
  forwardFile(file, { name: 'upstream', to: `https://127.0.0.1:${nginx.port}`, caFile: nginx.certificateFile });
  const device = await startService(t, { args: ['--forward', file] });
  let reported = 0;
  const reportMany = (count: number, bytes: number) =>
    each(Array(count).fill('x'.repeat(bytes)), 16, (text) => report(device, String(++reported), text));
  await reportMany(4, 1_000_000);
  await reportMany(2_000, 1_000);
  await reachesHub(hub, device.data, reported);
  assert.doesNotMatch(nginx.log(), /error/);
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL', 'SIGTERM'] as const) {
    const reporting = reportMany(200, 500);
    await hub.kill(signal); // nginx answers 502
    await reporting;
    await sleep(200);
    hub = await startService(t, { data: hub.data, args });
  }
  await reachesHub(hub, device.data, reported);
  assertAtHub(hub.data, device.data);
  assert.deepEqual(deadLettersIn(device.data), []);
  assert.equal((await device.kill()).code, 0);
});
