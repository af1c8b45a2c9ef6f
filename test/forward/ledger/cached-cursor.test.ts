/** The cursor of a hub is a cache of what the hub says: it is saved at intervals, and what a crash takes of it changes nothing. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { DestinationKind } from '../../../src/forward/destinations/kinds.ts';
import { cursorName, readCursor } from '../../../src/forward/ledger/cursor.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { diskWith, FIRST, makeLines, segment } from '../../support/segments.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { Model } from '../../world/destination.ts';
import { eachCall, everyRemains } from '../../world/power.ts';
import { type SimulatedDisk, systemError } from '../../world/simulated-disk.ts';
import { type Bench, cursorOf, gone, hubAt, lettersOf, saveCursor, sendAll, seqsOf, startPipe } from '../scripted.ts';

const CURSOR = cursorName('upstream');
const NOTHING_MORE = { entries: 'none', share: 0, behind: 'nothing' } as const;
const { lines } = makeLines(3_000);
/** Each event is a request. */
const ONE_BY_ONE = { forwardBatchBytes: 1 };
const SLOW = { limits: ONE_BY_ONE };

function diskUpTo(seq: number): SimulatedDisk {
  return diskWith({ [FIRST]: Buffer.concat(lines.slice(0, seq)) });
}

/** Records events, and waits until the destination has them. */
async function record({ disk, progress, untilDone }: Bench, seq: number): Promise<void> {
  disk.put(FIRST, Buffer.concat(lines.slice(0, seq)));
  progress.recorded(disk.folder, seq + 1);
  await untilDone();
}

function syncsOf(disk: SimulatedDisk): number {
  return disk.calls.filter((call) => call === `sync ${CURSOR}`).length;
}

function afterPowerCut(disk: SimulatedDisk): SimulatedDisk {
  return disk.afterPowerCut(NOTHING_MORE);
}

async function durableSeq(disk: SimulatedDisk): Promise<number> {
  return (await cursorOf(afterPowerCut(disk))).seq;
}

for (const [kind, to, isCache] of [
  ['hub', 'http://hub.example', true],
  ['api', 'http://hub.example', false],
  ['hook', 'hook+http://hub.example', false],
  ['nats', 'nats://n1.example/ASSETLOG', false],
  ['clickhouse', 'clickhouse+http://ch.example/assets.events', false],
] as const satisfies readonly [DestinationKind, string, boolean][]) {
  test(`${kind}: the cursor is ${isCache ? 'not ' : ''}saved for each event`, async () => {
    const disk = diskUpTo(10);
    const model = new Model(kind);
    const bench = startPipe(disk, 10, () => model, { ...SLOW, destination: { to, ratePerSecond: 1_000_000 } });
    await bench.untilDone();
    const before = syncsOf(disk);
    for (let seq = 11; seq <= 20; seq += 1) await record(bench, seq);
    const syncs = syncsOf(disk) - before;
    assert.ok(isCache ? syncs === 0 : syncs >= 10, `${syncs} syncs`);
    assert.equal(bench.pipe.status.seq, 20);
    await bench.pipe.close();
    assert.equal(await durableSeq(disk), 20, 'a stop saves it');
  });
}

test('the cursor of a hub is saved after a while, also without a next event, and again with a warning if that fails', async () => {
  const disk = diskUpTo(10);
  const hub = new Model('hub');
  const bench = startPipe(disk, 10, () => hub);
  await bench.untilDone();
  const untilChecked = (what: string, isSo: () => boolean | Promise<boolean>) =>
    eventually(what, async () => {
      await bench.pipe.look();
      return isSo();
    });
  await untilChecked('the cursor is synced', async () => (await durableSeq(disk)) === 10);
  disk.fault = (call, name) => (call === 'sync' && name === CURSOR ? systemError('EIO', name) : undefined);
  await record(bench, 11);
  const warnings = () => bench.log.filter(({ level }) => level === 'warn').map(({ message }) => message);
  await untilChecked('a sync fails', () => warnings().length > 0);
  assert.deepEqual([warnings(), await durableSeq(disk)], [['the cursor could not be saved'], 10]);
  disk.fault = () => undefined;
  await bench.pipe.look();
  assert.equal(await durableSeq(disk), 11);
  const syncs = syncsOf(disk);
  await bench.pipe.look();
  assert.equal(syncsOf(disk), syncs, 'once');
  await bench.pipe.close();
});

