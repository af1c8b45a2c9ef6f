/** What an operator changes while no service uses the folder: nothing is left out without a dead letter, also when the power goes. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { continueFrom, NotPossibleError, newIdentity, skip } from '../../src/forward/by-hand.ts';
import { type CursorValue, readCursor } from '../../src/forward/ledger/cursor.ts';
import type { DeadLetter } from '../../src/forward/ledger/letter.ts';
import { readBegin, readSource, SOURCE_FILE } from '../../src/forward/source.ts';
import { SOURCE } from '../support/forwarding.ts';
import { diskWith, FIRST, flip, makeLines } from '../support/segments.ts';
import { upTo } from '../support/tools.ts';
import { Model } from '../world/destination.ts';
import { eachCall, everyRemains } from '../world/power.ts';
import type { SimulatedDisk } from '../world/simulated-disk.ts';
import { cursorOf, lettersOf, openLetters, saveCursor, sendAll, seqsOf, UPSTREAM, writeStopped } from './scripted.ts';

const { lines, bytes } = makeLines(12);
const idOf = (seq: number): string => JSON.parse(`${lines[seq - 1]}`).id;

/** A journal of 12 events, whose first ones `upstream` has. */
async function forwardedTo(seq: number, value: Partial<CursorValue> = {}, journal = bytes): Promise<SimulatedDisk> {
  const disk = diskWith({ [FIRST]: journal });
  disk.put(SOURCE_FILE, Buffer.from(`${SOURCE}\n`));
  await saveCursor(disk, { seq, kind: 'api', ...value });
  return disk;
}

/** The letter about an event that a destination has refused. */
function refusedAt(seq: number): DeadLetter {
  const line = `${lines[seq - 1]}`.trimEnd();
  return { time: '2026-11-20T15:19:45.266Z', outcome: 'refused', status: 400, reason: 'no', line };
}

/** @returns what a destination of this kind gets that has not confirmed all events yet */
async function sentTo(kind: 'hub' | 'api', disk: SimulatedDisk): Promise<Model> {
  const destination = new Model(kind);
  await sendAll(disk, 12, () => destination);
  return destination;
}

test('skip gives up the next events, each with its line in a dead letter, and forwarding continues after them', async () => {
  const disk = await forwardedTo(4, { sending: 5 });
  assert.equal(await skip(disk, 'upstream', { first: 5, last: 6 }, limits), 'upstream continues with event 7');
  assert.deepEqual(await cursorOf(disk), { seq: 6, id: idOf(6), sending: undefined, kind: 'api', to: UPSTREAM.to });
  const letters = await lettersOf(disk);
  assert.deepEqual(
    letters.map(({ outcome, reason, line }) => [outcome, reason, `${line}\n`]),
    [
      ['skipped', 'an operator gave it up, and the destination may have it', `${lines[4]}`],
      ['skipped', 'an operator gave it up', `${lines[5]}`],
    ],
  );
  assert.deepEqual((await sentTo('api', disk)).recorded, upTo(12, 7));
});

test('skip gives up lines that cannot be read, and names their events in dead letters', async () => {
  const at = lines.slice(0, 5).join('').length;
  const disk = await forwardedTo(4, {}, flip(bytes, at + 99));
  await skip(disk, 'upstream', { first: 5, last: 7 }, limits);
  assert.deepEqual(seqsOf(await lettersOf(disk)), [5, 7, 5, 6, 7]);
  assert.equal((await cursorOf(disk)).seq, 7);
});

test('skip is refused for events that are not next, for events that do not exist, and for a hub', async () => {
  const disk = await forwardedTo(4);
  const refused = (seqs: [number, number], message: RegExp, name = 'upstream') =>
    assert.rejects(skip(disk, name, { first: seqs[0], last: seqs[1] }, limits), (error: Error) => {
      assert.ok(error instanceof NotPossibleError);
      assert.match(error.message, message);
      return true;
    });
  await refused([6, 6], /^upstream continues with event 5; start there$/);
  await refused([5, 13], /^the journal ends with event 12$/);
  await refused([3, 4], /^upstream has no open dead letter of these events$/);
  await refused([1, 1], /^the cursor of other is new; set it with forward from$/, 'other');
  await saveCursor(disk, { seq: 4, kind: 'hub' }, 'hub');
  await refused([5, 5], /^hub itself determines its next event; /, 'hub');
  assert.deepEqual([await lettersOf(disk), (await cursorOf(disk)).seq], [[], 4]);
});

