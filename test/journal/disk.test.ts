/** The contract of every disk: the real disk, and the simulated disk of tests in which a disk must fail. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs, { symlinkSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { platformOf } from '../../src/config/platform.ts';
import { type Disk, describe, isFull, openDisk, SyncError } from '../../src/journal/disk.ts';
import { IrregularFileError, LinkError } from '../../src/journal/entry.ts';
import { copyFile, readSmall, writeFile } from '../../src/journal/file-io.ts';
import { isOwnName } from '../../src/journal/segments.ts';
import { textOf } from '../support/journal.ts';
import { newFolder } from '../support/program.ts';
import { SimulatedDisk, systemError } from '../world/simulated-disk.ts';

const disks: Readonly<Record<string, (t: TestContext) => Disk>> = {
  'the real disk': (t) => openDisk(`${newFolder(t)}/a/b`),
  'the real disk without syncing writes': (t) => openDisk(`${newFolder(t)}/a/b`, platformOf('darwin')),
  'the real disk in the manner of Windows': (t) => openDisk(`${newFolder(t)}/a/b`, platformOf('win32')),
  'the simulated disk': () => new SimulatedDisk(),
};

const withCode = (code: string) => (error: NodeJS.ErrnoException) => error.code === code;

for (const [kind, makeDisk] of Object.entries(disks)) {
  test(`${kind}: a file of another folder is copied into a new file`, async (t) => {
    const [disk, other] = [makeDisk(t), makeDisk(t)];
    for (const each of [disk, other]) await each.prepare();
    await writeFile(other, 'x', [Buffer.from('hello')]);
    await disk.copyFrom(other, 'x', 'copy');
    assert.equal(await textOf(disk, 'copy'), 'hello');
    await assert.rejects(disk.copyFrom(other, 'x', 'copy'), withCode('EEXIST'));
    await assert.rejects(disk.copyFrom(other, 'none', 'gone'), withCode('ENOENT'));
    const log = await disk.openLog('copy');
    await log.truncate(4);
    await log.close();
    assert.deepEqual([await textOf(disk, 'copy'), await textOf(other, 'x')], ['hell', 'hello']);
    assert.deepEqual(await disk.list(), ['copy']);
  });

  test(`${kind}: bytes are written at their position, truncated, and read back in whole and in part`, async (t) => {
    const disk = makeDisk(t);
    await disk.prepare();
    await disk.prepare();
    const file = await disk.create('x');
    assert.equal(file.name, 'x');
    assert.equal(await file.write(Buffer.from('hello world'), 0), 11);
    assert.equal(await file.write(Buffer.from('W'), 6), 1);
    assert.equal(await file.write(Buffer.from('end'), 13), 3);
    await file.sync();
    await file.close();
    const log = await disk.openLog('x');
    assert.deepEqual([log.name, log.sizeInFolder()], ['x', 16]);
    await log.truncate(11);
    assert.equal(await disk.size('x'), 11);
    await log.close();
    assert.equal(await textOf(disk, 'x'), 'hello World');
    assert.equal(await textOf(disk, 'x', 6), 'World');
    assert.equal(await textOf(disk, 'x', 2, 4), 'll');
    assert.equal(await textOf(disk, 'x', 4, 4), '');
  });

  test(`${kind}: the chunks of a file share the same memory`, async (t) => {
    const disk = makeDisk(t);
    await disk.prepare();
    await writeFile(disk, 'x', [Buffer.from('one two three')]);
    const chunks: Buffer[] = [];
    const read: string[] = [];
    for await (const chunk of disk.read('x', 0, undefined, { chunkBytes: 4 })) {
      chunks.push(chunk);
      read.push(String(chunk));
    }
    assert.deepEqual(read, ['one ', 'two ', 'thre', 'e']);
    assert.equal(new Set(chunks.map(({ buffer }) => buffer)).size, 1);
    assert.notEqual(String(chunks[0]), 'one ');
  });

  test(`${kind}: a log grows at its end`, async (t) => {
    const disk = makeDisk(t);
    await disk.prepare();
    const log = await disk.createLog('x');
    assert.equal(await log.append(Buffer.from('one\n'), 0), 4);
    assert.equal(await log.append(Buffer.from('two\n'), 4), 4);
    assert.equal(log.sizeInFolder(), 8);
    await log.truncate(4);
    await log.close();
    const again = await disk.openLog('x');
    assert.equal(again.sizeInFolder(), 4);
    assert.equal(await again.append(Buffer.from('three\n'), 4), 6);
    await again.close();
    assert.equal(await textOf(disk, 'x'), 'one\nthree\n');
    await assert.rejects(disk.createLog('x'), withCode('EEXIST'));
  });

  test(`${kind}: each name has one file, and a missing name is ENOENT`, async (t) => {
    const disk = makeDisk(t);
    await disk.prepare();
    const old = await disk.createLog('x');
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
    const calls = [
      () => disk.remove('x'),
      () => disk.openLog('x'),
      () => disk.rename('x', 'y'),
      () => disk.size('x'),
      () => textOf(disk, 'x'),
    ];
    for (const call of calls) await assert.rejects(call, withCode('ENOENT'));
    const { freeBytes = 0, totalBytes = 0 } = (await disk.space()) ?? {};
    assert.ok(0 < freeBytes && freeBytes <= totalBytes, `${freeBytes} of ${totalBytes}`);
  });

  test(`${kind}: a partially written file is removed`, async (t) => {
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

/** Lets the next write, or sync, fail once. @param works whether the call has its effect before it fails */
function failOnce(t: TestContext, name: 'write' | 'fdatasync', works: boolean): void {
  const call = fs[name] as (...args: unknown[]) => void;
  const failing = (...args: unknown[]) => {
    const done = args.pop() as (error: Error) => void;
    const fail = () => done(systemError('EIO'));
    Object.assign(fs, { [name]: call });
    syncBuiltinESMExports();
    if (works) call(...args, fail);
    else setImmediate(fail);
  };
  Object.assign(fs, { [name]: failing });
  syncBuiltinESMExports();
  t.after(() => {
    Object.assign(fs, { [name]: call });
    syncBuiltinESMExports();
  });
}

