/** The states of several journals in one memory. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AllAssets } from '../../src/assets/all-assets.ts';
import type { Segment } from '../../src/journal/open/recovery.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { quickLimits } from '../support/journal.ts';
import { eventOf } from '../support/plain-event.ts';
import { quiet } from '../support/segments.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';

const NEVER = new AbortController().signal;

/** The journals of deployments, which are open and have no event. */
async function open(assetBytesMax: number, keys: readonly (readonly string[])[], ...names: readonly string[]) {
  const progress = new OwnProgress();
  const disks = new Map(names.map((name) => [name, new SimulatedDisk(`/simulated/${name}`)]));
  const all = new AllAssets({
    keys,
    isHosted: true,
    openDisk: (name) => disks.get(name!)!,
    journalOf: (name) => ({
      diskFor: () => disks.get(name!)!,
      progress: () => progress.of(`/simulated/${name}`),
      remarks: () => () => {},
    }),
    nextSeq: (folder) => progress.nextSeq(folder),
    turn: async () => {},
    notices: quiet,
    limits: { ...quickLimits, assetBytesMax },
  });
  const seqs = new Map<string, number>();
  for (const name of names) {
    progress.recorded(`/simulated/${name}`, 1);
    all.of(name).opened();
    await all.of(name).whenCurrent(NEVER);
  }
  /** Records an event of each of these assets. */
  const record = (name: string, ...keys: readonly string[]) => {
    const firstSeq = (seqs.get(name) ?? 0) + 1;
    seqs.set(name, firstSeq + keys.length - 1);
    const lines = keys.map((key) => eventOf({ type: 'AssetObservation', assetKey: key.split('/') }).encoded);
    const end = (seq: number, bytes: number) => ({ ...END, chain: { seq, crc: 1 }, bytes });
    const [before, after] = [end(firstSeq, 0), end(firstSeq + keys.length, 100)];
    all.of(name).committed({ entries: [], lines, time: new Date(), before, after, fresh: undefined });
  };
  const sizeOf = (name: string) => all.of(name).current?.states.size ?? 0;
  return { all, record, sizeOf };
}

/** Looks at the watched keys, which a look just before would prevent. */
async function look(all: AllAssets): Promise<void> {
  await sleep(100);
  await all.findOldest(async () => {});
}

const END = { lastId: 'id' } as Segment;

const many = (count: number, prefix = 'k') => Array.from({ length: count }, (_, n) => `${prefix}${n}`);

test('at the memory limit the largest journal takes no new asset, a small one does, and refusals are counted', async () => {
  const { all, record, sizeOf } = await open(100_000, [], 'large', 'small');
  record('small', 'first');
  record('large', ...many(1_000));
  const size = sizeOf('large');
  assert.ok(size > 200 && size < 500, `${size}`);
  assert.equal(all.refused, 1_000 - size);
  record('small', 'second');
  assert.deepEqual([sizeOf('small'), all.refused], [2, 1_000 - size]);
  record('large', 'k0', 'k1');
  assert.equal(all.refused, 1_000 - size, 'the assets that are there stay');
  record('small', ...many(1_000));
  assert.ok(sizeOf('small') < 100, `${sizeOf('small')}`);
  assert.ok(all.of('large').bytes + all.of('small').bytes < 115_000);
});

test('a watched key is infinitely old after an asset under it was refused, until there is memory again', async () => {
  const { all, record, sizeOf } = await open(10_000, [['large', 'w']], 'large');
  record('large', 'w/first', ...many(500));
  const age = async () => {
    await look(all);
    return all.ages(Date.now()).get('large/w')!;
  };
  assert.ok((await age()) < 60);
  const size = sizeOf('large');
  record('large', ...many(100, 'w/'));
  assert.deepEqual([sizeOf('large'), await age()], [size, Infinity]);
  all.of('large').current!.states.forget(({ name }) => name.startsWith('k'));
  record('large', 'w/second');
  assert.ok((await age()) < 60);
});

test('the assets of closed journals leave memory first, unless the journal is watched', async () => {
  const { all, record, sizeOf } = await open(30_000, [['watched']], 'closed', 'watched', 'open');
  record('closed', ...many(50));
  record('watched', ...many(20));
  await all.of('closed').closing();
  await all.of('watched').closing();
  record('open', ...many(200));
  assert.deepEqual([all.of('closed').bytes, sizeOf('watched')], [0, 20]);
  assert.ok(sizeOf('open') > 50);
});
