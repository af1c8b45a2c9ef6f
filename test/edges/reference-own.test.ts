/**
 * The reference's own tests of the three endpoints, unchanged, against assetlog with the fixtures of `reference-own.py`. They are
 * in the source package of dagster-webserver: ASSETLOG_TEST_REFERENCE_SOURCE names the folder of the unpacked package.
 */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newToken } from '../../src/deployments/tokens.ts';
import { entryOf, rewrite } from '../support/deployments.ts';
import { newFolder, root, startService } from '../support/program.ts';
import { referenceExecutable as executable, pythonOf, withoutReference } from '../support/reference.ts';
import { HANG_MS } from '../support/tools.ts';

const source = process.env['ASSETLOG_TEST_REFERENCE_SOURCE'];
const withoutSource =
  source === undefined &&
  'no source package of dagster-webserver here: name its folder in ASSETLOG_TEST_REFERENCE_SOURCE';

test("Dagster's own tests of the endpoints pass, except for a client that may only read", {
  skip: withoutReference || withoutSource,
}, async (t) => {
  assert.ok(executable !== undefined && source !== undefined);
  const folder = newFolder(t);
  const { token } = newToken();
  const deployments = join(folder, 'deployments.json');
  rewrite(deployments, entryOf('prod', token, { may: ['read'] }));
  const [service, hosted] = await Promise.all([
    startService(t),
    startService(t, { args: ['--deployments', deployments] }),
  ]);
  const tests = join(source, 'dagster_webserver_tests/webserver/test_asset_events.py');
  // The reference's own fixtures and settings are not used, and nothing is written into its folder.
  const settings = join(folder, 'pytest.ini');
  writeFileSync(settings, '[pytest]\n');
  const args = ['-c', settings, '--noconftest', '-p', 'no:cacheprovider', '-p', 'reference-own', tests];
  const { status, stdout, stderr } = spawnSync(pythonOf(executable), ['-m', 'pytest', '-q', ...args], {
    cwd: folder,
    env: {
      ...process.env,
      no_proxy: '*',
      PYTHONPATH: join(root, 'test/edges'),
      PYTHONDONTWRITEBYTECODE: '1',
      ASSETLOG_URL: service.url,
      ASSETLOG_READ_ONLY_URL: `${hosted.url}/prod`,
      ASSETLOG_READ_ONLY_TOKEN: token,
    },
    encoding: 'utf8',
    timeout: HANG_MS,
  });
  const [, passed, differing] = /^(\d+) passed, (\d+) xfailed(?:, \d+ warnings?)? in /m.exec(stdout) ?? [];
  assert.ok(status === 0 && Number(passed) >= 7 && Number(differing) >= 3, stdout + stderr);
});