test('a failed write and a failed sync are distinguished [disk-2]', async (t) => {
  const table = [
    { name: 'write', works: false, syncingWrites: true, unsynced: false },
    { name: 'write', works: true, syncingWrites: true, unsynced: true },
    { name: 'write', works: false, syncingWrites: false, unsynced: false },
    { name: 'fdatasync', works: false, syncingWrites: false, unsynced: true },
  ] as const;
  for (const [at, { name, works, syncingWrites, unsynced }] of table.entries()) {
    const disk = openDisk(newFolder(t), platformOf(syncingWrites ? 'linux' : 'darwin'));
    const log = await disk.createLog('x');
    await log.append(Buffer.from('one\n'), 0);
    failOnce(t, name, works);
    await assert.rejects(
      log.append(Buffer.from('two\n'), 4),
      (error) => error instanceof SyncError === unsynced && /EIO/.test(String(error)),
      `row ${at}`,
    );
    await log.close();
  }
});

/** Lets the next calls of a function fail. @returns how many have failed */
function failTimes(t: TestContext, name: 'rename' | 'unlink', code: string, times: number): () => number {
  const call = fs.promises[name] as (...args: unknown[]) => Promise<void>;
  let failed = 0;
  const failing = (...args: unknown[]) => {
    if (failed === times) return call(...args);
    failed += 1;
    return Promise.reject(systemError(code));
  };
  const replace = (by: unknown) => {
    Object.assign(fs.promises, { [name]: by });
    syncBuiltinESMExports();
  };
  replace(failing);
  t.after(() => replace(call));
  return () => failed;
}

test('on Windows a rename and a removal are repeated while another process has the file open, elsewhere not', async (t) => {
  const windows = openDisk(newFolder(t), platformOf('win32'));
  for (const name of ['x', 'y']) await writeFile(windows, name, [Buffer.from(name)]);
  for (const code of ['EPERM', 'EACCES', 'EBUSY']) {
    const renames = failTimes(t, 'rename', code, 3);
    await windows.rename('x', 'z');
    await windows.rename('z', 'x');
    assert.equal(renames(), 3, code);
  }
  const removals = failTimes(t, 'unlink', 'EBUSY', 3);
  await windows.remove('y');
  assert.deepEqual([removals(), await windows.list()], [3, ['x']]);
  const others = openDisk(windows.folder, platformOf('darwin'));
  failTimes(t, 'rename', 'EPERM', 1);
  await assert.rejects(others.rename('x', 'z'), withCode('EPERM'));
  failTimes(t, 'rename', 'EIO', 1);
  await assert.rejects(windows.rename('x', 'z'), withCode('EIO'));
  failTimes(t, 'rename', 'EBUSY', 10_000);
  await assert.rejects(windows.rename('x', 'z'), withCode('EBUSY'), 'it ends after a while');
});

test('on Windows a removed file frees its name at once, and a start deletes what is left of it', async (t) => {
  const disk = openDisk(newFolder(t), platformOf('win32'));
  await writeFile(disk, 'x', [Buffer.from('old')]);
  failTimes(t, 'unlink', 'EIO', 1);
  await disk.remove('x');
  const left = await disk.list();
  assert.match(left.join(), /^\.gone-[0-9a-f-]{36}$/);
  assert.ok(isOwnName(left[0] ?? ''));
  await writeFile(disk, 'x', [Buffer.from('new')]);
  await disk.prepare();
  assert.deepEqual([await disk.list(), await textOf(disk, 'x')], [['x'], 'new']);
});

test('a short write is continued, and a write of no bytes fails', async () => {
  const disk = new SimulatedDisk();
  disk.fault = (call) => (call === 'write' && disk.count('write') < 2 ? { shortBy: 2 } : undefined);
  await writeFile(disk, 'x', [Buffer.from('hello')]);
  assert.equal(disk.text('x'), 'hello');
  disk.fault = (call) => (call === 'write' ? { shortBy: 100 } : undefined);
  await assert.rejects(writeFile(disk, 'y', [Buffer.from('hello')]), /the disk accepts no more bytes of y/);
});

