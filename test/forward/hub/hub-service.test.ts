/** A hub as a service: deployments and their tokens, SIGKILL, retention, a reset, and a journal that is closed while idle. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newToken } from '../../../src/deployments/tokens.ts';
import { type Disk, type LogFile, openDisk, SyncError } from '../../../src/journal/disk.ts';
import { entryOf, rewrite } from '../../support/deployments.ts';
import { seqsAt } from '../../support/forwarded.ts';
import { askHub, SentJournal, SOURCE } from '../../support/forwarding.ts';
import { newFolder, type Scope, startService } from '../../support/program.ts';
import { serveReads } from '../../support/reading.ts';
import { eventually, upTo } from '../../support/tools.ts';

const TOKEN_HEADER = 'Service-Cloud-Api-Token';

/** A deployments file, and a token of each kind for `prod` and `test`. */
function deployments(t: Scope) {
  const [edge, cron, reader, other] = [newToken(), newToken(), newToken(), newToken()];
  const file = join(newFolder(t), 'deployments.json');
  const tokens = [
    { name: 'edge', sha256: edge.digest, may: ['forward'] },
    { name: 'cron', sha256: cron.digest, may: ['report', 'read'] },
    { name: 'page', sha256: reader.digest, may: ['read'] },
  ];
  rewrite(file, { name: 'prod', tokens }, entryOf('test', other.token));
  const headers = (token: string) => ({ [TOKEN_HEADER]: token });
  const [prod, reads] = [headers(edge.token), headers(reader.token)];
  return { file, prod, reads, reports: headers(cron.token), test: headers(other.token) };
}

test('in hosted mode each deployment is a hub of its own, for tokens that may forward', async (t) => {
  const { file, ...tokens } = deployments(t);
  const hub = await startService(t, { args: ['--deployments', file] });
  const [prod, other] = [`${hub.url}/prod`, `${hub.url}/test`];
  const sent = new SentJournal(6);
  for (const headers of [{}, tokens.test, { [TOKEN_HEADER]: 'x' }]) {
    assert.equal((await sent.put(prod, 1, 3, { headers })).status, 401);
    assert.equal((await askHub(prod, SOURCE, headers)).status, 401);
  }
  for (const headers of [tokens.reads, tokens.reports]) {
    const refused = await sent.put(prod, 1, 3, { headers });
    assert.equal(refused.status, 403);
    assert.match(String(refused.body['error']), /^this token may not forward; .*"forward" in "may"$/);
    assert.equal((await askHub(prod, SOURCE, headers)).status, 403);
  }
  assert.deepEqual((await askHub(prod, SOURCE, tokens.prod)).body, {
    seq: 0,
    id: null,
    gzip: true,
    origins: true,
  });
  assert.equal((await sent.put(prod, 1, 3, { headers: tokens.prod })).status, 200);
  assert.deepEqual((await askHub(other, SOURCE, tokens.test)).body, {
    seq: 0,
    id: null,
    gzip: true,
    origins: true,
  });
  assert.equal((await sent.put(other, 1, 6, { headers: tokens.test })).status, 200);
  assert.equal((await askHub(prod, SOURCE, tokens.prod)).body['seq'], 3);
  assert.deepEqual(seqsAt(join(hub.data, 'prod')), upTo(3));
  assert.deepEqual(seqsAt(join(hub.data, 'test')), upTo(6));
  await hub.kill('SIGKILL');
  const again = await startService(t, { data: hub.data, args: ['--deployments', file] });
  assert.equal((await askHub(`${again.url}/prod`, SOURCE, tokens.prod)).body['seq'], 3);
  assert.equal((await sent.put(`${again.url}/test`, 4, 6, { headers: tokens.test })).body['seq'], 6);
  assert.deepEqual(seqsAt(join(hub.data, 'test')), upTo(6));
});

test('an event whose write failed, but that the journal has when it is opened again, is not recorded twice', async (t) => {
  const { file, prod } = deployments(t);
  let failsAt = Number.POSITIVE_INFINITY;
  const failing = (log: LogFile): LogFile => ({
    ...log,
    append: async (bytes, end) => {
      const written = await log.append(bytes, end);
      failsAt -= 1;
      if (failsAt === 0) throw new SyncError(new Error('EIO: i/o error, fdatasync'));
      return written;
    },
  });
  const openFailing = (folder: string): Disk => {
    const disk = openDisk(folder);
    return { ...disk, openLog: async (name) => failing(await disk.openLog(name)) };
  };
  const hub = await serveReads(t, {
    limits: { reopenMs: 100, idleJournalMs: 100 },
    parts: { openDisk: openFailing },
    args: ['--deployments', file],
  });
  const sent = new SentJournal(4);
  const url = `${hub.url}/prod`;
  await sentOnce(sent, url, prod, 1, 2);
  await eventually('it is closed', () => existsSync(join(hub.data, 'prod', '.stopped-cleanly')));
  failsAt = 1;
  assert.equal((await sent.put(url, 3, 3, { headers: prod })).status, 503);
  await sentOnce(sent, url, prod, 3, 4);
  assert.deepEqual(seqsAt(join(hub.data, 'prod')), upTo(4));
});

/** Sends lines until the hub takes them: while its journal is being closed or opened, a request may get 503. */
function sentOnce(sent: SentJournal, url: string, headers: Record<string, string>, first: number, last: number) {
  return eventually(`the hub is at ${last}`, async () => {
    const { status, body } = await sent.put(url, first, last, { headers });
    if (status !== 503) assert.equal(body['seq'], last);
    return status !== 503;
  });
}

test('a reset in test mode makes a hub forget what it has of other journals', async (t) => {
  const hub = await startService(t, { args: ['--test'] });
  const sent = new SentJournal(5);
  assert.equal((await sent.put(hub.url, 1, 5)).status, 200);
  assert.equal((await fetch(`${hub.url}/test/reset`, { method: 'POST' })).status, 200);
  assert.deepEqual((await askHub(hub.url)).body, { seq: 0, id: null, gzip: true, origins: true });
  assert.equal((await sent.put(hub.url, 1, 2)).body['seq'], 2);
  assert.deepEqual(seqsAt(hub.data), [1, 2]);
});

test('forwarded events are counted in the metrics like reports', async (t) => {
  const hub = await startService(t);
  const sent = new SentJournal(5);
  await sent.put(hub.url, 1, 5);
  await sent.put(hub.url, 4, 5);
  const metrics = await (await fetch(`${hub.url}/metrics`)).text();
  assert.match(metrics, /^assetlog_events_total\{type="AssetObservation"\} 5$/m);
  assert.match(metrics, /endpoint="forward",status="200"\} 2$/m);
  assert.match(metrics, /^assetlog_hub_sources 1$/m);
});
