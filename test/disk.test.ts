/** What every disk has to do: the real one, and the simulated one that stands in for it where a disk has to fail. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { copyFile, type Disk, describe, isFull, openDisk, writeFile } from '../src/disk.ts';
import { newFolder } from './program.ts';
import { SimulatedDisk } from './simulated-disk.ts';

const disks: Readonly<Record<string, (t: TestContext) => Disk>> = {
  'the real disk': (t) => openDisk(`${newFolder(t)}/a/b`),
  'the simulated disk': () => new SimulatedDisk(),
};

async function textOf(disk: Disk, name: string, start?: number, end?: number): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of disk.read(name, start, end)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const withCode = (code: string) => (error: NodeJS.ErrnoException) => error.code === code;

for (const [kind, makeDisk] of Object.entries(disks)) {
  test(`${kind}: bytes are written where they are to be, cut and read back, whole and in part`, async (t) => {
    const disk = makeDisk(t);
    await disk.prepare();
    await disk.prepare();
    const file = await disk.create('x');
    assert.equal(file.name, 'x');
    assert.equal(await file.write(Buffer.from('hello world'), 0), 11);
    assert.equal(await file.write(Buffer.from('W'), 6), 1);
    assert.equal(await file.write(Buffer.from('end'), 13), 3);
    await file.sync();
    assert.equal(file.sizeInFolder(), 16);
    await file.truncate(11);
    assert.equal(await disk.size('x'), 11);
    await file.close();
    assert.equal(await textOf(disk, 'x'), 'hello World');
    assert.equal(await textOf(disk, 'x', 6), 'World');
    assert.equal(await textOf(disk, 'x', 2, 4), 'll');
    assert.equal(await textOf(disk, 'x', 4, 4), '');
    const again = await disk.open('x');
    assert.equal(again.sizeInFolder(), 11);
    await again.close();
  });

  test(`${kind}: names stand for one file each, and what is not there is ENOENT`, async (t) => {
    const disk = makeDisk(t);
    await disk.prepare();
    const old = await disk.create('x');
    await assert.rejects(disk.create('x'), withCode('EEXIST'));
    await writeFile(disk, 'y', [Buffer.from('new'), Buffer.from('er')]);
    assert.deepEqual((await disk.list()).sort(), ['x', 'y']);
    await disk.rename('y', 'x');
    await disk.syncFolder();
    assert.equal(old.sizeInFolder(), undefined, 'another file has its name');
    assert.equal(await textOf(disk, 'x'), 'newer');
    await old.close();
    await disk.createFolder('side');
    await copyFile(disk, 'x', 'side/x', 3);
    assert.equal(await textOf(disk, 'side/x'), 'er');
    assert.deepEqual((await disk.list()).sort(), ['side', 'x']);
    await disk.remove('x');
    const asked = [
      () => disk.remove('x'),
      () => disk.open('x'),
      () => disk.rename('x', 'y'),
      () => disk.size('x'),
      () => textOf(disk, 'x'),
    ];
    for (const ask of asked) await assert.rejects(ask, withCode('ENOENT'));
    assert.ok((await disk.space()).freeBytes <= (await disk.space()).totalBytes);
  });

  test(`${kind}: a file that could not be written whole is removed`, async (t) => {
    const disk = makeDisk(t);
    await disk.prepare();
    async function* breaking() {
      yield Buffer.from('half');
      throw new Error('no more');
    }
    await assert.rejects(writeFile(disk, 'x', breaking()), /no more/);
    assert.deepEqual(await disk.list(), []);
  });
}

test('a short write is asked again, and a disk that takes nothing is given up', async () => {
  const disk = new SimulatedDisk();
  disk.fault = (call) => (call === 'write' && disk.count('write') < 2 ? { shortBy: 2 } : undefined);
  await writeFile(disk, 'x', [Buffer.from('hello')]);
  assert.equal(disk.text('x'), 'hello');
  disk.fault = (call) => (call === 'write' ? { shortBy: 100 } : undefined);
  await assert.rejects(writeFile(disk, 'y', [Buffer.from('hello')]), /the disk takes nothing more of y/);
});

test('a quota has no name in Node, and is told as what it is', {
  skip: process.platform !== 'linux' && 'its number is that of Linux',
}, () => {
  const quota = Object.assign(new Error('Unknown system error -122'), { errno: -122, syscall: 'write' });
  assert.equal(describe(quota), 'EDQUOT: the disk quota is used up, write');
  assert.deepEqual([isFull(quota), isFull(Object.assign(new Error('x'), { code: 'ENOSPC' }))], [true, true]);
  assert.deepEqual([isFull(Object.assign(new Error('x'), { code: 'EIO', errno: -5 }))], [false]);
});
