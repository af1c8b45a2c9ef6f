import assert from 'node:assert/strict';
import { readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { type DeadLetter, encodeDeadLetter } from '../../../src/forward/ledger/letter.ts';
import {
  DeadLetters,
  deadLettersName,
  LettersFullError,
  readLetterStates,
} from '../../../src/forward/ledger/letters.ts';
import { openDisk } from '../../../src/journal/disk.ts';
import { newFolder } from '../../support/program.ts';
import { makeLines, START } from '../../support/segments.ts';
import { upTo } from '../../support/tools.ts';
import { eachCall, everyRemains, thrice } from '../../world/power.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';
import { ledgerOf, lettersOf, openLetters } from '../scripted.ts';

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

test('a dead letter is a line of a real file, with the journal line unchanged', async (t) => {
  const folder = newFolder(t);
  const disk = openDisk(folder);
  assert.deepEqual(await lettersOf(disk), []);
  const letters = await openLetters(disk);
  assert.equal(letters.count, 0);
  const removed: DeadLetter = { time, outcome: 'removed', reason: 'retention', line: undefined, first: 3, last: 9 };
  await letters.append(letter(2));
  await letters.append(removed);
  assert.equal(letters.count, 2);
  assert.deepEqual(await lettersOf(disk), [letter(2), removed]);
  const text = readFileSync(join(folder, NAME), 'utf8');
  assert.equal(
    text,
    `${encodeDeadLetter(letter(2))}\n{"time":"${time}","outcome":"removed","reason":"retention","first":3,"last":9}\n`,
  );
  assert.ok(text.includes('"metadata":{"n":12345678901234567890.10}'));
  assert.equal((await openLetters(disk)).count, 2);
  renameSync(join(folder, NAME), join(folder, 'moved'));
  await letters.append(letter(10));
  assert.equal(letters.count, 1);
  assert.deepEqual(await lettersOf(disk), [letter(10)]);
});

test('a torn end is truncated when the file is opened, and a damaged line before the last is reported', async () => {
  const whole = `${encodeDeadLetter(letter(1))}\n${encodeDeadLetter(letter(2))}\n`;
  for (const torn of [
    '{"time":"2026',
    '{"time":"2026\n',
    `${'\0'.repeat(40)}\n`,
    `${encodeDeadLetter(letter(3)).slice(0, -2)}\n`,
  ]) {
    const disk = new SimulatedDisk();
    disk.put(NAME, Buffer.from(whole + torn));
    assert.deepEqual(await lettersOf(disk), [letter(1), letter(2)]); // as a command reads them, before a start
    const letters = await openLetters(disk);
    assert.equal(letters.count, 2);
    assert.equal(disk.text(NAME), whole);
    await letters.append(letter(4));
    assert.deepEqual(await lettersOf(disk), [letter(1), letter(2), letter(4)]);
  }
  const disk = new SimulatedDisk();
  disk.put(NAME, Buffer.from(`${encodeDeadLetter(letter(1))}\nx\n${encodeDeadLetter(letter(2))}\n`));
  assert.equal((await openLetters(disk)).count, 3);
  await assert.rejects(lettersOf(disk), /dead-upstream.jsonl, line 2: it is not a dead letter/);
});

/** Appends six letters, each until it is appended. */
async function play(disk: SimulatedDisk, script: { begun: number; durable: number }): Promise<void> {
  for (let session = 0; session < 2; session += 1) {
    const letters = await openLetters(disk).catch(() => openLetters(disk));
    for (let count = 0; count < 3; count += 1) {
      script.begun += 1;
      await thrice(() => letters.append(letter(script.begun)));
      script.durable = script.begun;
    }
  }
}

for (const what of ['once', 'power'] as const) {
  for (const short of [false, true]) {
    const title = `${what === 'once' ? 'a failure' : 'a power cut'}${short ? ' and a short write' : ''} at any call`;
    test(`${title}: each dead letter whose append resolved is in the file [dead-letters-1]`, async () => {
      for (const trial of eachCall(what, short ? 'ENOSPC' : 'EIO')) {
        const [disk, script] = [new SimulatedDisk(), { begun: 0, durable: 0 }];
        if (short) disk.fault = (call) => (call === 'write' && disk.count('write') === 2 ? { shortBy: 20 } : undefined);
        await trial.run(disk, () => play(disk, script));
        const { when } = trial;
        for (const after of [disk.afterCrash(), ...everyRemains(disk)]) {
          const letters = await openLetters(after);
          await letters.append(letter(20));
          const cut = after.afterPowerCut({ entries: 'none', share: 0, behind: 'zeros' });
          const found = (await lettersOf(cut)).map(({ line = '' }): number => JSON.parse(line).seq);
          assert.equal(found.length, letters.count, when);
          const distinct = [...new Set(found)];
          const expected = upTo(script.begun);
          const missing = expected.filter((seq) => !distinct.includes(seq));
          assert.ok(
            missing.every((seq) => seq > script.durable),
            `${when}: ${found}, durable ${script.durable}`,
          );
          assert.deepEqual(distinct, [...expected.filter((seq) => !missing.includes(seq)), 20], when);
        }
      }
    });
  }
}

test('a dead letter whose sync failed does not count as written, although it can be read [dead-letters-4]', async () => {
  const disk = new SimulatedDisk();
  const letters = await openLetters(disk);
  const gone = { first: 3, last: 9 };
  await letters.append(letter(2));
  disk.fault = (call) => (call === 'sync' ? systemError('EIO') : undefined);
  await assert.rejects(letters.nameRemoved(gone, 'retention'), /EIO/);
  disk.fault = () => undefined;
  assert.equal((await lettersOf(disk)).length, 2);
  assert.equal(await letters.namedAfter(2), 2);
  assert.deepEqual(await letters.nameRemoved(gone, 'retention'), [gone]);
  const after = disk.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' });
  assert.deepEqual((await readLetterStates(after, 'upstream', limits)).unnamed(gone), []);
});

test('a dead letter whose sync failed before the process ended is written again before it counts', async () => {
  const seqs = async (on: SimulatedDisk) => (await lettersOf(on)).map(({ line = '' }): number => JSON.parse(line).seq);
  for (const use of ['append', 'namedAfter'] as const) {
    const before = new SimulatedDisk();
    const letters = await openLetters(before);
    await letters.append(letter(1));
    before.fault = (call) => (call === 'sync' ? systemError('EIO') : undefined);
    await assert.rejects(letters.append(letter(2)), /EIO/);
    const disk = before.afterCrash();
    // A start needs no space, and reads only.
    disk.fault = (call) => (call === 'create' ? systemError('ENOSPC') : undefined);
    const again = await openLetters(disk);
    assert.equal(again.count, 2);
    assert.equal(await again.namedAfter(2), 2);
    assert.deepEqual([disk.count('write'), disk.count('sync'), disk.count('create')], [0, 0, 0]);
    const rely = () => (use === 'append' ? again.append(letter(3)) : again.namedAfter(0));
    await assert.rejects(rely(), /ENOSPC/);
    assert.deepEqual(await seqs(disk), [1, 2]);
    disk.fault = () => undefined;
    await rely();
    const after = disk.afterPowerCut({ entries: 'none', share: 0, behind: 'zeros' });
    assert.deepEqual(await seqs(after), use === 'append' ? [1, 2, 3] : [1, 2]);
    const created = disk.count('create');
    await again.append(letter(4));
    assert.equal(disk.count('create'), created, 'once');
  }
});

test('dead letters that are appended at the same time are all written, in order', async () => {
  const disk = new SimulatedDisk();
  const ledger = ledgerOf(disk);
  const full = systemError('ENOSPC', NAME);
  disk.fault = (call) => (call === 'write' && disk.count('write') === 2 ? full : undefined);
  const ends = await Promise.allSettled([1, 2, 3].map((seq) => ledger.append(letter(seq))));
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.deepEqual(await lettersOf(disk), [letter(1), letter(3)]);
});

const BOUNDS = { bytesMax: 4_000, lineBytesMax: limits.lineBytesMax };

/** Appends refused letters, from a seq on, until there is no space. @returns the next seq */
async function fill(letters: DeadLetters, from = 1): Promise<number> {
  for (let seq = from; ; seq += 1) {
    try {
      await letters.append(letter(seq));
    } catch (error) {
      assert.ok(error instanceof LettersFullError, `${error}`);
      assert.match(
        error.message,
        /^the dead letters of upstream take [3-7]\d{3} of at most 4000 bytes; give all up with assetlog forward skip, or send all again: run assetlog forward retry upstream$/,
      );
      return seq;
    }
  }
}

const about = (outcome: DeadLetter['outcome'], seq: number): DeadLetter => ({
  time,
  outcome,
  reason: '',
  first: seq,
  last: seq,
});
const sentAgain = (seq: number) => about('sent again', seq);

test('at the limit no dead letter is lost, and the file starts empty once all of them are closed [dead-letters-3]', async () => {
  const disk = new SimulatedDisk();
  const letters = await DeadLetters.open(disk, 'upstream', BOUNDS);
  const size = () => disk.bytes(NAME)?.length ?? 0;
  const gone = { first: 101, last: 900 };
  await letters.nameRemoved(gone, 'retention');
  const next = await fill(letters);
  assert.ok(next > 5 && next < 20, `${next}`);
  assert.ok(size() <= BOUNDS.bytesMax, `${size()}`);
  // Each is tried once more, and refused, before the last ones are sent again.
  for (let seq = 1; seq < next; seq += 1) {
    await letters.append(about('in doubt', seq));
    await letters.append(about('refused', seq));
  }
  for (let seq = 1; seq < next; seq += 1) {
    assert.equal(await fill(letters, next), next, 'still no space');
    await letters.append(sentAgain(seq));
  }
  assert.equal(await fill(letters, next), next, 'removed events are still named');
  await letters.append({ ...about('skipped', 101), last: 900 });
  assert.ok(size() > BOUNDS.bytesMax && size() < 2 * BOUNDS.bytesMax, `${size()}`);
  assert.equal(letters.open, 0);
  await letters.append(letter(next));
  assert.deepEqual(await lettersOf(disk), [letter(next)]);
  assert.deepEqual([letters.open, letters.lost], [1, 0]);
});

test('a full file keeps each open dead letter with its line through any number of retries, and can be emptied', async () => {
  const disk = new SimulatedDisk();
  const letters = await DeadLetters.open(disk, 'upstream', BOUNDS);
  await letters.nameRemoved({ first: 101, last: 900 }, 'retention');
  await letters.append({ ...about('removed', 301), became: 'taken', last: 400 }); // by an earlier program
  await letters.append(letter(1));
  await letters.append(sentAgain(1));
  const next = await fill(letters, 2);
  const open = [...upTo(next - 1, 2).map((seq) => [seq, seq]), [101, 300], [401, 900]];
  for (let round = 0; round < 30; round += 1) {
    for (let seq = 2; seq < next; seq += 1) {
      await letters.append(about('in doubt', seq));
      await letters.append(about('refused', seq));
    }
    const { all } = await readLetterStates(disk, 'upstream', limits);
    assert.deepEqual(
      all.map(({ first, last }) => [first, last]),
      open,
    );
    assert.deepEqual([letters.open, letters.lost, letters.lostTotal], [open.length, 700, 800]);
    const held = (await lettersOf(disk)).filter(({ line }) => line !== undefined);
    const heldOpen = held.filter(({ line }) => !line?.startsWith('{"seq":1,'));
    assert.deepEqual(heldOpen, upTo(next - 1, 2).map(letter), `round ${round}`);
    assert.ok((disk.bytes(NAME)?.length ?? 0) <= 2 * BOUNDS.bytesMax);
  }
  const again = await DeadLetters.open(disk, 'upstream', BOUNDS);
  for (let seq = 2; seq < next; seq += 1) await again.append(sentAgain(seq));
  assert.equal(again.open, 2);
});

test('dead letters without a line may take as much again as the limit, and no more', async () => {
  const disk = new SimulatedDisk();
  const letters = await DeadLetters.open(disk, 'upstream', BOUNDS);
  await fill(letters);
  let first = 101;
  const name = async () => {
    for (; first < 100_000; first += 10) await letters.nameRemoved({ first, last: first + 8 }, 'retention');
  };
  await assert.rejects(name(), (error: Error) => {
    assert.ok(error instanceof LettersFullError);
    const command = `run assetlog forward skip upstream --seq 1-${first - 2}`;
    assert.ok(error.message.endsWith(`; without space to send them again, give all up: ${command}`), error.message);
    return true;
  });
  const size = disk.bytes(NAME)?.length ?? 0;
  assert.ok(size > 1.9 * BOUNDS.bytesMax && size <= 2 * BOUNDS.bytesMax, `${size}`);
});

test('a file above a lowered limit can be emptied, and a line that exceeds the limit alone is left out of its letter', async () => {
  const disk = new SimulatedDisk();
  const before = await openLetters(disk);
  for (let seq = 1; seq < 20; seq += 1) await before.append(letter(seq));
  const letters = await DeadLetters.open(disk, 'upstream', { ...BOUNDS, bytesMax: 1_000 });
  await assert.rejects(letters.append(letter(20)), LettersFullError);
  for (let seq = 1; seq < 20; seq += 1) await letters.append(sentAgain(seq));
  const long = { ...letter(20), line: `{"seq":20,"description":"${'x'.repeat(2_000)}"}` };
  await letters.append(long);
  const { line, ...rest } = long;
  const reason = `${long.reason}; its line is too long for this file`;
  const [last] = (await lettersOf(disk)).slice(-1);
  assert.deepEqual(last, { ...rest, reason, first: 20, last: 20, line: undefined });
  assert.deepEqual([letters.open, line.length > 1_000], [1, true]);
});