test('after a power cut the hub decides over an older cursor: no event is lost or doubled, and no dead letter', async () => {
  for (const trial of eachCall('power', 'EIO')) {
    const disk = diskUpTo(3);
    const answer = (_: string, seq: number) => (seq === 5 ? 'refused' : 'record');
    const hub = new Model('hub', answer);
    const bench = startPipe(disk, 3, () => hub, SLOW);
    let isOver = false;
    await trial.run(disk, async () => {
      for (let seq = 4; seq <= 8; seq += 1) {
        disk.put(FIRST, Buffer.concat(lines.slice(0, seq)));
        bench.progress.recorded(disk.folder, seq + 1);
        const isSettled = () => Math.max(bench.ledger.value.seq, bench.ledger.namedSeq) === seq;
        while (!isOver && !isSettled()) await turn();
      }
    });
    isOver = true;
    const had = { seq: hub.seq, id: hub.id };
    for (const after of [afterPowerCut(disk), ...everyRemains(disk).slice(-3)]) {
      after.put(FIRST, Buffer.concat(lines.slice(0, 8)));
      const again = new Model('hub', answer);
      Object.assign(again, { ...had, recorded: [...hub.recorded], lost: [...hub.lost] });
      await sendAll(after, 8, () => again, SLOW);
      const found = [again.recorded, again.lost, seqsOf(await lettersOf(after))];
      assert.deepEqual(found, [[1, 2, 3, 4, 6, 7, 8], [5], [5]], trial.when);
    }
    bench.pipe.close().catch(() => {});
  }
});

test('the cursor is saved before retention removes events that it passed [cached-4]', async () => {
  const disk = diskUpTo(10);
  const hub = new Model('hub');
  const bench = startPipe(disk, 10, () => hub, SLOW);
  await bench.untilDone();
  await record(bench, 20);
  assert.equal(bench.ledger.floorSeq, 21, 'retention need not wait for a save: the hub has the events');
  assert.ok((await durableSeq(disk)) < 15);
  await bench.pipe.removing(1);
  assert.equal(await durableSeq(disk), 20);
  await record(bench, 30);
  // As a process leaves it that was killed between the write of a save and its sync.
  const killed = disk.afterCrash();
  let syncs = 0;
  killed.fault = (call, name) => {
    if (call !== 'sync' || name !== CURSOR) return undefined;
    syncs += 1;
    return syncs > 2 ? new Promise(() => {}) : undefined;
  };
  void saveCursor(killed, { seq: 30, kind: 'hub' });
  await eventually('it is written', async () => (await cursorOf(killed)).seq === 30);
  const left = killed.afterCrash();
  assert.equal(await durableSeq(left), 20);
  const next = startPipe(left, 30, () => hub, { ...SLOW, journalIsOpen: false });
  await next.pipe.removing(16);
  assert.equal(await durableSeq(left), 30);
  assert.deepEqual(await lettersOf(left), []);
  await next.pipe.close();
  await bench.pipe.close();
});

test('events that retention removes before the hub has answered are not lost if the hub has them', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 25), [segmentName(26)]: segment(26, 5) });
  await saveCursor(disk, { seq: 10, kind: 'hub' }); // a power cut took 11 to 20 of it
  const hub = hubAt(disk, 20);
  let isReachable = false;
  hub.answer = () => (isReachable ? 'record' : 'again');
  const bench = startPipe(disk, 30, () => hub);
  await bench.until('waiting');
  await bench.pipe.removing(1);
  disk.drop(FIRST);
  for (const [name, bytes] of Object.entries(gone(1, 25))) disk.put(name, bytes);
  assert.equal(bench.pipe.status.lost_events, 15);
  isReachable = true;
  await bench.finish();
  assert.deepEqual([hub.recorded, hub.lost], [upTo(30, 26), upTo(25, 21)]);
  assert.equal(bench.pipe.status.lost_events, 5);
});

test('when a hub has less than before, its position is durable: retention keeps the events after a power cut', async () => {
  const disk = diskUpTo(20);
  const hub = new Model('hub');
  const bench = startPipe(disk, 20, () => hub, SLOW);
  await bench.untilDone();
  Object.assign(hub, hubAt(disk, 12), { answer: (what: string) => (what === 'ask' ? 'record' : 'again') });
  bench.pipe.tryNow();
  await eventually('it is asked again', () => bench.ledger.value.seq === 12);
  await eventually('that is durable', async () => (await durableSeq(disk)) === 12);
  const after = startPipe(afterPowerCut(disk), 20, () => hub, { ...SLOW, journalIsOpen: false });
  await after.pipe.readFloor();
  assert.ok(after.ledger.floorSeq <= 13);
  await after.pipe.close();
  await bench.pipe.close();
});

test('the first event that a hub takes is saved at once, so that begin now does not begin a second time [cached-7]', async () => {
  const disk = diskUpTo(10);
  const now = { ...SLOW, destination: { begin: 'now' } } as const;
  const hub = new Model('hub');
  const bench = startPipe(disk, 10, () => hub, now);
  await bench.untilDone();
  await record(bench, 12);
  const left = afterPowerCut(disk);
  left.put(FIRST, Buffer.concat(lines.slice(0, 12)));
  const state = await readCursor(left, 'upstream');
  assert.ok(state.kind === 'found' && state.value.id !== null, JSON.stringify(state));
  const other = new Model('hub');
  await sendAll(left, 12, () => other, now);
  assert.deepEqual(other.recorded, upTo(12), 'a hub that has lost all gets all');
  await bench.pipe.close();
});
