/** Hosted mode over real sockets: who gets in, what goes where, and that the trouble of one is not that of the others. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { readConfig, limits as standardLimits } from '../src/config.ts';
import { newToken } from '../src/deployments.ts';
import { type Disk, openDisk } from '../src/disk.ts';
import { segmentName } from '../src/event.ts';
import { lockFolder } from '../src/lock.ts';
import { createNotices } from '../src/notice.ts';
import { type Parts, type Service, startService } from '../src/service.ts';
import { eventsIn, newFolder, run, startService as startProcess } from './program.ts';
import { SimulatedDisk, systemError } from './simulated-disk.ts';
import { ask, errorOf, post, Wire, type WireReply, withoutChance } from './wire.ts';

const { token, digest } = newToken();
const other = newToken();
const REPORT = 'report_asset_materialization/a';

function entry(name: string, sha256 = digest): object {
  return { name, tokens: [{ name: 'ci', sha256 }] };
}

function write(file: string, ...deployments: object[]): void {
  writeFileSync(file, JSON.stringify({ deployments }));
}

interface Hosting {
  readonly service: Service;
  readonly data: string;
  readonly file: string;
  readonly notices: string[];
  get(path: string): Promise<WireReply>;
  report(name: string, withToken?: string | undefined, header?: string): Promise<WireReply>;
}

async function host(t: TestContext, parts: Parts = {}, ...deployments: object[]): Promise<Hosting> {
  const folder = newFolder(t);
  const [data, file] = [join(folder, 'data'), join(folder, 'deployments.json')];
  write(file, ...(deployments.length > 0 ? deployments : [entry('prod'), entry('test', other.digest)]));
  const read = readConfig(['--port', '0', '--data', data, '--deployments', file], {});
  assert.ok('config' in read);
  const notices: string[] = [];
  const limits = {
    ...standardLimits,
    deploymentsCheckMs: 50,
    reopenMs: 200,
    openWaitMs: 300,
    failuresMax: 1_000,
    ...parts.limits,
  };
  const service = await startService(
    read.config,
    createNotices('info', false, (line) => notices.push(line)),
    { ...parts, limits },
  );
  t.after(() => service.stop());
  const port = Number(new URL(service.url).port);
  return {
    service,
    data,
    file,
    notices,
    get: (path) => ask(port, `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`),
    report: (name, withToken = token, header = 'Service-Cloud-Api-Token') =>
      ask(port, post(`/${name}/${REPORT}`, undefined, withToken === '' ? [] : [`${header}: ${withToken}`])),
  };
}

test('each deployment has a journal of its own, which its first report opens', async (t) => {
  const { data, report, get, service } = await host(t);
  assert.deepEqual(
    readdirSync(data).filter((name) => !name.startsWith('.')),
    [],
  );
  assert.equal((await report('prod')).status, 200);
  assert.deepEqual(
    readdirSync(data).filter((name) => !name.startsWith('.')),
    ['prod'],
  );
  assert.equal((await report('test', other.token, 'dagster-cloud-api-token')).status, 200);
  assert.deepEqual(
    await Promise.all(Array.from({ length: 20 }, async () => (await report('prod')).status)),
    Array(20).fill(200),
  );
  assert.deepEqual([eventsIn(join(data, 'prod')).length, eventsIn(join(data, 'test')).length], [21, 1]);
  assert.equal((await get('/readyz')).body, '{"status":"ok"}');
  await service.stop();
  assert.ok(readdirSync(join(data, 'prod')).includes('.stopped-cleanly'));
});

test('an unknown deployment, no token and a wrong one get the same 401, and leave nothing', async (t) => {
  const { data, report, get } = await host(t);
  const refusals = [
    await report('prod', 'wrong'),
    await report('prod', ''),
    await report('prod', other.token),
    await report('nobody'),
    await report('..%2Fprod'),
    await get('/nothing'),
  ];
  const seen = new Set(refusals.map(withoutChance));
  assert.equal(seen.size, 1, [...seen].join('\n'));
  assert.match([...seen][0] ?? '', /^\[401,.*\["www-authenticate","Service-Cloud-Api-Token realm=\\"assetlog\\""\]/);
  assert.deepEqual(
    readdirSync(data).filter((name) => !name.startsWith('.')),
    [],
  );
  assert.equal((await get('/livez')).status, 200);
});

test('the token is looked at before the body, and two of them are no token', async (t) => {
  const { service, report, get } = await host(t);
  const port = Number(new URL(service.url).port);
  const wire = await Wire.open(port);
  wire.send(
    `POST /prod/${REPORT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
  );
  assert.equal((await wire.reply())?.status, 401);
  wire.close();
  const two = await ask(
    port,
    post(`/prod/${REPORT}`, undefined, [`Service-Cloud-Api-Token: ${token}`, `Dagster-Cloud-Api-Token: ${token}`]),
  );
  assert.deepEqual([two.status, errorOf(two)], [400, 'more than one token header; send one']);
  assert.equal((await ask(port, post('/prod/nothing', undefined, [`Service-Cloud-Api-Token: ${token}`]))).status, 404);
  const wrongMethod = `GET /prod/${REPORT} HTTP/1.1\r\nHost: localhost\r\nService-Cloud-Api-Token: ${token}\r\n\r\n`;
  assert.equal((await ask(port, wrongMethod)).status, 405);
  assert.equal((await get('/readyz')).status, 200);
  assert.equal((await report('prod')).status, 200);
});

test('a damaged journal, a locked one and a failing disk stop only their own deployment, which comes back by itself', async (t) => {
  const simulated = new Map<string, SimulatedDisk>();
  const parts: Parts = {
    openDisk: (folder) => {
      if (!folder.endsWith('failing')) return openDisk(folder);
      mkdirSync(folder, { recursive: true });
      const disk = simulated.get(folder) ?? new SimulatedDisk(folder);
      simulated.set(folder, disk);
      return disk;
    },
  };
  const { data, report, get, notices, service } = await host(
    t,
    parts,
    ...['good', 'damaged', 'locked', 'failing'].map((name) => entry(name)),
  );
  for (const name of ['damaged', 'locked']) mkdirSync(join(data, name));
  writeFileSync(join(data, 'damaged', segmentName(1)), 'x\n{"seq":2,"x":1,"crc":"00000000"}\n');
  const lock = await lockFolder(join(data, 'locked'));
  assert.equal((await report('failing')).status, 200);
  const [disk] = simulated.values();
  assert.ok(disk !== undefined);
  disk.fault = (call) => (call === 'sync' ? systemError('EIO') : undefined);

  const told: Record<string, string> = {};
  for (const name of ['damaged', 'locked', 'failing']) {
    const reply = await report(name);
    assert.deepEqual([reply.status, reply.headers.get('retry-after')], [503, '1'], name);
    told[name] = errorOf(reply);
    assert.doesNotMatch(reply.body, /\/tmp|simulated|process \d/, 'strangers are told no path');
  }
  assert.match(told['damaged'] ?? '', /it is damaged$/);
  assert.match(told['locked'] ?? '', /another process writes to it$/);
  assert.equal((await report('good')).status, 200);
  const ready = await get('/readyz');
  assert.equal(ready.status, 200, 'the others go on');
  assert.deepEqual(Object.keys(JSON.parse(ready.body).deployments).sort(), ['damaged', 'failing', 'locked']);
  assert.match(notices.join(''), /"deployment":"damaged","problem":"the journal is damaged: .*assetlog repair --data /);

  await lock.release();
  disk.fault = () => undefined;
  writeFileSync(join(data, 'damaged', segmentName(1)), '');
  await sleep(250);
  for (const name of ['damaged', 'locked', 'failing', 'good']) assert.equal((await report(name)).status, 200, name);
  assert.equal((await get('/readyz')).body, '{"status":"ok"}');
  const [lines] = [disk.text(segmentName(1)).trim().split('\n')];
  assert.ok(lines.length >= 2, 'what was acknowledged before is there');
  await service.stop();
});

test('a journal that nobody uses is closed, and opened again by the next report', async (t) => {
  const { data, report } = await host(t, { limits: { ...standardLimits, idleJournalMs: 100 } });
  assert.equal((await report('prod')).status, 200);
  const clean = () => readdirSync(join(data, 'prod')).includes('.stopped-cleanly');
  for (let waited = 0; !clean() && waited < 200; waited += 1) await sleep(10);
  assert.ok(clean());
  assert.equal((await report('prod')).status, 200);
  assert.equal(eventsIn(join(data, 'prod')).length, 2);
});

test('of more journals than may be open the longest unused is closed, and comes back with its next report', async (t) => {
  const names = ['a', 'b', 'c'];
  const limits = { ...standardLimits, openJournalsMax: 2 };
  const { data, report } = await host(t, { limits }, ...names.map((name) => entry(name)));
  const isClosed = (name: string) => readdirSync(join(data, name)).includes('.stopped-cleanly');
  for (const name of names) assert.equal((await report(name)).status, 200);
  for (let waited = 0; !isClosed('a') && waited < 200; waited += 1) await sleep(10);
  assert.deepEqual(names.map(isClosed), [true, false, false]);
  assert.equal((await report('a')).status, 200);
  for (let waited = 0; !isClosed('b') && waited < 200; waited += 1) await sleep(10);
  assert.deepEqual(names.map(isClosed), [false, true, false]);
  assert.equal(eventsIn(join(data, 'a')).length, 2);
});

test('a journal that waits for a full disk is named, and does not hold up a stop', async (t) => {
  const full = (folder: string): Disk => {
    const disk = openDisk(folder);
    if (!folder.endsWith('prod')) return disk;
    return { ...disk, createLog: async () => Promise.reject(systemError('ENOSPC')) };
  };
  const { report, get, service } = await host(t, { openDisk: full });
  const reply = await report('prod');
  assert.deepEqual(
    [reply.status, errorOf(reply)],
    [503, 'the disk is full; the service waits for space to open its journal'],
  );
  assert.equal((await report('test', other.token)).status, 200);
  assert.deepEqual(Object.keys(JSON.parse((await get('/readyz')).body).deployments), ['prod']);
  await service.stop();
  assert.equal(await service.ended, 0);
});

test('a deployment that is taken out is in trouble no more, and may come back', async (t) => {
  const { data, file, report, get, service } = await host(t);
  mkdirSync(join(data, 'prod'));
  const lock = await lockFolder(join(data, 'prod'));
  assert.equal((await report('prod')).status, 503);
  assert.match((await get('/readyz')).body, /"prod"/);
  write(file, entry('test', other.digest));
  await service.reload();
  assert.equal((await get('/readyz')).body, '{"status":"ok"}');
  await lock.release();
  write(file, entry('prod'));
  await service.reload();
  assert.equal((await report('prod')).status, 200);
});

test('a changed file counts without a restart; a bad one is told once, and what was good stays', async (t) => {
  const { file, report, notices, service, data } = await host(t);
  assert.equal((await report('prod')).status, 200);
  writeFileSync(file, '{"deployments": [\n{"name": "prod", "tokens": []}]}');
  await sleep(200);
  await service.reload();
  assert.equal((await report('prod')).status, 200);
  const refusals = notices.filter((line) => line.includes('the deployments file is refused'));
  assert.equal(refusals.length, 1);
  assert.match(refusals[0] ?? '', /deployments\.json, line 2: deployments\[0\]\.tokens must be an array/);

  write(
    file,
    {
      name: 'prod',
      tokens: [
        { name: 'old', sha256: other.digest },
        { name: 'new', sha256: digest },
      ],
    },
    entry('more'),
  );
  // Nobody says so: it is found by itself.
  const isRead = () => notices.some((line) => line.includes('the deployments were read again'));
  for (let waited = 0; !isRead() && waited < 200; waited += 1) await sleep(10);
  assert.deepEqual(
    await Promise.all([report('prod'), report('prod', other.token), report('more'), report('test', other.token)]).then(
      (all) => all.map(({ status }) => status),
    ),
    [200, 200, 200, 401],
  );
  write(file, entry('more'));
  await service.reload();
  assert.equal((await report('prod')).status, 401);
  for (let waited = 0; !readdirSync(join(data, 'prod')).includes('.stopped-cleanly') && waited < 200; waited += 1)
    await sleep(10);
  assert.ok(
    readdirSync(join(data, 'prod')).includes('.stopped-cleanly'),
    'the journal of a deployment that is gone is closed',
  );
});

test('as a process: a bad file ends the start with 2, SIGHUP reads it again, and a printed token gets in', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, 'deployments.json');
  const args = ['--deployments', file];
  const missing = await run(['--port', '0', '--data', join(folder, 'data'), ...args]);
  assert.deepEqual(
    [missing.code, /^assetlog: ENOENT[^\n]*deployments\.json'\n$/m.test(missing.stderr)],
    [2, true],
    missing.stderr,
  );
  writeFileSync(file, '');
  const empty = await run(['--port', '0', '--data', join(folder, 'data'), ...args]);
  assert.equal(empty.code, 2);
  assert.match(empty.stderr, /deployments\.json, line 1, column 1: /);
  writeFileSync(file, '{"deployments": [{"name": "a b", "tokens": []}]}');
  const bad = await run(['--port', '0', '--data', join(folder, 'data'), ...args]);
  assert.equal(bad.code, 2);
  assert.match(bad.stderr, /deployments\.json, line 1: deployments\[0\]\.name must be up to 63 letters/);

  const printed = await run(['token', '--name', 'cron']);
  assert.equal(printed.code, 0);
  const [fresh = '', line = ''] = printed.stdout.split('\n');
  write(file, entry('prod'));
  const service = await startProcess(t, { args });
  write(file, { name: 'prod', tokens: [JSON.parse(line)] });
  process.kill(service.pid, 'SIGHUP');
  const report = () => ask(service.port, post(`/prod/${REPORT}`, undefined, [`Service-Cloud-Api-Token: ${fresh}`]));
  for (let waited = 0; (await report()).status !== 200 && waited < 15; waited += 1) await sleep(100);
  assert.equal((await report()).status, 200);
  assert.equal(JSON.parse(line).name, 'cron');
  const { code, stderr } = await service.kill('SIGTERM');
  assert.equal(code, 0);
  assert.doesNotMatch(stderr, new RegExp(fresh));
});
