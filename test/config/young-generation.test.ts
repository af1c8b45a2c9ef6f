/** Alone in its file: V8's flag and the size of the young generation belong to the whole process. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { collectForwarded, YoungGeneration } from '../../src/config/memory.ts';
import { youngHalfMibAfterWork } from '../support/memory.ts';

test('the young generation does not grow while a backlog is sent, and afterwards only to its limit', async () => {
  const young = new YoungGeneration({ ...limits, youngHalfBytesMax: 8 * 1024 * 1024 });
  const collect = collectForwarded(
    { ...limits, collectBytes: 100, collectedHeapBytesMax: 1, backlogRequestBytes: 10 },
    young,
  );
  collect(10);
  const held = await youngHalfMibAfterWork();
  assert.ok(held <= 4, `${held} MiB`);
  collect(9);
  assert.equal(await youngHalfMibAfterWork(), 8);
  collect(10);
  collect(9);
  assert.equal(await youngHalfMibAfterWork(), 8);
});
