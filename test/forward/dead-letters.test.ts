import assert from 'node:assert/strict';
import { readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type DeadLetter, encodeDeadLetter } from '../../src/forward/dead-letter.ts';
import { DeadLetters, deadLettersName, readDeadLetters } from '../../src/forward/dead-letters.ts';
import { type Disk, openDisk } from '../../src/journal/disk.ts';
import { newFolder } from '../support/program.ts';
import { makeLines, START } from '../support/segments.ts';
import { failingCall, SimulatedDisk, systemError } from '../support/simulated-disk.ts';
import { everyRemains, settled, thrice } from './power.ts';

const NAME = deadLettersName('upstream');
const time = '2026-11-20T15:19:45.266Z';

const { lines } = makeLines(20, START, (seq) => ({
  type: 'AssetObservation',
  assetKey: ['a', `${seq}`],
  metadata: '{"n":12345678901234567890.10}',
}));

function letter(seq: number): DeadLetter {
  const reason = `refused ",\\"line\\":{" because of ${seq}`;
  return { time, outcome: 'refused', status: 400, reason, line: lines[seq - 1]!.toString().trimEnd() };
}

async function all(disk: Disk): Promise<DeadLetter[]> {
  const letters: DeadLetter[] = [];
  for await (const one of readDeadLetters(disk, 'upstream')) letters.push(one);
  return letters;
}

test('dead letters are lines of a real file, with the line of the journal digit by digit', async (t) => {
  const folder = newFolder(t);
  const disk = openDisk(folder);
  assert.deepEqual(await all(disk), []);
  const letters = await DeadLetters.open(disk, 'upstream');
  assert.equal(letters.count, 0);
  const removed: DeadLetter = { time, outcome: 'removed', reason: 'retention', line: undefined, first: 3, last: 9 };
  await letters.append(letter(2));
  await letters.append(removed);
  assert.equal(letters.count, 2);
  assert.deepEqual(await all(disk), [letter(2), removed]);
  const text = readFileSync(join(folder, NAME), 'utf8');
  assert.equal(
    text,
    `${encodeDeadLetter(letter(2))}\n{"time":"${time}","outcome":"removed","reason":"retention","first":3,"last":9}\n`,
  );
  assert.ok(text.includes('"metadata":{"n":12345678901234567890.10}'));
  assert.equal((await DeadLetters.open(disk, 'upstream')).count, 2);
  renameSync(join(folder, NAME), join(folder, 'moved'));
  await letters.append(letter(10));
  assert.equal(letters.count, 1);
  assert.deepEqual(await all(disk), [letter(10)]);
});

test('a torn end is cut when the file is opened; a damaged line before the last is reported', async () => {
  const whole = `${encodeDeadLetter(letter(1))}\n${encodeDeadLetter(letter(2))}\n`;
  for (const torn of [
    '{"time":"2026',
    '{"time":"2026\n',
    `${'\0'.repeat(40)}\n`,
    `${encodeDeadLetter(letter(3)).slice(0, -2)}\n`,
  ]) {
    const disk = new SimulatedDisk();
    disk.put(NAME, Buffer.from(whole + torn));
    const letters = await DeadLetters.open(disk, 'upstream');
    assert.equal(letters.count, 2);
    assert.equal(disk.text(NAME), whole);
    await letters.append(letter(4));
    assert.deepEqual(await all(disk), [letter(1), letter(2), letter(4)]);
  }
  const disk = new SimulatedDisk();
  disk.put(NAME, Buffer.from(`${encodeDeadLetter(letter(1))}\nx\n${encodeDeadLetter(letter(2))}\n`));
  assert.equal((await DeadLetters.open(disk, 'upstream')).count, 3);
  await assert.rejects(all(disk), /dead-upstream.jsonl, line 2: it is no dead letter/);
});

test('on a full disk an append rejects and leaves nothing, and succeeds when there is space', async () => {
  const disk = new SimulatedDisk();
  const letters = await DeadLetters.open(disk, 'upstream');
  await letters.append(letter(1));
  for (const fault of [systemError('ENOSPC'), { shortBy: 10 }]) {
    disk.fault = (call) => (call === 'write' ? fault : undefined);
    await assert.rejects(letters.append(letter(2)));
    assert.deepEqual([letters.count, await all(disk)], [1, [letter(1)]]);
  }
  disk.fault = () => undefined;
  await letters.append(letter(2));
  assert.deepEqual(await all(disk), [letter(1), letter(2)]);
});

/** Appends six letters, each until it is appended. */
function play(disk: SimulatedDisk): { begun: number; durable: number; end: Promise<void> } {
  const script = { begun: 0, durable: 0, end: Promise.resolve() };
  script.end = (async () => {
    for (let session = 0; session < 2; session += 1) {
      const letters = await DeadLetters.open(disk, 'upstream').catch(() => DeadLetters.open(disk, 'upstream'));
      for (let count = 0; count < 3; count += 1) {
        script.begun += 1;
        await thrice(() => letters.append(letter(script.begun)));
        script.durable = script.begun;
      }
    }
  })();
  return script;
}

for (const what of ['once', 'power'] as const) {
  for (const short of [false, true]) {
    const title = `${what === 'once' ? 'a failure' : 'a power cut'}${short ? ' and a short write' : ''} at any call`;
    test(`${title}: each letter whose append resolved is there`, async () => {
      for (let failing = 1; ; failing += 1) {
        const disk = new SimulatedDisk();
        const { fault, struck } = failingCall(failing, what, short ? 'ENOSPC' : 'EIO');
        let writes = 0;
        disk.fault = (call) => {
          if (call === 'write') writes += 1;
          return fault() ?? (short && call === 'write' && writes === 2 ? { shortBy: 20 } : undefined);
        };
        const script = play(disk);
        await Promise.race([script.end, settled()]);
        const when = `call ${failing}, ${disk.calls[failing - 1]}`;
        for (const after of [disk.afterCrash(), ...everyRemains(disk)]) {
          const letters = await DeadLetters.open(after, 'upstream');
          await letters.append(letter(20));
          const cut = after.afterPowerCut({ entries: 'none', share: 0, behind: 'zeros' });
          const found = (await all(cut)).map(({ line = '' }): number => JSON.parse(line).seq);
          assert.equal(found.length, letters.count, when);
          const distinct = [...new Set(found)];
          const expected = Array.from({ length: script.begun }, (_, index) => index + 1);
          const missing = expected.filter((seq) => !distinct.includes(seq));
          assert.ok(
            missing.every((seq) => seq > script.durable),
            `${when}: ${found}, durable ${script.durable}`,
          );
          assert.deepEqual(distinct, [...expected.filter((seq) => !missing.includes(seq)), 20], when);
        }
        if (struck() === 0) break;
      }
    });
  }
}

test('letters that are appended at the same time are all there, in their order', async () => {
  const disk = new SimulatedDisk();
  const letters = await DeadLetters.open(disk, 'upstream');
  const full = systemError('ENOSPC', NAME);
  disk.fault = (call) => (call === 'write' && disk.count('write') === 2 ? full : undefined);
  const ends = await Promise.allSettled([1, 2, 3].map((seq) => letters.append(letter(seq))));
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.deepEqual(await all(disk), [letter(1), letter(3)]);
});
