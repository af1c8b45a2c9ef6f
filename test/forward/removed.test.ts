/** Retention names events that a destination has not confirmed before it removes them, whatever happens meanwhile. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cursor, type CursorValue, cursorName } from '../../src/forward/cursor.ts';
import { DeadLetters, readLetterStates } from '../../src/forward/dead-letters.ts';
import { Link } from '../../src/forward/link.ts';
import { isOpen } from '../../src/forward/open-letters.ts';
import { type JournalHooks, NotRemovableError } from '../../src/journal/hooks.ts';
import { Journal } from '../../src/journal/journal.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import type { Retain } from '../../src/journal/retention.ts';
import { contentsOf, goneName, segmentName } from '../../src/journal/segments.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { diskWith, FIRST, makeLines, segment } from '../support/segments.ts';
import { failingCall, SimulatedDisk, systemError } from '../support/simulated-disk.ts';
import { eventually } from '../support/tools.ts';
import { everyRemains, settled } from './power.ts';
import { lettersOf, limits, Model, seqsOf, startForwarder, UPSTREAM, untilDone, untilState } from './scripted.ts';

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, at) => first + at);

async function saveCursor(disk: SimulatedDisk, value: Partial<CursorValue>): Promise<void> {
  const { cursor } = await Cursor.open(disk, 'upstream');
  await cursor.save({ seq: 0, id: null, sending: undefined, kind: 'hub', to: UPSTREAM.to, ...value });
  await cursor.close();
}

/** A link that does not forward. */
function linkOf(disk: SimulatedDisk, destination: Partial<typeof UPSTREAM> = {}) {
  const log: Record<string, unknown>[] = [];
  let letters: Promise<DeadLetters> | undefined;
  const link = new Link({
    destination: { ...UPSTREAM, ...destination },
    disk,
    progress: new OwnProgress(),
    source: () => Promise.reject(new Error('no source')),
    letters: () => {
      letters ??= DeadLetters.open(disk, 'upstream');
      return letters;
    },
    limits,
    notices: createNotices('info', false, (line) => log.push(JSON.parse(line))),
  });
  return { link, log };
}

/** @returns the seqs that open letters name as removed */
async function lostIn(disk: SimulatedDisk): Promise<number[]> {
  const states = [...(await readLetterStates(disk, 'upstream')).values()];
  return states
    .filter((state) => state.outcome === 'removed' && isOpen(state))
    .flatMap(({ first, last }) => upTo(last, first))
    .sort((one, other) => one - other);
}

test('what the cursor has not passed is named once, with a warning, and counted [removed-2]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 30) });
  await saveCursor(disk, { seq: 4 });
  const { link, log } = linkOf(disk);
  await link.removing({ first: 1, last: 3 });
  assert.deepEqual(await lettersOf(disk), []);
  await link.removing({ first: 1, last: 10 });
  await link.removing({ first: 1, last: 10 });
  await link.removing({ first: 11, last: 20 });
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
  assert.deepEqual([link.status.dead_letters, link.status.lost_events], [2, 16]);
});

test('with a cursor that is lost or new, all that is removed is named, unless the destination begins later', async () => {
  const disk = diskWith({
    [segmentName(11)]: segment(11, 30),
    [goneName({ first: 1, last: 10 }, 'removed')]: Buffer.alloc(0),
  });
  await linkOf(disk, { begin: 'now' }).link.removing({ first: 11, last: 15 });
  assert.deepEqual(await lettersOf(disk), []);
  await linkOf(disk).link.removing({ first: 11, last: 15 });
  assert.deepEqual(await lostIn(disk), upTo(15, 11));
  await saveCursor(disk, { seq: 12 });
  await disk.remove(cursorName('upstream'));
  await linkOf(disk, { begin: 'now' }).link.removing({ first: 16, last: 20 });
  assert.deepEqual(await lostIn(disk), upTo(20, 11));
});

test('events that have a letter already are not named again [removed-4]', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 30) });
  await saveCursor(disk, { seq: 4 });
  const letters = await DeadLetters.open(disk, 'upstream');
  const line = `${makeLines(6).lines[5]}`.trimEnd();
  await letters.append({ time: '2026-11-20T15:19:45.266Z', outcome: 'refused', status: 413, reason: 'no', line });
  await linkOf(disk).link.removing({ first: 1, last: 10 });
  assert.deepEqual(
    (await lettersOf(disk)).map((letter) => seqsOf([letter])),
    [[6], [5], upTo(10, 7)],
  );
});

