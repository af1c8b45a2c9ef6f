import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../../src/config/limits.ts';
import { platformOf } from '../../../src/config/platform.ts';
import { createLockRota, InUseError, LockLostError } from '../../../src/journal/lock/lock.ts';
import { newFolder, type Scope } from '../../support/program.ts';
import { askHolder, holderOf, lockFolder } from '../../support/standard-limits.ts';
import { eventually, HANG_MS, within } from '../../support/tools.ts';

const withoutFiles = process.platform === 'win32' && 'the lock is no file there';

/** A process that has the lock of a folder and answers in its own way. */
async function listenIn(t: Scope, folder: string, name: string, onAsker: (asker: Socket) => void): Promise<Server> {
  const holder = createServer(onAsker).listen(join(folder, name));
  t.after(() => holder.close());
  await once(holder, 'listening');
  return holder;
}

test('a folder has one holder, and is free again once it is released [lock-1]', async (t) => {
  const folder = newFolder(t);
  const lock = await lockFolder(folder);
  await assert.rejects(lockFolder(folder), (error) => {
    assert.ok(error instanceof InUseError);
    assert.match(error.message, new RegExp(`is in use by process ${process.pid}; stop it, or use another --data$`));
    return true;
  });
  await lock.release();
  assert.deepEqual(readdirSync(folder), []);
  const again = await lockFolder(folder);
  await again.release();
});

test('exactly one of twenty simultaneous starts gets the lock', async (t) => {
  for (let round = 0; round < 5; round += 1) {
    const folder = newFolder(t);
    const starts = await Promise.allSettled(Array.from({ length: 20 }, () => lockFolder(folder)));
    const won = starts.filter((start) => start.status === 'fulfilled');
    const lost = starts.filter((start) => start.status === 'rejected');
    assert.equal(won.length, 1);
    for (const { reason } of lost) assert.ok(reason instanceof InUseError, String(reason));
    await Promise.all(won.map(({ value }) => value.release()));
    assert.deepEqual(readdirSync(folder), []);
  }
});

test('the lock file of a dead process is removed', { skip: withoutFiles }, async (t) => {
  const folder = newFolder(t);
  const { execFileSync } = await import('node:child_process');
  const script = `require('net').createServer().listen(${JSON.stringify(join(folder, '.lock-dead'))}, () => process.kill(process.pid, 'SIGKILL'))`;
  assert.throws(() => execFileSync(process.execPath, ['-e', script], { stdio: 'ignore' }));
  assert.deepEqual(readdirSync(folder), ['.lock-dead']);
  const lock = await lockFolder(folder);
  assert.equal(readdirSync(folder).includes('.lock-dead'), false);
  await lock.release();
});

test('a holder reports up to which seq its journal is durable', async (t) => {
  const folder = newFolder(t);
  assert.deepEqual(await askHolder(folder), { kind: 'unsaid' });
  assert.deepEqual(await askHolder(join(folder, 'nowhere')), { kind: 'unsaid' });
  assert.deepEqual([await holderOf(folder), await holderOf(join(folder, 'nowhere'))], [undefined, undefined]);
  const lock = await lockFolder(folder);
  assert.deepEqual(await askHolder(folder), { kind: 'unsaid' });
  assert.deepEqual(await holderOf(folder), { pid: process.pid }, 'although it has not opened the journal yet');
  let nextSeq: number | undefined;
  lock.open({ nextSeq: () => nextSeq, answer: async () => '' });
  assert.deepEqual(await askHolder(folder), { kind: 'unsaid' });
  for (nextSeq of [1, 2_000_000_000_000]) assert.deepEqual(await askHolder(folder), { kind: 'before', seq: nextSeq });
  await assert.rejects(lockFolder(folder), new RegExp(`is in use by process ${process.pid};`));
  await lock.release();
  assert.deepEqual(await askHolder(folder), { kind: 'unsaid' });
  assert.equal(await holderOf(folder), undefined);
});

test('a holder of an older version and one that does not answer are distinguished', {
  skip: withoutFiles,
}, async (t) => {
  const folder = newFolder(t);
  const older = await listenIn(t, folder, '.lock-older', (asker) => asker.end('held 77'));
  assert.deepEqual(await askHolder(folder), { kind: 'unsaid' });
  older.close();
  await once(older, 'close');
  await listenIn(t, folder, '.lock-stopped', () => {});
  assert.deepEqual(await askHolder(folder), { kind: 'unanswered' });
  assert.deepEqual(await holderOf(folder), { pid: undefined });
  assert.deepEqual(readdirSync(folder), ['.lock-stopped']);
});

for (const name of ['linux', 'darwin'] as const) {
  test(`${name}: a folder is locked although its path is longer than a socket address`, {
    skip: process.platform !== name && (name === 'linux' ? 'needs /proc' : withoutFiles),
  }, async (t) => {
    const folder = join(newFolder(t), 'x'.repeat(100), 'y'.repeat(100));
    mkdirSync(folder, { recursive: true });
    const system = platformOf(name);
    const before = linksIn('/tmp');
    const lock = await lockFolder(folder, system);
    await assert.rejects(lockFolder(folder, system), new RegExp(`is in use by process ${process.pid};`));
    assert.deepEqual(
      linksIn('/tmp').filter((path) => !before.includes(path)),
      [],
      'the short link is gone',
    );
    lock.checkHeld();
    await lock.release();
    assert.deepEqual(readdirSync(folder), []);
  });
}