test('skip gives up open dead letters, and no closed ones', async () => {
  const disk = await forwardedTo(8);
  const letters = await openLetters(disk);
  for (const seq of [2, 3, 5]) await letters.append(refusedAt(seq));
  assert.equal(await skip(disk, 'upstream', { first: 2, last: 4 }, limits), 'given up: 2');
  await assert.rejects(skip(disk, 'upstream', { first: 2, last: 4 }, limits), NotPossibleError);
  assert.equal(await skip(disk, 'upstream', { first: 5, last: 5 }, limits), 'given up: 1');
  assert.equal((await cursorOf(disk)).seq, 8);
});

test('skip gives up dead letters of events that a plain destination gets again, and no events between them', async () => {
  const disk = await forwardedTo(8);
  const letters = await openLetters(disk);
  for (const seq of [6, 8]) await letters.append(refusedAt(seq));
  await continueFrom(disk, 'upstream', 5, limits);
  for (const seq of [6, 8])
    assert.equal(await skip(disk, 'upstream', { first: seq, last: seq }, limits), 'given up: 1');
  await assert.rejects(skip(disk, 'upstream', { first: 7, last: 7 }, limits), /continues with event 5; start there/);
  assert.deepEqual([(await cursorOf(disk)).seq, (await openLetters(disk)).open], [4, 0]);
  const withoutCursor = diskWith({ [FIRST]: bytes });
  await (await openLetters(withoutCursor)).append(refusedAt(6));
  assert.equal(await skip(withoutCursor, 'upstream', { first: 6, last: 6 }, limits), 'given up: 1');
});

test('skip gives up events that a hub refused beyond its cursor, and no other events beyond it', async () => {
  const disk = await forwardedTo(4, { kind: 'hub' });
  const letters = await openLetters(disk);
  for (const seq of [6, 7]) await letters.append(refusedAt(seq));
  for (const [first, last] of [
    [5, 7],
    [6, 8],
    [8, 8],
  ] as const)
    await assert.rejects(skip(disk, 'upstream', { first, last }, limits), /itself determines its next event/);
  assert.equal(await skip(disk, 'upstream', { first: 6, last: 7 }, limits), 'given up: 2');
  assert.equal((await cursorOf(disk)).seq, 4);
  assert.deepEqual((await sentTo('hub', disk)).recorded, upTo(12, 1));
});

test('skip gives up events that retention removed before the destination passed them, also of a hub', async () => {
  for (const kind of ['api', 'hub'] as const) {
    const disk = await forwardedTo(4, { kind });
    const letters = await openLetters(disk);
    await letters.nameRemoved({ first: 5, last: 6 }, 'retention');
    assert.equal(await skip(disk, 'upstream', { first: 1, last: 8 }, limits), 'given up: 1');
    assert.deepEqual([(await cursorOf(disk)).seq, (await openLetters(disk)).open], [4, 0]);
  }
});

test('from sets a lost cursor, sends events again, or leaves them out with dead letters', async () => {
  const disk = await forwardedTo(8);
  disk.put('forward-upstream.cursor', Buffer.alloc(1024));
  assert.equal((await readCursor(disk, 'upstream')).kind, 'lost');
  assert.equal(await continueFrom(disk, 'upstream', 7, limits), 'upstream continues with event 7; before, it was lost');
  assert.deepEqual(await lettersOf(disk), []);
  assert.equal(await continueFrom(disk, 'upstream', 5, limits), 'upstream continues with event 5; before, it was 7');
  await continueFrom(disk, 'upstream', 9, limits);
  assert.deepEqual(seqsOf(await lettersOf(disk)), [5, 6, 7, 8]);
  await assert.rejects(continueFrom(disk, 'upstream', 14, limits), NotPossibleError);
  await continueFrom(disk, 'upstream', 13, limits);
  await continueFrom(disk, 'upstream', 10, limits);
  assert.deepEqual((await sentTo('api', disk)).recorded, [10, 11, 12]);
});

test('from leaves out no event of a hub, and says that the hub decides what is next', async () => {
  const disk = await forwardedTo(5, { kind: 'hub' });
  await assert.rejects(continueFrom(disk, 'upstream', 9, limits), {
    message: 'upstream itself determines its next event; identity --new --seq 9 leaves events out',
  });
  assert.deepEqual([(await cursorOf(disk)).seq, await lettersOf(disk)], [5, []], 'nothing was changed');
  const done =
    'upstream continues with event 3, unless it knows this journal and needs another event; before, it was 6';
  assert.equal(await continueFrom(disk, 'upstream', 3, limits), done);
  assert.deepEqual((await sentTo('hub', disk)).recorded, upTo(12, 3));
});

