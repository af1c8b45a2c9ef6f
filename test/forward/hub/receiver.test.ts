/** What bounds a hub: sources, requests that wait, and the time until it knows what it has. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits as standardLimits } from '../../../src/config/limits.ts';
import { observation, SentJournal, sourceOf } from '../../support/forwarding.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { gate } from '../../world/gate.ts';
import { forwardedIn, OWN, TestHub } from '../../world/hub.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

/** An event that was recorded first by another journal than the one that sends it, if that is given. */
function observationFrom(source?: string): PlainEvent {
  const event = observation('a');
  return source === undefined ? event : { ...event, origin: { ...ORIGIN, source } };
}

const ORIGIN = { id: sourceOf(100), seq: 1, recorded: '2020-01-01T00:00:00.000Z' };

test('a journal that the events would come back to is refused, and each reply says where they go', async () => {
  const next = [sourceOf(1), sourceOf(2)];
  const via = [OWN, ...next];
  const hub = await TestHub.open(new SimulatedDisk(), { via: next });
  for (const source of via) {
    const { error, ...loop } = await hub.put(new SentJournal(2, source), 1, 2);
    assert.deepEqual(loop, { status: 409, reason: 'loop', seq: 0, id: null, via });
    assert.match(error ?? '', /^event 1 of this journal .*: it would be here twice$/);
  }
  const other = new SentJournal(2, sourceOf(3));
  assert.deepEqual(await hub.put(other, 1, 2), { status: 200, seq: 2, id: other.id(2), via });
  assert.deepEqual(await hub.ask(via[0]!), { status: 200, seq: 0, id: null, via, gzip: true });
  assert.deepEqual([...forwardedIn(hub.disk).keys()], [sourceOf(3)]);
});

test('a line that was recorded here before, or that the journals which get the events have sent on, is refused with its batch [receiver-2]', async () => {
  const next = sourceOf(9);
  const hub = await TestHub.open(new SimulatedDisk(), { via: [next] });
  for (const [source, said] of [
    [OWN, /^event 3 of this journal was here before: it would be here twice$/],
    [next, /^event 3 of this journal came through the journal 0193e0c2-[^ ]+9, which this hub forwards to/],
  ] as const) {
    const sent = new SentJournal(4, sourceOf(1), (seq) => observationFrom(seq === 3 ? source : undefined));
    const { error, ...loop } = await hub.put(sent, 1, 4);
    assert.deepEqual(loop, { status: 409, reason: 'loop', seq: 0, id: null, via: [OWN, next] });
    assert.match(error ?? '', said);
  }
  const other = new SentJournal(4, sourceOf(2), (seq) => observationFrom(seq === 3 ? sourceOf(3) : undefined));
  assert.equal((await hub.put(other, 1, 4)).seq, 4, 'from a journal that gets none');
  assert.deepEqual([...forwardedIn(hub.disk).keys()], [sourceOf(2)]);
});

test('lines that came through this journal, or through any journal that its events reach, are refused', async () => {
  const next = sourceOf(9);
  const hub = await TestHub.open(new SimulatedDisk(), { via: [next] });
  const sent = new SentJournal(4, sourceOf(1), () => observationFrom(sourceOf(2)));
  const names = (...more: string[]) => ({ throughSources: [sourceOf(1), sourceOf(3), ...more] });
  for (const [name, said] of [
    [OWN, /^event 1 of this journal was here before: it would be here twice$/],
    [next, /^event 1 of this journal came through the journal 0193e0c2-[^ ]+9, which this hub forwards to/],
  ] as const) {
    const { error, ...loop } = await hub.put(sent, 1, 2, names(name));
    assert.deepEqual(loop, { status: 409, reason: 'loop', seq: 0, id: null, via: [OWN, next] });
    assert.match(error ?? '', said);
  }
  assert.equal((await hub.put(sent, 1, 2, names())).status, 200);
  assert.equal((await hub.put(sent, 1, 2, names(OWN))).status, 200, 'what is here already is no circle');
  assert.equal((await hub.put(sent, 3, 4, names(OWN))).reason, 'loop');
});

