/** Group commit, rotation, order and acknowledgement. */

import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { type Disk, openDisk } from '../../src/journal/disk.ts';
import { SEQ_MAX } from '../../src/journal/line/record.ts';
import { goneName, segmentName } from '../../src/journal/segments.ts';
import { described, openJournal, openSimulated, quickLimits, recorded } from '../support/journal.ts';
import { newFolder } from '../support/program.ts';
import { FIRST } from '../support/segments.ts';
import { eventually } from '../support/tools.ts';
import { hold } from '../world/gate.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';

const disks: Readonly<Record<string, (t: TestContext) => Disk>> = {
  'the real disk': (t) => openDisk(newFolder(t)),
  'the simulated disk': () => new SimulatedDisk(),
};

for (const [kind, makeDisk] of Object.entries(disks)) {
  test(`${kind}: a full file is followed by the next, and lines continue across files and starts [journal-1]`, async (t) => {
    const disk = makeDisk(t);
    const names: string[] = [];
    for (let start = 0; start < 3; start += 1) {
      const { journal, report } = await openJournal(disk, { segmentBytes: 500 });
      for (let count = 0; count < 5; count += 1) {
        names.push(`${start}.${count}`);
        assert.equal(await report(`${start}.${count}`), undefined);
      }
      await journal.close();
    }
    assert.deepEqual(await recorded(disk), names);
    const files = (await disk.list()).filter((name) => name.endsWith('.jsonl'));
    assert.ok(files.length >= 4, files.join());
  });

  test(`${kind}: a close records all accepted reports [journal-15]`, async (t) => {
    const disk = makeDisk(t);
    const { journal, report } = await openJournal(disk);
    const accepted = ['a', 'b', 'c'].map((name) => report(name));
    await journal.close();
    assert.deepEqual(await Promise.all(accepted), [undefined, undefined, undefined]);
    assert.deepEqual(await recorded(disk), ['a', 'b', 'c']);
  });
}

test('no event is acknowledged before the sync that covers it has returned', async () => {
  const { disk, report, journal } = await openSimulated();
  const release = hold(disk, 'sync');
  let isAcknowledged = false;
  const done = report('a').then(() => {
    isAcknowledged = true;
  });
  await eventually('the sync', () => disk.count('sync') === 1);
  assert.match(disk.text(FIRST), /"description":"a"/);
  assert.equal(isAcknowledged, false);
  release();
  await done;
  assert.equal(isAcknowledged, true);
  await journal.close();
});

test('events that arrive during a sync are recorded as one batch, with one write and one sync', async () => {
  const { disk, report } = await openSimulated();
  const release = hold(disk, 'sync');
  const first = report('0');
  await eventually('the first sync', () => disk.count('sync') === 1);
  const rest = Array.from({ length: 50 }, (_, index) => report(`${index + 1}`));
  await turn();
  assert.equal(disk.count('write'), 1, 'a second operation started before the first had ended');
  release();
  await Promise.all([first, ...rest]);
  assert.equal(disk.count('write'), 2);
  assert.equal(disk.count('sync'), 2);
  assert.deepEqual(
    await recorded(disk),
    Array.from({ length: 51 }, (_, index) => `${index}`),
  );
});

test('no write of several lines exceeds batchBytesMax, whatever the characters', async () => {
  const batchBytesMax = 20_000;
  for (const text of ['x', 'é', '\u2028', '😀']) {
    const { disk, report, journal } = await openSimulated({ limits: { ...quickLimits, batchBytesMax } });
    let [before, lines, most] = [0, 0, 0];
    disk.fault = (call) => {
      if (call !== 'sync') return undefined;
      const written = (disk.bytes(FIRST) as Buffer).subarray(before);
      before += written.length;
      lines = written.toString().split('\n').length - 1;
      if (lines > 1) most = Math.max(most, written.length);
      return undefined;
    };
    const answers = Array.from({ length: 300 }, (_, index) => report(text.repeat(index % 100)));
    assert.deepEqual(new Set(await Promise.all(answers)), new Set([undefined]));
    assert.equal(await report(text.repeat(30_000)), undefined);
    assert.equal(lines, 1);
    assert.ok(most > batchBytesMax / 8 && most <= batchBytesMax, `${most} bytes of ${text}`);
    await journal.close();
  }
});

test('a journal with the largest seq refuses further events with the reason, even after the next start', async () => {
  const disk = new SimulatedDisk();
  const name = segmentName(SEQ_MAX - 2);
  disk.put(name, Buffer.alloc(0));
  disk.put(goneName({ first: 1, last: SEQ_MAX - 3 }, 'removed'), Buffer.alloc(0));
  const reason = /^the journal is full: its last event has seq 9007199254740991, the largest possible seq/;
  const first = await openJournal(disk);
  const four = ['too', 'many', 'for', 'it'].map(described);
  const answers = await Promise.all(['a', four, 'b', 'c', 'd', 'e'].map((what) => first.report(what)));
  const [a, batch, b, c, ...later] = answers;
  assert.deepEqual([a, b, c], [undefined, undefined, undefined]);
  for (const answer of [batch, ...later]) assert.match(answer ?? 'recorded', reason);
  assert.match(first.journal.trouble ?? '', reason);
  assert.match(first.journal.refusal(1) ?? '', reason);
  assert.match((await first.report('f')) ?? 'recorded', reason);
  assert.equal(first.notices.filter((line) => line.includes('the journal is full')).length, 1);
  await first.journal.close();

  const second = await openJournal(disk, { segmentBytes: 1 });
  assert.match((await second.report('g')) ?? 'recorded', reason);
  await second.journal.close();
  assert.deepEqual(await recorded(disk), ['a', 'b', 'c']);
});

test('only the owner can access the folder and its files', async (t) => {
  const folder = join(newFolder(t), 'a/b');
  const disk = openDisk(folder);
  await disk.prepare();
  const { journal } = await openJournal(disk);
  await journal.close();
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  for (const name of readdirSync(folder)) assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600, name);
});
