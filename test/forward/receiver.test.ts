/** What bounds a hub: sources, requests that wait, and the time until it knows what it has. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { observation, SentJournal, sourceOf } from '../support/forwarding.ts';
import { gate } from '../support/gate.ts';
import { forwardedIn, TestHub } from '../support/hub.ts';
import { SimulatedDisk } from '../support/simulated-disk.ts';
import { upTo } from './scripted.ts';

test('a journal that the events would come back to is refused, and each reply says where they go [receiver-1]', async () => {
  const via = [sourceOf(1), sourceOf(2)];
  const hub = await TestHub.open(new SimulatedDisk(), { via });
  for (const source of via) {
    const { error, ...loop } = await hub.put(new SentJournal(2, source), 1, 2);
    assert.deepEqual(loop, { status: 409, reason: 'loop', seq: 0, id: null, via });
    assert.match(error ?? '', /would come back/);
  }
  const other = new SentJournal(2, sourceOf(3));
  assert.deepEqual(await hub.put(other, 1, 2), { status: 200, seq: 2, id: other.id(2), via });
  assert.deepEqual(await hub.ask(via[0]!), { status: 200, seq: 0, id: null, via });
  assert.deepEqual([...forwardedIn(hub.disk).keys()], [sourceOf(3)]);
});

test('a line that was recorded here before, or that the journals which get the events have sent on, is refused with its batch [receiver-2]', async () => {
  const [own, next] = [sourceOf(8), sourceOf(9)];
  const disk = new SimulatedDisk();
  disk.put('.journal-id', Buffer.from(`${own}\n`));
  let via: readonly string[] = [];
  const hub = await TestHub.open(disk, {
    freshVia: async () => {
      via = [next];
      return true;
    },
    viaOf: () => via,
  });
  const from = (source: string) => (seq: number) => ({
    ...observation(`${seq}`),
    ...(seq === 3 && { origin: { id: sourceOf(100), source, seq, recorded: '2020-01-01T00:00:00.000Z' } }),
  });
  for (const [source, said] of [
    [own, /^event 3 of this journal was recorded here before: it would be here twice$/],
    [next, /^event 3 of this journal is from the journal 0193e0c2-[^ ]+9, which gets the events of this one/],
  ] as const) {
    const sent = new SentJournal(4, sourceOf(1), from(source));
    const { error, ...loop } = await hub.put(sent, 1, 4);
    assert.deepEqual(loop, { status: 409, reason: 'loop', seq: 0, id: null, via: [own, next] });
    assert.match(error ?? '', said);
  }
  const other = new SentJournal(4, sourceOf(2), from(sourceOf(3)));
  assert.equal((await hub.put(other, 1, 4)).seq, 4, 'from a journal that gets none');
  assert.deepEqual([...forwardedIn(disk).keys()], [sourceOf(2)]);
});

test('before a hub takes the first event of a journal since its start, its destinations say again where the events go [receiver-3]', async () => {
  const [sent, comesBack] = [new SentJournal(4, sourceOf(1)), new SentJournal(4, sourceOf(2))];
  const disk = new SimulatedDisk();
  let asked = 0;
  let via: readonly string[] = [];
  const answers = [false, true, true];
  const freshVia = async () => {
    via = [comesBack.source];
    asked += 1;
    return answers.shift() ?? assert.fail('it was asked once more');
  };
  const hub = await TestHub.open(disk, { freshVia, viaOf: () => via });
  const late = await hub.put(sent, 1, 2);
  assert.deepEqual([late.status, forwardedIn(disk).size], [503, 0]);
  assert.match(late.error ?? '', /has not said yet whether the events would come back/);
  assert.equal((await hub.put(sent, 1, 2)).status, 200);
  assert.equal((await hub.put(sent, 1, 4)).status, 200, 'it is not asked again');
  assert.equal((await hub.put(comesBack, 1, 4)).reason, 'loop');
  assert.equal(asked, 3);
  const again = await TestHub.open(disk.afterCrash(), { freshVia: async () => false });
  assert.equal((await again.put(sent, 1, 4)).status, 503, 'also of one that it knows');
});

test('a source that is stopped since its events would come back hears that again only while it is true [receiver-7]', async () => {
  const [sent, passed] = [new SentJournal(2, sourceOf(1)), sourceOf(2)];
  let via: readonly string[] = [];
  let said: readonly string[] = [];
  const freshVia = async () => {
    via = said;
    return true;
  };
  const hub = await TestHub.open(new SimulatedDisk(), { freshVia, viaOf: () => via });
  assert.equal((await hub.put(sent, 1, 2)).status, 200);
  sent.grow(1, () => ({
    ...observation('3'),
    origin: { id: sourceOf(100), source: passed, seq: 1, recorded: '2020-01-01T00:00:00.000Z' },
  }));
  via = [sent.source, passed];
  assert.equal((await hub.put(sent, 3, 3)).reason, 'loop');
  said = [passed];
  assert.deepEqual(await hub.ask(sent.source), { status: 200, seq: 2, id: sent.id(2), via: [passed] });
  assert.equal((await hub.put(sent, 3, 3)).reason, 'loop');
  said = [];
  assert.equal((await hub.put(sent, 3, 3)).status, 200);
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

test('small requests of many sources share the syncs of the journal', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk);
  const first = new SentJournal(1, sourceOf(200));
  await hub.put(first, 1, 1);
  const sync = gate();
  disk.fault = (call) => (call === 'sync' ? sync.opened : undefined);
  const senders = Array.from({ length: 100 }, (_, index) => new SentJournal(1, sourceOf(index + 1)));
  const before = disk.count('sync');
  const replies = senders.map((sent) => hub.put(sent, 1, 1));
  await new Promise((resolve) => setTimeout(resolve, 20));
  sync.open();
  assert.ok((await Promise.all(replies)).every(({ status }) => status === 200));
  const syncs = disk.count('sync') - before;
  assert.ok(syncs <= 5, `${syncs} syncs`);
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

test('a journal that is not open yet is asked later', async () => {
  const disk = new SimulatedDisk();
  const hub = new TestHub(disk, { limits: { openWaitMs: 50 } as never });
  assert.equal((await hub.ask(sourceOf(1))).status, 503);
  await hub.journal.open();
  assert.equal((await hub.ask(sourceOf(1))).status, 200);
});

test('watermarks that can not be read are an error of the service, and read again by the next request', async () => {
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
