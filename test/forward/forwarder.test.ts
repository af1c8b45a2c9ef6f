/** The states of a forwarder, with destinations that answer as a script says. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lineAt } from '../../src/forward/backlog.ts';
import { Cursor, type CursorValue, cursorName, readCursor } from '../../src/forward/cursor.ts';
import { DeadLetters } from '../../src/forward/dead-letters.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { encodeBatch, encodeMembers } from '../../src/journal/record.ts';
import { goneName, segmentName } from '../../src/journal/segments.ts';
import { diskWith, FIRST, flip, makeLines, plainEvent, START, segment, splitLines } from '../support/segments.ts';
import { failingCall, type SimulatedDisk, systemError } from '../support/simulated-disk.ts';
import { eventually } from '../support/tools.ts';
import { lettersOf, limits, Model, seqsOf, startForwarder, UPSTREAM, untilDone, untilState } from './scripted.ts';

const EMPTY = Buffer.alloc(0);
const NOTHING_MORE = { entries: 'none', share: 0, behind: 'nothing' } as const;
const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, at) => first + at);

async function idOf(disk: SimulatedDisk, seq: number): Promise<string> {
  const source = { disk, progress: () => new OwnProgress().of(disk.folder), limits, signal: AbortSignal.abort() };
  const line = await lineAt(source, seq);
  assert.ok(line !== undefined, `there is no event ${seq}`);
  return line.event.id;
}

/** Lines that were recorded at a time. */
function batchAt(time: Date, count: number, chain = START): { bytes: Buffer } {
  const members = Array.from({ length: count }, (_, at) => encodeMembers(plainEvent(chain.seq + at)));
  return { bytes: Buffer.from(encodeBatch(members, chain, time).bytes) };
}

/** The lines that follow those of the first file. */
function segmentAfter(disk: SimulatedDisk, count: number): Buffer {
  const last = JSON.parse(disk.text(FIRST).trimEnd().split('\n').at(-1)!);
  return makeLines(count, { seq: last.seq + 1, crc: Number.parseInt(last.crc, 16) }).bytes;
}

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

/** What a hub has of the journal. */
async function hubAt(disk: SimulatedDisk, seq: number, id?: string): Promise<Model> {
  const hub = new Model('hub');
  hub.seq = seq;
  hub.id = id ?? (seq === 0 ? null : await idOf(disk, seq));
  return hub;
}

async function saveCursor(disk: SimulatedDisk, value: Partial<CursorValue>): Promise<void> {
  const { cursor } = await Cursor.open(disk, 'upstream');
  await cursor.save({ seq: 0, id: null, sending: undefined, kind: undefined, to: UPSTREAM.to, ...value });
  await cursor.close();
}

async function loseCursor(disk: SimulatedDisk): Promise<void> {
  await saveCursor(disk, { seq: 7 });
  await disk.remove(cursorName('upstream'));
}

test('a new destination begins with the first event there is, or with the next one', async () => {
  for (const kind of ['hub', 'api'] as const) {
    const disk = diskWith({ [segmentName(11)]: segment(11, 10), [goneName({ first: 1, last: 10 }, 'removed')]: EMPTY });
    const all = new Model(kind);
    const first = startForwarder(disk, 20, () => all);
    await untilDone(first);
    await first.forwarder.close();
    assert.deepEqual(all.recorded, upTo(20, 11));
    const next = new Model(kind);
    const now = startForwarder(disk, 15, () => next, { destination: { name: 'now', begin: 'now' } });
    await untilDone(now);
    now.progress.recorded(disk.folder, 21);
    await untilDone(now);
    await now.forwarder.close();
    assert.deepEqual(next.recorded, upTo(20, 16));
    assert.deepEqual([...(await lettersOf(disk)), ...(await lettersOf(disk, 'now'))], [], 'they were never promised');
  }
});

test('nothing is sent or asked before the journal is readable, and before the cursor is on the disk [forwarder-15]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 3) });
  const hub = new Model('hub');
  let found = '';
  hub.answer = async () => {
    found ||= (await readCursor(disk.afterPowerCut(NOTHING_MORE), 'upstream')).kind;
    return 'record' as const;
  };
  const bench = startForwarder(disk, 3, () => hub, { journalIsOpen: false });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(hub.asked, 0);
  assert.equal(bench.forwarder.floorSeq, 1, 'retention waits until the cursor is known');
  bench.progress.recorded(disk.folder, 4);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.equal(found, 'found');
});

