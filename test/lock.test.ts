import assert from 'node:assert/strict';
import { mkdirSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { InUseError, lockFolder } from '../src/lock.ts';
import { newFolder } from './program.ts';

test('a folder has one holder, and is free again once it is released', async (t) => {
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

test('of twenty that start at once exactly one wins', async (t) => {
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

test('what a dead process left is removed', async (t) => {
  const folder = newFolder(t);
  const { execFileSync } = await import('node:child_process');
  const script = `require('net').createServer().listen(${JSON.stringify(join(folder, '.lock-dead'))}, () => process.kill(process.pid, 'SIGKILL'))`;
  assert.throws(() => execFileSync(process.execPath, ['-e', script], { stdio: 'ignore' }));
  assert.deepEqual(readdirSync(folder), ['.lock-dead']);
  const lock = await lockFolder(folder);
  assert.equal(readdirSync(folder).includes('.lock-dead'), false);
  await lock.release();
});

test('a holder that is alive but silent still holds, and the answer comes within a second', async (t) => {
  const folder = newFolder(t);
  const silent = createServer(() => {}).listen(join(folder, '.lock-silent'));
  t.after(() => silent.close());
  const started = performance.now();
  await assert.rejects(lockFolder(folder), InUseError);
  assert.ok(performance.now() - started < 1_000);
  assert.deepEqual(readdirSync(folder), ['.lock-silent']);
});

test('a path longer than a socket address takes is locked too', {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async (t) => {
  const folder = join(newFolder(t), 'x'.repeat(100), 'y'.repeat(100));
  mkdirSync(folder, { recursive: true });
  const lock = await lockFolder(folder);
  await assert.rejects(lockFolder(folder), InUseError);
  await lock.release();
});