test('what the lines of a source came through is durable before these lines are, and each request adds to it', async () => {
  let disk = new SimulatedDisk();
  let hub = await TestHub.open(disk);
  const from = [2, 2, 3, 4, 4].map(sourceOf);
  const sent = new SentJournal(5, sourceOf(1), (seq) => observationFrom(from[seq - 1]));
  const known = async () => [...((await hub.receiver.through()).get(sourceOf(1)) ?? [])].sort();
  const expected = (...numbers: number[]) => [1, ...numbers].map(sourceOf);
  for (const [seq, through, after] of [
    [1, [1, 2], expected(2)],
    [2, [2, 1], expected(2)],
    [3, [3], expected(2, 3)],
    [4, [4, 7, 1], expected(2, 3, 4, 7)],
  ] as const) {
    await known();
    const calls = disk.calls.length;
    assert.equal((await hub.put(sent, seq, seq, { throughSources: through.map(sourceOf) })).status, 200);
    const [isNoted, isRecorded] = ['rename forward-sources.json', 'write events-'].map((call) =>
      disk.calls.slice(calls).findIndex((made) => made.startsWith(call)),
    ) as [number, number];
    assert.ok(seq === 2 ? isNoted === -1 : isNoted !== -1 && isNoted < isRecorded, `${disk.calls.slice(calls)}`);
    assert.deepEqual(await known(), after);
    disk = disk.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' });
    hub = await TestHub.open(disk);
    assert.deepEqual(await known(), after, 'after a power cut');
    assert.equal((await hub.ask(sourceOf(1))).seq, seq);
  }
  disk.fault = (call, name) => (call === 'rename' && name.includes('sources') ? systemError('EIO') : undefined);
  const refused = await hub.put(sent, 5, 5, { throughSources: [sourceOf(8)] });
  assert.equal(refused.status, 503);
  assert.match(refused.error ?? '', /of others could not be read or written/);
  assert.deepEqual(forwardedIn(disk).get(sourceOf(1)), upTo(4), 'nothing is recorded without its names');
  assert.deepEqual(await known(), expected(2, 3, 4, 7));
});

test('a snapshot that is written beside a request has what that says its lines came through', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk);
  const senders = [1, 2, 3].map((number) => new SentJournal(1, sourceOf(number), () => observationFrom(sourceOf(500))));
  await hub.ask(sourceOf(1));
  const renamed = gate();
  disk.fault = (call) => (call === 'rename' ? renamed.opened : undefined);
  const replies = senders.map((sent) => hub.put(sent, 1, 1, { throughSources: [sent.source, sourceOf(100)] }));
  await new Promise((resolve) => setTimeout(resolve, 20));
  const closed = hub.receiver.sources.closed(0);
  renamed.open();
  await closed;
  for (const { status } of await Promise.all(replies)) assert.equal(status, 200);
  const through = await (await TestHub.open(disk.afterCrash())).receiver.through();
  for (const { source } of senders) assert.deepEqual(through.get(source), [source, sourceOf(100)]);
});

test('what many sources came through is one write an interval, whatever they say', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk, { limits: { hearMs: 500 } as never });
  const senders = [1, 2, 3].map((number) => new SentJournal(1, sourceOf(number), () => observationFrom(sourceOf(500))));
  const putAll = async () => {
    const statuses: number[] = [];
    for (const sent of senders) statuses.push((await hub.put(sent, 1, 1, { throughSources: [sourceOf(100)] })).status);
    return statuses;
  };
  await hub.ask(sourceOf(1));
  const writes = () => disk.calls.filter((call) => call.startsWith('rename forward-sources.json')).length;
  const before = writes();
  const startedMs = performance.now();
  const first = await putAll();
  if (performance.now() - startedMs < 500) assert.deepEqual([first, writes() - before], [[200, 503, 503], 1]);
  await eventually('all have been heard', async () => (await putAll()).every((status) => status === 200));
  const intervals = Math.floor((performance.now() - startedMs) / 500);
  assert.ok(writes() - before <= 1 + Math.min(2, intervals), `${writes() - before} writes`);
  for (const { source } of senders) assert.ok((await hub.receiver.through()).get(source)?.includes(sourceOf(100)));
});

test('a source that loses events in each of its requests does not fill the log', async () => {
  const hub = await TestHub.open(new SimulatedDisk());
  const count = 10 * standardLimits.refusalLinesMax;
  const sent = new SentJournal(2 * count);
  for (let seq = 2; seq <= 2 * count; seq += 2) {
    const { status } = await hub.put(sent, seq, seq, { lost: { first: seq - 1, last: seq - 1 } });
    assert.equal(status, 200);
  }
  const lines = hub.notices.filter((line) => line.includes('a source has lost events'));
  assert.ok(lines.length < count / 2, `${lines.length} lines`); // all of them on a machine that takes seconds for each
  assert.equal(hub.receiver.lostEvents, count);
});

test('a further source than the limit allows is refused, also if several come at once [receiver-4]', async () => {
  const hub = await TestHub.open(new SimulatedDisk(), { limits: { forwardSourcesMax: 5 } as never });
  const senders = Array.from({ length: 9 }, (_, index) => new SentJournal(2, sourceOf(index + 1)));
  const said = await Promise.all(senders.map((sent) => hub.put(sent, 1, 1)));
  assert.deepEqual(said.map(({ status }) => status).sort(), [200, 200, 200, 200, 200, 503, 503, 503, 503]);
  assert.match(said.find(({ status }) => status === 503)?.error ?? '', /events of 5 journals/);
  const again = await Promise.all(senders.map((sent) => hub.put(sent, 1, 2)));
  assert.deepEqual(
    again.map(({ status }) => status),
    said.map(({ status }) => status),
    'those that are known are taken',
  );
  assert.equal(forwardedIn(hub.disk).size, 5);
});