/** The short links in the folders of a folder that lead to a folder of this test. */
function linksIn(folder: string): string[] {
  return readdirSync(folder)
    .map((name) => join(folder, name, 'to'))
    .filter((path) => existsSync(path) && realpathSync(path).endsWith('y'.repeat(100)));
}

test('a lock file that is removed, replaced or moved away with its folder is noticed', {
  skip: withoutFiles,
}, async (t) => {
  const losses: Record<string, (folder: string, name: string) => void> = {
    removed: (folder, name) => rmSync(join(folder, name)),
    replaced: (folder, name) => {
      writeFileSync(join(folder, 'other'), '');
      renameSync(join(folder, 'other'), join(folder, name));
    },
    'moved away': (folder) => renameSync(folder, `${folder}-moved`),
    'moved away, and replaced by another folder': (folder) => {
      renameSync(folder, `${folder}-moved-too`);
      mkdirSync(folder);
    },
  };
  for (const [how, lose] of Object.entries(losses)) {
    const folder = join(newFolder(t), 'data');
    mkdirSync(folder);
    const lock = await lockFolder(folder);
    t.after(() => lock.release());
    const seen: Error[] = [];
    lock.watch(createLockRota({ ...limits, lockCheckMs: 10, lockChecksMax: 1 }), (error) => seen.push(error));
    lock.checkHeld();
    const [name = ''] = readdirSync(folder);
    lose(folder, name);
    assert.throws(() => lock.checkHeld(), LockLostError, how);
    await eventually(`it is reported repeatedly that the lock file is ${how}`, () => seen.length >= 2);
    assert.ok(seen.every((error) => error instanceof LockLostError));
    assert.match(seen[0]?.message ?? '', /^the lock file \S+ was removed or replaced by another program, so a second /);
    await lock.release();
    const { length } = seen;
    await sleep(50);
    assert.ok(seen.length <= length + 1, 'a released lock is not watched'); // one check might have been running
  }
});

/** Connects to the lock of a folder, keeps its own side open, and reads nothing until its socket is resumed. */
async function connectTo(t: Scope, folder: string): Promise<Socket> {
  const [name = ''] = readdirSync(folder).filter((entry) => entry.startsWith('.lock-'));
  const socket = connect({ path: join(folder, name), allowHalfOpen: true });
  t.after(() => socket.destroy());
  socket.on('error', () => {}); // the lock might reset the connection
  await once(socket, 'connect');
  return socket;
}

async function readAnswer(socket: Socket): Promise<string> {
  let answer = '';
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) answer += chunk;
  return answer;
}

test('a client that keeps its connection open gets its answer, and does not delay the release of the lock', {
  skip: withoutFiles,
}, async (t) => {
  const folder = newFolder(t);
  const lock = await lockFolder(folder);
  const askers = await Promise.all(Array.from({ length: 5 }, () => connectTo(t, folder)));
  assert.equal(await readAnswer(askers[0] as Socket), `held ${process.pid} -\n`);
  await within('a release', HANG_MS, lock.release());
  assert.deepEqual(readdirSync(folder), []);
});

test('open connections of clients take no descriptors of the holder', {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async (t) => {
  const folder = newFolder(t);
  const lock = await lockFolder(folder);
  t.after(() => lock.release());
  const count = 100;
  const before = readdirSync('/proc/self/fd').length;
  const askers = await Promise.all(Array.from({ length: count }, () => connectTo(t, folder)));
  for (const asker of askers) assert.equal(await readAnswer(asker), `held ${process.pid} -\n`);
  await assert.rejects(lockFolder(folder), InUseError);
  // The clients' sides are in this process too, and stay open.
  await eventually(
    'only the sides of the clients are open',
    () => readdirSync('/proc/self/fd').length < before + count + count / 2,
  );
});

test('a process that never finishes its start is waited for until a deadline, also with a frozen clock', {
  skip: withoutFiles,
}, async (t) => {
  const folder = newFolder(t);
  await listenIn(t, folder, '.lock-~last', (asker) => asker.end('starting 4711'));
  t.mock.timers.enable({ apis: ['Date'] });
  const began = performance.now();
  await assert.rejects(within('the deadline', HANG_MS, lockFolder(folder)), /is in use by process 4711; /);
  assert.ok(performance.now() - began >= limits.lockMs, 'it might still give up');
});

test('a holder with no answer, or an answer that is slow or endless, keeps its lock', {
  skip: withoutFiles,
}, async (t) => {
  const silent = () => {};
  const slow = (asker: Socket) => {
    const timer = setInterval(() => asker.write('x'), 50);
    asker.on('close', () => clearInterval(timer));
  };
  let sentBytes = 0;
  const endless = (asker: Socket) => {
    const chunk = 'x'.repeat(100_000);
    const send = () => {
      while (!asker.destroyed && asker.write(chunk)) sentBytes += chunk.length;
    };
    asker.on('drain', send);
    send();
  };
  for (const answer of [silent, slow, endless]) {
    const folder = newFolder(t);
    await listenIn(t, folder, '.lock-other', (asker) => answer(asker.on('error', () => {}))); // the start disconnects
    const started = performance.now();
    await assert.rejects(lockFolder(folder), InUseError);
    assert.ok(performance.now() - started < 30_000);
    assert.deepEqual(readdirSync(folder), ['.lock-other']);
  }
  assert.ok(sentBytes < 10_000_000, `${sentBytes} bytes were read`);
});
