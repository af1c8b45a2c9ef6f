/** Dead letters that are sent again: each once, also when the service dies in between. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import type { DeadLetter } from '../../../src/forward/ledger/letter.ts';
import { readLetterStates } from '../../../src/forward/ledger/letters.ts';
import { makeLines } from '../../support/segments.ts';
import { Model } from '../../world/destination.ts';
import { eachCall, everyRemains } from '../../world/power.ts';
import { SimulatedDisk } from '../../world/simulated-disk.ts';
import { openLetters, retry } from '../scripted.ts';

const { lines } = makeLines(9);
const time = '2026-11-20T15:19:45.266Z';

function letter(seq: number, outcome: DeadLetter['outcome'] = 'refused'): DeadLetter {
  return { time, outcome, status: 400, reason: 'no', line: `${lines[seq - 1]}`.trimEnd() };
}

/** A folder whose dead letters are of 2, 3 and 4 (refused), 5 (in doubt), 6 (given up), and 7 to 8 (removed). */
async function folder(): Promise<SimulatedDisk> {
  const disk = new SimulatedDisk();
  const letters = await openLetters(disk);
  for (const seq of [2, 3, 4]) await letters.append(letter(seq));
  await letters.append(letter(5, 'in doubt'));
  await letters.append(letter(6, 'skipped'));
  await letters.append({ time, outcome: 'removed', reason: 'retention', first: 7, last: 8 });
  return disk;
}

async function outcomes(disk: SimulatedDisk): Promise<Record<string, string>> {
  const states = (await readLetterStates(disk, 'upstream', limits)).all;
  return Object.fromEntries(states.map(({ first, outcome }) => [first, outcome]));
}

test('a retry sends each refused event once, and a second retry sends nothing [retry-1]', async () => {
  const [disk, model] = [await folder(), new Model('api')];
  assert.deepEqual(await retry(disk, model), { sent: 3, refused: 0, left: 0 });
  assert.deepEqual(model.recorded, [2, 3, 4]);
  const left = { 5: 'in doubt', 6: 'skipped', 7: 'removed' };
  assert.deepEqual(await outcomes(disk), left);
  assert.deepEqual(await retry(disk, model), { sent: 0, refused: 0, left: 0 });
  assert.deepEqual(await retry(disk, model, { first: 2, last: 4 }), { sent: 0, refused: 0, left: 0 });
  assert.deepEqual(model.recorded, [2, 3, 4], 'a second retry doubles nothing');
});

test('an event in doubt or given up is sent again only if its seq is named', async () => {
  const [disk, model] = [await folder(), new Model('api')];
  assert.deepEqual(await retry(disk, model, { first: 5, last: 9 }), { sent: 2, refused: 0, left: 0 });
  assert.deepEqual(model.recorded, [5, 6]);
});

test('an event whose retry got no answer but was recorded is not sent again by the next retry [retry-3]', async () => {
  const [disk, model] = [await folder(), new Model('nats')];
  model.answer = (what) => (what === 'ask' ? 'record' : 'lost');
  const seqs = { first: 2, last: 2 };
  assert.deepEqual(await retry(disk, model, seqs), { sent: 0, refused: 1, left: 0 });
  assert.deepEqual(await retry(disk, model, seqs), { sent: 1, refused: 0, left: 0 });
  assert.deepEqual(model.recorded, [2]);
});

test('a repeated refusal stays open with its new reason, and an outage leaves the other dead letters unchanged', async () => {
  const [disk, model] = [await folder(), new Model('api')];
  model.answer = (what, seq) => (what === 'ask' ? 'no hub' : seq === 2 ? 'refused' : seq === 3 ? 'in doubt' : 'again');
  assert.deepEqual(await retry(disk, model), { sent: 0, refused: 2, left: 1 });
  const { 2: second, 3: third, 4: fourth } = await outcomes(disk);
  assert.deepEqual([second, third, fourth], ['refused', 'in doubt', 'refused']);
  assert.match(disk.text('dead-upstream.jsonl'), /"outcome":"in doubt","became":"given up","reason":"answers 502"/);
  assert.match(disk.text('dead-upstream.jsonl'), /"outcome":"refused","reason":"answers 503","first":4,"last":4/);
});

test('a retry that a stop or its caller ends leaves the other dead letters unchanged', async () => {
  for (const who of ['signal', 'gone'] as const) {
    const [disk, model] = [await folder(), new Model('api')];
    const stop = new AbortController();
    model.answer = () => {
      stop.abort();
      return 'record';
    };
    const ending = { [who]: stop.signal };
    assert.deepEqual(await retry(disk, model, undefined, ending), { sent: 1, refused: 0, left: 2 });
    assert.deepEqual(await outcomes(disk), { 3: 'refused', 4: 'refused', 5: 'in doubt', 6: 'skipped', 7: 'removed' });
  }
});

test('after a power cut at any call no event that might have arrived is sent again unless it is named', async () => {
  for (const trial of eachCall('power')) {
    const [disk, model] = [await folder(), new Model('api')];
    await trial.run(disk, () => retry(disk, model));
    for (const left of trial.struck ? everyRemains(disk).filter((_, at) => at % 4 === 0) : []) {
      const after = new Model('api');
      await retry(left, after);
      const twice = after.recorded.filter((seq) => model.recorded.includes(seq));
      assert.deepEqual(twice, [], trial.when);
    }
  }
});
