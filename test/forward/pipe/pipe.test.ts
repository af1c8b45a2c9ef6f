/** The states of a pipe, with destinations that answer as a script says. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DestinationKind } from '../../../src/forward/destinations/kinds.ts';
import { cursorName, readCursor } from '../../../src/forward/ledger/cursor.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { aged, diskWith, FIRST, flip, segment, splitLines } from '../../support/segments.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { byKind, Model } from '../../world/destination.ts';
import { type SimulatedDisk, systemError } from '../../world/simulated-disk.ts';
import { diskFrom, gone, hubAt, lettersOf, loseCursor, saveCursor, sendAll, seqsOf, startPipe } from '../scripted.ts';

const NOTHING_MORE = { entries: 'none', share: 0, behind: 'nothing' } as const;

/** A journal of 10 events, of which the fifth is damaged. */
function diskWithBadFifth(): SimulatedDisk {
  const lines = splitLines(segment(1, 10));
  return diskWith({ [FIRST]: Buffer.concat(lines.with(4, flip(lines[4]!, 60))) });
}

test('a new destination begins with the first event of the journal, or with the next one', async () => {
  for (const kind of ['hub', 'api'] as const) {
    const disk = diskFrom(11, 10);
    const all = new Model(kind);
    await sendAll(disk, 20, () => all);
    assert.deepEqual(all.recorded, upTo(20, 11));
    const next = new Model(kind);
    const now = startPipe(disk, 15, () => next, { destination: { name: 'now', begin: 'now' } });
    await now.untilDone();
    now.progress.recorded(disk.folder, 21);
    await now.finish();
    assert.deepEqual(next.recorded, upTo(20, 16));
    assert.deepEqual([...(await lettersOf(disk)), ...(await lettersOf(disk, 'now'))], [], 'they were never promised');
  }
});

test('no request is sent before the journal is readable and the cursor is saved', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 3) });
  const hub = new Model('hub');
  let found = '';
  hub.answer = async () => {
    found ||= (await readCursor(disk.afterPowerCut(NOTHING_MORE), 'upstream')).kind;
    return 'record' as const;
  };
  const bench = startPipe(disk, 3, () => hub, { journalIsOpen: false });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(hub.asked, 0);
  assert.equal(bench.ledger.floorSeq, 1, 'retention waits until the cursor is known');
  bench.progress.recorded(disk.folder, 4);
  await bench.finish();
  assert.equal(found, 'found');
});

test('with a lost cursor a hub is asked for its position, and a plain destination stops for an operator [forwarder-3]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 20) });
  await loseCursor(disk);
  const hub = hubAt(disk, 7);
  await sendAll(disk, 20, () => hub);
  assert.deepEqual(hub.recorded, upTo(20, 8));

  await disk.remove(cursorName('upstream'));
  const upstream = new Model('api');
  const stopped = startPipe(disk, 20, () => upstream);
  await stopped.until('stopped');
  const { why, reason } = stopped.pipe.status;
  assert.equal(why, 'cursor lost');
  assert.match(reason ?? '', /is missing.*assetlog forward from upstream --seq N/);
  await eventually('it is tried again', () => stopped.pipe.sender.traffic.answers.get('no hub')! > 3);
  await stopped.pipe.close();
  assert.deepEqual(upstream.requests, []);
  const { kind } = await readCursor(disk, 'upstream');
  assert.equal(kind, 'lost', 'a stop does not make up a cursor');
});

