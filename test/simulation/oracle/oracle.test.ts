/** The oracle breaks a promise where a service would have: what no life has shown it yet. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { saveCursor } from '../../forward/scripted.ts';
import { SOURCE } from '../../support/forwarding.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { diskWith, FIRST, type Files, makeLines, START } from '../../support/segments.ts';
import type { Delivered } from '../../world/network.ts';
import type { SimulatedDisk } from '../../world/simulated-disk.ts';
import type { MachineJournal } from '../machine.ts';
import type { Upstream } from '../upstream.ts';
import type { SeenLine } from './journal-view.ts';
import { countOpen } from './letters-view.ts';
import { Oracle } from './oracle.ts';

/** A journal with the events 1 to 6 in files of two, and an upstream that has all of them. */
async function newWatched() {
  const files: Record<string, Buffer> = {};
  const ids: string[] = [];
  for (const first of [1, 3, 5]) {
    const { bytes, lines } = makeLines(2, { seq: first, crc: 0 }, plainEvent);
    files[segmentName(first)] = bytes;
    ids.push(...lines.map((line) => JSON.parse(line.toString()).id));
  }
  const disk = diskWith(files as Files);
  await saveCursor(disk, { seq: 6, id: ids[5]!, kind: 'api' });
  const received = new Map(ids.map((id, index) => [id, { request: requestOf(index + 1), count: 1 }]));
  const upstream = { name: 'upstream', received } as unknown as Upstream;
  const journal = journalOn('d0', () => disk);
  const oracle = new Oracle(() => 0);
  oracle.watch(journal, new Map([['upstream', upstream]]));
  return { oracle, journal, disk, received, ids };
}

/** A device with four events, of which its hub has the last ones. */
async function newForwarded(count: number) {
  const { bytes, lines } = makeLines(4, undefined, plainEvent);
  const sent: SeenLine[] = lines.slice(-count).map((line) => JSON.parse(line.toString()));
  const members = sent.map(({ id, seq, time: recorded }) =>
    encodeMembers({ ...plainEvent(seq), origin: { id, source: SOURCE, seq, recorded } }),
  );
  const ids = sent.map(({ id }) => id);
  const hubDisk = diskWith({ [FIRST]: encodeBatch(members, START, new Date(), undefined, ids).bytes });
  const disk = diskWith({ [FIRST]: bytes });
  disk.put('.journal-id', Buffer.from(`${SOURCE}\n`));
  await saveCursor(disk, { seq: 4, id: ids.at(-1)!, kind: 'hub' });
  const oracle = new Oracle(() => 0);
  const hub = journalOn('hub', () => hubDisk);
  oracle.watch(hub, new Map());
  oracle.watch(
    journalOn('d0', () => disk),
    new Map([['hub', hub]]),
  );
  return { oracle, disk };
}

function plainEvent(seq: number): PlainEvent {
  return { type: 'AssetObservation', assetKey: ['a'], partition: `${seq}` };
}

function journalOn(name: string, disk: () => SimulatedDisk): MachineJournal {
  const machine = { config: {}, service: {}, disk: { troubledMs: 0 }, clock: {} };
  return {
    name,
    machine,
    get disk() {
      return disk();
    },
  } as unknown as MachineJournal;
}

/** What a forwarder sends for an event. */
function requestOf(seq: number): Delivered {
  const body = Buffer.from(JSON.stringify({ asset_key: ['a'], partition: `${seq}` }));
  return { method: 'POST', target: '/report_asset_observation/', headers: [], body } as Partial<Delivered> as Delivered;
}

test('a whole journal whose upstream has all of it breaks no promise', async () => {
  const { oracle, journal } = await newWatched();
  oracle.checkAcknowledged(journal);
  assert.deepEqual([oracle.unsettled(), oracle.broken], [undefined, undefined]);
});

test('events that are in no file are missed, also between two files', async () => {
  const { oracle, journal, disk } = await newWatched();
  await disk.remove(segmentName(3));
  await disk.syncFolder();
  oracle.checkAcknowledged(journal);
  assert.equal(oracle.broken, 'd0: events 3 to 4 are in no file');
});

test('an event that vanished from an upstream is missed, before its cursor passes it and after', async () => {
  for (const isPassed of [false, true]) {
    const { oracle, journal, received, ids } = await newWatched();
    if (isPassed) oracle.checkAcknowledged(journal);
    received.delete(ids[3]!);
    assert.equal(oracle.unsettled(), 'event 4 of d0 is neither at its destination nor in a dead letter');
    const passes = 'the cursor of d0 for upstream passes event 4, which is neither there nor in a dead letter';
    assert.equal(oracle.broken, isPassed ? undefined : passes);
  }
});

test('an upstream has no event that no journal has, and none twice without a dead letter', async () => {
  const foreign = await newWatched();
  foreign.received.set('x', { request: requestOf(7), count: 1 });
  foreign.oracle.look(foreign.journal);
  foreign.oracle.checkAtRest();
  assert.equal(foreign.oracle.broken, 'upstream has x, which no journal has');
  const twice = await newWatched();
  twice.received.get(twice.ids[1]!)!.count = 2;
  twice.oracle.look(twice.journal);
  twice.oracle.checkAtRest();
  assert.equal(twice.oracle.broken, 'upstream has event 2 of d0 2 times, and no dead letter says so');
});

test('a hub that lacks events has them named by their device', async () => {
  const unnamed = await newForwarded(2);
  unnamed.oracle.checkSources();
  assert.equal(unnamed.oracle.broken, 'hub has event 3 of d0, whose next one is 1');
  assert.equal(unnamed.oracle.unsettled(), 'event 1 of d0 is neither at its destination nor in a dead letter');
  const named = await newForwarded(2);
  const letter = { time: '', outcome: 'removed', reason: '', first: 1, last: 2 };
  named.disk.put('dead-hub.jsonl', Buffer.from(`${JSON.stringify(letter)}\n`));
  assert.deepEqual([named.oracle.unsettled(), named.oracle.broken], [undefined, undefined]);
});

test('dead letters add up: the later letter of an event counts, and a part that was taken leaves the rest open', () => {
  const removed = { time: '', outcome: 'removed', reason: '' };
  const letters = [
    { ...removed, first: 1, last: 9 },
    { ...removed, became: 'taken', first: 4, last: 5 },
    { time: '', outcome: 'in doubt', reason: '', line: { seq: 12 } },
    { time: '', outcome: 'in doubt', reason: '', line: { seq: 12 } },
    { time: '', outcome: 'in doubt', reason: '', line: { seq: 13 } },
    { time: '', outcome: 'sent again', reason: '', first: 13, last: 13 },
  ];
  const text = letters.map((letter) => `${JSON.stringify(letter)}\n`).join('');
  assert.equal(countOpen(Buffer.from(`${text}{"time":"torn`)), 3);
});
