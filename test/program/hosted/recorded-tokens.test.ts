/** `recordTokens` of the deployments file: each line has the name of the token of its report. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sha256 } from '../../../src/deployments/tokens.ts';
import { eventSchema } from '../../../src/journal/line/line-schema.ts';
import { runHere } from '../../support/command-output.ts';
import { newFolder, type Scope } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { ask, get, post } from '../../support/wire.ts';

const NAMES = ['ci', 'büro', 'night load'];
const may = ['report', 'read', 'forward'];

/** @returns a deployments file whose tokens of `prod` are `secret0`, `secret1` … */
function fileOf(t: Scope, more: object, names = NAMES): string {
  const file = join(newFolder(t), 'deployments.json');
  const tokens = names.map((name, at) => ({ name, sha256: sha256(`secret${at}`).toString('hex'), may }));
  writeFileSync(file, JSON.stringify({ ...more, deployments: [{ name: 'prod', tokens }] }), { mode: 0o600 });
  return file;
}

/** @returns the members of all lines of the deployment */
function linesIn(data: string): Record<string, unknown>[] {
  const text = readFileSync(join(data, 'prod', 'events-00000000000000000001.jsonl'), 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

const headers = (at: number, ...more: string[]) => [`Service-Cloud-Api-Token: secret${at}`, ...more];
const JSON_REPLY = 'Accept: application/json';

test('with recordTokens each line has the name of the token, whatever the report says of it', async (t) => {
  const { data, port, stop } = await serve(t, { args: ['--deployments', fileOf(t, { recordTokens: true })] });
  const report = async (at: number, path: string, body?: string, ...more: string[]) => {
    const reply = await ask(port, post(`/prod/${path}`, body, headers(at, ...more)));
    assert.equal(reply.status, 200, reply.body);
  };
  await report(0, 'report_asset_observation/a');
  const whole = `{"asset_key":["ä"],"metadata":{"by":"x",",\\"by\\":":1},"description":"d \\",\\"metadata\\":","data_version":"v","event_time":"2026-11-20T15:19:45Z","by":"forged"}`;
  await report(1, 'report_asset_materialization', whole, 'Idempotency-Key: k1');
  await report(2, 'report_asset_materialization', whole, 'Idempotency-Key: k1'); // the event of another token
  const items = [
    '{"type":"observation","asset_key":"b","by":"forged"}',
    '{"type":"check","asset_key":"b","check_name":"c","passed":true}',
  ];
  await report(2, 'report_asset_batch', `[${items}]`);
  const wanted = ['ci', 'büro', 'night load', 'night load'];
  assert.deepEqual(
    linesIn(data).map(({ by }) => by),
    wanted,
  );
  assert.deepEqual(linesIn(data)[1]!['metadata'], { by: 'x', ',"by":': 1 });
  assert.ok('by' in (eventSchema()['oneOf'] as { properties: object }[])[0]!.properties);

  const found = await ask(
    port,
    get(`/prod/events?reported_by=${encodeURIComponent('büro')}`, ...headers(0, JSON_REPLY)),
  );
  assert.deepEqual(
    JSON.parse(found.body).events.map(({ seq }: { seq: number }) => seq),
    [2],
  );
  await stop();
  assert.equal((await runHere(['verify', '--data', join(data, 'prod')])).code, 0);
  const shown = (...args: string[]) =>
    runHere(['events', '--data', join(data, 'prod'), ...args]).then(({ stdout }) => stdout);
  const lines = (await shown('--reported-by', 'night load')).trimEnd().split('\n');
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).seq),
    [3, 4],
  );
  assert.match(await shown('--table', '--by', 'event_time'), /version v {2}d .* by büro {2}\{/);
  const [header = '', , second] = (await shown('--csv')).split('\r\n');
  assert.ok(header.endsWith(',recorded,by') && second?.endsWith(',büro'));
});

test('without recordTokens no line has a name, and any name may be in the file', async (t) => {
  const { data, port } = await serve(t, { args: ['--deployments', fileOf(t, { recordTokens: false }, ['"', 'x'])] });
  assert.equal((await ask(port, post('/prod/report_asset_observation/a', undefined, headers(0)))).status, 200);
  assert.deepEqual(Object.keys(linesIn(data)[0]!), ['seq', 'id', 'time', 'type', 'asset_key', 'crc']);
});

test('a hub keeps the name that the device wrote, and writes none of its own', async (t) => {
  const hub = await serve(t, { args: ['--deployments', fileOf(t, { recordTokens: true }, ['site'])] });
  const tokenFile = join(newFolder(t), 'token');
  writeFileSync(tokenFile, 'secret0', { mode: 0o600 });
  const forward = ['--forward-to', `${hub.url}/{deployment}`, '--forward-token-file', tokenFile];
  const file = fileOf(t, { recordTokens: true });
  const device = await serve(t, { args: ['--deployments', file, ...forward], limits: { deploymentsCheckMs: 50 } });
  const report = () => ask(device.port, post('/prod/report_asset_observation/a', undefined, headers(1)));
  assert.equal((await report()).status, 200);
  writeFileSync(file, readFileSync(file, 'utf8').replace('"recordTokens":true,', ''));
  await device.reload();
  assert.equal((await report()).status, 200);
  const listed = () => ask(hub.port, get('/prod/events', ...headers(0, JSON_REPLY)));
  await eventually('the hub has both', async () => JSON.parse((await listed()).body).events?.length === 2);
  assert.deepEqual(
    linesIn(hub.data).map(({ by }) => by),
    ['büro', undefined],
  );
});
