/** What retention removes before a destination has it is said at once, and named when the destination is reached. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cursorName } from '../../../src/forward/ledger/cursor.ts';
import { type DeadLetter, isOpen } from '../../../src/forward/ledger/letter.ts';
import { readLetterStates } from '../../../src/forward/ledger/letters.ts';
import { readStatus } from '../../../src/forward/pipe/status.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { diskWith, FIRST, segment } from '../../support/segments.ts';
import { upTo } from '../../support/tools.ts';
import { Model } from '../../world/destination.ts';
import { type SimulatedDisk, systemError } from '../../world/simulated-disk.ts';
import { type Bench, createPipe, gone, hubAt, lettersOf, limits, saveCursor, sendAll, startPipe } from '../scripted.ts';

/** @returns the seqs that open letters name as removed, or with another outcome */
async function lostIn(disk: SimulatedDisk, outcome: DeadLetter['outcome'] = 'removed'): Promise<number[]> {
  const states = (await readLetterStates(disk, 'upstream', limits)).all;
  return states
    .filter((state) => state.outcome === outcome && isOpen(state))
    .flatMap(({ first, last }) => upTo(last, first))
    .sort((one, other) => one - other);
}

/** Removes the first file as retention does. */
async function remove(disk: SimulatedDisk, { pipe }: Bench, last: number): Promise<void> {
  await pipe.removing(1);
  for (const [name, bytes] of Object.entries(gone(1, last))) disk.put(name, bytes);
  disk.drop(FIRST);
  pipe.removed({ first: 1, last });
}

for (const kind of ['hub', 'api'] as const) {
  test(`${kind}: removed events that it has not confirmed are logged and counted at once, and named once when it answers`, async () => {
    const disk = diskWith({ [FIRST]: segment(1, 20), [segmentName(21)]: segment(21, 10) });
    await saveCursor(disk, { seq: 4, kind });
    let isReachable = false;
    const destination = hubAt(disk, 4, undefined, kind);
    destination.answer = () => (isReachable ? 'record' : 'again');
    const bench = startPipe(disk, 30, () => destination);
    await bench.until('waiting');
    bench.pipe.removed({ first: 1, last: 3 });
    await remove(disk, bench, 20);
    const said = bench.log.filter(({ message }) => `${message}`.startsWith('events are removed that'));
    assert.deepEqual(
      said.map(({ level, first, last }) => [level, first, last]),
      [['warn', 5, 20]],
    );
    const counts = ({ dead_letters, lost_events }: Pick<Bench['pipe']['status'], 'dead_letters' | 'lost_events'>) => [
      dead_letters,
      lost_events,
    ];
    assert.deepEqual(counts(bench.pipe.status), [0, 16]);
    const [fromFiles] = await readStatus(disk, null, undefined, limits);
    assert.deepEqual([counts(fromFiles!), await lettersOf(disk)], [[0, 16], []]);
    const isInMemory = kind === 'api';
    isReachable = true;
    await bench.finish();
    // A plain destination is not asked again, so that its lines are still in memory.
    assert.deepEqual(destination.recorded, isInMemory ? upTo(30, 5) : upTo(30, 21));
    const letters = (await lettersOf(disk)).map(({ outcome, first, last }) => [outcome, first, last]);
    assert.deepEqual(letters, isInMemory ? [] : [['removed', 5, 20]]);
    assert.deepEqual(counts(bench.pipe.status), isInMemory ? [0, 0] : [1, 16]);
    assert.equal(bench.ledger.letters?.lostTotal, isInMemory ? 0 : 16);
  });
}

test('events removed before a destination begins are named if it begins with the first, not with a lost cursor', async () => {
  for (const [begin, named] of [
    ['first', upTo(20)],
    ['now', []],
  ] as const) {
    const disk = diskWith({ [FIRST]: segment(1, 20), [segmentName(21)]: segment(21, 10) });
    const model = new Model('hub');
    const bench = createPipe(disk, 30, { openAs: () => model, destination: { begin } });
    await remove(disk, bench, 20);
    assert.deepEqual([bench.log.length, bench.pipe.status.lost_events], [0, null]);
    bench.pipe.begin();
    await bench.finish();
    assert.deepEqual([await lostIn(disk), model.recorded], [named, begin === 'first' ? upTo(30, 21) : []]);
  }
  const disk = diskWith({ [FIRST]: segment(1, 20), [segmentName(21)]: segment(21, 10) });
  await saveCursor(disk, { seq: 4, kind: 'api' });
  await disk.remove(cursorName('upstream'));
  const bench = startPipe(disk, 30, () => new Model('api'));
  await bench.until('stopped');
  await remove(disk, bench, 20);
  assert.deepEqual([bench.pipe.status.lost_events, await lettersOf(disk)], [0, []]);
  await bench.pipe.close();
});

test('a start names removed events once, except the event in flight, which is in doubt', async () => {
  const disk = diskWith({ [segmentName(21)]: segment(21, 10), ...gone(1, 20) });
  const atCrash = { seq: 4, id: 'x', sending: 5, kind: 'api' } as const;
  await saveCursor(disk, atCrash);
  let writes = 0;
  disk.fault = (call, name) => {
    if (call !== 'write' || name !== 'dead-upstream.jsonl') return undefined;
    writes += 1;
    return writes === 2 ? systemError('ENOSPC') : undefined;
  };
  const upstream = new Model('api');
  await sendAll(disk, 30, () => upstream);
  await saveCursor(disk, atCrash); // a letter was always written before the cursor passed its event
  const again = await sendAll(disk, 30, () => new Model('api'));
  const letters = (await lettersOf(disk)).map(({ outcome, first, last }) => [outcome, first, last]);
  assert.deepEqual(
    [upstream.recorded, letters],
    [
      upTo(30, 21),
      [
        ['in doubt', 5, 5],
        ['removed', 6, 20],
      ],
    ],
  );
  const { dead_letters, lost_events } = again.pipe.status;
  assert.deepEqual([writes, dead_letters, lost_events], [3, 2, 15]);
});
