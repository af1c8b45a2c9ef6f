/** Hosted mode over real sockets: who gets in, what goes where, and that the trouble of one is not that of the others. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { readConfig } from '../../src/config/config.ts';
import { limits as standardLimits } from '../../src/config/limits.ts';
import {
  type DeploymentJournal,
  DeploymentJournals,
  type DeploymentJournalsOptions,
} from '../../src/deployments/journals.ts';
import { newToken } from '../../src/deployments/tokens.ts';
import type { Event } from '../../src/event/event.ts';
import { type Disk, openDisk as openRealDisk } from '../../src/journal/disk.ts';
import type { JournalHooks } from '../../src/journal/hooks.ts';
import { askHolder, lockFolder } from '../../src/journal/lock.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import type { Retain } from '../../src/journal/retention.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { type Service, type ServiceParts, startService } from '../../src/service.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { eventsIn, newFolder, run, startService as startProcess } from '../support/program.ts';
import { SimulatedDisk, systemError } from '../support/simulated-disk.ts';
import { eventually, runWithin } from '../support/tools.ts';
import { ask, errorOf, post, Wire, type WireReply, withoutChance } from '../support/wire.ts';

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

async function host(t: TestContext, parts: ServiceParts = {}, ...deployments: object[]): Promise<Hosting> {
  const folder = newFolder(t);
  const [data, file] = [join(folder, 'data'), join(folder, 'deployments.json')];
  write(file, ...(deployments.length > 0 ? deployments : [entry('prod'), entry('test', other.digest)]));
  const read = readConfig(['--port', '0', '--data', data, '--deployments', file], {});
  assert.ok(read.kind === 'valid');
  const notices: string[] = [];
  const limits = {
    ...standardLimits,
    deploymentsCheckMs: 50,
    reopenMs: 200,
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

test('each deployment has a journal of its own, which its first report opens [hosted-5]', async (t) => {
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
    await get('/prod/report_asset_chek/'),
    await get('/report_asset_chek'),
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

/** The entries of a log whose message this is. */
function entriesOf(stderr: string, message: string): Record<string, unknown>[] {
  return stderr
    .split('\n')
    .filter((line) => line.includes(`"message":${JSON.stringify(message)}`))
    .map((line) => JSON.parse(line));
}

test('the first failure of each address is logged with its reason, at most 20, and never with the token [hosted-7]', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, 'deployments.json');
  const past = newToken();
  const expired = { name: 'old', sha256: past.digest, notAfter: '2020-01-31' };
  write(file, { name: 'prod', tokens: [{ name: 'ci', sha256: digest }, expired] }, entry('test', other.digest));
  const args = ['--deployments', file, '--trusted-proxy', '127.0.0.0/8', '--log-level', 'debug'];
  const service = await startProcess(t, { args });
  const { port } = service;
  const report = async (name: string, sent: string | undefined, from: string) => {
    const headers = [`X-Forwarded-For: ${from}`, ...(sent === undefined ? [] : [`Service-Cloud-Api-Token: ${sent}`])];
    return ask(port, post(`/${name}/${REPORT}`, undefined, headers));
  };
  const failures = [
    ['prod', undefined, { reason: 'missing token' }],
    ['prod', 'wrong', { reason: 'unknown token' }],
    ['prod', past.token, { reason: 'expired token', token_name: 'old' }],
    ['prod', other.token, { reason: 'token of another deployment', token_name: 'ci', belongs_to: 'test' }],
    ['nobody', token, { reason: 'unknown deployment' }],
  ] as const;
  const replies = [];
  for (const [index, [name, sent]] of failures.entries()) replies.push(await report(name, sent, `192.0.2.${index}`));
  assert.equal(new Set(replies.map(withoutChance)).size, 1, 'the client does not get the reason');
  assert.equal((await report('prod', 'wrong', '192.0.2.0')).status, 401);
  assert.equal((await report('prod', token, '192.0.2.0')).status, 200);
  for (let index = 0; index < 20; index += 1)
    assert.equal((await report('prod', 'w', `198.51.100.${index}`)).status, 401);
  const metrics = (await ask(port, 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')).body;
  assert.match(metrics, /^assetlog_auth_failures_total 26$/m);
  assert.match(metrics, /^assetlog_deployments_in_trouble 0$/m);
  const { stderr } = await service.kill();
  const logged = entriesOf(stderr, 'a request without a valid token was refused');
  assert.equal(logged.length, 20);
  for (const [index, [name, , reason]] of failures.entries()) {
    const { time: _, message: __, request_id, ...fields } = logged[index] ?? {};
    assert.deepEqual(fields, { level: 'warn', address: `192.0.2.${index}`, deployment: name, ...reason });
    assert.equal(request_id, JSON.parse(replies[index]?.body ?? '').request_id);
  }
  assert.equal(logged[5]?.['omitted_since'], 1);
  const requests = entriesOf(stderr, 'request');
  assert.deepEqual(
    requests.filter(({ status }) => status === 200).map(({ token_name }) => token_name),
    ['ci', undefined],
  );
  for (const secret of [token, past.token, other.token]) assert.ok(!stderr.includes(secret));
});

