/** The deployments file: changes are read, and a bad file changes nothing. */

import assert from 'node:assert/strict';
import { chmodSync, chownSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileQueue } from '../../../src/config/file-queue.ts';
import { sha256 } from '../../../src/deployments/tokens.ts';
import { entryOf, host, REPORT, rewrite, writeDeployments } from '../../support/deployments.ts';
import { hangFiles } from '../../support/hanging-files.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import { newFolder } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { eventually, within } from '../../support/tools.ts';
import { ask, get, post } from '../../support/wire.ts';

test('a changed deployments file is used without a restart, and a bad one is reported once and changes nothing', async (t) => {
  const { data, file, notices, reload, report, get, tokenOf } = await host(t);
  assert.equal((await report('prod')).status, 200);
  const refusals = () => notices.filter((line) => line.includes('the deployments file is refused'));
  writeFileSync(file, '{"deployments": [\n{"name": "prod", "tokens": {}}]}');
  await eventually('the file is refused', () => refusals().length > 0);
  await reload();
  assert.equal((await report('prod')).status, 200);
  assert.equal(refusals().length, 1);
  assert.match(refusals()[0] ?? '', /deployments\.json, line 2: deployments\[0\]\.tokens must be an array/);
  const troubles = async () => JSON.parse((await get('/readyz')).body).files;
  const problem = 'it is refused, and the previous version stays in effect; see the log';
  assert.deepEqual(await troubles(), { [file]: problem });
  const refusedFiles = async () => samplesOf((await get('/metrics')).body).get('assetlog_files_refused');
  assert.equal(await refusedFiles(), 1);

  const [old, fresh] = [tokenOf('prod'), tokenOf('test')];
  const tokens = [old, fresh].map((token) => ({ name: token.slice(-9), sha256: sha256(token).toString('hex') }));
  rewrite(file, { name: 'prod', tokens }, entryOf('more', fresh)); // without a reload
  const isRead = () => notices.some((line) => line.includes('the deployments were read again'));
  await eventually('the file is read', isRead);
  assert.deepEqual([await troubles(), await refusedFiles()], [undefined, 0]);
  const replies = [report('prod', old), report('prod', fresh), report('more', fresh), report('test', fresh)];
  assert.deepEqual(
    (await Promise.all(replies)).map(({ status }) => status),
    [200, 200, 200, 401],
  );
  rewrite(file, entryOf('more', fresh));
  await reload();
  assert.equal((await report('prod')).status, 401);
  await eventually('the journal of a removed deployment is closed', () =>
    readdirSync(join(data, 'prod')).includes('.stopped-cleanly'),
  );
});

test('a byte order mark in the deployments and the destinations is skipped, and a bad file is named', async (t) => {
  const deployments = writeDeployments(t, ['prod']);
  const forward = join(newFolder(t), 'destinations.json');
  writeFileSync(deployments.file, `\ufeff${readFileSync(deployments.file, 'utf8')}`);
  writeFileSync(forward, '\ufeff{"destinations": [{"name": "hub", "to": "http://127.0.0.1:1/{deployment}"}]}');
  const { port, reload } = await serve(t, { args: [...deployments.args, '--forward', forward] });
  assert.equal((await ask(port, post(`/prod/${REPORT}`, undefined, [deployments.headerOf('prod')]))).status, 200);
  writeFileSync(forward, '{"destinations": 7}');
  await reload();
  assert.deepEqual(Object.keys(JSON.parse((await ask(port, get('/readyz'))).body).files), [forward]);
  writeFileSync(deployments.file, readFileSync(deployments.file, 'utf8'), 'utf16le');
  await assert.rejects(serve(t, { args: deployments.args }), /deployments\.json is UTF-16; save it as UTF-8/);
});

test('tokens that have expired or will soon are a warning at a start and at a reload, and a metric', async (t) => {
  const { file, args } = writeDeployments(t, ['prod', 'test']);
  const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
  const [old, soon, late] = [-1, 13.9, 14.1].map((days, index) => ({
    name: `t${index}`,
    sha256: sha256(`${index}`).toString('hex'),
    notAfter: inDays(days),
  }));
  const many = Array.from({ length: 12 }, (_, index) => ({ ...soon, name: `m${index}` }));
  rewrite(file, { name: 'prod', tokens: [old, soon, late] }, entryOf('test', 'x'));
  const service = await serve(t, { args: [...args] });
  const message = 'tokens have expired or expire within 14 days; assetlog token prints new ones';
  const warnings = () => service.notices.filter((line) => line.includes(message)).map((line) => JSON.parse(line));
  const fields = (at: number) => {
    const { expired_count, expired, expiring_count, expiring } = warnings()[at];
    return [expired_count, expired, expiring_count, expiring];
  };
  assert.deepEqual(fields(0), [1, 'prod/t0', 1, 'prod/t1']);
  const samples = samplesOf(await metricsOf(service));
  const counts = ['valid', 'expiring', 'expired'].map((state) => samples.get(`assetlog_tokens{state="${state}"}`));
  assert.deepEqual(counts, [2, 1, 1]);
  rewrite(file, { name: 'prod', tokens: [late] });
  await service.reload();
  rewrite(file, { name: 'prod', tokens: many });
  await service.reload();
  assert.equal(warnings().length, 2);
  assert.deepEqual(fields(1).slice(0, 3), [0, undefined, 12]);
  assert.equal(fields(1)[3].split(', ').length, 10);
});

