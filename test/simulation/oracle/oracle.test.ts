/** The oracle breaks a promise where a service would have: what no mutant has made a life show yet. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { segmentName } from '../../../src/journal/segments.ts';
import { saveCursor } from '../../forward/scripted.ts';
import { SOURCE } from '../../support/forwarding.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { diskWith, makeLines } from '../../support/segments.ts';
import type { Delivered } from '../../world/network.ts';
import type { MachineJournal } from '../machine.ts';
import type { Upstream } from '../upstream.ts';
import type { Destination, Watched } from './destinations.ts';
import { LettersView } from './letters-view.ts';
import { Oracle } from './oracle.ts';
import { wrongBetween } from './places.ts';

/** A journal with the events 1 to 6 in files of two, and an upstream that has all of them. */
async function newWatched() {
  const event = (seq: number): PlainEvent => ({ type: 'AssetObservation', assetKey: ['a'], partition: `${seq}` });
  const files = [1, 3, 5].map((first) => [segmentName(first), makeLines(2, { seq: first, crc: 0 }, event)] as const);
  const disk = diskWith(Object.fromEntries(files.map(([name, { bytes }]) => [name, bytes])));
  const ids = files.flatMap(([, { lines }]) => lines.map((line): string => JSON.parse(line.toString()).id));
  await saveCursor(disk, { seq: 6, id: ids[5]!, kind: 'api' });
  const received = new Map(ids.map((id, index) => [id, { request: requestOf(index + 1), count: 1 }]));
  const upstream = { name: 'upstream', received } as unknown as Upstream;
  const machine = { config: {}, service: {}, disk: { troubledMs: 0 }, clock: {} };
  const journal = { name: 'd0', machine, disk } as unknown as MachineJournal;
  const oracle = new Oracle(() => 0);
  oracle.watch(journal, new Map([['upstream', upstream]]));
  return { oracle, journal, disk, received, ids };
}

/** What a forwarder sends for an event. */
function requestOf(seq: number): Delivered {
  const body = Buffer.from(JSON.stringify({ asset_key: ['a'], partition: `${seq}` }));
  return { method: 'POST', target: '/report_asset_observation/', headers: [], body } as Partial<Delivered> as Delivered;
}

test('the oracle finds that events are in no file, also between two files', async () => {
  const { oracle, journal, disk } = await newWatched();
  await disk.remove(segmentName(3));
  await disk.syncFolder();
  oracle.checkAcknowledged(journal);
  assert.equal(oracle.broken, 'd0: events 3 to 4 are in no file');
});

test('the oracle finds that an event vanished from a destination, also behind the cursor', async () => {
  const { oracle, journal, received, ids } = await newWatched();
  oracle.checkAcknowledged(journal);
  received.delete(ids[3]!);
  assert.equal(oracle.unsettled(), 'event 4 of d0 is neither at its destination nor in a dead letter');
  assert.equal(oracle.broken, undefined);
});

test('the oracle finds an event at a destination that no journal has', async () => {
  const { oracle, journal, received } = await newWatched();
  received.set('x', { request: requestOf(7), count: 1 });
  oracle.look(journal);
  oracle.checkAtRest();
  assert.equal(oracle.broken, 'upstream has x, which no journal has');
});

test('the oracle names the device of events that a hub lacks', async () => {
  const { oracle, journal, disk } = await newWatched();
  disk.put('.journal-id', Buffer.from(`${SOURCE}\n`));
  oracle.look(journal);
  const watched = { journal, view: oracle.viewOf(journal) } as Watched;
  const letters = new LettersView();
  const destination = { to: journal, letters, comparedSeq: 0 } as Partial<Destination> as Destination;
  const events = [3, 4].map((seq) => ({ ...watched.view.lines.get(seq)!, source: SOURCE }));
  const here = new Set([3, 4]);
  const wrong = () => wrongBetween(watched, destination, events, ({ seq }) => here.has(seq));
  assert.equal(wrong(), 'event 3 of d0, whose next one is 1');
  here.add(1).add(2);
  assert.equal(wrong(), undefined, 'they came by another way');
  here.delete(1);
  letters.refresh(Buffer.from('{"time":"","outcome":"removed","reason":"","first":1,"last":2}\n'));
  assert.equal(wrong(), undefined);
});