test('a hub is asked where a lost cursor was; a plain upstream is stopped and never begins again by itself [forwarder-3]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 20) });
  await loseCursor(disk);
  const hub = await hubAt(disk, 7);
  const bench = startForwarder(disk, 20, () => hub);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(hub.recorded, upTo(20, 8));

  await disk.remove(cursorName('upstream'));
  const upstream = new Model('api');
  const stopped = startForwarder(disk, 20, () => upstream);
  await untilState(stopped, 'stopped');
  const { why, reason } = stopped.forwarder.status();
  assert.equal(why, 'cursor lost');
  assert.match(reason ?? '', /is missing.*assetlog forward from upstream --seq N/);
  await eventually('it is tried again', () => stopped.forwarder.answers.get('no hub')! > 3);
  await stopped.forwarder.close();
  assert.deepEqual(upstream.requests, []);
  const { kind } = await readCursor(disk, 'upstream');
  assert.equal(kind, 'lost', 'a stop does not make up a cursor');
});

test('a journal that has less than its hub, or another event there, is a fork [forwarder-8]', async () => {
  for (const cursor of ['new', 'known']) {
    const disk = diskWith({ [FIRST]: segment(1, 10) });
    if (cursor === 'known') await saveCursor(disk, { seq: 3, id: await idOf(disk, 3), kind: 'hub' });
    for (const hub of [await hubAt(disk, 11, 'x'), await hubAt(disk, 5, await idOf(disk, 6))]) {
      const bench = startForwarder(disk, 10, () => hub);
      await untilState(bench, 'stopped');
      const { why, reason } = bench.forwarder.status();
      assert.equal(why, 'fork', cursor);
      assert.match(reason ?? '', new RegExp(`has event ${hub.seq} .*identity --new`));
      await eventually('it is asked again', () => hub.asked > 3);
      await bench.forwarder.close();
      assert.deepEqual(hub.requests, []);
      assert.equal(bench.log.filter(({ level }) => level === 'warn').length, 1, 'logged once');
    }
  }
});

test('a cursor of a plain upstream that is ahead of its journal, or that of another one, stops the forwarder', async () => {
  for (const value of [
    { seq: 11, id: 'x' },
    { seq: 5, id: 'x' },
  ]) {
    const disk = diskWith({ [FIRST]: segment(1, 10) });
    await saveCursor(disk, { ...value, kind: 'api' });
    const upstream = new Model('api');
    const bench = startForwarder(disk, 10, () => upstream);
    await untilState(bench, 'stopped');
    assert.equal(bench.forwarder.status().why, 'fork');
    assert.match(bench.forwarder.status().reason ?? '', /assetlog forward from upstream --seq N/);
    await bench.forwarder.close();
    assert.deepEqual(upstream.requests, []);
  }
});

test('a hub that was restored from a backup gets again what it has no more, and the log has both numbers', async () => {
  const { lines } = makeLines(30);
  const disk = diskWith({ [FIRST]: Buffer.concat(lines) });
  await saveCursor(disk, { seq: 25, id: await idOf(disk, 25), kind: 'hub' });
  const hub = await hubAt(disk, 10);
  const bench = startForwarder(disk, 30, () => hub);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(hub.recorded, upTo(30, 11));
  const [{ had, has } = {}] = bench.log.filter(({ level }) => level === 'warn');
  assert.deepEqual([had, has], [25, 10]);
});

test('what retention removed meanwhile is lost for such a hub, and in the dead letters', async () => {
  const disk = diskWith({ [segmentName(21)]: segment(21, 10), [goneName({ first: 1, last: 20 }, 'removed')]: EMPTY });
  await saveCursor(disk, { seq: 25, id: await idOf(disk, 25), kind: 'hub' });
  const hub = await hubAt(disk, 10, 'gone');
  let answers = 0;
  hub.answer = (what) => {
    answers += 1;
    return what === 'send' && answers < 6 ? 'again' : 'record';
  };
  const bench = startForwarder(disk, 30, () => hub);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual([hub.lost, hub.recorded], [upTo(20, 11), upTo(30, 21)]);
  const letters = await lettersOf(disk);
  assert.deepEqual(
    letters.map(({ outcome, first, last }) => [outcome, first, last]),
    [['removed', 11, 20]],
    'once',
  );
});

