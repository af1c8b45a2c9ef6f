/** The files that an operator wrote: what is read, what is refused, and that nothing waits without end. */

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { LateFileError } from '../../src/config/file-queue.ts';
import { fileVersion, readText, readToken } from '../../src/config/files.ts';
import { limits } from '../../src/config/limits.ts';
import { newFolder } from '../support/program.ts';
import { eventually, within } from '../support/tools.ts';

const BYTES_MAX = 1_000;
const MS = 60_000;
const read = (path: string, ms = MS) => within(path, 20_000, readText(path, BYTES_MAX, ms));
const onLinux = process.platform === 'linux' ? false : 'it needs /proc';

/** @returns the path of a pipe that a command writes to, as the shell gives it: `<(command)` */
async function pipeFrom(t: TestContext, command: string): Promise<string> {
  const shell = spawn('bash', ['-c', `exec 3< <(${command}); echo; exec sleep 600`], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true, // its group, so that the command ends with it
  });
  t.after(() => process.kill(-shell.pid!, 'SIGKILL'));
  await once(shell.stdout, 'data');
  return `/proc/${shell.pid}/fd/3`;
}

test('a file is read up to its limit, and no more of a larger file or of a device', async (t) => {
  const file = join(newFolder(t), 'token');
  writeFileSync(file, 'x'.repeat(BYTES_MAX));
  assert.equal((await read(file)).length, BYTES_MAX);
  writeFileSync(file, 'x'.repeat(BYTES_MAX + 1));
  await assert.rejects(read(file), { message: `${file} has more than 1000 bytes, and no more are read` });
  truncateSync(file, 2 ** 40);
  await assert.rejects(read(file), /has more than 1000 bytes/);
});

test('a named FIFO, a device, a folder and a socket are refused without waiting for them', async (t) => {
  const folder = newFolder(t);
  const [fifo, socket] = [join(folder, 'fifo'), join(folder, 'socket')];
  execFileSync('mkfifo', [fifo]);
  const refused = (path: string, kind: string) =>
    assert.rejects(read(path), { message: `${path} is a ${kind}; give a file` });
  const isRefused = refused(fifo, 'FIFO').then(() => true);
  const hangs = sleep(10_000, false, { ref: false });
  const isAtOnce = await Promise.race([isRefused, hangs]);
  const writer = openSync(fifo, constants.O_RDWR); // an open that waits for it ends
  t.after(() => closeSync(writer));
  assert.ok(isAtOnce);
  await refused(fifo, 'FIFO');
  await refused('/dev/zero', 'device');
  await refused(folder, 'folder');
  const server = createServer().listen(socket);
  t.after(() => server.close());
  await once(server, 'listening');
  await assert.rejects(read(socket), { code: 'ENXIO' });
  await assert.rejects(read(join(folder, 'none')), { code: 'ENOENT' });
});

test('links are followed, also those of a Kubernetes secret after its replacement', async (t) => {
  const folder = newFolder(t);
  const put = (version: string, token: string) => {
    mkdirSync(join(folder, version));
    writeFileSync(join(folder, version, 'token'), token);
    symlinkSync(version, join(folder, '..data_tmp'));
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
  };
  put('..2026_11_20', 'asl_first\n');
  const token = join(folder, 'token');
  symlinkSync('..data/token', token);
  const version = await fileVersion(token, MS);
  assert.equal((await readToken(token, limits)).token, 'asl_first');
  put('..2026_11_21', 'asl_second\n');
  assert.equal((await readToken(token, limits)).token, 'asl_second');
  assert.notEqual(await fileVersion(token, MS), version);
  rmSync(join(folder, '..data'));
  await assert.rejects(readToken(token, limits), { code: 'ENOENT' });
  assert.equal(await fileVersion(token, MS), '');
});

test('a pipe passed as a descriptor is read to its end, and gives the same text when it is read again', {
  skip: onLinux,
}, async (t) => {
  const path = await pipeFrom(t, 'printf asl_; sleep 0.1; printf pipe');
  assert.equal(await read(path), 'asl_pipe');
  assert.equal(await read(path), 'asl_pipe');
  assert.deepEqual(await readToken(path, limits), { token: 'asl_pipe', exposed: false });
  await assert.rejects(read(await pipeFrom(t, 'exec yes')), /has more than 1000 bytes/);
});

test('a pipe that does not end is given up at its timeout, and delays no other file', {
  skip: onLinux,
}, async (t) => {
  const file = join(newFolder(t), 'file');
  writeFileSync(file, 'text');
  const path = await pipeFrom(t, 'printf asl_; exec sleep 600');
  const late = (error: Error) => error instanceof LateFileError && error.late === path;
  await assert.rejects(read(path, 50), late);
  await eventually(
    'another file is read',
    () =>
      read(file).then(
        (text) => text === 'text',
        () => false,
      ),
    5_000,
  );
  const stop = new AbortController();
  const reading = readText(path, BYTES_MAX, MS, stop.signal);
  await sleep(20);
  stop.abort();
  await assert.rejects(reading, late);
  assert.equal(await read(file), 'text');
});
