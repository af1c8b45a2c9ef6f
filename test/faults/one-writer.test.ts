/** One process writes to a folder, whatever other processes try, from any namespace, and however its predecessor ended. */

import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { IN_OTHER_NETWORK, withoutNetworkNamespaces, withoutStrace } from '../support/machine.ts';
import { type Finished, newFolder, program, type RunOptions, startService } from '../support/program.ts';
import { eventually, HANG_MS, runWithin, within } from '../support/tools.ts';
import { assertOnce, report, startLoad } from './load.ts';
import { underStrace } from './strace.ts';

/** The program then runs as on macOS. */
const AS_MACOS = '--import=data:text/javascript,Object.defineProperty(process,"platform",{value:"darwin"})';

function secondStart(data: string, options: RunOptions = {}): Promise<Finished> {
  return runWithin(HANG_MS, ['--port', '0', '--data', data], options);
}

function assertInUse({ code, stdout, stderr }: Finished): void {
  assert.deepEqual([code, stdout], [4, ''], stderr);
  assert.match(stderr, /^assetlog: \S+ is in use by process (\d+|unknown); stop it, or use another --data\n$/);
}

test('a folder is locked across network namespaces, in both directions', {
  skip: withoutNetworkNamespaces,
}, async (t) => {
  const here = await startService(t);
  assertInUse(await secondStart(here.data, { under: IN_OTHER_NETWORK }));
  const there = await startService(t, { under: IN_OTHER_NETWORK });
  assertInUse(await secondStart(there.data));
  assertInUse(await secondStart(there.data, { under: IN_OTHER_NETWORK }));
  await there.kill('SIGKILL');
  const next = await startService(t, { data: there.data });
  assert.equal(await report(next.port, 'a'), 200);
});

test('the files of a start that died before it had the lock are removed by the next start', {
  skip: withoutStrace,
}, async (t) => {
  const data = newFolder(t);
  const calls = '?rename,?renameat,?renameat2';
  const strace = underStrace(t, { calls: [calls], inject: [`${calls}:signal=KILL:when=1`] });
  assert.equal((await runWithin(HANG_MS, ['--port', '0', '--data', data], strace.options)).signal, 'SIGKILL');
  assert.match(readdirSync(data).join(), /^\.unlocked-[^,]+$/);
  const next = await startService(t, { data });
  assert.equal((await next.kill('SIGTERM')).code, 0);
  assert.deepEqual(readdirSync(data).sort(), ['.stopped-cleanly', 'events-00000000000000000001.jsonl']);
});

test('without socket files a lock keeps out only processes of its own network namespace, which is logged', {
  skip: withoutStrace,
}, async (t) => {
  const data = newFolder(t);
  const refusing = () => underStrace(t, { calls: ['bind'], inject: ['bind:error=EPERM:when=1'] }).options;
  for (let round = 0; round < 2; round += 1) {
    const first = await startService(t, { data, ...refusing() });
    assert.match(
      first.stderr(),
      /supports no socket files: the lock keeps out only processes in this network namespace/,
    );
    assert.equal(await report(first.port, `a${round}`), 200);
    const second = await runWithin(HANG_MS, ['--port', '0', '--data', data], refusing());
    assert.equal(second.code, 4, second.stderr);
    assert.match(second.stderr, new RegExp(`is in use by process ${first.pid}; stop it, or use another --data`));
    await first.kill(round === 0 ? 'SIGKILL' : 'SIGTERM'); // either way the next start wins at once
  }
});

test('without socket files and abstract sockets a start ends with 2, since its folder cannot be locked', {
  skip: withoutStrace,
}, async (t) => {
  const data = newFolder(t);
  const { options } = underStrace(t, { calls: ['bind'], inject: ['bind:error=EOPNOTSUPP:when=1'] });
  const elsewhere = [...options.under, process.execPath, AS_MACOS, ...program.slice(1)];
  const { code, stderr } = await runWithin(HANG_MS, ['--port', '0', '--data', data], { program: elsewhere });
  assert.equal(code, 2, stderr);
  assert.match(
    stderr,
    /its file system, such as exFAT or SMB, has no socket files, which the lock needs on this system; move it or choose another with --data/,
  );
  assert.deepEqual(readdirSync(data), []);
});

const LOST =
  /"problem":"the lock file \S+ was removed or replaced by another program, so a second process might write to the folder"/;

function removeLock(folder: string): void {
  const [lock = ''] = readdirSync(folder).filter((name) => name.startsWith('.lock-'));
  rmSync(join(folder, lock));
}

test('when the lock file is removed under load and another process gets the folder, no acknowledged event is lost', {
  skip: withoutStrace,
}, async (t) => {
  for (let round = 0; round < 3; round += 1) {
    const data = newFolder(t);
    const first = await startService(t, { data });
    const before = startLoad(first.port, { clients: 8, name: 'first' });
    t.after(before.stop);
    await eventually('the first accepts reports', () => before.acknowledged.size > 100);
    removeLock(data);
    // Lines appended between the check of the journal and this call would be lost.
    const calls = '?rename,?renameat,?renameat2';
    const strace = underStrace(t, {
      calls: [calls],
      inject: [`${calls}:delay_enter=300000`],
      paths: [join(data, 'events-00000000000000000001.jsonl.rewrite')],
    });
    const second = await startService(t, { data, ...strace.options });
    const after = startLoad(second.port, { clients: 8, name: 'second' });
    t.after(after.stop);
    const { code, stderr } = await within('the end of the first', HANG_MS, first.finished);
    assert.equal(code, 5, stderr);
    assert.match(stderr, LOST);
    await before.stop();
    await eventually('the second accepts reports', () => after.acknowledged.size > 100);
    await after.stop();
    assert.equal((await second.kill('SIGTERM')).code, 0);
    assertOnce(second.events(), [...before.acknowledged, ...after.acknowledged]);
  }
});
