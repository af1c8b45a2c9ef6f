import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { limits } from '../../src/config/limits.ts';
import { FailureLog } from '../../src/deployments/failure-log.ts';
import { createNotices } from '../../src/telemetry/log.ts';

test('a token in the path instead of a deployment is not logged, also one with slashes', async () => {
  const own = 'Pa55+word/with/slash/of+40+characters+==';
  const logged: unknown[] = [];
  const notices = createNotices('warn', false, (line) => logged.push(JSON.parse(line).deployment));
  const paths = [
    `${own}/report_asset_check/a`,
    `${encodeURIComponent(own)}/a`,
    `asl_${'x'.repeat(43)}/a`,
    'prod/a',
    '',
  ];
  for (const path of paths) {
    const log = new FailureLog(limits, notices, (text) => text === own);
    const failure = { id: '', address: '', count: 1, path, deployment: path.split('/', 1)[0]!, token: undefined };
    log.add(failure, { tokensOf: new Map(), tokensMax: 0 }, 0);
  }
  await nextTurn();
  assert.deepEqual(logged, ['***', '***', '***', 'prod', '']);
});
