/** `assetlog erase` and `POST /erase`: events that are taken out, beside a service, without one, and at a hub. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { newToken } from '../../../src/deployments/tokens.ts';
import { openDisk } from '../../../src/journal/disk.ts';
import { SeqSet, writeOrder } from '../../../src/journal/erase/order.ts';
import { runHere } from '../../support/command-output.ts';
import { runRows } from '../../support/command-rows.ts';
import { entryOf, rewrite, writeDeployments } from '../../support/deployments.ts';
import { eventsIn, freePort, newFolder, type Running, startService } from '../../support/program.ts';
import { record, reportOne } from '../../support/report.ts';
import { eventually } from '../../support/tools.ts';

const said = (n: number) => ({ body: { description: `said-${n}-`, metadata: { text: `said-${n}-` } } });

async function recordSome(service: Pick<Running, 'url'>, first: number, last: number): Promise<void> {
  for (let n = first; n <= last; n += 1) await record(service, `materialization/shop/${n % 2}`, said(n));
}

/** @returns which of the events the files of a folder have the text of */
function saidIn(data: string): number[] {
  const files = readdirSync(data, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/\.(new|stopped-cleanly)$/.test(path)); // they come and go
  const text = paths.map((path) => readFileSync(path, 'latin1')).join('');
  return [...new Set(Array.from(text.matchAll(/said-(\d+)-/g), ([, n]) => Number(n)))].sort((a, b) => a - b);
}

async function erase(data: string, ...args: readonly string[]) {
  return runHere(['erase', data, ...args]);
}

function idOf(data: string, seq: number): string {
  return `${eventsIn(data).find((event) => event['seq'] === seq)?.['id']}`;
}

test('the command shows what it would erase, erases it without a service, and says where copies are', async (t) => {
  const service = await startService(t, { args: ['--segment-bytes', '1MiB'] });
  const { data } = service;
  await recordSome(service, 1, 6);
  await service.kill();
  const values = { DATA: data, SECOND: idOf(data, 2), FIFTH: idOf(data, 5) };
  const line = 'erase $DATA --id $SECOND --id $FIFTH';
  await runRows(values, [
    [
      line,
      0,
      /^2 events are to be erased; nothing was changed, add --yes to do it:\n {2}seq 2 {2}.*\$SECOND.*\n.*\$FIFTH.*\n(.*\n)*copies that this does not reach:\n {2}backups /,
    ],
  ]);
  assert.deepEqual(saidIn(data), [1, 2, 3, 4, 5, 6]);
  await runRows(values, [[`${line} --yes`, 0, /^2 events are erased:\n/]]);
  assert.deepEqual(saidIn(data), [1, 3, 4, 6]);
  await runRows(values, [
    [`${line} --yes`, 1, '', /./],
    ['verify $DATA', 0, /\n {2}erased {2}2 events, by erase/],
    ['erase $DATA --key shop/1 --all --yes', 0, /^3 events are erased:/],
  ]);
  assert.ok(eventsIn(data).every(({ asset_key }) => !`${asset_key}`.includes('1')));
});

test('a service erases beside reports, streams and a hub, which gets what it has not got yet erased', async (t) => {
  const port = await freePort(t);
  const hubData = newFolder(t);
  const service = await startService(t, {
    args: ['--forward-to', `http://127.0.0.1:${port}`, '--segment-bytes', '1MiB'],
  });
  const { data, url } = service;
  await recordSome(service, 1, 4);
  const ending = new AbortController();
  const stream = await fetch(`${url}/events?after_seq=0`, {
    headers: { Accept: 'text/event-stream' },
    signal: ending.signal,
  });
  let streamed = '';
  const reading = (async () => {
    for await (const chunk of stream.body!) streamed += Buffer.from(chunk).toString('latin1');
  })().catch(() => {}); // it is aborted
  const seqs = () => Array.from(streamed.matchAll(/^id: ?(\d+)\n/gm), ([, seq]) => Number(seq));
  let isOver = false;
  const statuses = new Set<number>();
  let count = 4;
  const reporting = (async () => {
    while (!isOver) {
      statuses.add((await reportOne(service, 'observation/other')).status);
      count += 1;
    }
  })();
  const done = await erase(data, '--contains', 'said-2-', '--yes');
  assert.match(done.stdout, /^1 event is erased:(.|\n)*sent to {3}upstream/, done.stderr);
  assert.deepEqual(saidIn(data), [1, 3, 4]);
  isOver = true;
  await reporting;
  assert.deepEqual([...statuses], [200]);
  const hub = await startService(t, { args: ['--port', `${port}`], data: hubData });
  await eventually('the hub has all', () => eventsIn(hubData).length === count);
  assert.deepEqual(saidIn(hubData), [1, 3, 4]);
  assert.ok(eventsIn(hubData).find(({ id }) => id === idOf(data, 2))?.['erased']);
  // What the hub has is erased there by the same id.
  await erase(data, '--id', idOf(data, 3), '--yes');
  assert.deepEqual(
    [saidIn(data), saidIn(hubData)],
    [
      [1, 4],
      [1, 3, 4],
    ],
  );
  await erase(hub.data, '--id', idOf(data, 3), '--yes');
  assert.deepEqual(saidIn(hubData), [1, 4]);
  await record(service, 'observation/last');
  await eventually('the hub has the last one', () => eventsIn(hubData).length === count + 1);
  await eventually('the stream has the last one', () => seqs().length >= count + 1);
  ending.abort();
  await reading;
  assert.deepEqual(
    seqs(),
    Array.from({ length: count + 1 }, (_, at) => at + 1),
    'each event once',
  );
});