for (const kind of ['hub', 'api'] as const) {
  test(`${kind}: events that retention removed or a repair lost are named, and the next ones are sent`, async () => {
    const disk = diskWith({
      [segmentName(11)]: segment(11, 5),
      ...gone(1, 10),
      ...gone(16, 20, 'lost'),
      [segmentName(21)]: segment(21, 10),
    });
    await saveCursor(disk, { seq: 2, id: 'gone', kind });
    const destination = Object.assign(new Model(kind), { seq: 2, id: 'gone' });
    await sendAll(disk, 30, () => destination);
    assert.deepEqual(destination.recorded, [...upTo(15, 11), ...upTo(30, 21)]);
    const letters = await lettersOf(disk);
    assert.deepEqual(seqsOf(letters), [...upTo(10, 3), ...upTo(20, 16)]);
    assert.match(letters[0]!.reason, /retention removed them/);
    if (kind === 'hub') assert.deepEqual(destination.lost, [...upTo(10, 3), ...upTo(20, 16)]);
  });

  test(`${kind}: a damaged line stops forwarding after the events before it, and is not given up`, async () => {
    const withoutEnd = diskWith({ [FIRST]: segment(1, 10).subarray(0, -9), [segmentName(12)]: segment(12, 5) });
    for (const [disk, lastSeq, sent, problem] of [
      [diskWithBadFifth(), 10, 4, /event 5 cannot be read: events-0+1.jsonl, line 5, byte .*assetlog repair/],
      [withoutEnd, 16, 9, /events 10 to 11 cannot be read: events-0+1.jsonl, line 10, byte .*assetlog repair/],
    ] as const) {
      const destination = new Model(kind);
      const bench = startPipe(disk, lastSeq, () => destination);
      await bench.until('stopped');
      await eventually('what can be read is sent', () => bench.pipe.status.seq === sent);
      const { why, reason } = bench.pipe.status;
      assert.equal(why, 'damage');
      assert.match(reason ?? '', problem);
      await bench.pipe.close();
      assert.deepEqual([destination.recorded, await lettersOf(disk)], [upTo(sent), []]);
    }
  });

  test(`${kind}: a line that is damaged after it was sent does not stop forwarding`, async () => {
    const disk = diskWithBadFifth();
    await saveCursor(disk, { seq: 5, id: 'x', kind });
    const destination = Object.assign(new Model(kind), { seq: 5, id: 'x' });
    await sendAll(disk, 10, () => destination);
    assert.deepEqual([destination.recorded, await lettersOf(disk)], [upTo(10, 6), []]);
  });
}

test('another journal in the folder is not sent in place of the previous one', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 10) });
  const upstream = new Model('api');
  const bench = startPipe(disk, 10, () => upstream);
  await bench.untilDone();
  disk.put(FIRST, segment(1, 12));
  bench.progress.recorded(disk.folder, 13);
  await bench.until('stopped');
  assert.equal(bench.pipe.status.why, 'fork');
  await bench.pipe.close();
  assert.deepEqual(upstream.recorded, upTo(10));
});

test('the kind of a destination is decided by its first answer, not by a failed connection, and is kept', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 2) });
  const opened: string[] = [];
  const models = { hub: new Model('hub'), api: new Model('api') };
  models.hub.answer = () => (models.hub.asked < 4 ? 'again' : 'no hub');
  const destination = (kind: DestinationKind) => {
    opened.push(kind);
    return byKind(models)(kind);
  };
  await sendAll(disk, 2, destination);
  await sendAll(disk, 2, destination);
  assert.deepEqual([opened, models.hub.asked, models.api.recorded], [['hub', 'api', 'api'], 5, [1, 2]]);
});

test('a proxy that answers in place of a hub does not make it a plain destination for good', async () => {
  for (const answer of ['stopped', 'again'] as const) {
    const disk = diskWith({ [FIRST]: segment(1, 10) });
    const models = { hub: new Model('hub'), api: new Model('api') };
    models.hub.answer = () => (models.hub.asked < 4 ? 'no hub' : 'record');
    models.api.answer = () => answer;
    const bench = startPipe(disk, 10, byKind(models));
    await bench.untilDone();
    assert.equal(bench.pipe.status.kind, 'hub');
    await bench.pipe.close();
    assert.deepEqual([models.hub.recorded, models.api.recorded], [upTo(10), []]);
  }
  // One that has taken an event stays what it is.
  const disk = diskWith({ [FIRST]: segment(1, 10) });
  const models = { hub: new Model('hub'), api: new Model('api') };
  models.hub.answer = () => (models.hub.asked < 3 ? 'no hub' : 'record');
  models.api.answer = (_, seq) => (seq === 2 && models.api.requests.length < 9 ? 'stopped' : 'record');
  await sendAll(disk, 10, byKind(models));
  assert.deepEqual([models.hub.asked, models.hub.recorded, models.api.recorded], [2, [], upTo(10)]);
});

