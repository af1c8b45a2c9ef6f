/** A disk that fails under a running service: what clients get, and how the service ends. */

import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Defect } from '../../../src/config/defect.ts';
import { exitCodes } from '../../../src/config/exit-codes.ts';
import { openDisk } from '../../../src/journal/disk.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { host } from '../../support/deployments.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import { newFolder, startService } from '../../support/program.ts';
import { serve, serveSimulated } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { ask, errorOf, get, post, Wire } from '../../support/wire.ts';
import { type Call, SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

const TARGET = '/report_asset_materialization/';
const READY = get('/readyz');
const LIVE = get('/livez');

test('while the disk refuses writes reports get 503 with Retry-After and are not counted, and the service is not ready', async (t) => {
  const { disk, port } = await serveSimulated(t);
  assert.equal((await ask(port, READY)).status, 200);
  disk.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
  const refused = await ask(port, post(`${TARGET}a`));
  assert.equal(refused.status, 503);
  assert.equal(refused.headers.get('retry-after'), '1');
  assert.equal(errorOf(refused), 'the disk refuses writes; send the report again later');
  const ready = await ask(port, READY);
  assert.equal(ready.status, 503);
  assert.equal(ready.headers.get('retry-after'), '1');
  assert.match(errorOf(ready), /^the disk refuses writes/);
  assert.equal((await ask(port, LIVE)).status, 200);
  const samples = samplesOf(await metricsOf({ port }));
  for (const [name, value] of [
    ['http_requests_total{endpoint="readyz",status="503"}', 1],
    ['http_requests_total{endpoint="report_asset_materialization",status="503"}', 1],
    ['events_total{type="AssetMaterialization"}', 0],
    ['written_bytes_total', 0],
    ['batch_events_count', 0],
    ['last_seq', 0],
    ['ready', 0],
    ['disk_free_bytes', disk.freeSpace.freeBytes],
  ] as const)
    assert.equal(samples.get(`assetlog_${name}`), value, name);
  disk.fault = () => undefined;
  assert.equal((await ask(port, post(`${TARGET}a`))).status, 200);
  assert.equal((await ask(port, READY)).status, 200);
  assert.equal(disk.text(segmentName(1)).split('\n').length, 2);
});

test('a journal that contradicts itself gives 503 and ends the service with 1, also in hosted mode', async (t) => {
  const contradict = (call: Call) =>
    call === 'write' ? systemError('EIO') : call === 'truncate' ? new Defect('of a test') : undefined;
  const local = await serveSimulated(t);
  local.disk.fault = contradict;
  const disk = new SimulatedDisk(newFolder(t));
  const parts = { openDisk: (folder: string) => (folder.endsWith('prod') ? disk : openDisk(folder)) };
  const hosted = await host(t, ['prod'], { parts });
  disk.fault = contradict;
  const replies = [await ask(local.port, post(`${TARGET}a`)), await hosted.report('prod')];
  for (const [index, { ended, notices }] of [local, hosted].entries()) {
    const reply = replies[index]!;
    assert.equal(reply.status, 503);
    assert.equal(
      errorOf(reply),
      'the service found a defect of its own; send the report again when the service is back',
    );
    assert.equal(await ended, exitCodes.unexpected);
    assert.match(notices.join(''), /a journal contradicts itself and the service ends.*of a test/);
  }
});

test('a lock file that is removed ends the service with 5, at the next report or without one', async (t) => {
  for (const lockCheckMs of [20, 60_000]) {
    const { data, port, ended, notices } = await serve(t, { limits: { lockCheckMs } });
    for (const name of readdirSync(data)) if (name.startsWith('.lock-')) rmSync(join(data, name));
    if (lockCheckMs > 20) assert.equal((await ask(port, post(`${TARGET}a`))).status, 503);
    assert.equal(await ended, exitCodes.diskFailed);
    assert.match(notices.join(''), /"problem":"the lock file \S+ was removed or replaced by another program/);
  }
});

test('without free file descriptors new connections are refused, and the service and its connections continue', async (t) => {
  const service = await startService(t, { openFilesMax: 120 }); // a program that is not bundled loads many files at once
  const first = await Wire.open(service.port);
  const crowd = await Promise.all(Array.from({ length: 140 }, () => Wire.open(service.port)));
  await eventually('clients are turned away', () => crowd.some(({ ended }) => ended));
  first.send(post(`${TARGET}a`));
  assert.equal((await first.reply())?.status, 200);
  for (const wire of [first, ...crowd]) wire.close();
  await eventually('the service accepts clients again', () => ask(service.port, LIVE).then(Boolean, () => false));
  assert.equal((await ask(service.port, post(`${TARGET}b`))).status, 200);
  assert.equal(service.events().length, 2);
});
