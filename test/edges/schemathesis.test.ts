/**
 * Schemathesis reads the document from a running service, generates good and bad requests, and compares the replies with
 * the document. ASSETLOG_TEST_SCHEMATHESIS names the executable; without it the PATH has to have it.
 */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { host } from '../support/deployments.ts';
import { eventsIn, newFolder, root, startService } from '../support/program.ts';
import { HANG_MS, missing } from '../support/tools.ts';

const executable = process.env['ASSETLOG_TEST_SCHEMATHESIS'] ?? 'schemathesis';
const skip = missing(
  'no schemathesis here: name it in ASSETLOG_TEST_SCHEMATHESIS or put it on the PATH (pip install schemathesis)',
  executable,
  ['--version'],
);

const EXAMPLES = 25;
const ONE = ['--include-path', '/report_asset_check/'];
const TYPES = ['AssetMaterialization', 'AssetCheckEvaluation', 'AssetObservation'];

test('all checks of Schemathesis find nothing in a local service', { skip }, async (t) => {
  const service = await startService(t);
  const { code, output } = await check(t, [`${service.url}/openapi.json`]);
  assert.equal(code, 0, output);
  assert.match(output, /No issues found/);
  await assertReported(service.data, service.url);
});

test('all checks of Schemathesis find nothing in a hosted service under a prefix', { skip }, async (t) => {
  // In this process with another limit: Schemathesis asks without a token more often than an address may, and reports the 429.
  const limits = { failuresMax: Number.MAX_SAFE_INTEGER };
  const service = await host(t, ['prod'], { args: ['--path-prefix', '/some/path'], limits });
  const headers = [service.headerOf('prod'), `Authorization: Bearer ${service.tokenOf('prod')}`];
  const given = headers.flatMap((header) => ['--header', header]); // the other headers are generated, and most are wrong
  const { code, output } = await check(t, [`${service.url}/openapi.json`, ...given]);
  assert.equal(code, 0, output);
  assert.match(output, /No issues found/);
  await assertReported(join(service.data, 'prod'), service.url);
});

test('Schemathesis finds three errors in a document: a value, a status and a body', {
  skip,
}, async (t) => {
  const service = await startService(t);
  const text = await (await fetch(`${service.url}/openapi.json`)).text();
  const lies: readonly (readonly [string, string, RegExp])[] = [
    ['"enum":["WARN","ERROR"]', '"enum":["WARN","INFO"]', /Schema-valid request rejected/],
    ['"400":{"$ref":"#/components/responses/400"},', '', /Undocumented status code/],
    ['{"type":"object","maxProperties":0}', '{"type":"object","minProperties":1}', /Response violates schema/],
  ];
  for (const [original, lie, finding] of lies) {
    assert.ok(text.includes(original), original);
    const file = join(newFolder(t), 'openapi.json');
    writeFileSync(file, text.replaceAll(original, lie));
    const { code, output } = await check(t, [file, '--url', service.url, '--phases', 'coverage', ...ONE]);
    assert.equal(code, 1, output);
    assert.match(output, finding);
  }
});

async function assertReported(data: string, url: string): Promise<void> {
  const events = eventsIn(data);
  for (const type of TYPES) assert.ok(events.filter((event) => event['type'] === type).length > EXAMPLES, type);
  for (const member of ['event_time', 'idempotency_key'])
    assert.ok(events.filter((event) => member in event).length > EXAMPLES, member);

  const metrics = await (await fetch(`${url}/metrics`)).text();
  const count = (pattern: string) => {
    const found = metrics.matchAll(new RegExp(`^assetlog_${pattern} (\\d+)$`, 'gm'));
    return [...found].reduce((sum, [, value]) => sum + Number(value), 0);
  };
  const replies = (endpoint: string, status: number) =>
    count(`http_requests_total\\{endpoint="${endpoint}",status="${status}"\\}`);
  for (const [what, least] of [
    [replies('report_asset_batch', 200), EXAMPLES],
    [replies('report_asset_batch', 207), 5],
    [replies('report_asset_batch', 400), EXAMPLES],
    [replies('report_asset_.*', 422), 5],
    [count('request_items_sum') / count('request_items_count'), 1],
  ] as const)
    assert.ok(what > least, metrics);
}

/** Runs Schemathesis in a folder that is removed. The seed is fixed, so that a rare finding can be repeated. */
function check(t: TestContext, args: readonly string[]): Promise<{ code: number; output: string }> {
  const folder = newFolder(t);
  const config = join(folder, 'schemathesis.toml');
  // After 20 requests without a token, an address gets 429 for a while, which is documented.
  const missingHeader = '[checks.missing_required_header]\nexpected-statuses = [400, 401, 429]\n';
  // 422: the hooks reuse keys.
  const accepted = '[checks.positive_data_acceptance]\nexpected-statuses = [200, 207, 422]\n';
  // No schema can express the crc of a line.
  const lines = '[[operations]]\ninclude-path-regex = "/forward/"\nchecks.positive_data_acceptance.enabled = false\n';
  writeFileSync(config, `${missingHeader}${accepted}[parameters]\n"path.deployment_name" = "prod"\n${lines}`);
  mkdirSync(join(folder, 'work'));
  // The page answers other methods than GET and HEAD with 404, not 405: see the test of the document.
  const all = ['--no-color', '--config-file', config, 'run', '--checks', 'all', '--seed', '1', '--exclude-path', '/'];
  const env = {
    ...process.env,
    SCHEMATHESIS_HOOKS: 'schemathesis-hooks',
    PYTHONPATH: join(root, 'test/edges'),
    PYTHONDONTWRITEBYTECODE: '1',
  };
  return new Promise((resolve) => {
    execFile(
      executable,
      [...all, '--max-examples', String(EXAMPLES), ...args],
      { cwd: join(folder, 'work'), env, timeout: HANG_MS, maxBuffer: 16 * 1024 * 1024 },
      (error, stdout, stderr) =>
        resolve({ code: Number(error?.code ?? (error === null ? 0 : -1)), output: stdout + stderr }),
    );
  });
}
