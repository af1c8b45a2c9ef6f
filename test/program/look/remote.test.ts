/** `assetlog events --url` and `assetlog assets --url`: a service is shown like its folder. */

import assert from 'node:assert/strict';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { jsonIn } from '../../support/command-output.ts';
import { runRows } from '../../support/command-rows.ts';
import { startCuttingProxy, uncut } from '../../support/cutting-proxy.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { freePort, journalText, launch, newFolder, run, startService } from '../../support/program.ts';
import { START } from '../../support/segments.ts';
import { eventually } from '../../support/tools.ts';
import { post, Wire } from '../../support/wire.ts';
import { startScripted } from '../../world/http-server.ts';

/** A journal with `count` events of three days, in several files. */
function journal(t: TestContext, count: number): string {
  const data = newFolder(t);
  const eventOf = (n: number): PlainEvent => ({
    type: 'AssetObservation',
    assetKey: ['a', String(n % 50)],
    metadata: `{"rows":${n}.0,"x":1e400}`,
  });
  const fileEvents = Math.ceil(count / 3);
  for (let seq = 1, day = 20; seq <= count; seq += fileEvents, day += 1) {
    const events = Array.from({ length: Math.min(fileEvents, count - seq + 1) }, (_, n) => eventOf(seq + n));
    const time = new Date(`2026-11-${day}T15:00:00.000Z`);
    writeFileSync(join(data, segmentName(seq)), encodeBatch(events.map(encodeMembers), { ...START, seq }, time).bytes);
  }
  return data;
}

test('a reply that is cut anywhere neither loses nor doubles a line', async (t) => {
  const service = await startService(t, { data: journal(t, 1_500) });
  const cuts = [150, 300, 40_000, 70_000, 65_536, 100_001, 250_000, 3, 90_000];
  const proxy = await startCuttingProxy(t, service.port, (n) => ({
    ...uncut,
    replyBytes: cuts[n] ?? Number.POSITIVE_INFINITY,
  }));
  const shown = await run(['events', '--url', proxy.url]);
  assert.deepEqual([shown.code, shown.stderr], [0, '']);
  assert.equal(shown.stdout, journalText(service.data));
  assert.ok(proxy.connections() > 6);
  const again = await startCuttingProxy(t, service.port, (n) => ({
    ...uncut,
    replyBytes: n < 2 ? 900 : Number.POSITIVE_INFINITY,
  }));
  const assets = await run(['assets', '--json', '--url', again.url]);
  assert.equal(assets.stdout, (await run(['assets', '--json', '--data', service.data])).stdout);
});

test('a page that ends early before removed events is not taken for the last one', async (t) => {
  const lines = journalText(journal(t, 20)).trimEnd().split('\n');
  const pages: Record<string, string[]> = { 0: lines.slice(0, 2), 9: lines.slice(9, 12), 12: [] };
  const { url } = await startScripted(t, (got) => {
    const after = new URL(got.url ?? '', 'http://localhost').searchParams.get('after_seq') ?? '';
    const page = pages[after]?.map((line) => `${line}\n`).join('');
    if (page === undefined) return [410, '{"error":"… continue with after_seq=9"}'];
    return [200, page, { 'Content-Type': 'application/x-ndjson' }];
  });
  const shown = await run(['events', '--json', '--url', url]);
  assert.equal(shown.stdout, [...lines.slice(0, 2), ...lines.slice(9, 12)].map((line) => `${line}\n`).join(''));
  assert.equal(shown.stderr, 'assetlog: the events 3 to 9 are no longer in the journal\n');
});

test('--follow continues after a kill and a restart of the service, without losing or doubling a line', async (t) => {
  const data = journal(t, 50);
  let service = await startService(t, { data, args: ['--segment-bytes', '8192'] });
  const proxy = await startCuttingProxy(t, service.port, () => uncut);
  const { child, stdout, finished } = launch(['events', '--follow', '--json', '--url', proxy.url, '--retry-for', '0']);
  let sent = 0;
  for (let round = 0; round < 4; round += 1) {
    const wire = await Wire.open(service.port);
    for (let n = 0; n < 40; n += 1, sent += 1) wire.send(post(`/report_asset_observation/${sent}`));
    for (let n = 0; n < 20; n += 1) await wire.reply();
    const some = round;
    if (some > 1) await eventually('some lines are shown', () => stdout().length > 2_000 * some);
    await service.kill('SIGKILL');
    wire.close();
    service = await startService(t, { data, args: ['--segment-bytes', '8192'] });
    proxy.port = service.port;
  }
  await eventually('all lines are shown', () => stdout().length >= journalText(data).length);
  child.kill('SIGINT');
  const { code, stderr } = await finished;
  assert.equal(code, 0);
  assert.equal(stdout(), journalText(data));
  assert.match(stderr, /(sent no complete reply|cannot be reached): .*; it is tried again until it answers\n/);
});

