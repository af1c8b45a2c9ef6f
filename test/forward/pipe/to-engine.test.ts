/** Sends to an engine: it can be asked as a hub can, removes old events, hears of no lost ones, and may take an insert again. */

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { test } from 'node:test';
import { segmentName } from '../../../src/journal/segments.ts';
import { diskWith, FIRST, segment } from '../../support/segments.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { Model } from '../../world/destination.ts';
import { createPipe, cursorOf, hubAt, idOf, lettersOf, saveCursor, sendAll, startPipe } from '../scripted.ts';

const NATS = { destination: { to: 'nats://n1.example,n2.example/ASSETLOG' } };
const CLICKHOUSE = { destination: { to: 'clickhouse+http://ch.example/assets.events', ratePerSecond: 1_000_000 } };

test('an event that an engine refuses gets one dead letter, and is not sent again after a restart', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 3) });
  const engine = new Model('nats', (what, seq) => (what === 'send' && seq === 3 ? 'refused' : 'record'));
  await sendAll(disk, 3, () => engine, { ...NATS, limits: { forwardBatchBytes: 1 } });
  assert.deepEqual([engine.recorded, (await cursorOf(disk)).seq], [[1, 2], 3]);
  const { log } = await sendAll(disk, 3, () => engine, NATS);
  assert.deepEqual(engine.requests, [1, 2, 3], 'the letter is in place of the event');
  assert.deepEqual(
    (await lettersOf(disk)).map(({ outcome }) => outcome),
    ['refused'],
  );
  assert.doesNotMatch(JSON.stringify(log), /fewer events/);
});

test('after a crash the lines of the last request that a table lacks are repeated, without later ones [to-engine-3]', async () => {
  for (const [has, first] of [
    [2, [3, 7]],
    [5, [6, 7]],
    [7, [8, 10]],
  ] as const) {
    const disk = diskWith({ [FIRST]: segment(1, 20) });
    await saveCursor(disk, { seq: 2, kind: 'clickhouse', sending: 7 });
    const engine = hubAt(disk, has, idOf(disk, has), 'clickhouse');
    await sendAll(disk, 20, () => engine, CLICKHOUSE);
    assert.deepEqual([engine.requests[0], engine.ends[0]], first, `${has}`);
    assert.deepEqual(engine.recorded, upTo(20, has + 1));
    const { seq, sending } = await cursorOf(disk);
    assert.deepEqual([seq, sending], [20, undefined]);
  }
});

test('an engine that was restored during a request gets the missing events in requests of the usual size', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 20) });
  await saveCursor(disk, { seq: 15, kind: 'clickhouse', sending: 18 });
  const engine = hubAt(disk, 3, idOf(disk, 3), 'clickhouse');
  await sendAll(disk, 20, () => engine, { ...CLICKHOUSE, limits: { insertBytes: 1 } });
  assert.deepEqual([engine.recorded, engine.largest], [upTo(20, 4), 1]);
});

test('an engine at an unexpected seq is asked at once, and after a pause if that repeats', async () => {
  for (const times of [1, 2]) {
    const disk = diskWith({ [FIRST]: segment(1, 3) });
    const engine = new Model('nats', (what) =>
      what === 'send' && engine.requests.length <= times ? 'elsewhere' : 'record',
    );
    const { log } = await sendAll(disk, 3, () => engine, NATS);
    assert.deepEqual([engine.recorded, engine.asked], [upTo(3), 1 + times]);
    const warnings = log.filter(({ level }) => level === 'warn');
    assert.equal(warnings.length, times - 1, JSON.stringify(warnings));
  }
});

test('lines that are read while the cursor passes a refused event are sent, also if no event follows', async () => {
  const second = segmentName(4);
  const disk = diskWith({ [FIRST]: segment(1, 3), [second]: segment(4, 2) });
  const engine = new Model('nats', (what, seq) => (what === 'send' && seq === 3 ? 'refused' : 'record'));
  const bench = createPipe(disk, 5, { openAs: () => engine, ...NATS, limits: { forwardBatchBytes: 1 } });
  const saves = new EventEmitter();
  let isSaved = false;
  // The next file is not read before the cursor is saved, and the save lasts until it is.
  disk.fault = (call, name) => {
    if (call === 'read' && name === second && !isSaved) return once(saves, 'save').then(() => {});
    if (call !== 'write' || !name.endsWith('.cursor') || isSaved || !engine.requests.includes(3)) return undefined;
    isSaved = true;
    saves.emit('save');
    return eventually('the next event is read', () => bench.pipe.sender.backlog.head(0) !== undefined);
  };
  bench.pipe.begin();
  await bench.finish();
  assert.deepEqual([engine.recorded, isSaved], [[1, 2, 4, 5], true]);
});

test('a destination of another kind under the same name is stopped, and gets no request', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  await saveCursor(disk, { seq: 3, kind: 'hub' });
  const engine = new Model('nats');
  const bench = startPipe(disk, 5, () => engine, NATS);
  await bench.until('stopped');
  assert.match(bench.pipe.status.reason ?? '', /of another kind than nats:.*; give it a name of its own$/);
  await bench.pipe.close();
  assert.deepEqual([engine.asked, engine.requests], [0, []]);
});
