/** The table of parameters: everything that knows one parameter knows the next one from its row. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readSubmission } from '../../src/client/submission.ts';
import { completionScripts } from '../../src/commands/cli/completion.ts';
import { commandHelp } from '../../src/commands/cli/help.ts';
import { reportOf } from '../../src/commands/send/report.ts';
import { limits } from '../../src/config/limits.ts';
import { type Endpoint, endpoints, endpointsOf, type Parameter, parameters } from '../../src/event/parameters.ts';
import { reportTo } from '../../src/http/handlers.ts';
import { readFields } from '../../src/http/headers.ts';
import { runInProcess } from '../support/command-output.ts';
import { newFolder } from '../support/program.ts';
import { serve } from '../support/service.ts';
import { ask, errorOf, post } from '../support/wire.ts';

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
  return serve(t, { args, parts: { endpoints }, logLevel: 'debug' });
}

test('each endpoint checks its parameters in the order of its table in the specification', () => {
  const asset = ['asset_key', 'metadata', 'data_version', 'description', 'partition', 'event_time'];
  assert.deepEqual(
    endpoints.map(({ name, path, type, parameters }) => [name, path, type, parameters.map((one) => one.name)]),
    [
      ['materialization', '/report_asset_materialization', 'AssetMaterialization', asset],
      [
        'check',
        '/report_asset_check',
        'AssetCheckEvaluation',
        // The partition and the time are not in the specification's table, so they come last.
        ['asset_key', 'passed', 'check_name', 'metadata', 'severity', 'partition', 'event_time'],
      ],
      ['observation', '/report_asset_observation', 'AssetObservation', asset],
    ],
  );
});

test('the handler takes a parameter for its row, and only at its endpoints', () => {
  const body = Buffer.from('{"asset_key":"k","run_label":"x"}');
  const head = { method: 'POST', fields: readFields(['Content-Type', 'application/json']) };
  const outcomes = extended
    .filter(({ name }) => name !== 'check')
    .map((endpoint) => reportTo(endpoint, limits)({ keyPath: undefined, body, query: '', head }));
  assert.deepEqual(outcomes[0]?.events[0], {
    type: 'AssetMaterialization',
    assetKey: ['k'],
    metadata: undefined,
    dataVersion: undefined,
    description: undefined,
    partition: undefined,
    eventTime: undefined,
    runLabel: 'x',
    idempotencyKey: undefined,
    origin: undefined,
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
  assert.equal(errorOf(wrong), 'run_label is 5 (a number); send a JSON string');
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
  assert.match(
    errorOf(lost),
    /^nothing is at this path; POST a report to \/report_renamed\/, \/report_asset_batch\/, or GET \/events(, \/\w+)*$/,
  );

  const file = join(newFolder(t), 'deployments.json');
  const sha256 = createHash('sha256').update('token').digest('hex');
  writeFileSync(file, JSON.stringify({ deployments: [{ name: 'prod', tokens: [{ name: 'ci', sha256 }] }] }));
  const hosted = await start(t, renamed, ['--deployments', file]);
  const refused = await ask(hosted.port, post('/prod/report_renamed/k'));
  assert.equal(refused.status, 401);
  assert.match(
    errorOf(refused),
    /a path that begins with \/NAME\/report_renamed\/, \/NAME\/events, \/NAME\/assets, \/NAME\/refusals$/,
  );
});

test('report has an option for its row, which goes with its endpoints only', async (t) => {
  const { url } = await start(t, extended);
  const report = reportOf(extended);
  const run = async (...args: readonly string[]) => {
    const { code, complaints } = await runInProcess(report, [...args, '--url', url]);
    return [code, ...complaints];
  };
  assert.deepEqual(await run('materialization', 'k', '--run-label', 'x'), [0]);
  assert.deepEqual(await run('materialization', 'k'), [2, 'a materialization needs --run-label']);
  assert.deepEqual(await run('observation', 'k', '--run-label', 'x'), [
    2,
    '--run-label does not go with observation; leave it out',
  ]);
  assert.match(commandHelp('report', report), /\n {2}--run-label TEXT +label of the run \(materialization, check\)\n/);
  assert.match(completionScripts({ report, serve: report }).bash, /report\/-\) _assetlog_words .*--run-label /);
});

test('a line may have a parameter for its row', () => {
  const line = '{"type":"materialization","asset_key":"k","run_label":"x"}';
  assert.equal(readSubmission(line, extended, limits).body, '{"asset_key":"k","run_label":"x"}');
  assert.throws(
    () => readSubmission(line, endpoints, limits),
    /^Error: a report of kind materialization has no "run_label"/,
  );
});

test('a parameter that is recorded as a tag may come from the tags of a line, and others may not', () => {
  const tagged = endpointsOf([...parameters, { ...runLabel, required: false, tag: true }]);
  const read = (tags: string, table = tagged) =>
    readSubmission(`{"type":"AssetMaterialization","asset_key":"k","tags":${tags}}`, table, limits).body;
  assert.equal(read('{"data_version":"v"}'), '{"asset_key":"k","data_version":"v"}');
  assert.equal(read('{"run_label":"x","data_version":"v"}'), '{"asset_key":"k","run_label":"x","data_version":"v"}');
  for (const tags of ['{}', '"v"', '{"data_version":"v","x":"y"}', '{"description":"d"}']) {
    assert.throws(() => read(tags, endpoints), /^Error: its "tags" may only have a "data_version"$/, tags);
  }
});
