/** How a hub lists its sources while they make requests. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { Sightings } from '../../../src/forward/hub/sightings.ts';
import { createSnapshot } from '../../../src/forward/hub/snapshot.ts';
import { NOTHING } from '../../../src/forward/hub/watermark.ts';
import type { SourceQuery } from '../../../src/journal/look/source-state.ts';
import { sourceOf } from '../../support/forwarding.ts';
import { SimulatedDisk } from '../../world/simulated-disk.ts';

const COUNT = 9;
const ids = Array.from({ length: COUNT }, (_, at) => sourceOf(at));

/** Sources whose last events came one after the other, and of which the hub has heard nothing since its start. */
async function listed() {
  const marks = new Map(ids.map((id) => [id, { ...NOTHING, seq: 1, id }]));
  const newest = new Map(ids.map((id, at) => [id, { time: `2026-11-20T00:00:0${at}.000Z`, through: undefined }]));
  newest.delete(ids[0]!);
  const sightings = new Sightings({ disk: new SimulatedDisk(), limits });
  await sightings.load();
  const list = (wanted: SourceQuery = {}) =>
    sightings.list({ ...createSnapshot(), sources: marks, newest }, undefined, wanted);
  return { marks, sightings, list };
}

test('each source is listed once, the most silent first, although others arrive and leave meanwhile', async () => {
  const { marks, sightings, list } = await listed();
  const found: string[] = [];
  for (const { id, last_seen } of list()) {
    assert.equal(last_seen === null, id === ids[0]);
    found.push(id);
    sightings.add(id, {}); // one that was listed
    if (found.length === 3) sightings.add(ids[5]!, { name: 'seen' }); // one that was not
    if (found.length === 4) await sightings.remove(ids[6]!);
    if (found.length === 5) {
      marks.set(sourceOf(99), { ...NOTHING, seq: 1, id: sourceOf(99) });
      sightings.add(sourceOf(99), {});
    }
  }
  assert.deepEqual(
    found,
    [0, 1, 2, 3, 4, 7, 8, 5].map((at) => ids[at]),
  );
  const after = Array.from(list(), ({ id }) => id);
  assert.deepEqual(after, [...[0, 1, 2].map((at) => ids[at]), ids[3], ids[4], sourceOf(99), ids[7], ids[8], ids[5]]);
});

test('pages list each source once, also if the last one of a page makes a request before the next page', async () => {
  for (const isSeen of [false, true]) {
    const { sightings, list } = await listed();
    const found: string[] = [];
    for (let after: SourceQuery['after']; ; ) {
      const page = [...list({ after, limit: 2 })];
      assert.ok(page.length <= 2);
      const last = page.at(-1);
      if (last === undefined) break;
      found.push(...page.map(({ id }) => id));
      after = { id: last.id, seenMs: Date.parse(last.last_seen ?? '1970-01-01T00:00:00Z') };
      if (isSeen && found.length < 7) sightings.add(last.id, {});
    }
    assert.deepEqual(isSeen ? [...new Set(found)].sort() : found, ids);
  }
});

test('sources that are not silent are left out before a page is cut', async () => {
  const { sightings, list } = await listed();
  for (const wanted of [{ silentMs: 1_000, limit: 3 }, { silentMs: 1_000 }]) {
    const page = Array.from(list(wanted), ({ id }) => id);
    sightings.add(ids[0]!, {});
    sightings.add(ids[2]!, {});
    assert.deepEqual(page, wanted.limit === undefined ? ids.filter((_, at) => at !== 0 && at !== 2) : ids.slice(0, 3));
  }
});

test('a filter by a name that one source has looks up its id, and a name of several sources finds each', async () => {
  const { sightings } = await listed();
  for (const [at, name] of ['one', 'two', 'two'].entries()) sightings.add(ids[at]!, { name });
  const [one, two, none] = [
    await sightings.filterFor('one'),
    await sightings.filterFor('two'),
    await sightings.filterFor('x'),
  ];
  assert.equal(one.onlyId?.(), ids[0]);
  assert.equal(two.onlyId?.(), undefined);
  assert.deepEqual(ids.filter(two.has), [ids[1], ids[2]]);
  assert.equal(none.onlyId?.(), undefined);
});

test('a source that arrives through another one, or has a new id, is not silent until it sends by itself', async () => {
  const { sightings, list, marks } = await listed();
  for (const id of ids) sightings.add(id, {});
  const silent = () => Array.from(list({ silentMs: -1 }), ({ id }) => id);
  assert.deepEqual(silent(), ids);
  sightings.brought(ids[3]!, ids[4]!);
  sightings.brought(sourceOf(77), ids[4]!);
  marks.set(sourceOf(77), { ...NOTHING, seq: 1, id: sourceOf(77) });
  sightings.replaced([
    [1, ids[5]!],
    [2, ids[6]!],
  ]);
  assert.deepEqual(
    silent(),
    ids.filter((_, at) => at !== 3 && at !== 5),
  );
  assert.deepEqual(
    Array.from(list(), ({ id }) => id),
    [...ids, sourceOf(77)],
  );
  const [last] = Array.from(list()).slice(-1);
  assert.deepEqual([last?.last_seen, last?.missing_events], [null, null]);
  for (const at of [3, 5]) sightings.add(ids[at]!, {});
  assert.deepEqual(silent().toSorted(), ids);
});
