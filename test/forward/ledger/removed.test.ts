/** Retention names events that a destination has not confirmed before it removes them, whatever happens meanwhile. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../../src/config/config.ts';
import { Forwarder } from '../../../src/forward/forwarder.ts';
import { cursorName } from '../../../src/forward/ledger/cursor.ts';
import { isOpen } from '../../../src/forward/ledger/letter.ts';
import { readLetterStates } from '../../../src/forward/ledger/letters.ts';
import type { Pipe } from '../../../src/forward/pipe/pipe.ts';
import { type Follower, NotRemovableError } from '../../../src/journal/follower.ts';
import { OwnProgress } from '../../../src/journal/progress.ts';
import type { Retain } from '../../../src/journal/retention.ts';
import { contentsOf } from '../../../src/journal/segments.ts';
import { createNotices } from '../../../src/telemetry/log.ts';
import { openJournal, type TestJournal } from '../../support/journal.ts';
import { diskWith, FIRST, makeLines, segment } from '../../support/segments.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { Model } from '../../world/destination.ts';
import { hold } from '../../world/gate.ts';
import { eachCall, everyRemains, settled } from '../../world/power.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';
import {
  createPipe,
  diskFrom,
  ledgerOf,
  lettersOf,
  limits,
  openLetters,
  saveCursor,
  sendAll,
  seqsOf,
  startPipe,
  UPSTREAM,
} from '../scripted.ts';

/** @returns the seqs that open letters name as removed */
async function lostIn(disk: SimulatedDisk): Promise<number[]> {
  const states = (await readLetterStates(disk, 'upstream', limits)).all;
  return states
    .filter((state) => state.outcome === 'removed' && isOpen(state))
    .flatMap(({ first, last }) => upTo(last, first))
    .sort((one, other) => one - other);
}

test('what the cursor has not passed is named once, with a warning, and counted [removed-2]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 30) });
  await saveCursor(disk, { seq: 4, kind: 'hub' });
  const { pipe, log } = createPipe(disk, 30);
  await pipe.removing({ first: 1, last: 3 });
  assert.deepEqual(await lettersOf(disk), []);
  await pipe.removing({ first: 1, last: 10 });
  await pipe.removing({ first: 1, last: 10 });
  await pipe.removing({ first: 11, last: 20 });
  const letters = (await lettersOf(disk)).map(({ outcome, reason, first, last }) => [outcome, reason, first, last]);
  const reason = 'retention removed them, and http://127.0.0.1:3000 had not confirmed them';
  assert.deepEqual(letters, [
    ['removed', reason, 5, 10],
    ['removed', reason, 11, 20],
  ]);
  assert.deepEqual(
    log.map(({ level, first, last }) => [level, first, last]),
    [
      ['warn', 5, 10],
      ['warn', 11, 20],
    ],
  );
  assert.deepEqual([pipe.status.dead_letters, pipe.status.lost_events], [2, 16]);
});

// In a stop, retention ends after forwarding.
test('what is removed after forwarding has ended is named as well', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 30) });
  await saveCursor(disk, { seq: 4, kind: 'hub' });
  const read = readConfig(['--forward-to', 'http://127.0.0.1:3000', '--when-behind', 'remove'], {});
  assert.ok(read.kind === 'valid');
  const forwarding = new Forwarder({
    config: read.config,
    progress: new OwnProgress(),
    limits,
    notices: createNotices('error', false, () => {}),
    onForwarded: () => {},
    openClient: () => assert.fail('nothing is sent'),
    diskOf: () => disk,
    hub: () => assert.fail('nothing is sent'),
  });
  await forwarding.open({ deployments: () => [undefined], wake: () => {}, retain: () => {} });
  await forwarding.close();
  await forwarding.removing(undefined, { first: 1, last: 10 });
  assert.deepEqual(await lostIn(disk), upTo(10, 5));
});

