import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cursor } from '../../src/forward/ledger/cursor.ts';
import { openSource, readBegin, readEras, readSource, replaceSource, SOURCE_FILE } from '../../src/forward/source.ts';
import { openDisk } from '../../src/journal/disk.ts';
import { sourceOf } from '../support/forwarding.ts';
import { newFolder } from '../support/program.ts';
import { eachCall, everyRemains } from '../world/power.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test('a journal gets an id once, in a real folder, and another one only on request', async (t) => {
  const folder = newFolder(t);
  const disk = openDisk(folder);
  assert.equal(await readSource(disk), undefined);
  const made = await openSource(disk);
  assert.match(made, UUID7);
  assert.equal(await openSource(disk), made);
  assert.equal(await readSource(disk), made);
  assert.equal(readFileSync(join(folder, SOURCE_FILE), 'utf8'), `${made}\n`);
  const other = await replaceSource(disk);
  assert.notEqual(other, made);
  assert.equal(await readSource(disk), other);
  assert.deepEqual(readdirSync(folder), [SOURCE_FILE]);
  assert.equal(await readBegin(disk, other), 1);
  const third = await replaceSource(disk, 38);
  assert.deepEqual([await readBegin(disk, third), await readBegin(disk, other)], [38, 1]);
  assert.equal(readFileSync(join(folder, '.journal-begin'), 'utf8'), `38 ${third}\n`);
  assert.equal(await readBegin(disk, await replaceSource(disk)), 1, 'that of an earlier id');
});

test('a journal keeps its earlier ids with their first lines, except those that a new id replaces', async () => {
  const disk = new SimulatedDisk();
  const first = await openSource(disk);
  assert.deepEqual(await readEras(disk, first), [[1, first]]);
  const second = await replaceSource(disk, 11);
  assert.deepEqual(await readEras(disk, second), [
    [1, first],
    [11, second],
  ]);
  const third = await replaceSource(disk, undefined, 21);
  assert.equal(await readBegin(disk, third), 1, 'destinations may get what is before that');
  assert.deepEqual(await readEras(disk, third), [
    [1, first],
    [11, second],
    [21, third],
  ]);
  const text = disk.text('.journal-ids');
  const fourth = await replaceSource(disk, 11);
  const eras = [
    [1, first],
    [11, fourth],
  ];
  assert.deepEqual(await readEras(disk, fourth), eras);
  assert.deepEqual(await readEras(disk, sourceOf(1)), [[1, sourceOf(1)]], 'an older program gave it this one');
  disk.put('.journal-ids', Buffer.from(text));
  assert.deepEqual(await readEras(disk, second), eras.slice(0, 1).concat([[11, second]]), 'a power cut before the id');
  assert.deepEqual(await readEras(disk, await replaceSource(disk, 1)), [[1, (await readSource(disk))!]]);
});

test('a damaged file with the first event of a journal is ignored', async () => {
  const disk = new SimulatedDisk();
  const source = await replaceSource(disk);
  for (const text of [
    '',
    `38 ${source}`,
    `0 ${source}\n`,
    `-1 ${source}\n`,
    `38 ${source}\n\n`,
    `9${'0'.repeat(20)} ${source}\n`,
  ]) {
    disk.put('.journal-begin', Buffer.from(text));
    assert.equal(await readBegin(disk, source), 1, text);
  }
});

test('an id that is unreadable, or was removed after forwarding began, is not replaced', async () => {
  const disk = new SimulatedDisk();
  await openSource(disk);
  const { cursor } = await Cursor.open(disk, 'hub');
  await cursor.save({ seq: 0, id: null, sending: undefined, kind: undefined, to: 'http://127.0.0.1:3000' });
  disk.put(SOURCE_FILE, Buffer.from('0193e0c2\n'));
  await assert.rejects(openSource(disk), /does not hold the id of a journal; .*identity --new/);
  await disk.remove(SOURCE_FILE);
  await assert.rejects(openSource(disk), /was removed; .*identity --new/);
  const source = await replaceSource(disk);
  assert.equal(await openSource(disk), source);
});

for (const what of ['once', 'power'] as const) {
  test(`${what === 'once' ? 'a failure' : 'a power cut'} at any call: the next start returns the same id [source-1]`, async () => {
    for (const trial of eachCall(what)) {
      const disk = new SimulatedDisk();
      const known: string[] = [];
      await trial.run(disk, async () => {
        known.push(await openSource(disk));
        known.push(await openSource(disk));
      });
      for (const after of [disk.afterCrash(), ...everyRemains(disk)]) {
        const source = await openSource(after);
        assert.match(source, UUID7);
        for (const id of known) assert.equal(source, id, trial.when);
        assert.equal(await readSource(after.afterPowerCut({ entries: 'none', share: 0, behind: 'zeros' })), source);
      }
    }
  });
}
