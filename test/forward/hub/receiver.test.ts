/** What bounds a hub: sources, requests that wait, and the time until it knows what it has. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits as standardLimits } from '../../../src/config/limits.ts';
import { observation, SentJournal, sourceOf } from '../../support/forwarding.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { gate } from '../../world/gate.ts';
import { forwardedIn, OWN, TestHub } from '../../world/hub.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

test('a source that loses events in each request does not fill the log', async () => {
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

test('a source beyond the limit gets a 503, also if several arrive at once', async () => {
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

test('a source has a limited number of waiting requests, and each request gets its reply [receiver-5]', async () => {
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

test('a GET gets its reply after the earlier requests of its source, so that nothing on its way is taken for missing', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk);
  const sent = new SentJournal(5);
  await hub.put(sent, 1, 1);
  const sync = gate();
  disk.fault = (call) => (call === 'sync' ? sync.opened : undefined);
  const put = hub.put(sent, 2, 5);
  const asked = hub.ask(sent.source);
  sync.open();
  assert.deepEqual([(await put).seq, (await asked).seq], [5, 5]);
});

test('a request gets 503 while the watermarks are read, and afterwards the position', async () => {
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

test('watermarks that cannot be read are logged and a 503, and the next request reads them again', async () => {
  const hub = await TestHub.open(new SimulatedDisk());
  hub.disk.fault = (call) => (call === 'create' ? Object.assign(new Error('EIO'), { code: 'EIO' }) : undefined);
  const said = await hub.ask(sourceOf(1));
  assert.deepEqual([said.status, hub.notices.filter((line) => line.includes('could not be read')).length], [503, 1]);
  hub.disk.fault = () => undefined;
  assert.equal((await hub.ask(sourceOf(1))).status, 200);
});

test('after the watermarks are forgotten they are read again, when the lines in flight are written', async () => {
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

test('segments that close while the file of watermarks is written cause one more write, and a stop waits for it', async () => {
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

test('a source without events for long makes place for a new one, and a younger source does not [receiver-7]', async () => {
  const limits = { forwardSourcesMax: 3, forwardForgottenMs: 300 } as never;
  const hub = await TestHub.open(new SimulatedDisk(), { limits });
  const senders = Array.from({ length: 6 }, (_, index) => new SentJournal(3, sourceOf(index + 1)));
  const put = async (at: number, seq: number) => (await hub.put(senders[at]!, seq, seq)).status;
  for (const at of [0, 1, 2]) assert.equal(await put(at, 1), 200);
  assert.equal(await put(3, 1), 503);
  await new Promise((resolve) => setTimeout(resolve, 320));
  assert.equal(await put(1, 2), 200);
  assert.equal(await put(3, 1), 200);
  assert.equal(hub.receiver.sources.loaded?.sources.size, 3);
  assert.equal((await hub.ask(senders[0]!.source)).seq, 0);
  assert.equal((await hub.ask(senders[1]!.source)).seq, 2);
  assert.match(hub.notices.join('\n'), new RegExp(`without events for long was forgotten.*${senders[0]!.source}`));
  assert.equal(await put(4, 1), 200, 'the next oldest');
  assert.equal(await put(5, 1), 503, 'the others had requests since');
});

test('the position that left out lines gave a source is saved some seconds later, and at a stop', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk, { limits: { seenWriteMs: 50, snapshotRateBytes: 1e9 } as never });
  const own = async (count: number) => {
    for (let seq = 1; seq <= count; seq += 1) await hub.report();
  };
  await own(4);
  const back = new SentJournal(4, sourceOf(1), (seq) => ({
    ...observation(`${seq}`),
    origin: { id: sourceOf(100 + seq), source: OWN, seq, recorded: '2020-01-01T00:00:00.000Z' },
  }));
  assert.equal((await hub.put(back, 1, 3)).seq, 3);
  const writes = () => disk.calls.filter((call) => call.startsWith('rename forward-sources.json')).length;
  const before = writes();
  assert.equal((await (await TestHub.open(disk.afterCrash())).ask(back.source)).seq, 0, 'a crash at once');
  await eventually('the file is written', () => writes() > before);
  const cut = disk.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' });
  assert.equal((await (await TestHub.open(cut)).ask(back.source)).seq, 3);
  assert.equal((await hub.put(back, 4, 4)).seq, 4);
  await hub.journal.close();
  const atStop = writes();
  assert.equal((await (await TestHub.open(disk.afterCrash())).ask(back.source)).seq, 4);
  await sleep(100);
  assert.equal(writes(), atStop, 'nothing is written after a stop');
  assert.ok(writes() <= before + 3, 'one write for many requests');
});