test('after identity --new a hub gets only the events that it did not get under the old id', async () => {
  const disk = await forwardedTo(8, { kind: 'hub' });
  await saveCursor(disk, { seq: 3, sending: 4, kind: 'api' }, 'plain');
  await newIdentity(disk, undefined, limits);
  assert.notEqual(await readSource(disk), SOURCE);
  assert.deepEqual(await cursorOf(disk, 'plain'), { seq: 3, id: idOf(3), sending: 4, kind: 'api', to: UPSTREAM.to });
  const { recorded, lost } = await sentTo('hub', disk);
  assert.deepEqual([recorded, lost], [upTo(12, 9), upTo(8)]);
  assert.deepEqual(await lettersOf(disk), [], 'the hub has them, under the old id');
});

test('identity --new asks for the next event of a hub whose cursor is lost, as after a restored backup', async () => {
  const disk = await forwardedTo(8, { kind: 'hub' });
  disk.drop('forward-upstream.cursor');
  await assert.rejects(newIdentity(disk, 11, limits), /the cursor of upstream is lost; set it with forward from/);
  await writeStopped(disk, 'fork');
  await assert.rejects(newIdentity(disk, undefined, limits), /the cursor of upstream is lost; add --seq N/);
  await newIdentity(disk, 11, limits);
  assert.deepEqual((await sentTo('hub', disk)).recorded, [11, 12]);
});

test('identity --new leaves out no event of a plain destination whose cursor is lost', async () => {
  const disk = await forwardedTo(8);
  disk.drop('forward-upstream.cursor');
  await writeStopped(disk, 'cursor lost');
  await newIdentity(disk, 11, limits);
  assert.equal((await readCursor(disk, 'upstream')).kind, 'lost');
  await continueFrom(disk, 'upstream', 9, limits);
  disk.drop('forward-upstream.state');
  await newIdentity(disk, 11, limits);
  assert.deepEqual((await sentTo('api', disk)).recorded, upTo(12, 9));
});

/** Cuts the power at each call of an action, and looks at what each start may find. */
async function withPowerCuts(
  kind: 'hub' | 'api',
  act: (disk: SimulatedDisk) => Promise<unknown>,
  check: (left: SimulatedDisk, when: string) => Promise<void>,
): Promise<void> {
  for (const trial of eachCall('power')) {
    const disk = await forwardedTo(4, { kind });
    await trial.run(disk, () => act(disk));
    const remains = everyRemains(disk).filter((_, at) => (at + trial.number) % 3 === 0);
    for (const left of trial.struck ? remains : [disk]) await check(left, trial.when);
  }
}

test('after a power cut at any call of skip or from, each event before the cursor has its dead letter [by-hand-3]', async () => {
  const actions = [
    (disk: SimulatedDisk) => skip(disk, 'upstream', { first: 5, last: 7 }, limits),
    (disk: SimulatedDisk) => continueFrom(disk, 'upstream', 8, limits),
  ];
  for (const act of actions) {
    await withPowerCuts('api', act, async (left, when) => {
      const { seq } = await cursorOf(left);
      await openLetters(left); // as a start does: cuts what is torn
      const buried = seqsOf(await lettersOf(left));
      for (let passed = 5; passed <= seq; passed += 1)
        assert.ok(buried.includes(passed), `${when}: ${passed} of ${seq}`);
      if (seq === 4) await act(left);
      assert.equal((await cursorOf(left)).seq, 7, when);
    });
  }
});

test('after a power cut at any call of identity --new, no hub gets an event under both ids [by-hand-6]', async () => {
  const act = (disk: SimulatedDisk) => newIdentity(disk, undefined, limits);
  await withPowerCuts('hub', act, async (left, when) => {
    const { seq, id } = await cursorOf(left);
    assert.equal(seq, 4, when);
    const source = (await readSource(left))!;
    if (source !== SOURCE) assert.equal(id, null, when);
    assert.equal(await readBegin(left, source), source === SOURCE ? 1 : 5, when);
    await newIdentity(left, undefined, limits);
    assert.equal((await cursorOf(left)).id, null);
  });
});
