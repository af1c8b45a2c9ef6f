/** The states of a forwarder, with destinations that answer as a script says. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readCursor } from '../../src/forward/cursor.ts';
import { diskWith, FIRST, makeLines, segment } from '../support/segments.ts';
import { lettersOf, Model, startForwarder, untilDone } from './scripted.ts';

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, at) => first + at);

test('a new hub gets all there is, in order, and what comes later', async () => {
  const { lines } = makeLines(300);
  const disk = diskWith({ [FIRST]: Buffer.concat(lines.slice(0, 200)) });
  const hub = new Model('hub');
  const bench = startForwarder(disk, 200, () => hub);
  await untilDone(bench);
  disk.put(FIRST, Buffer.concat(lines));
  bench.progress.recorded(disk.folder, 301);
  await untilDone(bench);
  assert.deepEqual(hub.recorded, upTo(300));
  const { seq, kind, state, last_seq, lag_events, lag_seconds, dead_letters, last_success } = bench.forwarder.status();
  assert.deepEqual(
    [seq, kind, state, last_seq, lag_events, lag_seconds, dead_letters],
    [300, 'hub', 'idle', 300, 0, 0, 0],
  );
  assert.ok(last_success !== null);
  assert.equal(bench.forwarder.floorSeq, 301);
  assert.equal(bench.forwarder.outcomes.get('recorded'), 300);
  await bench.forwarder.close();
});

test('a plain upstream gets one event in a request, and a stop leaves none as being sent', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 20) });
  const upstream = new Model('api');
  const bench = startForwarder(disk, 20, () => upstream);
  await untilDone(bench);
  assert.deepEqual(upstream.recorded, upTo(20));
  await bench.forwarder.close();
  const state = await readCursor(disk, 'upstream');
  assert.ok(state.kind === 'found');
  assert.deepEqual([state.value.seq, state.value.sending, state.value.kind], [20, undefined, 'api']);
  assert.deepEqual(await lettersOf(disk), []);
});