test('a service is read with the token of its deployment', async (t) => {
  const { args, tokenOf } = writeDeployments(t, ['prod']);
  const tokenFile = join(newFolder(t), 'token');
  writeFileSync(tokenFile, `${tokenOf('prod')}\n`, { mode: 0o600 });
  const service = await startService(t, { args });
  const url = `${service.url}/prod`;
  const values = { URL: url, TOKEN: tokenFile, DATA: join(service.data, 'prod') };
  await runRows(values, [
    ['events --url $URL --token-file $TOKEN', 0, '', 'assetlog: no events: the journal is empty'],
    ['report observation a/b --url $URL --token-file $TOKEN', 0],
  ]);
  const endings = ['--url $URL --token-file $TOKEN', '$DATA'];
  await runRows(values, [['events', 0, journalText(values.DATA)]], { endings });
  await runRows(values, [['assets', 0, ['a/b']]], { endings });
  const refused = /^assetlog: \$URL answers 401: no valid token for this path/;
  await runRows(values, [['assets --url $URL', 1, '', refused]]);
});

test('a refusal of a service, and an address without a service, end with a sentence and an exit code', async (t) => {
  const off = await startService(t, { args: ['--no-read'] });
  const old = await startScripted(t, () => [404, '{"error":"nothing is at this path"}']);
  const other = await startScripted(t, () => [200, '<html>']);
  const nowhere = `http://127.0.0.1:${await freePort(t)}`;
  const values = { OFF: off.url, OLD: old.url, OTHER: other.url, NOWHERE: nowhere, TOKEN: join(off.data, 'nothing') };
  for (const command of ['events', 'assets']) {
    await runRows(values, [
      [`${command} --url $OFF`, 1, '', /answers 403: .*--read/],
      [
        `${command} --url $OLD`,
        1,
        '',
        /answers 404: nothing is at this path; a service of an older version has no such endpoint: read its folder with --data\n$/,
      ],
      [`${command} --url $OTHER`, 1, '', /answers 200 with text\/html; is this the address of a service\?\n$/],
      [
        `${command} --url $NOWHERE --retry-for 0`,
        75,
        '',
        /cannot be reached: connect ECONNREFUSED .*; try again later\n$/,
      ],
      [`${command} --url $OFF .`, 2, '', 'assetlog: give a folder or --url, not both'],
      [`${command} --url $OFF/report_asset_check`, 2, '', /names the endpoint report_asset_check/],
      [`${command} --url $OFF --token-file $TOKEN`, 2, '', /\$TOKEN/],
    ]);
  }
  await runRows(values, [
    [
      'events --url $OFF --last 1001',
      2,
      '',
      'assetlog: with --url, --last is at most 1000; use --after-seq or --since',
    ],
  ]);
});

test('ASSETLOG_URL is read if there is no journal, and a folder that is given or has a journal takes precedence', async (t) => {
  const service = await startService(t);
  assert.equal((await fetch(`${service.url}/report_asset_observation/remote`, { method: 'POST' })).status, 200);
  const other = await startService(t);
  const cwd = newFolder(t);
  const env = { ASSETLOG_URL: service.url };
  const keysOf = (text: string) => jsonIn(text).map(({ asset_key }) => asset_key[0]);
  for (const command of ['events', 'assets']) {
    const { code, stdout, stderr } = await run([command, '--json'], { cwd, env });
    assert.deepEqual([code, keysOf(stdout)], [0, ['remote']], stderr);
    assert.equal(stderr, 'assetlog: there is no journal in ./assetlog-data, so the service of ASSETLOG_URL is read\n');
  }
  assert.match(
    (await run(['sources'], { cwd, env })).stderr,
    /ASSETLOG_URL is read\n.*no journal forwards to this one/,
  );
  for (const options of [
    { args: ['events', '--data', other.data], env },
    { args: ['events', other.data], env },
    { args: ['events'], env: { ...env, ASSETLOG_DATA: other.data } },
  ]) {
    const { code, stderr } = await run(options.args, { cwd, env: options.env });
    assert.deepEqual([code, stderr], [0, 'assetlog: no events: the journal is empty\n'], options.args.join(' '));
  }
  cpSync(other.data, join(cwd, 'assetlog-data'), {
    recursive: true,
    filter: (path: string) => !path.includes('.lock'),
  });
  assert.equal((await run(['events'], { cwd, env })).stderr, 'assetlog: no events: the journal is empty\n');

  const empty = { cwd: newFolder(t) };
  const none = await run(['events'], { ...empty, env: { ASSETLOG_URL: '' } });
  assert.equal(none.code, 2);
  assert.match(none.stderr, /give its folder with --data, or a service with --url or ASSETLOG_URL\n$/);
  const wrong = await run(['assets'], { ...empty, env: { ASSETLOG_URL: 'localhost:3000' } });
  assert.deepEqual([wrong.code, wrong.stderr.slice(0, 46)], [2, 'assetlog: ASSETLOG_URL "localhost:3000" is not']);
});