test('through a trusted proxy the bad tokens of one client do not turn the 401 of another one into a 429 [hosted-2]', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, 'deployments.json');
  write(file, entry('prod'));
  const { port } = await startProcess(t, { args: ['--deployments', file, '--trusted-proxy', '127.0.0.0/8'] });
  const report = async (from: string) =>
    (await ask(port, post(`/prod/${REPORT}`, undefined, [`X-Forwarded-For: ${from}`]))).status;
  const statuses: number[] = [];
  for (let count = 0; count <= standardLimits.failuresMax; count += 1) {
    statuses.push(await report(`192.0.2.${count}, 203.0.113.1`));
  }
  assert.deepEqual(statuses, [...Array(standardLimits.failuresMax).fill(401), 429]);
  assert.equal(await report('203.0.113.2'), 401);
  const bad = await run(['--port', '0', '--deployments', file, '--trusted-proxy', 'proxy.example']);
  assert.equal(bad.code, 2);
  assert.match(bad.stderr, /--trusted-proxy "proxy\.example" is not an address such as 127\.0\.0\.1/);
});

test('a damaged journal, a locked one and a failing disk stop only their own deployment, which comes back by itself [hosted-6]', async (t) => {
  const simulated = new Map<string, SimulatedDisk>();
  const parts: ServiceParts = {
    openDisk: (folder) => {
      if (!folder.endsWith('failing')) return openRealDisk(folder);
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
  assert.deepEqual(await askHolder(join(data, 'good')), { kind: 'before', seq: 2 });
  const ready = await get('/readyz');
  assert.equal(ready.status, 200, 'the others go on');
  assert.deepEqual(Object.keys(JSON.parse(ready.body).deployments).sort(), ['damaged', 'failing', 'locked']);
  assert.match(notices.join(''), /"deployment":"damaged","problem":"the journal is damaged: .*assetlog repair --data /);

  await lock.release();
  disk.fault = () => undefined;
  writeFileSync(join(data, 'damaged', segmentName(1)), '');
  for (const name of ['damaged', 'locked', 'failing', 'good'])
    await eventually(`${name} takes reports again`, async () => (await report(name)).status === 200);
  assert.equal((await get('/readyz')).body, '{"status":"ok"}');
  const [lines] = [disk.text(segmentName(1)).trim().split('\n')];
  assert.ok(lines.length >= 2, 'what was acknowledged before is there');
  await service.stop();
});

/** The journals without the listener, so that a report arrives exactly when the test appends it. */
function journals(
  t: TestContext,
  parts: Pick<ServiceParts, 'limits' | 'openDisk'> & Pick<DeploymentJournalsOptions, 'onRecorded' | 'hooksOf'>,
  retain: Retain = {},
): { hosted: DeploymentJournals; data: string } {
  const data = newFolder(t);
  const { limits = standardLimits, openDisk: open = openRealDisk, onRecorded, hooksOf } = parts;
  const hosted = new DeploymentJournals({
    ...{ pathPrefix: '', segmentBytes: Object.keys(retain).length === 0 ? 1_000_000 : 1_000, retain, limits },
    ...{ onRecorded, hooksOf },
    openDisk: (name) => open(join(data, name)),
    metrics: new Metrics(),
    notices: createNotices('error', false, () => {}),
  });
  const alive = setInterval(() => {}, 1_000); // the timers of the service leave that to its listener
  t.after(async () => {
    await hosted.close();
    clearInterval(alive);
  });
  return { hosted, data };
}

/** @returns why the report was refused, or undefined once it is recorded; `answer` is set when that is known */
function append(journal: DeploymentJournal, description: string): Promise<string | undefined> & { answered: boolean } {
  const event: Event = { type: 'AssetMaterialization', assetKey: ['a'], description };
  let answered = false;
  const answer = new Promise<string | undefined>((resolve) => {
    journal.append([event], 0, (result) => {
      answered = true;
      resolve(result.kind === 'refused' ? result.reason : undefined);
    });
  });
  return Object.defineProperty(answer, 'answered', { get: () => answered }) as never;
}

function descriptionsIn(folder: string): unknown[] {
  return eventsIn(folder).map((event) => event['description']);
}

/** Disks on which no journal can be opened until `release` is called. */
function heldDisks(t: TestContext): { openDisk: (folder: string) => Disk; release: () => void } {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const open = (folder: string): Disk => {
    const disk = openRealDisk(folder);
    return { ...disk, prepare: () => released.then(disk.prepare) };
  };
  t.after(release);
  return { openDisk: open, release };
}

test('on a disk with too little free space the journal with the most files gives its oldest ones first', async (t) => {
  let freeBytes = 1_000_000;
  const removed: string[] = [];
  const openDisk = (folder: string): Disk => {
    const disk = openRealDisk(folder);
    return {
      ...disk,
      space: async () => ({ ...(await disk.space()), freeBytes }),
      remove: async (name) => {
        if (name.endsWith('.jsonl')) {
          removed.push(`${basename(folder)} ${name}`);
          freeBytes += await disk.size(name);
        }
        await disk.remove(name);
      },
    };
  };
  const { hosted } = journals(t, { openDisk }, { keepFree: 1_000_000 });
  const [small, large] = [hosted.journalOf('small'), hosted.journalOf('large')];
  for (const [journal, files] of [
    [small, 2],
    [large, 4],
  ] as const) {
    for (let count = 0; count < files; count += 1) assert.equal(await append(journal, 'x'.repeat(1_000)), undefined);
    assert.equal(journal.files, files);
  }
  freeBytes = 999_999;
  await hosted.makeSpace();
  assert.deepEqual(removed, [`large ${segmentName(1)}`]);
  freeBytes = 0;
  await hosted.makeSpace();
  assert.deepEqual(removed.slice(1), [...[2, 3].map((seq) => `large ${segmentName(seq)}`), `small ${segmentName(1)}`]);
});

test('reports that wait while their journal is opened share the caps of the queue, and are recorded in order [hosted-8]', async (t) => {
  const { openDisk, release } = heldDisks(t);
  const limits = { ...standardLimits, queueBytesMax: 10_000, backlogBytesMax: 15_000 };
  const { hosted, data } = journals(t, { limits, openDisk });
  const [first, second, third] = ['first', 'second', 'third'].map((name) => hosted.journalOf(name));
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  assert.equal(first.refusal(7_000), undefined);
  const waiting = ['a', 'b', 'c', 'd'].map((name) => append(first, name));
  assert.deepEqual(
    waiting.map(({ answered }) => answered),
    [false, false, false, false],
  );
  const reason = 'the disk does not keep up: too many reports are waiting for it';
  assert.equal(first.refusal(7_000), reason, 'known before the upload');
  const late = append(first, 'late');
  assert.ok(late.answered, 'refused at once');
  assert.equal(await late, reason);
  const others = ['e', 'f', 'g', 'h'].map((name) => append(second, name));
  assert.deepEqual(
    others.map(({ answered }) => answered),
    [false, false, true, true],
    'the cap of all deployments together',
  );
  assert.equal(third.refusal(7_000), reason, 'also of a deployment that nobody reported to');
  assert.equal(first.trouble, undefined);
  release();
  assert.deepEqual(await Promise.all(waiting), Array(4).fill(undefined));
  assert.deepEqual(await Promise.all(others), [undefined, undefined, reason, reason]);
  assert.equal(await append(first, 'again'), undefined);
  assert.deepEqual(descriptionsIn(join(data, 'first')), ['a', 'b', 'c', 'd', 'again']);
  assert.deepEqual(descriptionsIn(join(data, 'second')), ['e', 'f']);
});

test('a journal whose opening takes too long refuses what waits, and then each report at once [hosted-9]', async (t) => {
  const { openDisk, release } = heldDisks(t);
  const { hosted, data } = journals(t, { limits: { ...standardLimits, openWaitMs: 50 }, openDisk });
  const journal = hosted.journalOf('slow');
  const waiting = [append(journal, 'a'), append(journal, 'b')];
  const reason = 'the journal is being opened';
  assert.deepEqual(await Promise.all(waiting), [reason, reason]);
  assert.equal(journal.trouble, reason);
  assert.equal(journal.refusal(0), reason);
  const late = append(journal, 'c');
  assert.ok(late.answered, 'it does not wait again');
  assert.equal(await late, reason);
  release();
  await eventually('the journal is open', () => journal.trouble === undefined);
  assert.equal(await append(journal, 'd'), undefined);
  assert.deepEqual(descriptionsIn(join(data, 'slow')), ['d'], 'what was refused is not recorded');
});

test('a report for a journal that is being closed waits in the next one, and a stop refuses what waits', async (t) => {
  const { hosted, data } = journals(t, {});
  const journal = hosted.journalOf('a');
  assert.equal(await append(journal, '1'), undefined);
  const [closed, next] = [journal.close(), append(journal, '2')];
  assert.ok(!next.answered);
  await closed;
  assert.equal(await next, undefined);
  const closing = journal.close();
  const waiting = append(journal, '3');
  await hosted.close();
  await closing;
  assert.equal(await waiting, 'the service is stopping');
  assert.deepEqual(descriptionsIn(join(data, 'a')), ['1', '2']);
});

test('on a full disk no report waits for the journal to be opened', async (t) => {
  const openFull = (folder: string): Disk => ({
    ...openRealDisk(folder),
    createLog: () => Promise.reject(systemError('ENOSPC')),
  });
  const { hosted } = journals(t, { limits: { ...standardLimits, openWaitMs: 3_600_000 }, openDisk: openFull });
  const journal = hosted.journalOf('a');
  const reason = 'the disk is full; the service waits for space to open its journal';
  assert.equal(await append(journal, 'first'), reason);
  const second = append(journal, 'second');
  assert.ok(second.answered);
  assert.equal(await second, reason);
});

test('over sockets: a large upload is refused before it is sent while too much waits for a journal', async (t) => {
  const { openDisk: openHeld, release } = heldDisks(t);
  const parts = { openDisk: (folder: string) => (folder.endsWith('prod') ? openHeld(folder) : openRealDisk(folder)) };
  const limits = { ...standardLimits, queueBytesMax: 300_000, openWaitMs: 60_000 };
  const { data, service } = await host(t, { ...parts, limits });
  const port = Number(new URL(service.url).port);
  const header = [`Service-Cloud-Api-Token: ${token}`];
  const wire = await Wire.open(port);
  t.after(() => wire.close());
  for (let index = 0; index < 8; index += 1) {
    wire.send(post(`/prod/${REPORT}`, `{"description":"${index}","metadata":{"x":"${'x'.repeat(50_000)}"}}`, header));
  }
  const large = `POST /prod/${REPORT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${header[0]}\r\nContent-Length: 250000\r\nExpect: 100-continue\r\n\r\n`;
  let reply = await ask(port, large);
  for (let waited = 0; reply.status === 100 && waited < 500; waited += 1) reply = await ask(port, large);
  assert.deepEqual([reply.status, reply.headers.get('retry-after')], [503, '1']);
  release();
  const statuses: (number | undefined)[] = [];
  for (let index = 0; index < 8; index += 1) statuses.push((await wire.reply())?.status);
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 503, 503, 503]);
  assert.deepEqual(descriptionsIn(join(data, 'prod')), ['0', '1', '2', '3', '4']);
});

test('a deployment whose lock file is removed fails alone, and is opened again once no other process has it [hosted-1]', async (t) => {
  for (const lockCheckMs of [20, 60_000]) {
    const { data, report, get, notices } = await host(t, { limits: { ...standardLimits, lockCheckMs } });
    assert.equal((await report('prod')).status, 200);
    const [lock = ''] = readdirSync(join(data, 'prod')).filter((name) => name.startsWith('.lock-'));
    rmSync(join(data, 'prod', lock));
    const second = await lockFolder(join(data, 'prod'));
    const isNoticed = () => /"deployment":"prod".*the lock file/.test(notices.join(''));
    if (lockCheckMs === 20) await eventually('it is noticed without a report', isNoticed);
    assert.equal((await report('prod')).status, 503);
    assert.ok(isNoticed());
    assert.deepEqual(Object.keys(JSON.parse((await get('/readyz')).body).deployments), ['prod']);
    await second.release();
    await eventually('reports are taken again', async () => (await report('prod')).status === 200);
    assert.equal((await get('/readyz')).body, '{"status":"ok"}');
  }
});

test('a journal that nobody uses is closed, and opened again by the next report', async (t) => {
  const { data, report } = await host(t, { limits: { ...standardLimits, idleJournalMs: 100 } });
  assert.equal((await report('prod')).status, 200);
  const clean = () => readdirSync(join(data, 'prod')).includes('.stopped-cleanly');
  await eventually('it is closed', clean);
  assert.equal((await report('prod')).status, 200);
  assert.equal(eventsIn(join(data, 'prod')).length, 2);
});

test('of more journals than may be open the longest unused is closed, and comes back with its next report [hosted-4]', async (t) => {
  const names = ['a', 'b', 'c'];
  const limits = { ...standardLimits, openJournalsMax: 2 };
  const { data, report } = await host(t, { limits }, ...names.map((name) => entry(name)));
  const isClosed = (name: string) => readdirSync(join(data, name)).includes('.stopped-cleanly');
  for (const name of names) assert.equal((await report(name)).status, 200);
  await eventually('a is closed', () => isClosed('a'));
  assert.deepEqual(names.map(isClosed), [true, false, false]);
  assert.equal((await report('a')).status, 200);
  await eventually('b is closed', () => isClosed('b'));
  assert.deepEqual(names.map(isClosed), [false, true, false]);
  assert.equal(eventsIn(join(data, 'a')).length, 2);
});

test('of 200 deployments that report at once, only as many journals hold descriptors as may, and nothing is lost', {
  skip: process.platform === 'linux' ? false : 'open descriptors are counted in /proc/self/fd',
}, async (t) => {
  const names = Array.from({ length: 200 }, (_, index) => `d${index}`);
  const limits = { ...standardLimits, openJournalsMax: 5, openWaitMs: 60_000 };
  const { data, service } = await host(t, { limits }, ...names.map((name) => entry(name)));
  const port = Number(new URL(service.url).port);
  const wires = await Promise.all(names.map(() => Wire.open(port)));
  t.after(() => {
    for (const wire of wires) wire.close();
  });
  assert.equal((await ask(port, 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n')).status, 200);
  const count = () => readdirSync('/proc/self/fd').length;
  const before = count();
  let most = before;
  const counting = setInterval(() => {
    most = Math.max(most, count());
  }, 1);
  t.after(() => clearInterval(counting));
  for (const [index, wire] of wires.entries()) {
    wire.send(post(`/${names[index]}/${REPORT}`, undefined, [`Service-Cloud-Api-Token: ${token}`]));
  }
  const replies = await Promise.all(wires.map((wire) => wire.reply()));
  assert.deepEqual(new Set(replies.map((reply) => reply?.status)), new Set([200]), errorOf(replies[0]));
  // Folder, lock and file of each; while it is opened or closed, a few more for a moment.
  assert.ok(most - before <= 5 * 6, `${most - before} more descriptors`);
  for (const name of names) assert.equal(eventsIn(join(data, name)).length, 1, name);
});

/** Real disks of which the journal's writes to one wait for `release`. */
function slowDisk(t: TestContext, slow: string): { openDisk: (folder: string) => Disk; release: () => void } {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  t.after(release);
  const open = (folder: string): Disk => {
    const disk = openRealDisk(folder);
    if (!folder.endsWith(slow)) return disk;
    const createLog: Disk['createLog'] = async (name) => {
      const file = await disk.createLog(name);
      return { ...file, append: (bytes, end) => released.then(() => file.append(bytes, end)) };
    };
    return { ...disk, createLog };
  };
  return { openDisk: open, release };
}

test('a busy journal is not closed for another one; those that wait are opened in turn', async (t) => {
  const { openDisk, release } = slowDisk(t, 'busy');
  const { hosted, data } = journals(t, { limits: { ...standardLimits, openJournalsMax: 1 }, openDisk });
  const done: string[] = [];
  const report = async (name: string, description: string) => {
    assert.equal(await append(hosted.journalOf(name), description), undefined);
    done.push(`${name} ${description}`);
  };
  const first = report('busy', '1');
  await eventually('its file is there', () => existsSync(join(data, 'busy', segmentName(1))));
  const others = ['z', 'a', 'm'].map((name) => report(name, '1'));
  const second = report('busy', '2');
  release();
  await Promise.all([first, second, ...others]);
  assert.deepEqual(done, ['busy 1', 'busy 2', 'z 1', 'a 1', 'm 1']);
  assert.deepEqual(descriptionsIn(join(data, 'busy')), ['1', '2']);
});

test('a forwarder opens a journal without a report, in its turn, and an idle close keeps how far it is durable', async (t) => {
  const { openDisk, release } = slowDisk(t, 'busy');
  const progress = new OwnProgress();
  const onRecorded = (folder: string, nextSeq: number) => progress.recorded(folder, nextSeq);
  const limits = { ...standardLimits, openJournalsMax: 1, openWaitMs: 3_600_000 };
  const { hosted, data } = journals(t, { limits, openDisk, onRecorded });
  const durable = async (name: string) => (await progress.of(join(data, name)).durable()).kind;
  assert.equal(await append(hosted.journalOf('a'), '1'), undefined);
  await hosted.journalOf('a').close();
  progress.forget(join(data, 'a'));
  const busy = append(hosted.journalOf('busy'), '1');
  await eventually('its file is there', () => existsSync(join(data, 'busy', segmentName(1))));
  hosted.journalOf('a').wake();
  hosted.journalOf('new').wake();
  hosted.journalOf('new').wake();
  assert.deepEqual(
    [await durable('a'), await durable('new')],
    ['unsaid', 'unsaid'],
    'a busy journal is not closed for it',
  );
  release();
  assert.equal(await busy, undefined);
  await eventually('both were open', async () => !(await Promise.all(['a', 'new'].map(durable))).includes('unsaid'));
  assert.equal(await append(hosted.journalOf('busy'), '2'), undefined, 'a journal that was woken gives its slot back');
  await hosted.journalOf('a').close();
  assert.deepEqual(await progress.of(join(data, 'a')).durable(), { kind: 'before', seq: 2 });
  assert.deepEqual(await progress.of(join(data, 'new')).durable(), { kind: 'before', seq: 1 });
});

test('a journal that is woken again and again is not closed as idle', async (t) => {
  const { hosted } = journals(t, { limits: { ...standardLimits, idleJournalMs: 1_000 } });
  const [woken, idle] = [hosted.journalOf('woken'), hosted.journalOf('idle')];
  for (const journal of [woken, idle]) assert.equal(await append(journal, 'x'), undefined);
  await eventually('the other one is closed', () => {
    woken.wake();
    return idle.files === 0;
  });
  assert.equal(woken.files, 1);
});

test('a journal that can not be opened is not tried again at each wake, but by a report and after a while', async (t) => {
  let prepared = 0;
  const openFailing = (folder: string): Disk => ({
    ...openRealDisk(folder),
    prepare: async () => {
      prepared += 1;
      throw systemError('EIO');
    },
  });
  const limits = { ...standardLimits, reopenMs: 1, forwardStoppedMs: 3_600_000 };
  const { hosted } = journals(t, { openDisk: openFailing, limits });
  const journal = hosted.journalOf('a');
  journal.wake();
  await eventually('it failed', () => journal.trouble !== undefined);
  await sleep(limits.reopenMs + 1);
  journal.wake();
  assert.deepEqual([prepared, journal.isBusy], [1, false]);
  assert.match((await append(journal, 'x')) ?? '', /the disk failed/);
  assert.equal(prepared, 2);
  const { hosted: sooner } = journals(t, { openDisk: openFailing, limits: { ...limits, forwardStoppedMs: 1 } });
  await eventually('it is tried again', () => {
    sooner.journalOf('a').wake();
    return prepared >= 5;
  });
});

test('at the limit of retention, only the deployment whose destination needs the files refuses reports', async (t) => {
  let fromSeq = 1;
  const names: string[] = [];
  const hooksOf = (name: string): JournalHooks => {
    names.push(name);
    const heldBack = () => (name === 'held' ? { fromSeq, reason: 'the destination hub needs event 1' } : undefined);
    return { heldBack, opened: () => {}, removing: async () => {}, closed: async () => {} };
  };
  const { hosted, data } = journals(t, { hooksOf }, { retainBytes: 2_500 });
  const [held, free] = [hosted.journalOf('held'), hosted.journalOf('free')];
  let reason: string | undefined;
  await eventually('reports are refused', async () => {
    assert.equal(await append(free, 'x'.repeat(1_000)), undefined);
    reason = await append(held, 'x'.repeat(1_000));
    return reason !== undefined;
  });
  assert.equal(reason, 'the destination hub needs event 1');
  assert.deepEqual(hosted.troubles(), new Map([['held', reason]]));
  assert.ok(existsSync(join(data, 'held', segmentName(1))));
  await eventually('a file is removed', () => !existsSync(join(data, 'free', segmentName(1))));
  await held.close();
  assert.equal(await append(held, 'x'), reason, 'also by the report that opens the journal again');
  fromSeq = 1_000;
  held.retain();
  await eventually('reports are recorded again', () => held.trouble === undefined);
  assert.equal(await append(held, 'x'), undefined);
  assert.deepEqual([...new Set(names)], ['free', 'held']);
});

test('a report that waits too long for busy journals is refused, and no journal is opened for it afterwards', async (t) => {
  const { openDisk, release } = slowDisk(t, 'busy');
  const limits = { ...standardLimits, openJournalsMax: 1, openWaitMs: 1_000 };
  const { hosted, data } = journals(t, { limits, openDisk });
  const busy = append(hosted.journalOf('busy'), '1');
  const late = hosted.journalOf('late');
  const reason = 'all 1 journals that may be open at a time are busy';
  assert.equal(await append(late, '1'), reason);
  const again = append(late, '2');
  assert.ok(again.answered, 'it does not wait again');
  assert.equal(await again, reason);
  assert.equal(late.trouble, reason);
  release();
  assert.equal(await busy, undefined);
  await eventually('the journal takes reports', () => late.trouble === undefined);
  assert.equal(existsSync(join(data, 'late')), false);
  assert.equal(await append(late, '3'), undefined);
  assert.deepEqual(descriptionsIn(join(data, 'late')), ['3']);
});

test('a journal that waits for a full disk is named, and does not hold up a stop', async (t) => {
  const full = (folder: string): Disk => {
    const disk = openRealDisk(folder);
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
  assert.match((await get('/metrics')).body, /^assetlog_deployments_in_trouble 1$/m);
  write(file, entry('test', other.digest));
  await service.reload();
  assert.equal((await get('/readyz')).body, '{"status":"ok"}');
  await lock.release();
  write(file, entry('prod'));
  await service.reload();
  assert.equal((await report('prod')).status, 200);
});

test('a changed file counts without a restart; a bad one is reported once, and what was good stays [hosted-3]', async (t) => {
  const { file, report, notices, service, data } = await host(t);
  assert.equal((await report('prod')).status, 200);
  writeFileSync(file, '{"deployments": [\n{"name": "prod", "tokens": []}]}');
  await eventually('it is refused', () => notices.some((line) => line.includes('the deployments file is refused')));
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
  await eventually('the file is read', isRead);
  assert.deepEqual(
    await Promise.all([report('prod'), report('prod', other.token), report('more'), report('test', other.token)]).then(
      (all) => all.map(({ status }) => status),
    ),
    [200, 200, 200, 401],
  );
  write(file, entry('more'));
  await service.reload();
  assert.equal((await report('prod')).status, 401);
  await eventually('the journal of a deployment that is gone is closed', () =>
    readdirSync(join(data, 'prod')).includes('.stopped-cleanly'),
  );
});

test('of two reads of the deployments file that overlap, the one that began later counts', async (t) => {
  const limits = { ...standardLimits, deploymentsCheckMs: 3_600_000 };
  const { file, report, service } = await host(t, { limits });
  assert.equal((await report('prod')).status, 200);
  const [before, revoked] = [readFileSync(file), `${file}.new`];
  write(revoked, entry('test', other.digest));
  // A pipe in the place of the file: its reader gets the text when the test writes it.
  rmSync(file);
  execFileSync('mkfifo', [file]);
  const earlier = service.reload();
  const pipe = await openWhenRead(file);
  renameSync(revoked, file);
  const later = service.reload();
  await Promise.race([later, sleep(200)]); // two reads at once would have ended the later one by now
  writeSync(pipe, before);
  closeSync(pipe);
  await Promise.all([earlier, later]);
  assert.equal((await report('prod')).status, 401, 'its token was revoked');
  assert.equal((await report('test', other.token)).status, 200);
});

/** Opens a pipe for writing as soon as it has a reader. */
async function openWhenRead(path: string): Promise<number> {
  for (;;) {
    try {
      return openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENXIO') throw error;
      await sleep(5);
    }
  }
}

test('a start warns of a data folder or a deployments file that others may write to', {
  skip: process.getuid?.() === 0 ? false : 'only root can give a file to another group',
}, async (t) => {
  const folder = newFolder(t);
  const [data, file] = [join(folder, 'data'), join(folder, 'deployments.json')];
  mkdirSync(data);
  write(file, entry('prod'));
  const own = process.getgid?.() ?? 0;
  const everybody = [
    'every user of this machine may write to the deployments file, and so decide which clients may report; chmod go-w it',
  ];
  const table: readonly (readonly [
    folderMode: number,
    fileMode: number,
    group: number,
    warnings: readonly string[],
  ])[] = [
    [0o700, 0o640, 12345, []],
    [0o770, 0o664, own, []],
    [0o700, 0o602, own, everybody],
    [0o700, 0o666, 12345, everybody],
    [
      0o700,
      0o660,
      12345,
      ['the group 12345 may write to the deployments file, and so decide which clients may report; chmod g-w it'],
    ],
    [
      0o777,
      0o600,
      own,
      ['every user of this machine may write to the data folder, and so change or remove events; chmod o-w it'],
    ],
  ];
  for (const [folderMode, fileMode, group, warnings] of table) {
    chmodSync(data, folderMode);
    chmodSync(file, fileMode);
    chownSync(file, process.getuid?.() ?? 0, group);
    const service = await startProcess(t, { data, args: ['--deployments', file] });
    const { stderr } = await service.kill();
    const notices = stderr.split('\n').filter((line) => line.includes('may write to'));
    assert.deepEqual(
      notices.map((line) => JSON.parse(line).message),
      warnings,
      `${folderMode.toString(8)} ${fileMode.toString(8)} ${group}`,
    );
  }
});

test('without --deployments the folder of hosted mode is refused with 2, and that of one deployment is a journal', async (t) => {
  const folder = newFolder(t);
  const [data, file] = [join(folder, 'data'), join(folder, 'deployments.json')];
  write(file, entry('prod'), entry('test'));
  const hosted = await startProcess(t, { data, args: ['--deployments', file] });
  const sent = [`Service-Cloud-Api-Token: ${token}`];
  assert.equal((await ask(hosted.port, post(`/prod/${REPORT}`, undefined, sent))).status, 200);
  await hosted.kill();
  const before = readdirSync(data);
  const { code, stderr } = await runWithin(10_000, ['serve', '--port', '0', '--data', data]);
  assert.equal(code, 2);
  assert.match(
    stderr,
    /^assetlog: the data folder \S+data holds journals of deployments, such as prod, .*give --deployments FILE, or --data \S+data\/prod for that journal alone\n$/,
  );
  assert.deepEqual(readdirSync(data), before);
  const one = await startProcess(t, { data: join(data, 'prod') });
  assert.equal((await ask(one.port, post(`/${REPORT}`))).status, 200);
  assert.equal(one.events().length, 2);
  await one.kill();
  // What a repair put aside, what a journal in the folder itself was copied to, and other folders are no deployments.
  const local = join(folder, 'local');
  for (const name of ['damaged-20261120T150405Z', 'other', '.hidden'])
    mkdirSync(join(local, name), { recursive: true });
  for (const name of ['damaged-20261120T150405Z', '.hidden']) writeFileSync(join(local, name, segmentName(1)), '');
  const first = await startProcess(t, { data: local });
  assert.equal((await ask(first.port, post(`/${REPORT}`))).status, 200);
  await first.kill();
  mkdirSync(join(local, 'copy'));
  writeFileSync(join(local, 'copy', segmentName(1)), '');
  const second = await startProcess(t, { data: local });
  assert.equal((await ask(second.port, post(`/${REPORT}`))).status, 200);
  await second.kill();
  // A journal of local mode is no obstacle to hosted mode, which leaves it alone.
  const mixed = await startProcess(t, { data: local, args: ['--deployments', file] });
  assert.equal((await ask(mixed.port, post(`/prod/${REPORT}`, undefined, sent))).status, 200);
  assert.equal(mixed.events().length, 2);
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
  await eventually('the new token counts', async () => (await report()).status === 200);
  assert.equal(JSON.parse(line).name, 'cron');
  const { code, stderr } = await service.kill('SIGTERM');
  assert.equal(code, 0);
  assert.doesNotMatch(stderr, new RegExp(fresh));
});

test('a token that may only read reports nowhere, and learns no more than any token which paths there are', async (t) => {
  const reader = { name: 'dashboard', sha256: digest, may: ['read'] };
  const { data, report, service } = await host(t, {}, { name: 'prod', tokens: [reader] }, entry('test', other.digest));
  const port = Number(new URL(service.url).port);
  const header = `Service-Cloud-Api-Token: ${token}`;
  const send = (path: string, body?: string) => ask(port, post(path, body, [header]));
  const refusals = [
    await report('prod'),
    await send('/prod/report_asset_check/a?passed=maybe'),
    await send('/prod/report_asset_observation//'),
    await send('/prod/report_asset_batch/', '[{]'),
    await ask(port, `GET /prod/${REPORT} HTTP/1.1\r\nHost: localhost\r\n${header}\r\n\r\n`),
  ];
  const seen = new Set(refusals.map(withoutChance));
  assert.equal(seen.size, 1, [...seen].join('\n'));
  assert.match(errorOf(refusals[0] as WireReply), /^this token may not report; /);
  assert.equal(refusals[0]?.status, 403);
  assert.equal((await send('/prod/nothing')).status, 404);
  assert.equal((await report('test')).status, 401);
  assert.deepEqual(
    readdirSync(data).filter((name) => !name.startsWith('.')),
    [],
  );
});

test('as a process: a token is printed with what it may do', async () => {
  const mayOf = async (...args: string[]) => {
    const { code, stdout, stderr } = await run(['token', ...args]);
    return code === 0 ? JSON.parse(stdout.split('\n')[1] ?? '').may : [code, stderr];
  };
  assert.equal(await mayOf(), undefined);
  assert.deepEqual(await mayOf('--may', 'read'), ['read']);
  assert.deepEqual(await mayOf('--may', 'read,report'), ['report', 'read']);
  for (const words of ['write', 'report read', 'read,', 'read,read']) {
    assert.deepEqual(await mayOf('--may', words), [
      2,
      `assetlog: --may ${JSON.stringify(words)} is not a list of rights; use report, read or report,read\n`,
    ]);
  }
});

test('as a process: a token can be printed with its end, which has to exist', async () => {
  for (const date of ['2026-12-31', '2026-12-31T12:00:00.5+01:00']) {
    const printed = await run(['token', '--name', 'ci', '--not-after', date]);
    assert.equal(printed.code, 0);
    const { notAfter, ...others } = JSON.parse(printed.stdout.split('\n')[1] ?? '');
    assert.deepEqual([notAfter, Object.keys(others)], [date, ['name', 'sha256']]);
  }
  for (const date of ['2026-02-30', '2026-13-01', '2026-12-31T12:00', 'tomorrow']) {
    const { code, stdout, stderr } = await run(['token', '--not-after', date]);
    assert.deepEqual([code, stdout], [2, ''], date);
    assert.match(
      stderr,
      /^assetlog: --not-after "\S+" is not a day that exists, such as 2027-01-31 \(until its end in UTC\), or /,
    );
  }
});