test('what retention removed before the first answer of a hub is lost for it, and in the dead letters', async () => {
  const disk = diskWith({ [segmentName(21)]: segment(21, 10), [goneName({ first: 1, last: 20 }, 'removed')]: EMPTY });
  await saveCursor(disk, { seq: 0, id: null });
  const hub = new Model('hub');
  const bench = startForwarder(disk, 30, () => hub);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual([hub.lost, hub.recorded], [upTo(20), upTo(30, 21)]);
  assert.deepEqual(seqsOf(await lettersOf(disk)), upTo(20));
});

test('a hub that forgot the journal gets it from the first event there is', async () => {
  const disk = diskWith({ [segmentName(21)]: segment(21, 10), [goneName({ first: 1, last: 20 }, 'removed')]: EMPTY });
  await saveCursor(disk, { seq: 25, id: await idOf(disk, 25), kind: 'hub' });
  const hub = new Model('hub');
  const bench = startForwarder(disk, 30, () => hub);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(hub.recorded, upTo(30, 21));
});

test('what retention removed after the cursor is in the dead letters also if the hub forgot the journal [forwarder-1]', async () => {
  const disk = diskWith({ [segmentName(21)]: segment(21, 10), [goneName({ first: 1, last: 20 }, 'removed')]: EMPTY });
  await saveCursor(disk, { seq: 5, id: 'gone', kind: 'hub' });
  const hub = new Model('hub');
  const bench = startForwarder(disk, 30, () => hub);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(hub.recorded, upTo(30, 21));
  assert.deepEqual(seqsOf(await lettersOf(disk)), upTo(20, 6));
});

for (const kind of ['hub', 'api'] as const) {
  test(`${kind}: events that retention removed or repair lost are named, and what follows is sent [forwarder-9]`, async () => {
    const disk = diskWith({
      [segmentName(11)]: segment(11, 5),
      [goneName({ first: 1, last: 10 }, 'removed')]: EMPTY,
      [goneName({ first: 16, last: 20 }, 'lost')]: EMPTY,
      [segmentName(21)]: segment(21, 10),
    });
    await saveCursor(disk, { seq: 2, id: 'gone', kind });
    const target = new Model(kind);
    Object.assign(target, { seq: 2, id: 'gone' });
    const bench = startForwarder(disk, 30, () => target);
    await untilDone(bench);
    await bench.forwarder.close();
    assert.deepEqual(target.recorded, [...upTo(15, 11), ...upTo(30, 21)]);
    const letters = await lettersOf(disk);
    assert.deepEqual(seqsOf(letters), [...upTo(10, 3), ...upTo(20, 16)]);
    assert.match(letters[0]!.reason, /retention removed them/);
    if (kind === 'hub') assert.deepEqual(target.lost, [...upTo(10, 3), ...upTo(20, 16)]);
  });

  test(`${kind}: a damaged line stops the forwarder after the events before it, and is not given up [forwarder-12]`, async () => {
    const lines = splitLines(segment(1, 10));
    const disk = diskWith({ [FIRST]: Buffer.concat(lines.map((line, at) => (at === 4 ? flip(line, 60) : line))) });
    const target = new Model(kind);
    const bench = startForwarder(disk, 10, () => target);
    await untilState(bench, 'stopped');
    await eventually('what can be read is sent', () => bench.forwarder.status().seq === 4);
    const { why, reason } = bench.forwarder.status();
    assert.equal(why, 'damage');
    assert.match(reason ?? '', /event 5 can not be read: events-0+1.jsonl, line 5, byte .*assetlog repair/);
    await bench.forwarder.close();
    assert.deepEqual([target.recorded, await lettersOf(disk)], [upTo(4), []]);
  });

  test(`${kind}: damage without a known end stops the forwarder after the events before it`, async () => {
    const disk = diskWith({ [FIRST]: segment(1, 10).subarray(0, -9), [segmentName(12)]: segment(12, 5) });
    const target = new Model(kind);
    const bench = startForwarder(disk, 16, () => target);
    await untilState(bench, 'stopped');
    await eventually('what can be read is sent', () => bench.forwarder.status().seq === 9);
    const { why, reason } = bench.forwarder.status();
    assert.equal(why, 'damage');
    assert.match(reason ?? '', /events 10 to 11 can not be read: events-0+1.jsonl, line 10, byte .*assetlog repair/);
    await bench.forwarder.close();
    assert.deepEqual([target.recorded, await lettersOf(disk)], [upTo(9), []]);
  });

  test(`${kind}: a line that is damaged after it was sent is not noticed`, async () => {
    const lines = splitLines(segment(1, 10));
    const disk = diskWith({ [FIRST]: Buffer.concat(lines.map((line, at) => (at === 4 ? flip(line, 60) : line))) });
    await saveCursor(disk, { seq: 5, id: 'x', kind });
    const target = new Model(kind);
    Object.assign(target, { seq: 5, id: 'x' });
    const bench = startForwarder(disk, 10, () => target);
    await untilDone(bench);
    await bench.forwarder.close();
    assert.deepEqual([target.recorded, await lettersOf(disk)], [upTo(10, 6), []]);
  });
}

