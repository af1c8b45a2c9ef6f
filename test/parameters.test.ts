/** The table of parameters: everything that knows one parameter knows the next one from its row. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readConfig } from '../src/config.ts';
import { reportTo } from '../src/handlers.ts';
import { createNotices } from '../src/notice.ts';
import { type Endpoint, endpoints, endpointsOf, type Parameter, parameters } from '../src/parameters.ts';
import { readBody } from '../src/request.ts';
import { startService } from '../src/service.ts';
import { newFolder } from './program.ts';
import { ask, errorOf, post } from './wire.ts';

const runLabel: Parameter = {
  name: 'run_label',
  member: 'runLabel',
  takenBy: ['materialization', 'check'],
  kind: 'string',
  required: true,
  example: 'nightly',
  what: 'label of the run',
  argument: 'TEXT',
};
const extended = endpointsOf([...parameters, runLabel]);

async function start(t: TestContext, endpoints: readonly Endpoint[], args: readonly string[] = []) {
  const read = readConfig(['--port', '0', '--data', newFolder(t), '--log-level', 'debug', ...args], {});
  assert.ok('config' in read);
  const notices: string[] = [];
  const log = createNotices('debug', false, (line) => notices.push(line));
  const service = await startService(read.config, log, { endpoints });
  t.after(() => service.stop());
  return { url: service.url, port: Number(new URL(service.url).port), notices };
}

test('each endpoint checks its parameters in the order of its table in the specification', () => {
  const asset = ['asset_key', 'metadata', 'data_version', 'description', 'partition'];
  assert.deepEqual(
    endpoints.map(({ name, path, type, parameters }) => [name, path, type, parameters.map((one) => one.name)]),
    [
      ['materialization', '/report_asset_materialization', 'AssetMaterialization', asset],
      [
        'check',
        '/report_asset_check',
        'AssetCheckEvaluation',
        // The partition is not in the specification's table, so it comes last.
        ['asset_key', 'passed', 'check_name', 'metadata', 'severity', 'partition'],
      ],
      ['observation', '/report_asset_observation', 'AssetObservation', asset],
    ],
  );
});

test('the handler takes a parameter for its row, and only at its endpoints', () => {
  const body = readBody(Buffer.from('{"asset_key":"k","run_label":"x"}'));
  const outcomes = extended
    .filter(({ name }) => name !== 'check')
    .map((endpoint) => reportTo(endpoint)({ keyPath: undefined, body, query: new Map() }));
  assert.deepEqual(outcomes[0]?.event, {
    type: 'AssetMaterialization',
    assetKey: ['k'],
    metadata: undefined,
    dataVersion: undefined,
    description: undefined,
    partition: undefined,
    runLabel: 'x',
  });
  assert.equal(outcomes[0]?.unknown, undefined);
  assert.deepEqual(outcomes[1]?.unknown, ['run_label']);
});

test('a service takes a parameter for its row, and its document lists it', async (t) => {
  const { port, notices } = await start(t, extended);
  const send = (name: string, body: object) => ask(port, post(`/report_asset_${name}/k`, JSON.stringify(body)));
  const missing = await send('materialization', {});
  assert.deepEqual(
    [missing.status, errorOf(missing)],
    [400, 'run_label is missing: send the label of the run as a string'],
  );
  const wrong = await send('check', { check_name: 'c', passed: true, run_label: 5 });
  assert.equal(errorOf(wrong), 'run_label is "5" (a number); send a JSON string');
  assert.equal((await send('materialization', { run_label: 'x' })).status, 200);
  assert.equal(notices.join('').includes('unknown parameter'), false);
  assert.equal((await send('observation', { run_label: 'x' })).status, 200);
  assert.match(notices.join(''), /an unknown parameter is ignored.*run_label/);

  const { body } = await ask(port, 'GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const document = JSON.parse(body);
  assert.deepEqual(document.components.parameters.run_label, {
    name: 'run_label',
    in: 'query',
    schema: { type: 'string' },
    example: 'nightly',
  });
  const isListed = (path: string) =>
    Object.hasOwn(document.paths[path].post.requestBody.content['application/json'].schema.properties, runLabel.name);
  assert.deepEqual(
    endpoints.map(({ path }) => isListed(`${path}/`)),
    [true, true, false],
  );
  assert.match(document.paths['/report_asset_check/'].post.description, /^Required: .*, run_label\./);
});

test('the paths in a 401 and a 404 are those of the table', async (t) => {
  const [first] = endpoints;
  const renamed = first === undefined ? [] : [{ ...first, path: '/report_renamed' }];
  const local = await start(t, renamed);
  const lost = await ask(local.port, post('/nowhere'));
  assert.equal(errorOf(lost), 'nothing is at this path; POST a report to /report_renamed/');

  const file = join(newFolder(t), 'deployments.json');
  const sha256 = createHash('sha256').update('token').digest('hex');
  writeFileSync(file, JSON.stringify({ deployments: [{ name: 'prod', tokens: [{ name: 'ci', sha256 }] }] }));
  const hosted = await start(t, renamed, ['--deployments', file]);
  const refused = await ask(hosted.port, post('/prod/report_renamed/k'));
  assert.equal(refused.status, 401);
  assert.match(errorOf(refused), /a path that begins with \/NAME\/report_renamed\/$/);
});
