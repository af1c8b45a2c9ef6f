/** The table of parameters: a new row is enough for handlers, documents, commands and lines. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { build } from 'esbuild';
import { readSubmission } from '../../src/client/submission.ts';
import { limits } from '../../src/config/limits.ts';
import { endpoints, type Parameter } from '../../src/event/parameters.ts';
import { newFolder, type RunOptions, root, run, startService } from '../support/program.ts';
import { eventually } from '../support/tools.ts';
import { ask, errorOf, post } from '../support/wire.ts';

const runLabel: Parameter = {
  name: 'run_label',
  member: 'runLabel',
  acceptedBy: ['materialization', 'check'],
  kind: 'string',
  required: true,
  example: 'nightly',
  what: 'label of the run',
  argument: 'TEXT',
};
/** Builds the program with another row in its table of parameters. */
async function programWithRow(t: TestContext, row: object = runLabel): Promise<Required<Pick<RunOptions, 'program'>>> {
  const text = readFileSync(join(root, 'src/event/parameters.ts'), 'utf8');
  const part = 'endpointsOf(parameters)';
  assert.ok(text.includes(part));
  const contents = text.replace(part, `endpointsOf([...parameters, ${JSON.stringify(row)}])`);
  const outfile = join(newFolder(t), 'server.mjs');
  await build({
    entryPoints: [join(root, 'src/server.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    define: { ASSETLOG_PAGE: '""', ASSETLOG_PRINTED: '""' },
    plugins: [
      {
        name: 'table',
        setup: ({ onLoad }) => onLoad({ filter: /event\/parameters\.ts$/ }, () => ({ contents, loader: 'ts' })),
      },
    ],
  });
  return { program: [process.execPath, outfile] };
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
        // The table of the specification has neither partition nor event_time, so they are last.
        ['asset_key', 'passed', 'check_name', 'metadata', 'severity', 'partition', 'event_time'],
      ],
      ['observation', '/report_asset_observation', 'AssetObservation', asset],
    ],
  );
});

test('a parameter with a row is accepted by the service and listed in its document', async (t) => {
  const options = await programWithRow(t);
  const { port, stderr } = await startService(t, { args: ['--log-level', 'debug'], ...options });
  const send = (name: string, body: object) => ask(port, post(`/report_asset_${name}/k`, JSON.stringify(body)));
  const missing = await send('materialization', {});
  assert.deepEqual(
    [missing.status, errorOf(missing)],
    [400, 'run_label is missing: send the label of the run as a string'],
  );
  const wrong = await send('check', { check_name: 'c', passed: true, run_label: 5 });
  assert.equal(errorOf(wrong), 'run_label is 5 (a number); send a JSON string');
  assert.equal((await send('materialization', { run_label: 'x' })).status, 200);
  assert.equal(stderr().includes('unknown parameter'), false);
  assert.equal((await send('observation', { run_label: 'x' })).status, 200);
  await eventually('the parameter is logged', () => /an unknown parameter is ignored.*run_label/.test(stderr()));

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

test('report has an option for a new row, only for its endpoints, and --from reads it', async (t) => {
  const options = await programWithRow(t);
  const { url } = await startService(t, options);
  const report = async (...args: readonly string[]) => {
    const { code, stderr } = await run(['report', ...args, '--url', url], options);
    return [code, stderr];
  };
  assert.deepEqual(await report('materialization', 'k', '--run-label', 'x'), [0, '']);
  assert.deepEqual(await report('materialization', 'k'), [2, 'assetlog: a materialization needs --run-label\n']);
  assert.deepEqual(await report('observation', 'k', '--run-label', 'x'), [
    2,
    'assetlog: --run-label does not go with observation; leave it out\n',
  ]);
  const { stdout: help } = await run(['report', '--help'], options);
  assert.match(help, /\n {2}--run-label TEXT +label of the run \(materialization, check\)\n/);
  const { stdout: completion } = await run(['completion', 'bash'], options);
  assert.match(completion, /report\/-\) _assetlog_words .*--run-label /);

  const line = '{"type":"materialization","asset_key":"k","run_label":"x"}';
  const { code } = await run(['report', '--from', '-', '--url', url], { input: `${line}\n`, ...options });
  assert.equal(code, 0);
  assert.throws(() => readSubmission(line, limits), /^Error: a report of kind materialization has no "run_label"/);
});

test('only a parameter that is recorded as a tag may be in the tags of a line', async (t) => {
  const options = await programWithRow(t, { ...runLabel, required: false, tag: true });
  const { url } = await startService(t, options);
  const lineWith = (tags: string) => `{"type":"AssetMaterialization","asset_key":"k","tags":${tags}}`;
  const both = lineWith('{"run_label":"x","data_version":"v"}');
  const sent = await run(['report', '--from', '-', '--url', url], { input: `${both}\n`, ...options });
  assert.deepEqual([sent.code, sent.stdout], [0, '1 recorded, 0 refused\n']);
  const read = (tags: string) => readSubmission(lineWith(tags), limits).body;
  assert.equal(read('{"data_version":"v"}'), '{"asset_key":"k","data_version":"v"}');
  for (const tags of ['{}', '"v"', '{"data_version":"v","x":"y"}', '{"description":"d"}']) {
    assert.throws(() => read(tags), /^Error: its "tags" can only have a "data_version"$/, tags);
  }
});
