import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Disk, openDisk } from '../../../src/journal/disk.ts';
import { emptyJournal } from '../../../src/journal/open/empty.ts';
import { openJournal } from '../../support/journal.ts';
import { newFolder } from '../../support/program.ts';

/** Opens the journal, records so many events, and closes it. @returns the seq of the first of them */
async function record(disk: Disk, count: number): Promise<number> {
  const { journal, report, failures } = await openJournal(disk, { segmentBytes: 512 });
  const first = journal.nextSeq ?? 0;
  for (let n = 0; n < count; n += 1) assert.equal(await report('x'.repeat(100)), undefined);
  await journal.close();
  assert.deepEqual(failures, []);
  return first;
}

test('an emptied journal begins with seq 1, and what is not of it stays', async (t) => {
  const disk = openDisk(newFolder(t));
  await disk.prepare();
  await record(disk, 10);
  for (const name of ['notes.txt', 'forward-sources.json']) await (await disk.create(name)).close();
  await emptyJournal(disk);
  assert.deepEqual(await disk.list(), ['notes.txt']);
  assert.equal(await record(disk, 1), 1);
});

test('whenever emptying a journal fails, what is left can be started, and is the beginning of it', async (t) => {
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
    if (outcome === 'EIO') assert.ok(next > 1, 'the oldest is there');
    else break;
  }
});