async function postErase(url: string, query: string, token: string) {
  const reply = await fetch(`${url}/prod/erase?${query}`, {
    method: 'POST',
    headers: { 'Service-Cloud-Api-Token': token },
  });
  return { status: reply.status, body: JSON.parse(await reply.text()) };
}

test('a token that may erase does so over HTTP, and no other one does', async (t: TestContext) => {
  const { file, args, tokenOf } = writeDeployments(t, ['prod']);
  const [eraser, plain] = [newToken().token, newToken().token];
  const others = {
    tokens: [eraser, plain, tokenOf('prod')].map((token, at) => {
      const {
        tokens: [one],
      } = entryOf('prod', token, [{ may: ['erase'] }, {}, { may: ['report', 'read', 'forward'] }][at]!) as {
        tokens: object[];
      };
      return one;
    }),
  };
  rewrite(file, { name: 'prod', ...others });
  const service = await startService(t, { args });
  const { url, data } = service;
  const headers = { 'Service-Cloud-Api-Token': plain };
  const nothing = { status: 200, body: { erased: 0 } };
  assert.deepEqual(await postErase(url, 'key=a', eraser), nothing, 'before the first report');
  for (let n = 1; n <= 3; n += 1) await record({ url: `${url}/prod` }, 'materialization/a', { ...said(n), headers });
  for (const token of [plain, tokenOf('prod')]) assert.equal((await postErase(url, 'key=a', token)).status, 403);
  assert.equal((await postErase(url, 'key=a', 'asl_wrong')).status, 401);
  assert.match((await postErase(url, 'all=true', eraser)).body.error, /say which events to erase/);
  assert.equal((await postErase(url, 'limit=3', eraser)).status, 400);
  assert.deepEqual(await postErase(url, 'contains=said-2-', eraser), { status: 200, body: { erased: 1 } });
  assert.deepEqual(saidIn(data), [1, 3]);
  assert.deepEqual(await postErase(url, 'contains=said-2-', eraser), { status: 200, body: { erased: 0 } });
  assert.deepEqual(await postErase(url, 'key=a&after_seq=2&all=true', eraser), { status: 200, body: { erased: 1 } });
  assert.deepEqual(saidIn(data), [1]);
  const local = await startService(t);
  assert.equal((await fetch(`${local.url}/erase?key=a`, { method: 'POST' })).status, 404);
});

test('a start finishes what an interrupted erase has begun, also that of a deployment', async (t) => {
  const { args, tokenOf } = writeDeployments(t, ['prod']);
  const sent = { headers: { 'Service-Cloud-Api-Token': tokenOf('prod') } };
  for (const [more, path, folder] of [
    [[], '', ''],
    [args, '/prod', 'prod'],
  ] as const) {
    const service = await startService(t, { args: more });
    const at = { url: `${service.url}${path}` };
    for (let n = 1; n <= 3; n += 1) await record(at, 'materialization/a', { ...said(n), ...sent });
    await service.kill();
    const data = join(service.data, folder);
    const order = { time: new Date().toISOString(), all: false, seqs: SeqSet.of([2]) };
    await writeOrder(openDisk(data), order);
    const again = await startService(t, { data: service.data, args: more });
    await record({ url: `${again.url}${path}` }, 'observation/b', sent);
    assert.deepEqual(saidIn(data), [1, 3]);
    assert.match(again.stderr(), /an erase that was interrupted is finished/);
    assert.deepEqual(
      eventsIn(data).map(({ seq }) => seq),
      [1, 2, 3, 4],
    );
  }
});