test('another journal in the folder is not sent in place of the one before [forwarder-17]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 10) });
  const upstream = new Model('api');
  const bench = startForwarder(disk, 10, () => upstream);
  await untilDone(bench);
  disk.put(FIRST, segment(1, 12));
  bench.progress.recorded(disk.folder, 13);
  await untilState(bench, 'stopped');
  assert.equal(bench.forwarder.status().why, 'fork');
  await bench.forwarder.close();
  assert.deepEqual(upstream.recorded, upTo(10));
});

test('a hub that answers like something else later is stopped, and gets no plain request [forwarder-13]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 10) });
  await saveCursor(disk, { kind: 'hub' });
  const opened: string[] = [];
  const hub = new Model('hub');
  hub.answer = () => 'no hub';
  const bench = startForwarder(disk, 10, (kind) => {
    opened.push(kind);
    return hub;
  });
  await untilState(bench, 'stopped');
  await eventually('it is asked again', () => hub.asked > 3);
  assert.equal(bench.forwarder.status().why, 'not understood');
  hub.answer = () => 'record';
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual([opened, hub.recorded], [['hub'], upTo(10)]);
});

test('what a destination is, is found out once and kept; no connection decides nothing [forwarder-14]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 2) });
  const opened: string[] = [];
  const models = { hub: new Model('hub'), api: new Model('api') };
  models.hub.answer = () => (models.hub.asked < 4 ? 'again' : 'no hub');
  const target = (kind: 'hub' | 'api') => {
    opened.push(kind);
    return models[kind];
  };
  const bench = startForwarder(disk, 2, target);
  await untilDone(bench);
  await bench.forwarder.close();
  const again = startForwarder(disk, 2, target);
  await untilDone(again);
  await again.forwarder.close();
  assert.deepEqual([opened, models.hub.asked, models.api.recorded], [['hub', 'api', 'api'], 4, [1, 2]]);
});

test('a proxy that answers in place of a hub at first does not decide for good that it is a plain upstream [forwarder-18]', async () => {
  for (const answer of ['stopped', 'again'] as const) {
    const disk = diskWith({ [FIRST]: segment(1, 10) });
    const models = { hub: new Model('hub'), api: new Model('api') };
    models.hub.answer = () => (models.hub.asked < 4 ? 'no hub' : 'record');
    models.api.answer = () => answer;
    const bench = startForwarder(disk, 10, (kind) => models[kind]);
    await untilDone(bench);
    assert.equal(bench.forwarder.status().kind, 'hub');
    await bench.forwarder.close();
    assert.deepEqual([models.hub.recorded, models.api.recorded], [upTo(10), []]);
  }
  // One that has taken an event stays what it is.
  const disk = diskWith({ [FIRST]: segment(1, 10) });
  const models = { hub: new Model('hub'), api: new Model('api') };
  models.hub.answer = () => (models.hub.asked < 2 ? 'no hub' : 'record');
  models.api.answer = (_, seq) => (seq === 2 && models.api.requests.length < 9 ? 'stopped' : 'record');
  const bench = startForwarder(disk, 10, (kind) => models[kind]);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual([models.hub.asked, models.hub.recorded, models.api.recorded], [1, [], upTo(10)]);
});

