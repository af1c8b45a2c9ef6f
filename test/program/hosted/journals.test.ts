/** A journal for each deployment: when it is opened and closed, and that its failures affect no other deployment. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { exitCodes } from '../../../src/config/exit-codes.ts';
import { type Disk, openDisk as openRealDisk } from '../../../src/journal/disk.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { entryOf, host, REPORT, rewrite, writeDeployments } from '../../support/deployments.ts';
import { eventsIn, newFolder, startService } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { askHolder, lockFolder } from '../../support/standard-limits.ts';
import { eventually } from '../../support/tools.ts';
import { ask, errorOf, post } from '../../support/wire.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

/** The entries of a service's folder that are not hidden. */
const foldersIn = (data: string) => readdirSync(data).filter((name) => !name.startsWith('.'));

test('each deployment has its own journal, which its first report opens [hosted-5]', async (t) => {
  const { data, report, get, stop, tokenOf } = await host(t);
  assert.deepEqual(foldersIn(data), []);
  assert.equal((await report('prod')).status, 200);
  assert.deepEqual(foldersIn(data), ['prod']);
  assert.equal((await report('test', tokenOf('test'), 'dagster-cloud-api-token')).status, 200);
  assert.deepEqual(
    await Promise.all(Array.from({ length: 20 }, async () => (await report('prod')).status)),
    Array(20).fill(200),
  );
  assert.deepEqual([eventsIn(join(data, 'prod')).length, eventsIn(join(data, 'test')).length], [21, 1]);
  assert.equal((await get('/readyz')).body, '{"status":"ok"}');
  await stop();
  assert.ok(readdirSync(join(data, 'prod')).includes('.stopped-cleanly'));
});

