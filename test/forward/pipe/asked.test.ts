/** Sends to a hub: where forwarding continues after what the hub says that it has. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diskWith, FIRST, makeLines, segment } from '../../support/segments.ts';
import { eventually } from '../../support/tools.ts';
import {
  cursorOf,
  diskFrom,
  hubAt,
  idOf,
  lettersOf,
  Model,
  saveCursor,
  sendAll,
  seqsOf,
  startPipe,
  upTo,
} from '../scripted.ts';

test('a new hub gets all there is, in order, and what comes later', async () => {
  const { lines } = makeLines(300);
  const disk = diskWith({ [FIRST]: Buffer.concat(lines.slice(0, 200)) });
  const hub = new Model('hub');
  const bench = startPipe(disk, 200, () => hub);
  await bench.untilDone();
  disk.put(FIRST, Buffer.concat(lines));
  bench.progress.recorded(disk.folder, 301);
  await bench.untilDone();
  assert.deepEqual(hub.recorded, upTo(300));
  const { seq, kind, state, last_seq, lag_events, lag_seconds, dead_letters, last_success } = bench.pipe.status;
  assert.deepEqual(
    [seq, kind, state, last_seq, lag_events, lag_seconds, dead_letters],
    [300, 'hub', 'idle', 300, 0, 0, 0],
  );
  assert.ok(last_success !== null);
  assert.equal(bench.ledger.floorSeq, 301);
  assert.equal(bench.pipe.outcomes.get('recorded'), 300);
  await bench.pipe.close();
});

test('a journal that has less than its hub, or another event there, is a fork [forwarder-8]', async () => {
  for (const cursor of ['new', 'known']) {
    const disk = diskWith({ [FIRST]: segment(1, 10) });
    if (cursor === 'known') await saveCursor(disk, { seq: 3, kind: 'hub' });
    for (const hub of [hubAt(disk, 11, 'x'), hubAt(disk, 5, idOf(disk, 6))]) {
      const bench = startPipe(disk, 10, () => hub);
      await bench.until('stopped');
      const { why, reason } = bench.pipe.status;
      assert.equal(why, 'fork', cursor);
      assert.match(reason ?? '', new RegExp(`has event ${hub.seq} .*identity --new`));
      await eventually('it is asked again', () => hub.asked > 3);
      await bench.pipe.close();
      assert.deepEqual(hub.requests, []);
      assert.equal(bench.log.filter(({ level }) => level === 'warn').length, 1, 'logged once');
    }
  }
});

test('a hub that was restored from a backup gets again what it has no more, and the log has both numbers [forwarder-11]', async () => {
  const { lines } = makeLines(30);
  const disk = diskWith({ [FIRST]: Buffer.concat(lines) });
  await saveCursor(disk, { seq: 25, kind: 'hub' });
  const hub = hubAt(disk, 10);
  const bench = await sendAll(disk, 30, () => hub);
  assert.deepEqual(hub.recorded, upTo(30, 11));
  const [{ had, has } = {}] = bench.log.filter(({ level }) => level === 'warn');
  assert.deepEqual([had, has], [25, 10]);
});

test('a copy that such a hub has taken events of, as many as it has lost, is no beginning of the journal', async () => {
  const { lines } = makeLines(30);
  const disk = diskWith({ [FIRST]: Buffer.concat(lines) });
  const hub = hubAt(disk, 10);
  const bench = startPipe(disk, 20, () => hub);
  await bench.untilDone();
  hub.id = 'that of the copy';
  bench.progress.recorded(disk.folder, 31);
  await bench.until('stopped');
  assert.equal(bench.pipe.status.why, 'fork');
  assert.deepEqual(hub.recorded, upTo(20, 11));
  await bench.pipe.close();
});

test('what retention removed is in the dead letters if the hub lost the events that it had [forwarder-1]', async () => {
  const disk = diskFrom(21, 10);
  await saveCursor(disk, { seq: 5, id: 'gone', kind: 'hub' });
  const hub = new Model('hub');
  await sendAll(disk, 30, () => hub);
  assert.deepEqual(hub.recorded, upTo(30, 21));
  assert.deepEqual(seqsOf(await lettersOf(disk)), upTo(20));
});

test('a hub that answers like something else later is stopped, and gets no plain request', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 10) });
  await saveCursor(disk, { kind: 'hub' });
  const opened: string[] = [];
  const hub = new Model('hub', () => 'no hub');
  const bench = startPipe(disk, 10, (kind) => {
    opened.push(kind);
    return hub;
  });
  await bench.until('stopped');
  await eventually('it is asked again', () => hub.asked > 3);
  assert.equal(bench.pipe.status.why, 'not understood');
  hub.answer = () => 'record';
  await bench.finish();
  assert.deepEqual([opened, hub.recorded], [['hub'], upTo(10)]);
});

test('an event that a hub refuses is in the dead letters, and the next request says that it is lost', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 6) });
  const hub = new Model('hub');
  hub.answer = (what, seq) => {
    if (what === 'ask') return 'at';
    return seq === 3 ? 'refused' : hub.requests.filter((other) => other === 4).length === 1 ? 'again' : 'record';
  };
  await sendAll(disk, 6, () => hub, { limits: { forwardBatchBytes: 1 } });
  assert.deepEqual([hub.recorded, hub.lost], [[1, 2, 4, 5, 6], [3]]);
  assert.deepEqual(seqsOf(await lettersOf(disk)), [3], 'once, though it was refused twice');
});

test('what a hub does not get has one dead letter, also if the cursor did not pass it before a restart', async () => {
  const disk = diskFrom(21, 6);
  await saveCursor(disk, { seq: 15, id: 'gone', kind: 'hub' });
  const hub = new Model('hub');
  [hub.seq, hub.id] = [15, 'gone'];
  let isDown = true;
  hub.answer = (what, seq) => (what === 'ask' ? 'at' : seq < 23 ? 'refused' : isDown ? 'again' : 'record');
  for (const isLast of [false, false, true]) {
    isDown = !isLast;
    const bench = startPipe(disk, 26, () => hub, { limits: { forwardBatchBytes: 1 } });
    if (isLast) await bench.untilDone();
    else await bench.until('waiting');
    assert.equal(bench.pipe.status.dead_letters, 3);
    await bench.pipe.close();
  }
  assert.deepEqual([hub.recorded, hub.lost], [upTo(26, 23), upTo(22, 16)]);
  assert.deepEqual(seqsOf(await lettersOf(disk)), upTo(22, 16), 'each once');
});

test('while a request is in flight the next one is read, and a stuck destination has no more read than that, and is not passed', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 300) });
  const hub = new Model('hub', (what) => (what === 'send' && hub.requests.length < 50 ? 'again' : 'record'));
  const bench = startPipe(disk, 300, () => hub, { limits: { forwardBatchBytes: 4_000 } });
  await eventually('40 tries', () => hub.requests.length > 40);
  assert.equal((await cursorOf(disk)).seq, 0);
  assert.ok(hub.largest <= 5, `the first page has 1,000 bytes, so at most 5 lines, and a request had ${hub.largest}`);
  await bench.finish();
  assert.deepEqual(hub.recorded, upTo(300));
  assert.ok(hub.largest > 5 && hub.largest <= 20, `a request of up to 4,000 bytes had ${hub.largest} lines`);
});