test('when two reads of the deployments file overlap, the later one counts', async (t) => {
  const { file, reload, report, tokenOf } = await host(t, ['prod', 'test'], {
    limits: { deploymentsCheckMs: 3_600_000 },
  });
  assert.equal((await report('prod')).status, 200);
  const revoked = `${file}.new`;
  rewrite(revoked, entryOf('test', tokenOf('test')));
  const files = hangFiles(t, (path) => path === file);
  const earlier = reload();
  await eventually('the file is being read', () => files.waiting.length > 0);
  const later = reload();
  await Promise.race([later, sleep(200)]); // two reads at once would both have begun by now
  assert.equal(files.waiting.length, 1);
  renameSync(revoked, file);
  files.open();
  await Promise.all([earlier, later]);
  assert.equal((await report('prod')).status, 401, 'the token of prod was revoked');
  assert.equal((await report('test')).status, 200);
});

test('a deployments file that does not answer is in the log and in /readyz, and is used again when it does', async (t) => {
  const { file, args, notices, reload, report, get, tokenOf, stop } = await host(t, ['prod', 'test'], {
    limits: { fileReadMs: 2_000 }, // a busy machine needs some of it for a file that answers
  });
  const files = hangFiles(t, (path) => path === file);
  rewrite(file, entryOf('test', tokenOf('test')));
  await reload();
  assert.equal((await report('prod')).status, 200, 'its token was taken out, and the file cannot be read');
  const lines = () => notices.filter((line) => line.includes('the deployments file is refused'));
  assert.match(
    lines().join(),
    /"problem":"\S*deployments\.json was not read to its end in time; check its file system/,
  );
  assert.deepEqual(JSON.parse((await get('/readyz')).body), {
    status: 'degraded',
    files: { [file]: 'it does not answer, and no other file is read before it does; check its file system' },
  });
  await sleep(300); // it is tried every 50 ms
  assert.deepEqual([lines().length, files.waiting], [1, [file]]);
  files.open();
  await eventually('the file is read', async () => (await report('prod')).status === 401);
  await eventually('it is said no more', async () => (await get('/readyz')).body === '{"status":"ok"}');
  const again = hangFiles(t, (path) => path === file);
  await eventually('it is being read', () => again.waiting.length > 0);
  await within('a stop', 20_000, stop());
  const start = serve(t, { args, limits: { fileReadMs: 100 } });
  await assert.rejects(within('a start', 20_000, start), { exitCode: 5 });
  again.open();
  // Until then this process refuses all files, also those of the next test.
  await eventually('the late file is read', () => fileQueue.late === undefined);
});

test('a start warns of a data folder or a deployments file that others may write to', {
  skip: process.getuid?.() === 0 ? false : 'only root can give a file to another group',
}, async (t) => {
  const data = newFolder(t);
  const { file, args } = writeDeployments(t, ['prod']);
  const own = process.getgid?.() ?? 0;
  const ofFile = 'may write to the deployments file, and so decide which clients may report; chmod';
  const everyUser = `every user of this machine ${ofFile} go-w it`;
  const ofFolder =
    'every user of this machine may write to the data folder, and so change or remove events; chmod o-w it';
  for (const [folderMode, fileMode, group, ...warnings] of [
    [0o700, 0o640, 12345],
    [0o770, 0o664, own],
    [0o700, 0o602, own, everyUser],
    [0o700, 0o666, 12345, everyUser],
    [0o700, 0o660, 12345, `the group 12345 ${ofFile} g-w it`],
    [0o777, 0o600, own, ofFolder],
  ] as const) {
    chmodSync(data, folderMode);
    chmodSync(file, fileMode);
    chownSync(file, process.getuid?.() ?? 0, group);
    const { notices, stop } = await serve(t, { data, args });
    await stop();
    assert.deepEqual(
      notices.map((line) => JSON.parse(line).message).filter((message) => message.includes('may write to')),
      warnings,
      `${folderMode.toString(8)} ${fileMode.toString(8)} ${group}`,
    );
  }
});
