/** A file of its own: the flag of V8 that the limit sets is one for the whole process, and so is what it has grown to. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { collectForwarded, YoungGeneration } from '../../src/config/memory.ts';
import { youngHalfMibAfterWork } from '../support/memory.ts';

test('the young generation does not grow while a backlog is sent, and then to its limit and no further [young-generation-1]', async () => {
  const young = new YoungGeneration({ youngHalfBytesMax: 8 * 1024 * 1024 });
  const collect = collectForwarded({ collectBytes: 100, collectedHeapBytesMax: 1, backlogRequestBytes: 10 }, young);
  collect(10);
  const held = await youngHalfMibAfterWork();
  assert.ok(held <= 4, `${held} MiB`);
  collect(9);
  assert.equal(await youngHalfMibAfterWork(), 8);
  collect(10);
  collect(9);
  assert.equal(await youngHalfMibAfterWork(), 8);
});