test('an event that was refused is in the dead letters as it is in the journal, and the next one is sent', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => (seq === 3 ? 'refused' : 'record');
  const bench = startForwarder(disk, 5, () => upstream);
  await untilDone(bench);
  assert.equal(bench.forwarder.status().dead_letters, 1);
  await bench.forwarder.close();
  assert.deepEqual([upstream.requests, upstream.recorded], [upTo(5), [1, 2, 4, 5]]);
  const [{ time, ...letter } = assert.fail('there is no letter')] = await lettersOf(disk);
  const line = disk.text(FIRST).split('\n')[2]!;
  assert.deepEqual(letter, { outcome: 'refused', status: 400, reason: 'scripted', line });
  assert.ok(Math.abs(Date.now() - Date.parse(time)) < 60_000);
});

test('at 20 refusals in a row the forwarder stops with the last one; SIGHUP lets it continue', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 30) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => (seq > 1 && seq < 26 ? 'refused' : 'record');
  const bench = startForwarder(disk, 30, () => upstream, { limits: { forwardStoppedMs: 60_000 } });
  await untilState(bench, 'stopped');
  assert.deepEqual([bench.forwarder.status().why, bench.forwarder.status().seq], ['refusals', 20]);
  assert.match(bench.forwarder.status().reason ?? '', /20 events in a row were refused, the last one is 21/);
  bench.forwarder.tryNow();
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(seqsOf(await lettersOf(disk)), upTo(25, 2));
  assert.deepEqual(upstream.recorded, [1, ...upTo(30, 26)]);
});

test('an event that leaves the upstream without an answer is given up once the next one is taken [forwarder-4]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 6) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => (seq === 3 ? 'lost' : 'record');
  const bench = startForwarder(disk, 6, () => upstream);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(upstream.requests, [1, 2, 3, 3, 3, 4, 5, 6]);
  const [letter, ...more] = await lettersOf(disk);
  assert.deepEqual([letter?.outcome, seqsOf([letter!]), more], ['in doubt', [3], []]);
});

test('a letter of an event in doubt says whether the event was taken later or given up, and is closed if it was taken [forwarder-10]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 6) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => {
    if (seq === 2 && upstream.requests.filter((other) => other === 2).length === 1) return 'in doubt';
    return seq === 4 ? 'lost' : 'record';
  };
  const bench = startForwarder(disk, 6, () => upstream);
  await untilDone(bench);
  const { dead_letters } = bench.forwarder.status();
  await bench.forwarder.close();
  const letters = (await lettersOf(disk)).map((letter) => [...seqsOf([letter]), letter.outcome, letter.became]);
  assert.deepEqual(letters, [
    [2, 'in doubt', 'taken'],
    [4, 'in doubt', 'given up'],
  ]);
  assert.equal(dead_letters, 1);
  const again = await DeadLetters.open(disk, 'upstream');
  assert.equal(again.open, 1);
  assert.doesNotMatch(
    JSON.stringify(bench.log.filter(({ message }) => /dead letters/.test(`${message}`))),
    /answers 502/,
  );
});

test('a destination whose dead letters have reached their limit stops, and continues when there is space', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 30) });
  const upstream = new Model('api');
  upstream.answer = () => (upstream.requests.length > 25 ? 'record' : 'refused');
  const letters = await DeadLetters.open(disk, 'upstream', { bytesMax: 4_000, spareBytes: 500 });
  const bench = startForwarder(disk, 30, () => upstream, {
    letters: async () => letters,
    limits: { forwardStoppedMs: 60_000, forwardRefusalsMax: 100 },
  });
  let [closed, count] = [0, 0];
  while (closed < 10) {
    await untilState(bench, 'stopped');
    const { why, reason, seq, dead_letters } = bench.forwarder.status();
    assert.equal(why, 'dead letters');
    assert.match(reason ?? '', /of at most 4000 bytes; send them again with assetlog forward retry upstream/);
    count = dead_letters;
    assert.equal(seq, closed + count, 'nothing passes that has no letter');
    for (let more = 0; more < 5; more += 1) {
      closed += 1;
      const now = new Date().toISOString();
      await letters.append({ time: now, outcome: 'sent again', reason: '', first: closed, last: closed }, true);
    }
    bench.forwarder.tryNow();
    await eventually('it continues', () => bench.forwarder.status().seq > seq);
  }
  for (; closed < 30 && bench.forwarder.status().lag_events > 0; closed += 1) {
    await letters.append({ time: '', outcome: 'sent again', reason: '', first: closed + 1, last: closed + 1 }, true);
    bench.forwarder.tryNow();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(upstream.recorded, upTo(30, 26));
});