test('with a cursor that is lost or new, all that is removed is named, unless the destination begins later', async () => {
  const disk = diskFrom(11, 30);
  await createPipe(disk, 30, { destination: { begin: 'now' } }).pipe.removing({ first: 11, last: 15 });
  assert.deepEqual(await lettersOf(disk), []);
  await createPipe(disk, 30).pipe.removing({ first: 11, last: 15 });
  assert.deepEqual(await lostIn(disk), upTo(15, 11));
  await saveCursor(disk, { seq: 12, kind: 'hub' });
  await disk.remove(cursorName('upstream'));
  await createPipe(disk, 30, { destination: { begin: 'now' } }).pipe.removing({ first: 16, last: 20 });
  assert.deepEqual(await lostIn(disk), upTo(20, 11));
});

test('retention and a start look at the letters of another process one after the other, and lose none', async () => {
  const before = diskWith({ [FIRST]: segment(1, 30) });
  await saveCursor(before, { seq: 5, kind: 'hub' });
  const line = `${makeLines(6).lines[5]}`.trimEnd();
  const letter = { time: '2026-11-20T15:19:45.266Z', outcome: 'refused', status: 413, reason: 'no', line } as const;
  await (await openLetters(before)).append(letter);
  for (const held of ['read', 'create', 'write', 'rename'] as const) {
    const disk = before.afterCrash();
    const ledger = ledgerOf(disk);
    const goOn = hold(disk, held);
    const opening = ledger.open(UPSTREAM, () => assert.fail('it is not new'));
    const naming = ledger.nameRemoved({ first: 1, last: 10 }, 'retention', UPSTREAM);
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    goOn();
    await Promise.all([opening, naming]);
    assert.deepEqual(seqsOf(await lettersOf(disk)), upTo(10, 6), held);
    await ledger.close(true);
  }
});

for (const kind of ['hub', 'api'] as const) {
  test(`${kind}: an event that was on its way when it was named, and was taken, is not named any more`, async () => {
    const disk = diskWith({ [FIRST]: segment(1, 20) });
    const destination = new Model(kind);
    let isNamed = false;
    const ledger = ledgerOf(disk);
    destination.answer = async (what, seq) => {
      if (what === 'send' && seq > 2 && !isNamed) {
        isNamed = true;
        await ledger.nameRemoved({ first: seq, last: 10 }, 'retention', UPSTREAM);
        return kind === 'hub' ? 'lost' : 'record';
      }
      return 'record';
    };
    if (kind === 'api') await saveCursor(disk, { kind });
    const bench = startPipe(disk, 20, () => destination, {
      ledger,
      limits: { forwardBatchBytes: 600 },
    });
    await bench.untilDone();
    const { dead_letters, lost_events } = bench.pipe.status;
    await bench.pipe.close();
    assert.deepEqual(destination.recorded, upTo(20), 'what is in the journal is sent though it was named');
    assert.deepEqual([isNamed, await lostIn(disk), dead_letters, lost_events], [true, [], 0, 0]);
  });
}

test('what retention has named is not sent any more, but for the event on its way, and costs no reading of letters', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 300) });
  await saveCursor(disk, { kind: 'api' });
  const upstream = new Model('api');
  const ledger = ledgerOf(disk);
  const gone = { first: 1, last: 200 };
  upstream.answer = async (_, seq) => {
    if (seq !== 1 || upstream.requests.length > 1) return 'record';
    await bench.pipe.removing(gone);
    return 'in doubt';
  };
  const bench = startPipe(disk, 300, () => upstream, { ledger });
  await bench.finish();
  assert.deepEqual(upstream.requests, [1, 1, ...upTo(300, 201)]);
  assert.deepEqual(await lostIn(disk), upTo(200, 2));
  assert.equal(disk.calls.filter((call) => call === 'read dead-upstream.jsonl').length, 1, 'by this test');
});

test('events that were named, are still there, and are taken in a row share letters and cost no reading of them', async () => {
  const count = 250;
  const disk = diskWith({ [FIRST]: segment(1, count + 50) });
  await saveCursor(disk, { kind: 'api' });
  const ledger = ledgerOf(disk);
  await ledger.nameRemoved({ first: 1, last: count }, 'retention', UPSTREAM);
  const reads = () => disk.calls.filter((call) => call === 'read dead-upstream.jsonl').length;
  const before = reads();
  const upstream = new Model('api');
  await sendAll(disk, count + 50, () => upstream, { ledger });
  assert.equal(reads(), before);
  assert.deepEqual(upstream.recorded, upTo(count + 50));
  const { length } = await lettersOf(disk);
  assert.ok(length < count / 2, `${length} letters`);
  const { open, lost, lostTotal } = ledger.letters!;
  assert.deepEqual([await lostIn(disk), open, lost, lostTotal], [[], 0, 0, count]);
  assert.equal((await openLetters(disk)).lostTotal, count);
});

