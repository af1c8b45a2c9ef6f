import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { Refusals } from '../../src/telemetry/refusals.ts';
import { eventually } from '../support/tools.ts';

const refusal = {
  id: 'f00d',
  method: 'POST',
  url: '/report_asset_check/a?passed=s3cret',
  status: 400,
  error: 'passed is s3cret',
  problem: 'passed is …',
};

function open(seenMax: number): Refusals {
  return new Refusals({ addressOf: (peer) => peer, nowMs: () => 0, seenMax, limits });
}

test('the last refused requests are kept as their clients saw them only in an embedded service', async () => {
  const refusals = open(2);
  for (const id of ['1', '2', '3']) refusals.add({ ...refusal, id });
  const time = new Date(0).toISOString();
  const { method, status, error } = refusal;
  const seen = { time, method, path: '/report_asset_check/a', query: 'passed=s3cret', status, error };
  assert.deepEqual(refusals.seen(), {
    last: [
      { ...seen, request_id: '2' },
      { ...seen, request_id: '3' },
    ],
    count: 3,
  });
  await eventually('a reader sees them', () => refusals.of(undefined).length === 3);
  assert.doesNotMatch(JSON.stringify(refusals.of(undefined)), /s3cret/);
  refusals.clear();
  assert.deepEqual(refusals.seen(), { last: [], count: 0 });
  const service = open(0);
  service.add(refusal);
  assert.deepEqual(service.seen(), { last: [], count: 0 });
});
