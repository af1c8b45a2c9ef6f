import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shownReason } from '../../src/deployments/failure-log.ts';
import { sha256, type Token } from '../../src/deployments/tokens.ts';

/** Each refused request, even with 429, has its reason, and a client can send any number of them. */
test('the reason that readers get is found among the tokens of the deployment alone', () => {
  const tokenOf = (name: string, notAfterMs?: number): Token => {
    return { name, sha256: sha256(`token of ${name}`), notAfterMs, may: ['report'] };
  };
  const tokensOf = new Map([
    ['prod', [tokenOf('ci'), tokenOf('old', 10)]],
    ['test', [tokenOf('other')]],
  ]);
  Object.defineProperty(tokensOf, Symbol.iterator, { value: () => assert.fail('it looks at each deployment') });
  const reasonOf = (token: string | undefined, deployment = 'prod') =>
    shownReason({ id: '', address: '', count: 1, deployment, token }, { tokensOf, tokensMax: 2 }, 10);
  assert.equal(reasonOf(undefined), 'missing token');
  assert.equal(reasonOf('token of old'), 'expired token old');
  assert.equal(reasonOf('token of other'), 'unknown token');
  assert.equal(reasonOf('token of other', 'none'), 'unknown deployment');
});
