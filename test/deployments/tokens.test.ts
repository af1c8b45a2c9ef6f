import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Token, tokenCounter, tokensByState } from '../../src/deployments/tokens.ts';

test('tokens are counted by state at any time, in one pass for each version of their file', () => {
  let looks = 0;
  const tokenOf = (notAfterMs?: number): Token => ({ name: 't', sha256: Buffer.alloc(32), notAfterMs, may: ['read'] });
  const tokens = [tokenOf(300), tokenOf(), tokenOf(100), tokenOf(), tokenOf(200)];
  const looked = new Map([['prod', tokens]]);
  const values = looked.values.bind(looked);
  looked.values = () => {
    looks += 1;
    return values();
  };
  const deployments = { tokensOf: looked, tokensMax: tokens.length };
  const count = tokenCounter(() => deployments, 50);
  for (const nowMs of [0, 49, 50, 99, 100, 149, 150, 199, 200, 249, 250, 299, 300, 1e15]) {
    const { valid, expiring, expired } = tokensByState(deployments, nowMs, 50);
    assert.deepEqual(count(nowMs), { valid: valid.length, expiring: expiring.length, expired: expired.length });
  }
  assert.deepEqual([count(150), looks], [{ valid: 3, expiring: 1, expired: 1 }, 1]);
});
