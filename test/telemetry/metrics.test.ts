/** The metrics as text. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { Metrics, metricsText } from '../../src/telemetry/metrics.ts';
import { samplesOf } from '../support/metrics.ts';

test('a value counts in the first bucket whose bound it does not exceed, and buckets add up', () => {
  const metrics = new Metrics();
  for (const [events, ms] of [
    [1, 0.1],
    [2, 0.11],
    [3, 999],
    [5_000, 10_000],
    [5_001, 10_001],
  ] as const)
    metrics.wrote(events, 10, ms);
  for (const times of [1, 10]) metrics.journals.add({ lastSeq: times, files: 2 * times, queueBytes: 3 * times });
  const text = metricsText(
    metrics,
    {
      isReady: false,
      freeBytes: undefined,
      keys: undefined,
      assets: { refused: 0, unsaved: 0 },
      watchedAges: new Map(),
      tokens: {},
      deploymentsInTrouble: 0,
      filesRefused: 0,
      waitingReplies: 0,
      forwarding: [],
      hub: { sources: 0, sourcesShare: 0, silentSeconds: undefined, lostEvents: 0, sourcesStopped: 0, unsentEvents: 0 },
    },
    limits,
  );
  const samples = samplesOf(text);
  const buckets = (name: string) =>
    [...samples].filter(([sample]) => sample.startsWith(`${name}_bucket`)).map(([, value]) => value);
  assert.deepEqual(buckets('assetlog_batch_events'), [1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 5]);
  assert.deepEqual(buckets('assetlog_sync_seconds'), [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 4, 5]);
  assert.equal(samples.get('assetlog_batch_events_sum'), 10_007);
  assert.equal(samples.get('assetlog_ready'), 0);
  const sums = ['last_seq', 'journal_files', 'queue_bytes'].map((name) => samples.get(`assetlog_${name}`));
  assert.deepEqual(sums, [11, 22, 33]);
  assert.equal(samples.has('assetlog_disk_free_bytes'), false, 'an unknown value is left out');
  assert.match(text, /^# HELP assetlog_events_total .*\n# TYPE assetlog_events_total counter\n/m);
});
