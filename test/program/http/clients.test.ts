/** A client that waits for 100 Continue; `hostile.test.ts` has the requests of others. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startService } from '../../support/program.ts';
import { missing } from '../../support/tools.ts';

const noCurl = missing('curl is not installed', 'curl', ['--version']);

test('curl that waits for 100 Continue before its chunked body gets it and 200, and its line is recorded', {
  skip: noCurl,
}, async (t) => {
  const service = await startService(t);
  const always = [
    '--silent',
    '--show-error',
    '--verbose',
    '--noproxy',
    '*',
    '--header',
    'Content-Type: application/json',
  ];
  const waits = ['--header', 'Expect: 100-continue', '--expect100-timeout', '20'];
  const body = ['--header', 'Transfer-Encoding: chunked', '--data', '{"check_name": "fresh", "passed": true}'];
  const url = `${service.url}/report_asset_check/curl`;
  const { stdout, stderr } = await promisify(execFile)('curl', [...always, ...waits, ...body, url]);
  assert.match(stderr, /^< HTTP\/1\.1 100 Continue/m);
  assert.equal(stdout, '{}');
  assert.deepEqual(
    service.events().map(({ asset_key, check_name }) => [asset_key, check_name]),
    [[['curl'], 'fresh']],
  );
});