test('of one source only some requests wait, and each of them gets its reply [receiver-5]', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk, { limits: { forwardWaitingMax: 2 } as never });
  const sent = new SentJournal(9);
  await hub.put(sent, 1, 1);
  const sync = gate();
  disk.fault = (call) => (call === 'sync' ? sync.opened : undefined);
  const replies = [1, 2, 3, 4, 5].map(() => hub.put(sent, 2, 5));
  const refused = await Promise.all(replies.slice(3));
  assert.deepEqual(
    refused.map(({ status }) => status),
    [503, 503],
  );
  const other = hub.ask(sourceOf(2));
  assert.equal((await other).status, 200, 'another source does not wait');
  sync.open();
  const taken = await Promise.all(replies.slice(0, 3));
  assert.deepEqual(
    taken.map(({ status, seq }) => [status, seq]),
    [
      [200, 5],
      [200, 5],
      [200, 5],
    ],
  );
  assert.deepEqual(forwardedIn(disk).get(sent.source), upTo(5));
  assert.equal((await hub.put(sent, 6, 9)).status, 200);
});

test('while the watermarks are being read a request gets 503, and later the truth', async () => {
  const disk = new SimulatedDisk();
  const first = await TestHub.open(disk);
  const sent = new SentJournal(9);
  await first.put(sent, 1, 5);
  const hub = await TestHub.open(disk.afterCrash(), { limits: { openWaitMs: 50 } as never });
  const read = gate();
  hub.disk.fault = (call, name) => (call === 'read' && name.startsWith('events-') ? read.opened : undefined);
  for (const said of [await hub.ask(sent.source), await hub.put(sent, 1, 6)]) {
    assert.equal(said.status, 503);
    assert.match(said.error ?? '', /is being read/);
  }
  await hub.report();
  read.open();
  assert.equal((await hub.put(sent, 4, 9)).seq, 9);
  assert.deepEqual(forwardedIn(hub.disk).get(sent.source), upTo(9));
});

test('watermarks that cannot be read are an error of the service, and read again by the next request', async () => {
  const hub = await TestHub.open(new SimulatedDisk());
  hub.disk.fault = (call) => (call === 'create' ? Object.assign(new Error('EIO'), { code: 'EIO' }) : undefined);
  const said = await hub.ask(sourceOf(1));
  assert.deepEqual([said.status, hub.notices.filter((line) => line.includes('could not be read')).length], [503, 1]);
  hub.disk.fault = () => undefined;
  assert.equal((await hub.ask(sourceOf(1))).status, 200);
});

test('a journal that is opened again is read again, after what was on its way to the disk [receiver-6]', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk);
  const sent = new SentJournal(9);
  await hub.put(sent, 1, 2);
  const sync = gate();
  disk.fault = (call) => (call === 'sync' ? sync.opened : undefined);
  const onItsWay = hub.put(sent, 3, 5);
  const other = new SentJournal(9, sourceOf(2));
  await new Promise((resolve) => setImmediate(resolve));
  hub.receiver.sources.forget();
  const again = hub.put(other, 1, 2);
  const asked = hub.ask(sent.source);
  await new Promise((resolve) => setTimeout(resolve, 20));
  sync.open();
  assert.equal((await onItsWay).seq, 5);
  assert.equal((await asked).seq, 5);
  assert.equal((await again).seq, 2);
  assert.equal((await hub.put(sent, 3, 9)).seq, 9);
  assert.deepEqual(forwardedIn(disk).get(sent.source), upTo(9));
});

test('files that close while a snapshot is written are one more write, a failure is only logged, and a stop waits', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk, { retain: { retainDays: 9 }, segmentBytes: 400 });
  const sent = new SentJournal(12);
  const renames = () => disk.count('rename');
  await hub.put(sent, 1, 1);
  await eventually('nothing is written', () => renames() > 0);
  const before = renames();
  const written = gate();
  disk.fault = (call) => (call === 'rename' ? written.opened : undefined);
  for (let seq = 2; seq <= 9; seq += 1) await hub.put(sent, seq, seq);
  const stopped = hub.journal.close();
  written.open();
  await stopped;
  const snapshots = renames() - before;
  assert.ok(snapshots <= 4, `${snapshots} writes for eight files`);
  const again = await TestHub.open(disk.afterCrash(), { retain: { retainDays: 9 }, segmentBytes: 400 });
  again.disk.fault = (call, name) => (call === 'create' && name.includes('sources') ? systemError('EIO') : undefined);
  await again.put(sent, 10, 10);
  await again.journal.close();
  assert.ok(again.notices.some((line) => /could not record the last seq of the journal.*EIO/.test(line)));
  assert.ok(again.disk.names().includes('.stopped-cleanly'));
});