test('in an outage with answers in doubt nothing is given up', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 6) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => (seq > 2 && upstream.requests.length < 30 ? 'in doubt' : 'record');
  const bench = startForwarder(disk, 6, () => upstream);
  await untilDone(bench);
  await bench.forwarder.close();
  const seen = new Set(upstream.requests.slice(0, 30));
  assert.deepEqual([...seen], [1, 2, 3, 4], 'one further at most');
  const letters = await lettersOf(disk);
  const there = new Set([...upstream.recorded, ...seqsOf(letters)]);
  assert.deepEqual([...there].sort(), upTo(6));
  for (const seq of seqsOf(letters)) assert.ok(seq === 3 || seq === 4, `${seq} was never in doubt`);
  const problems = bench.log.filter(({ level, reason }) => level === 'warn' && reason === 'answers 502');
  assert.equal(problems.length, 3, 'waiting, suspect and the first dead letter, once each');
});

test('without a next event, one in doubt is not sent again until there is one', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 3) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => (seq === 3 && upstream.requests.length < 6 ? 'in doubt' : 'record');
  const bench = startForwarder(disk, 3, () => upstream);
  await untilState(bench, 'suspect');
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.deepEqual(upstream.requests, [1, 2, 3, 3, 3]);
  disk.put(FIRST, Buffer.concat([disk.bytes(FIRST)!, segmentAfter(disk, 1)]));
  bench.progress.recorded(disk.folder, 5);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(upstream.requests, [1, 2, 3, 3, 3, 3, 4], 'the outage may be over, so first the same again');
  assert.deepEqual(upstream.recorded, upTo(4));
  assert.deepEqual(seqsOf(await lettersOf(disk)), [3], 'it may be there twice');
});

test('a destination that wants each event at most once: one in doubt is given up, after a pause [forwarder-7]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => (seq === 2 || seq === 3 ? 'lost' : 'record');
  const bench = startForwarder(disk, 5, () => upstream, { destination: { inDoubt: 'once' } });
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual([upstream.requests, seqsOf(await lettersOf(disk))], [upTo(5), [2, 3]]);
});

test('what was being sent when the process died is sent again and named [forwarder-5]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  await saveCursor(disk, { seq: 2, id: await idOf(disk, 2), sending: 4, kind: 'api' });
  const upstream = new Model('api');
  const bench = startForwarder(disk, 5, () => upstream);
  await untilDone(bench);
  await bench.forwarder.close();
  const letters = await lettersOf(disk);
  assert.deepEqual(
    [upstream.recorded, seqsOf(letters)],
    [
      [3, 4, 5],
      [3, 4],
    ],
  );
  assert.match(letters[0]!.reason, /stopped without a reply/);
});

test('any call of the disk that fails while the cursor is opened is repeated, and what was being sent is named once [forwarder-6]', async () => {
  for (let failing = 1; ; failing += 1) {
    const disk = diskWith({ [FIRST]: segment(1, 5) });
    await saveCursor(disk, { seq: 2, id: await idOf(disk, 2), sending: 4, kind: 'api' });
    const letters = await DeadLetters.open(disk, 'upstream');
    await letters.append({ time: '2026-11-20T15:19:45.266Z', outcome: 'removed', reason: 'before', first: 1, last: 1 });
    const upstream = new Model('api');
    const { fault, struck } = failingCall(failing, 'once');
    disk.fault = () => (upstream.requests.length === 0 ? fault() : undefined);
    const bench = startForwarder(disk, 5, () => upstream);
    await untilDone(bench);
    await bench.forwarder.close();
    assert.deepEqual(
      [upstream.recorded, seqsOf(await lettersOf(disk))],
      [
        [3, 4, 5],
        [1, 3, 4],
      ],
      `call ${failing}`,
    );
    if (struck() === 0) return assert.ok(failing > 10, `${failing}`);
  }
});

