import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Disk, openDisk } from '../../../src/journal/disk.ts';
import { emptyJournal } from '../../../src/journal/open/empty.ts';
import { openJournal } from '../../support/journal.ts';
import { newFolder } from '../../support/program.ts';

/** Opens the journal, records `count` events, and closes it. @returns the seq of the first event */
async function record(disk: Disk, count: number): Promise<number> {
  const { journal, report, failures } = await openJournal(disk, { segmentBytes: 512 });
  const first = journal.nextSeq ?? 0;
  for (let n = 0; n < count; n += 1) assert.equal(await report('x'.repeat(100)), undefined);
  await journal.close();
  assert.deepEqual(failures, []);
  return first;
}

test('an emptied journal starts at seq 1, and other files stay', async (t) => {
  const disk = openDisk(newFolder(t));
  await disk.prepare();
  await record(disk, 10);
  for (const name of ['notes.txt', 'forward-sources.json']) await (await disk.create(name)).close();
  await emptyJournal(disk);
  assert.deepEqual(await disk.list(), ['notes.txt']);
  assert.equal(await record(disk, 1), 1);
});

test('if emptying a journal fails at any file, the rest is a valid journal with the oldest events', async (t) => {
  for (let failing = 1; ; failing += 1) {
    const disk = openDisk(newFolder(t));
    await disk.prepare();
    await record(disk, 10);
    let removed = 0;
    const failingDisk: Disk = {
      ...disk,
      remove: async (name) => {
        removed += 1;
        if (removed === failing) throw new Error('EIO');
        await disk.remove(name);
      },
    };
    const outcome = await emptyJournal(failingDisk).then(
      () => 'emptied',
      ({ message }: Error) => message,
    );
    const next = await record(disk, 1);
    assert.ok(next <= 11 && next >= 1, `seq ${next}`);
    if (outcome === 'EIO') assert.ok(next > 1, 'the oldest file is left');
    else break;
  }
});