for (const kind of ['hub', 'api'] as const) {
  test(`${kind}: what was named is passed without a second letter, also after an operator gave it up`, async () => {
    for (const isGivenUp of [false, true]) {
      const disk = diskWith({ [FIRST]: segment(1, 20) });
      await saveCursor(disk, { seq: 4, id: 'gone', kind });
      const { link } = linkOf(disk);
      await link.removing({ first: 1, last: 10 });
      if (isGivenUp) {
        const letters = await DeadLetters.open(disk, 'upstream');
        await letters.append(
          { time: '', outcome: 'skipped', reason: 'an operator gave it up', first: 5, last: 10 },
          true,
        );
      }
      const before = (await lettersOf(disk)).length;
      disk.drop(FIRST);
      disk.put(segmentName(11), segment(11, 20));
      disk.put(goneName({ first: 1, last: 10 }, 'removed'), Buffer.alloc(0));
      const target = new Model(kind);
      Object.assign(target, { seq: 4, id: 'gone' });
      const bench = startForwarder(disk, 30, () => target);
      await untilDone(bench);
      await bench.forwarder.close();
      assert.deepEqual(target.recorded, upTo(30, 11));
      if (kind === 'hub') assert.deepEqual(target.lost, upTo(10, 5));
      assert.equal((await lettersOf(disk)).length, before);
    }
  });

  test(`${kind}: an event that was on its way when it was named, and was taken, is not named any more [removed-3]`, async () => {
    const disk = diskWith({ [FIRST]: segment(1, 20) });
    const target = new Model(kind);
    let isNamed = false;
    const letters = DeadLetters.open(disk, 'upstream');
    target.answer = async (what, seq) => {
      if (what === 'send' && seq > 2 && !isNamed) {
        isNamed = true;
        await (await letters).nameRemoved({ first: seq, last: 10 }, 'retention');
        return kind === 'hub' ? 'lost' : 'record';
      }
      return 'record';
    };
    if (kind === 'api') await saveCursor(disk, { kind });
    const bench = startForwarder(disk, 20, () => target, {
      letters: () => letters,
      limits: { forwardBatchBytes: 600 },
    });
    await untilDone(bench);
    const { dead_letters, lost_events } = bench.forwarder.status();
    await bench.forwarder.close();
    assert.deepEqual(target.recorded, upTo(20), 'what is in the journal is sent though it was named');
    assert.deepEqual([isNamed, await lostIn(disk), dead_letters, lost_events], [true, [], 0, 0]);
  });
}

test('a hub that took the last request closes what was named of it, and no more', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 20) });
  const hub = new Model('hub');
  const letters = await DeadLetters.open(disk, 'upstream');
  let isDown = false;
  let tookSeq = 0;
  hub.answer = async (what) => {
    if (isDown) return 'again';
    if (what === 'ask') return 'record';
    isDown = true;
    await letters.nameRemoved({ first: 1, last: 10 }, 'retention');
    disk.drop(FIRST);
    disk.put(segmentName(11), segment(11, 20));
    disk.put(goneName({ first: 1, last: 10 }, 'removed'), Buffer.alloc(0));
    return 'lost';
  };
  const bench = startForwarder(disk, 30, () => hub, {
    letters: async () => letters,
    limits: { forwardBatchBytes: 600 },
  });
  await untilState(bench, 'waiting');
  tookSeq = hub.seq;
  assert.ok(tookSeq > 0 && tookSeq < 10, `${tookSeq}`);
  isDown = false;
  hub.answer = () => 'record';
  bench.forwarder.tryNow();
  await untilDone(bench);
  await bench.forwarder.close();
  assert.deepEqual(hub.lost, upTo(10, tookSeq + 1));
  assert.deepEqual(await lostIn(disk), hub.lost);
  assert.deepEqual(hub.recorded, [...upTo(tookSeq), ...upTo(30, 11)]);
});