test('a stop gives the request in flight some time, and then its event stays as being sent', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const upstream = new Model('api');
  upstream.answer = (_, seq) => {
    if (seq < 3) return 'record';
    const signal = upstream.signals.at(-1)!;
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve('in doubt')));
  };
  const bench = startForwarder(disk, 5, () => upstream);
  await eventually('3 is on its way', () => upstream.requests.at(-1) === 3);
  await bench.forwarder.close();
  const state = await readCursor(disk, 'upstream');
  assert.ok(state.kind === 'found');
  assert.deepEqual([state.value.seq, state.value.sending], [2, 3]);
});

test('a stop after an answer that recorded nothing leaves no event as being sent', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const upstream = new Model('api');
  upstream.answer = (what) => (what === 'send' ? 'again' : 'record');
  const bench = startForwarder(disk, 5, () => upstream, {
    limits: { forwardRetryMs: 60_000, forwardRetryMsMax: 60_000 },
  });
  await untilState(bench, 'waiting');
  assert.match(bench.forwarder.status().reason ?? '', /answers 503/);
  await bench.forwarder.close();
  const state = await readCursor(disk, 'upstream');
  assert.ok(state.kind === 'found');
  assert.deepEqual([state.value.seq, state.value.sending], [0, undefined]);
});

test('a Retry-After is waited for, and SIGHUP ends the wait', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const hub = new Model('hub');
  hub.answer = (what) => (what === 'send' && hub.requests.length < 2 ? 'again' : 'record');
  hub.afterMs = 60_000;
  const bench = startForwarder(disk, 5, () => hub);
  await untilState(bench, 'waiting');
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(hub.requests.length, 1);
  bench.forwarder.tryNow();
  await untilDone(bench);
  await bench.forwarder.close();
});

test('a full disk: nothing passes that is not in the dead letters, and nothing is sent before the cursor says so [forwarder-16]', async () => {
  for (const file of ['dead-upstream.jsonl', 'forward-upstream.cursor']) {
    const disk = diskWith({ [FIRST]: segment(1, 8) });
    const upstream = new Model('api');
    upstream.answer = (_, seq) => (seq === 3 ? 'final' : seq === 5 ? 'refused' : 'record');
    let isFull = false;
    disk.fault = (call, name) => {
      isFull ||= upstream.requests.includes(3) && failed < 20;
      if (!isFull || name !== file || (call !== 'write' && call !== 'create')) return undefined;
      failed += 1;
      if (failed === 20) isFull = false;
      return systemError('ENOSPC');
    };
    let failed = 0;
    const bench = startForwarder(disk, 8, () => upstream);
    await eventually('the disk is full', () => bench.forwarder.status().reason?.includes('ENOSPC') === true);
    assert.equal(bench.forwarder.status().state, 'waiting');
    await untilDone(bench);
    await bench.forwarder.close();
    assert.deepEqual([upstream.requests, seqsOf(await lettersOf(disk))], [upTo(8), [3, 5]], file);
  }
});

test('a destination with another URL continues, and the log says so', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  await saveCursor(disk, { seq: 2, id: await idOf(disk, 2), kind: 'api', to: 'http://127.0.0.1:3001' });
  const upstream = new Model('api');
  const bench = startForwarder(disk, 5, () => upstream);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(upstream.recorded, [3, 4, 5]);
  assert.match(JSON.stringify(bench.log), /another URL.*"to":"http:\/\/127.0.0.1:3000"/);
  const state = await readCursor(disk, 'upstream');
  assert.equal(state.kind === 'found' && state.value.to, UPSTREAM.to);
});

test('how far it lags is said in events and seconds, before the first answer and with a clock of 1970', async (t) => {
  const { bytes } = batchAt(new Date(Date.now() - 90_000), 5);
  const disk = diskWith({ [FIRST]: bytes });
  const hub = new Model('hub');
  hub.answer = (what) => (what === 'ask' && hub.asked < 2 ? 'again' : 'stopped');
  const bench = startForwarder(disk, 5, () => hub, { limits: { forwardStoppedMs: 60_000 } });
  await untilState(bench, 'stopped');
  const { lag_events, lag_seconds, last_seq } = bench.forwarder.status();
  assert.deepEqual([lag_events, last_seq], [5, 5]);
  assert.ok(lag_seconds >= 90 && lag_seconds < 150, `${lag_seconds}`);
  t.mock.method(Date, 'now', () => 0);
  assert.equal(bench.forwarder.status().lag_seconds, 0);
  await bench.forwarder.close();
});

