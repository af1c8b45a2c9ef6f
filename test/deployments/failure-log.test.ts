import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { limits } from '../../src/config/limits.ts';
import { FailureLog, shownReason } from '../../src/deployments/failure-log.ts';
import { sha256, type Token } from '../../src/deployments/tokens.ts';
import { createNotices } from '../../src/telemetry/log.ts';

/** Each refused request, even with 429, has its reason, and a client can send any number of them. */
test('the reason for a refused token is searched only among the tokens of its deployment', () => {
  const tokenOf = (name: string, notAfterMs?: number): Token => {
    return { name, sha256: sha256(`token of ${name}`), notAfterMs, may: ['report'] };
  };
  const tokensOf = new Map([
    ['prod', [tokenOf('ci'), tokenOf('old', 10)]],
    ['test', [tokenOf('other')]],
  ]);
  Object.defineProperty(tokensOf, Symbol.iterator, { value: () => assert.fail('it looks at each deployment') });
  const reasonOf = (token: string | undefined, deployment = 'prod') =>
    shownReason({ id: '', address: '', count: 1, path: '', deployment, token }, { tokensOf, tokensMax: 2 }, 10);
  assert.equal(reasonOf(undefined), 'missing token');
  assert.equal(reasonOf('token of old'), 'expired token old');
  assert.equal(reasonOf('token of other'), 'unknown token');
  assert.equal(reasonOf('token of other', 'none'), 'unknown deployment');
});

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