test('while no letter can be written no file is removed, and reports are refused with the reason [removed-1]', async () => {
  const disk = new SimulatedDisk();
  await saveCursor(disk, {});
  const { link } = linkOf(disk);
  const opened = await openJournal(disk, link, RETAIN);
  let isFull = true;
  disk.fault = (call, name) =>
    isFull && name === 'dead-upstream.jsonl' && (call === 'create' || call === 'write')
      ? systemError('ENOSPC')
      : undefined;
  let reason: string | undefined;
  for (let count = 0; reason === undefined && count < 100; count += 1) {
    reason = await opened.append();
    await settled();
  }
  assert.match(
    `${reason}`,
    /^the oldest events would be removed, and no dead letter can name them for the destination upstream: ENOSPC/,
  );
  assert.equal(contentsOf(disk.names()).segments[0]?.firstSeq, 1);
  isFull = false;
  await eventually('reports are recorded again', () => opened.journal.trouble === undefined);
  assert.equal(await opened.append(), undefined);
  const first = contentsOf(disk.names()).segments[0]?.firstSeq ?? 0;
  assert.deepEqual(await lostIn(disk), upTo(first - 1));
  assert.ok(first > 1);
  await opened.journal.close();
  await assert.rejects(async () => {
    disk.fault = () => systemError('EIO');
    await link.removing({ first: 1, last: 99 });
  }, NotRemovableError);
});

const RETAIN: Retain = { retainBytes: 2_000 };

async function openJournal(disk: SimulatedDisk, link: Link, retain: Retain) {
  const hooks: JournalHooks = {
    heldBack: () => undefined,
    opened: () => {},
    removing: (last, first) => link.removing({ first, last }),
    closed: async () => {},
  };
  const journal = new Journal({
    ...{
      disk,
      hooks,
      retain,
      limits: { ...limits, spaceCheckMs: 5 },
      openWaitMs: 10_000,
      segmentBytes: 500,
      onFailed: () => {},
    },
    notices: createNotices('error', false, () => {}),
  });
  await journal.open();
  const event = { type: 'AssetObservation', assetKey: ['a'], description: 'x'.repeat(100) } as const;
  const append = () =>
    new Promise<string | undefined>((resolve) =>
      journal.append([event], 0, (result) => resolve('reason' in result ? result.reason : undefined)),
    );
  return { journal, append };
}

for (const kind of ['hub', 'api'] as const) {
  test(`${kind}: a power cut at any call: each event arrives or is named as lost, and none both`, async () => {
    for (let failing = 1, struck = true; struck; failing += 1) {
      const disk = new SimulatedDisk();
      await saveCursor(disk, { kind });
      const power = failingCall(failing, 'power');
      disk.fault = power.fault;
      let recorded = 0;
      const script = (async () => {
        const { journal, append } = await openJournal(disk, linkOf(disk).link, { retainBytes: 1_000 });
        for (let count = 0; count < 9; count += 1) {
          if ((await append()) === undefined) recorded += 1;
          await new Promise((resolve) => setImmediate(resolve));
        }
        await journal.close();
      })().catch(() => {});
      let isDone = false;
      void script.then(() => {
        isDone = true;
      });
      while (!isDone && power.struck() === 0) await new Promise((resolve) => setImmediate(resolve));
      struck = power.struck() > 0;
      if (struck) await settled();
      else disk.fault = () => undefined;
      const remains = struck
        ? [disk.afterCrash(), ...everyRemains(disk).filter((_, at) => (at + failing) % 15 === 0)]
        : [disk];
      for (const [at, after] of remains.entries()) {
        const when = `call ${failing}, ${disk.calls.at(-1)}, remains ${at}`;
        // Without a limit the files that are still there stay, although their letter is written.
        const { journal } = await openJournal(after, linkOf(after).link, at % 2 === 0 ? {} : { retainBytes: 1_000 });
        await settled();
        const { lastSeq } = journal;
        assert.ok(lastSeq >= recorded, when);
        const target = new Model(kind);
        const bench = startForwarder(after, lastSeq, () => target);
        await untilDone(bench);
        await bench.forwarder.close();
        await journal.close();
        const lost = await lostIn(after);
        const all = [...target.recorded, ...lost].sort((one, other) => one - other);
        assert.deepEqual(all, upTo(lastSeq), `${when}: ${target.recorded} at the destination, ${lost} named`);
      }
    }
  });
}