test('an outage is logged once, with its end', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 2) });
  const hub = new Model('hub');
  hub.answer = (what) => (what === 'ask' && hub.asked < 20 ? 'again' : 'record');
  const bench = startForwarder(disk, 2, () => hub);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(
    bench.log.map(({ level, message, lag }) => [level, message, lag]),
    [
      ['info', 'forwarding begins', undefined],
      ['warn', 'events can not be forwarded now', 2],
      ['info', 'events are forwarded again', 0],
    ],
  );
});

test('an event that a hub refuses is in the dead letters, and the next request says that it is lost [forwarder-19]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 6) });
  const hub = new Model('hub');
  hub.answer = (what, seq) => {
    if (what === 'ask') return 'at';
    return seq === 3 ? 'refused' : hub.requests.filter((other) => other === 4).length === 1 ? 'again' : 'record';
  };
  const bench = startForwarder(disk, 6, () => hub, { limits: { forwardBatchBytes: 1 } });
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual([hub.recorded, hub.lost], [[1, 2, 4, 5, 6], [3]]);
  assert.deepEqual(seqsOf(await lettersOf(disk)), [3], 'once, though it was refused twice');
});

test('what a hub does not get has one dead letter, also if the cursor did not pass it before a restart [forwarder-2]', async () => {
  const gone = goneName({ first: 1, last: 20 }, 'removed');
  const disk = diskWith({ [segmentName(21)]: segment(21, 6), [gone]: EMPTY });
  await saveCursor(disk, { seq: 15, id: 'gone', kind: 'hub' });
  const hub = new Model('hub');
  [hub.seq, hub.id] = [15, 'gone'];
  let isDown = true;
  hub.answer = (what, seq) => (what === 'ask' ? 'at' : seq < 23 ? 'refused' : isDown ? 'again' : 'record');
  for (const isLast of [false, false, true]) {
    isDown = !isLast;
    const bench = startForwarder(disk, 26, () => hub, { limits: { forwardBatchBytes: 1 } });
    if (isLast) await untilDone(bench);
    else await untilState(bench, 'waiting');
    assert.equal(bench.forwarder.status().dead_letters, 3);
    await bench.forwarder.close();
  }
  assert.deepEqual([hub.recorded, hub.lost], [upTo(26, 23), upTo(22, 16)]);
  assert.deepEqual(seqsOf(await lettersOf(disk)), upTo(22, 16), 'each once');
});

test('a stop before the first event is known leaves a destination new [forwarder-20]', async () => {
  const disk = diskWith({ [segmentName(11)]: segment(11, 5) });
  disk.fault = (call) =>
    call === 'list' && disk.bytes(cursorName('upstream')) !== undefined ? systemError('EIO') : undefined;
  const bench = startForwarder(disk, 15, () => new Model('hub'), {
    limits: { forwardRetryMs: 60_000, forwardRetryMsMax: 60_000 },
  });
  await untilState(bench, 'waiting');
  await bench.forwarder.close();
  disk.fault = () => undefined;
  assert.equal((await readCursor(disk, 'upstream')).kind, 'new');
});

test('while a request is in flight the next one is read, and a stuck destination has no more read than that [forwarder-21]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 300) });
  const hub = new Model('hub');
  hub.answer = (what) => (what === 'send' && hub.requests.length < 50 ? 'again' : 'record');
  const bench = startForwarder(disk, 300, () => hub, { limits: { forwardBatchBytes: 4_000 } });
  await eventually('40 tries', () => hub.requests.length > 40);
  assert.ok(hub.largest <= 5, `the first page has 1,000 bytes, so at most 5 lines, and a request had ${hub.largest}`);
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(hub.recorded, upTo(300));
  assert.ok(hub.largest > 5 && hub.largest <= 20, `a request of up to 4,000 bytes had ${hub.largest} lines`);
});