test('a known hub that answers like another server is stopped, and gets no single reports', async () => {
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

test('a Retry-After is honoured, and SIGHUP ends the wait', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const hub = new Model('hub', (what) => (what === 'send' && hub.requests.length < 2 ? 'again' : 'record'));
  hub.afterMs = 60_000;
  const bench = startPipe(disk, 5, () => hub);
  await bench.until('waiting');
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(hub.requests.length, 1);
  bench.pipe.tryNow();
  await bench.finish();
});

test('SIGHUP ends the pause after a long outage, in which no request is sent', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const hub = new Model('hub', (what) => (what === 'ask' && hub.asked < 3 ? 'again' : 'record'));
  const bench = startPipe(disk, 5, () => hub, { limits: { forwardOutageMs: 0, forwardSpreadMsMax: 1e9 } });
  await eventually('it has an answer', () => hub.asked === 3);
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.deepEqual(hub.requests, []);
  bench.pipe.tryNow();
  await bench.finish();
  assert.deepEqual(hub.recorded, upTo(5));
});

test('on a full disk no event is passed without its dead letter, and none is sent before the cursor is saved', async () => {
  for (const file of ['dead-upstream.jsonl', 'forward-upstream.cursor']) {
    const disk = diskWith({ [FIRST]: segment(1, 8) });
    const upstream = new Model('api', (_, seq) => (seq === 3 ? 'final' : seq === 5 ? 'refused' : 'record'));
    let isFull = false;
    disk.fault = (call, name) => {
      isFull ||= upstream.requests.includes(3) && failed < 20;
      if (!isFull || name !== file || (call !== 'write' && call !== 'create')) return undefined;
      failed += 1;
      if (failed === 20) isFull = false;
      return systemError('ENOSPC');
    };
    let failed = 0;
    const bench = startPipe(disk, 8, () => upstream);
    await eventually('the disk is full', () => bench.pipe.status.reason?.includes('ENOSPC') === true);
    assert.equal(bench.pipe.status.state, 'waiting');
    await bench.finish();
    assert.deepEqual([upstream.requests, seqsOf(await lettersOf(disk))], [upTo(8), [3, 5]], file);
  }
});

test('the lag is shown in events and seconds, before the first answer and with a clock of 1970', async (t) => {
  const disk = diskWith({ [FIRST]: aged(1, 5, 90_000) });
  const hub = new Model('hub', (what) => (what === 'ask' && hub.asked < 2 ? 'again' : 'stopped'));
  const bench = startPipe(disk, 5, () => hub, { limits: { forwardStoppedMs: 60_000 } });
  await bench.until('stopped');
  const { lag_events, lag_seconds, last_seq } = bench.pipe.status;
  assert.deepEqual([lag_events, last_seq], [5, 5]);
  assert.ok(lag_seconds !== null && lag_seconds >= 90 && lag_seconds < 150, `${lag_seconds}`);
  t.mock.method(Date, 'now', () => 0);
  assert.equal(bench.pipe.status.lag_seconds, 0);
  await bench.pipe.close();
});

test('an outage is logged once, and so is its end', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 2) });
  const hub = new Model('hub', (what) => (what === 'ask' && hub.asked < 20 ? 'again' : 'record'));
  const bench = await sendAll(disk, 2, () => hub);
  assert.deepEqual(
    bench.log.map(({ level, message, lag }) => [level, message, lag]),
    [
      ['info', 'forwarding begins', undefined],
      ['warn', 'events cannot be forwarded now', 2],
      ['info', 'events are forwarded again', 0],
    ],
  );
});

test('after a stop before the first event is known a destination is still new', async () => {
  const disk = diskWith({ [segmentName(11)]: segment(11, 5) });
  disk.fault = (call) =>
    call === 'list' && disk.bytes(cursorName('upstream')) !== undefined ? systemError('EIO') : undefined;
  const bench = startPipe(disk, 15, () => new Model('hub'), {
    limits: { forwardRetryMs: 60_000, forwardRetryMsMax: 60_000 },
  });
  await bench.until('waiting');
  await bench.pipe.close();
  disk.fault = () => undefined;
  assert.equal((await readCursor(disk, 'upstream')).kind, 'new');
});
