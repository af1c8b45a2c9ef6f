/** The memory for the states of assets, of several journals. */

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Limits, limits } from '../../src/config/limits.ts';
import { Refusal } from '../../src/http/message.ts';
import { type Disk, openDisk } from '../../src/journal/disk.ts';
import { encodeBatch } from '../../src/journal/line/record.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { AssetMemory } from '../../src/reading/assets.ts';
import { ReadableJournals } from '../../src/reading/journals.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { encodeMembers } from '../support/plain-event.ts';
import { newFolder } from '../support/program.ts';
import { FIRST, START } from '../support/segments.ts';

const NEVER = new AbortController().signal;

/** Two deployments with this number of assets each. `reads` counts the readings of their files. */
function open(t: TestContext, assets: number, other: Partial<Limits>) {
  const data = newFolder(t);
  const reads = { a: 0, b: 0 };
  const progress = new OwnProgress();
  for (const name of ['a', 'b']) {
    mkdirSync(join(data, name));
    const events = Array.from(
      { length: assets },
      (_, n) => ({ type: 'AssetObservation', assetKey: [`${n}`] }) as const,
    );
    const { bytes } = encodeBatch(events.map(encodeMembers), START, new Date());
    writeFileSync(join(data, name, FIRST), bytes);
    progress.recorded(join(data, name), assets + 1);
  }
  const counting = (folder: string): Disk => {
    const disk = openDisk(folder);
    const read: Disk['read'] = (...args) => {
      reads[folder.endsWith('a') ? 'a' : 'b'] += 1;
      return disk.read(...args);
    };
    return { ...disk, read };
  };
  const all: Limits = { ...limits, readIdleMs: -1, ...other };
  const notices = createNotices('error', false, () => {});
  const journals = new ReadableJournals({
    data,
    openDisk: counting,
    progress,
    open: () => undefined,
    limits: all,
    notices,
  });
  const memory = new AssetMemory({ journals, limits: all });
  t.after(() => memory.close());
  return { reads, memory, sizeOf: async (name: string) => (await memory.upToDate(name, NEVER)).size };
}

async function refusalOf(answer: Promise<unknown>): Promise<{ error: string; retryAfter: string | undefined }> {
  const error = await answer.then(
    () => assert.fail('it is refused'),
    (error: unknown) => error,
  );
  assert.ok(error instanceof Refusal);
  assert.equal(error.reply.status, 503);
  return { error: error.message, retryAfter: error.reply.headers?.[1] };
}

test('states that were not asked for longest are forgotten, and built again when they are asked for', async (t) => {
  const ample = open(t, 1_000, {});
  for (const name of ['a', 'b', 'a', 'b']) assert.equal(await ample.sizeOf(name), 1_000);
  assert.deepEqual(ample.reads, { a: 1, b: 1 });
  const oneBytes = (await ample.memory.upToDate('a', NEVER)).bytes;
  const scarce = open(t, 1_000, { assetBytesMax: 1.5 * oneBytes });
  for (const name of ['a', 'b', 'b', 'a']) assert.equal(await scarce.sizeOf(name), 1_000);
  assert.deepEqual(scarce.reads, { a: 2, b: 1 });
});

test('states that do not fit into the memory are refused, without reading the journal each time', async (t) => {
  const { memory, reads } = open(t, 1_000, { assetBytesMax: 1_000 });
  const refused = {
    error: /^the state of the assets takes more than 0 MiB of memory; use assetlog assets/,
    retryAfter: '3600',
  };
  for (let n = 0; n < 3; n += 1) {
    const { error, retryAfter } = await refusalOf(memory.upToDate('a', NEVER));
    assert.match(error, refused.error);
    assert.equal(retryAfter, refused.retryAfter);
  }
  assert.deepEqual(reads, { a: 1, b: 0 });
});

test('a request does not wait long while the states are being built, and they are built all the same', async (t) => {
  const { memory, sizeOf } = open(t, 20_000, { assetsWaitMs: 0 });
  const { error, retryAfter } = await refusalOf(memory.upToDate('a', NEVER));
  assert.match(error, /^the journal is being read to find the state of its assets.*; ask again$/);
  assert.equal(retryAfter, '1');
  for (let size = 0; size < 20_000; ) size = await sizeOf('a').catch(() => 0);
});