test('a damaged or locked journal or a failing disk stops only its own deployment, which recovers by itself', async (t) => {
  const simulated = new Map<string, SimulatedDisk>();
  const parts = {
    openDisk: (folder: string): Disk => {
      if (!folder.endsWith('failing')) return openRealDisk(folder);
      mkdirSync(folder, { recursive: true });
      const disk = simulated.get(folder) ?? new SimulatedDisk(folder);
      simulated.set(folder, disk);
      return disk;
    },
  };
  const names = ['good', 'damaged', 'locked', 'failing'];
  const { data, report, get, notices } = await host(t, names, { parts });
  for (const name of ['damaged', 'locked']) mkdirSync(join(data, name));
  writeFileSync(join(data, 'damaged', segmentName(1)), 'x\n{"seq":2,"x":1,"crc":"00000000"}\n');
  const lock = await lockFolder(join(data, 'locked'));
  assert.equal((await report('failing')).status, 200);
  const [disk] = simulated.values();
  assert.ok(disk !== undefined);
  disk.fault = (call) => (call === 'sync' ? systemError('EIO') : undefined);

  const errors: Record<string, string> = {};
  for (const name of ['damaged', 'locked', 'failing']) {
    const reply = await report(name);
    assert.deepEqual([reply.status, reply.headers.get('retry-after')], [503, '1'], name);
    errors[name] = errorOf(reply);
    assert.doesNotMatch(reply.body, /\/tmp|simulated|process \d/, 'the reply names no path');
  }
  assert.match(errors['damaged'] ?? '', /it is damaged$/);
  assert.match(errors['locked'] ?? '', /another process writes to it$/);
  assert.equal((await report('good')).status, 200);
  assert.deepEqual(await askHolder(join(data, 'good')), { kind: 'before', seq: 2 });
  const ready = await get('/readyz');
  assert.equal(ready.status, 200, 'the other deployments accept reports');
  assert.deepEqual(Object.keys(JSON.parse(ready.body).deployments).sort(), ['damaged', 'failing', 'locked']);
  assert.match(notices.join(''), /"deployment":"damaged","problem":"the journal is damaged: .*assetlog repair --data /);

  await lock.release();
  disk.fault = () => undefined;
  writeFileSync(join(data, 'damaged', segmentName(1)), '');
  for (const name of ['damaged', 'locked', 'failing', 'good'])
    await eventually(`${name} accepts reports again`, async () => (await report(name)).status === 200);
  assert.equal((await get('/readyz')).body, '{"status":"ok"}');
  const [lines] = [disk.text(segmentName(1)).trim().split('\n')];
  assert.ok(lines.length >= 2, 'the events acknowledged before are recorded');
});

test('a deployment whose lock file is removed fails alone, and is opened again once no other process has the lock', async (t) => {
  for (const lockCheckMs of [20, 60_000]) {
    const { data, report, get, notices } = await host(t, ['prod'], { limits: { lockCheckMs } });
    assert.equal((await report('prod')).status, 200);
    const [lock = ''] = readdirSync(join(data, 'prod')).filter((name) => name.startsWith('.lock-'));
    rmSync(join(data, 'prod', lock));
    const second = await lockFolder(join(data, 'prod'));
    const isNoticed = () => /"deployment":"prod".*the lock file/.test(notices.join(''));
    if (lockCheckMs === 20) await eventually('the loss is noticed without a report', isNoticed);
    assert.equal((await report('prod')).status, 503);
    assert.ok(isNoticed());
    assert.deepEqual(Object.keys(JSON.parse((await get('/readyz')).body).deployments), ['prod']);
    await second.release();
    await eventually('reports are accepted again', async () => (await report('prod')).status === 200);
    assert.equal((await get('/readyz')).body, '{"status":"ok"}');
  }
});

test('beyond `openJournalsMax` the longest unused journal is closed, and its next report opens it again [hosted-4]', async (t) => {
  const names = ['a', 'b', 'c'];
  const { data, report } = await host(t, names, { limits: { openJournalsMax: 2 } });
  const isClosed = (name: string) => readdirSync(join(data, name)).includes('.stopped-cleanly');
  for (const name of names) assert.equal((await report(name)).status, 200);
  await eventually('a is closed', () => isClosed('a'));
  assert.deepEqual(names.map(isClosed), [true, false, false]);
  assert.equal((await report('a')).status, 200);
  await eventually('b is closed', () => isClosed('b'));
  assert.deepEqual(names.map(isClosed), [false, true, false]);
  assert.equal(eventsIn(join(data, 'a')).length, 2);
});

test('with few file descriptors fewer journals are open at a time, and each report is still recorded', async (t) => {
  const names = Array.from({ length: 60 }, (_, index) => `d${index}`);
  const { args, headerOf } = writeDeployments(t, names);
  const openFilesMax = 120; // a program that is not bundled loads many files at once
  const service = await startService(t, { args, openFilesMax });
  const reportTo = async (name: string) =>
    (await ask(service.port, post(`/${name}/${REPORT}`, undefined, [headerOf(name)]))).status;
  for (let round = 0; round < 2; round += 1) {
    for (let first = 0; first < names.length; first += 10) {
      const statuses = await Promise.all(names.slice(first, first + 10).map(reportTo));
      assert.deepEqual(statuses, Array(10).fill(200), service.stderr());
    }
  }
  for (const name of names) assert.equal(eventsIn(join(service.data, name)).length, 2, name);
  assert.match(service.stderr(), /"the file descriptors allow this many open [^}]*"count":15,"descriptors":120/);
});

test('a removed deployment is not reported as in trouble, and can be added again', async (t) => {
  const { data, file, report, get, reload, tokenOf } = await host(t);
  mkdirSync(join(data, 'prod'));
  const lock = await lockFolder(join(data, 'prod'));
  assert.equal((await report('prod')).status, 503);
  assert.match((await get('/readyz')).body, /"prod"/);
  assert.match((await get('/metrics')).body, /^assetlog_deployments_in_trouble 1$/m);
  rewrite(file, entryOf('test', tokenOf('test')));
  await reload();
  assert.equal((await get('/readyz')).body, '{"status":"ok"}');
  await lock.release();
  rewrite(file, entryOf('prod', tokenOf('prod')));
  await reload();
  assert.equal((await report('prod')).status, 200);
});

test('without --deployments a hosted folder is refused with 2, and the folder of one deployment is a journal', async (t) => {
  const empty = await host(t);
  await empty.stop();
  const { data, args, report, stop, headerOf } = await host(t);
  assert.equal((await report('prod')).status, 200);
  await stop();
  for (const [folder, message] of [
    [
      empty.data,
      /^the data folder \S+ was made with --deployments, .*give --deployments FILE, or choose another with --data$/,
    ],
    [
      data,
      /^the data folder \S+ holds journals of deployments, such as prod, .*give --deployments FILE, or --data \S+\/prod for that journal alone$/,
    ],
  ] as const) {
    const before = readdirSync(folder);
    for (const args of [[], ['--test']])
      await assert.rejects(serve(t, { data: folder, args }), { exitCode: exitCodes.configuration, message });
    assert.deepEqual(readdirSync(folder), before);
  }
  const reportTo = async (data: string) => {
    const service = await serve(t, { data });
    assert.equal((await ask(service.port, post(`/${REPORT}`))).status, 200);
    await service.stop();
    return eventsIn(data).length;
  };
  assert.equal(await reportTo(join(data, 'prod')), 2);
  // Damaged files that a repair moved away, a copy of the journal, and other folders are not deployments.
  const own = newFolder(t);
  for (const name of ['damaged-20261120T150405Z', 'other', '.hidden']) mkdirSync(join(own, name));
  for (const name of ['damaged-20261120T150405Z', '.hidden']) writeFileSync(join(own, name, segmentName(1)), '');
  assert.equal(await reportTo(own), 1);
  mkdirSync(join(own, 'copy'));
  writeFileSync(join(own, 'copy', segmentName(1)), '');
  assert.equal(await reportTo(own), 2);
  // Hosted mode starts beside a journal of local mode, and does not change it.
  const mixed = await serve(t, { data: own, args });
  assert.equal((await ask(mixed.port, post(`/prod/${REPORT}`, undefined, [headerOf('prod')]))).status, 200);
  assert.equal(eventsIn(own).length, 2);
});