test('while no letter can be written no file is removed, and reports are refused with the reason [removed-1]', async () => {
  const disk = new SimulatedDisk();
  await saveCursor(disk, { kind: 'hub' });
  const { pipe } = createPipe(disk, 30);
  const opened = await open(disk, pipe, RETAIN);
  let isFull = true;
  disk.fault = (call, name) =>
    isFull && name === 'dead-upstream.jsonl' && (call === 'create' || call === 'write')
      ? systemError('ENOSPC')
      : undefined;
  let reason: string | undefined;
  for (let count = 0; reason === undefined && count < 100; count += 1) {
    reason = await opened.report(TEXT);
    await settled();
  }
  assert.match(
    `${reason}`,
    /^the oldest events would be removed, and no dead letter can name them for the destination upstream: ENOSPC/,
  );
  assert.equal(contentsOf(disk.names()).segments[0]?.firstSeq, 1);
  isFull = false;
  await eventually('reports are recorded again', () => opened.journal.trouble === undefined);
  assert.equal(await opened.report(TEXT), undefined);
  const first = contentsOf(disk.names()).segments[0]?.firstSeq ?? 0;
  assert.deepEqual(await lostIn(disk), upTo(first - 1));
  assert.ok(first > 1);
  await opened.journal.close();
  await assert.rejects(async () => {
    disk.fault = () => systemError('EIO');
    await pipe.removing({ first: 1, last: 99 });
  }, NotRemovableError);
});

const RETAIN: Retain = { retainBytes: 2_000 };
const TEXT = 'x'.repeat(100);

function open(disk: SimulatedDisk, pipe: Pipe, retain: Retain): Promise<TestJournal> {
  const follower: Follower = { removing: (last, first) => pipe.removing({ first, last }) };
  const quick = { ...limits, spaceCheckMs: 5 };
  return openJournal(disk, {
    followers: [follower],
    heldBack: () => undefined,
    retain,
    limits: quick,
    openWaitMs: 10_000,
    segmentBytes: 500,
  });
}

for (const kind of ['hub', 'api'] as const) {
  test(`${kind}: a power cut at any call: each event arrives or is named as lost, and none both`, async () => {
    for (const trial of eachCall('power', undefined, 3)) {
      const disk = new SimulatedDisk();
      await saveCursor(disk, { kind });
      let recorded = 0;
      await trial.run(disk, async () => {
        const { journal, report } = await open(disk, createPipe(disk, 30).pipe, { retainBytes: 1_000 });
        for (let count = 0; count < 9; count += 1) {
          if ((await report(TEXT)) === undefined) recorded += 1;
          await settled(1);
        }
        await journal.close();
      });
      const remains = trial.struck
        ? [disk.afterCrash(), ...everyRemains(disk).filter((_, at) => (at + trial.number) % 15 === 0)]
        : [disk];
      for (const [at, after] of remains.entries()) {
        const when = `${trial.when}, remains ${at}`;
        // Without a limit the files that are still there stay, although their letter is written.
        const { journal } = await open(after, createPipe(after, 30).pipe, at % 2 === 0 ? {} : { retainBytes: 1_000 });
        await settled();
        const { lastSeq } = journal;
        assert.ok(lastSeq >= recorded, when);
        const destination = new Model(kind);
        await sendAll(after, lastSeq, () => destination);
        await journal.close();
        const lost = await lostIn(after);
        const all = [...destination.recorded, ...lost].sort((one, other) => one - other);
        assert.deepEqual(all, upTo(lastSeq), `${when}: ${destination.recorded} at the destination, ${lost} named`);
      }
    }
  });
}