test('a used-up quota, which has no code in Node, is reported as a quota', {
  skip: process.platform !== 'linux' && 'the errno is from Linux',
}, () => {
  const quota = Object.assign(new Error('Unknown system error -122'), { errno: -122, syscall: 'write' });
  assert.equal(describe(quota), 'EDQUOT: the disk quota is used up, write');
  assert.deepEqual([isFull(quota), isFull(Object.assign(new Error('x'), { code: 'ENOSPC' }))], [true, true]);
  assert.deepEqual([isFull(Object.assign(new Error('x'), { code: 'EIO', errno: -5 }))], [false]);
});

test('the real disk: a copy is readable by its owner alone, whatever the mode of the source', async (t) => {
  const [disk, other] = [openDisk(newFolder(t)), openDisk(newFolder(t))];
  for (const mode of [0o444, 0o666]) {
    fs.writeFileSync(join(other.folder, `${mode}`), 'x', { mode });
    await disk.copyFrom(other, `${mode}`, `${mode}`);
    assert.equal(fs.statSync(join(disk.folder, `${mode}`)).mode & 0o777, 0o600);
  }
});

test('the real disk: only regular files are opened', { skip: process.platform === 'win32' }, async (t) => {
  const disk = openDisk(newFolder(t));
  execFileSync('mkfifo', [join(disk.folder, 'fifo'), join(disk.folder, 'small.new')]);
  await disk.createFolder('folder');
  for (const name of ['fifo', 'folder']) {
    await assert.rejects(textOf(disk, name), new IrregularFileError(join(disk.folder, name)));
    assert.equal((await readSmall(disk, name, 512))?.toString(), '\0');
  }
  const irregular = new IrregularFileError(join(disk.folder, 'fifo'));
  await assert.rejects(disk.openLog('fifo'), irregular);
  await assert.rejects(disk.openSlots('fifo'), irregular);
  await assert.rejects(openDisk(newFolder(t)).copyFrom(disk, 'fifo', 'fifo'), irregular);
  await disk.replace('small', Buffer.from('x'));
  assert.equal(await textOf(disk, 'small'), 'x', 'a new file is created');
  const device = openDisk('/dev');
  await assert.rejects(textOf(device, 'zero'), new IrregularFileError('/dev/zero'));
});

/** A folder, and a file outside of it that must not be reached. */
function besideSecret(t: TestContext): { disk: Disk; secret: string } {
  const secret = join(newFolder(t), 'secret');
  fs.writeFileSync(secret, 'secret', { mode: 0o640 });
  return { disk: openDisk(newFolder(t)), secret };
}

test('the real disk: a replaced file is a new file, and a link in its place is not followed', {
  skip: process.platform === 'win32',
}, async (t) => {
  const { disk, secret } = besideSecret(t);
  for (const name of ['small', 'small.new']) symlinkSync(secret, join(disk.folder, name));
  await disk.replace('small', Buffer.from('one'));
  fs.writeFileSync(join(disk.folder, 'small.new'), 'left by a crash');
  await disk.replace('small', Buffer.from('two'));
  assert.ok(fs.lstatSync(join(disk.folder, 'small')).isFile());
  assert.deepEqual([await disk.list(), await textOf(disk, 'small')], [['small'], 'two']);
  assert.deepEqual([fs.readFileSync(secret, 'utf8'), fs.statSync(secret).mode & 0o777], ['secret', 0o640]);
});

test('the real disk: the path of a folder may contain links, but a subfolder may not be a link', {
  skip: process.platform === 'win32',
}, async (t) => {
  const { disk, secret } = besideSecret(t);
  const elsewhere = join(secret, '..');
  const path = join(newFolder(t), 'link');
  symlinkSync(disk.folder, path);
  const linked = openDisk(path);
  await linked.prepare();
  await writeFile(linked, 'events', [Buffer.from('x')]);
  assert.equal(await textOf(linked, 'events'), 'x');
  symlinkSync(elsewhere, join(disk.folder, 'side'));
  await assert.rejects(disk.create('side/x'));
  assert.deepEqual(fs.readdirSync(elsewhere), ['secret']);
});

test('the real disk: a listing refuses a link under the name of a journal file, if asked to', {
  skip: process.platform === 'win32',
}, async (t) => {
  const { disk, secret } = besideSecret(t);
  for (const name of ['notes.txt', 'forward-prod', 'damaged-20261120T151945Z'])
    symlinkSync(secret, join(disk.folder, name));
  assert.equal(
    (await disk.list(true)).length,
    3,
    'not a file of a journal, a deployment, and a folder that a repair created',
  );
  symlinkSync(secret, join(disk.folder, 'dead-hub.jsonl'));
  await assert.rejects(disk.list(true), new LinkError(join(disk.folder, 'dead-hub.jsonl')));
  assert.equal((await disk.list()).length, 4);
});
