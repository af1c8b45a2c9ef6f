/** A disk that refuses or hangs: what a follower shows, and how a service ends. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { limitFiles, withoutPrlimit, withoutStrace } from '../support/machine.ts';
import { launch, newFolder, type RunOptions, startService } from '../support/program.ts';
import { eventually, within } from '../support/tools.ts';
import { assertOnce, report } from './load.ts';
import { ORDER_CALLS } from './order.ts';
import { underStrace } from './strace.ts';

const FIRST = segmentName(1);
const EXIT_MS = 60_000;

/** Asserts that the next start accepts reports and has all acknowledged events; others can be there too. */
async function assertStarts(t: TestContext, data: string, acknowledged: Iterable<string>): Promise<void> {
  const service = await startService(t, { data });
  assert.equal(await report(service.port, 'after'), 200);
  await service.kill('SIGTERM');
  assertOnce(service.events(), [...acknowledged, 'after']);
}

test('a follower shows no line of a report that got 503, and none twice, even if the write is truncated slowly', {
  skip: withoutStrace || withoutPrlimit,
}, async (t) => {
  const inject = ['pwrite64:delay_exit=500000:when=2', 'ftruncate:delay_enter=1500000'];
  const service = await startService(t, underStrace(t, { calls: ORDER_CALLS, inject }).options);
  const follower = launch(['events', '--follow', '--data', service.data]);
  t.after(() => follower.child.kill('SIGKILL'));
  let shown = '';
  follower.child.stdout?.on('data', (text) => {
    shown += text;
  });
  const keysShown = () => [...shown.matchAll(/"asset_key":\["([^"]*)"\]/g)].map(([, key]) => key);
  const file = join(service.data, FIRST);
  assert.equal(await report(service.port, 'a'), 200);
  const lineBytes = statSync(file).size;
  await eventually('the first line is shown', () => keysShown().length === 1);
  const slow = report(service.port, 'b');
  await eventually('the second line is written', () => service.events().length === 2);
  // These reports share a batch. Three of its lines reach the disk, until they are cut off.
  limitFiles(service, Math.round(5.5 * lineBytes));
  const refused = ['u', 'v', 'w', 'x', 'y', 'z'].map((key) => report(service.port, key));
  assert.equal(await slow, 200);
  await eventually('a part of the batch is written', () => statSync(file).size > 3 * lineBytes);
  assert.deepEqual(new Set(await Promise.all(refused)), new Set([503]));
  limitFiles(service, 'unlimited');
  assert.equal(await report(service.port, 'c'), 200);
  await eventually('the last line is shown', () => keysShown().includes('c'));
  follower.child.kill('SIGTERM');
  const { code, stderr } = await follower.finished;
  assert.deepEqual([keysShown(), code, stderr], [['a', 'b', 'c'], 0, '']);
});

/**
 * A disk that hangs: a thread of the program waits for a FIFO that nothing writes to. strace cannot do it: it keeps a thread that it
 * delays from ending with its process.
 */
function hanging(t: TestContext): RunOptions {
  const fifo = join(newFolder(t), 'fifo');
  execFileSync('mkfifo', [fifo]);
  const hook = `import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module';
    const { open } = fs;
    fs.write = (...args) => { console.error('${HANGS}'); open(${JSON.stringify(fifo)}, args.at(-1)); };
    syncBuiltinESMExports();`;
  return { env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` } };
}

const HANGS = 'a call hangs';

test('a stop ends without a second signal, also while the disk hangs', async (t) => {
  const service = await startService(t, hanging(t));
  const reported = report(service.port, 'a');
  await eventually('the disk hangs', () => service.stderr().includes(HANGS));
  const started = performance.now();
  const { drainMs, lastSyncMs, lastCallMs } = limits;
  const boundMs = drainMs + lastSyncMs + lastCallMs + EXIT_MS;
  const { signal, stderr } = await within('a stop', boundMs, service.kill('SIGTERM'));
  assert.deepEqual([signal, await reported], ['SIGKILL', 0], stderr);
  assert.ok(performance.now() - started >= lastSyncMs);
  assert.match(stderr, /"the disk did not finish the last sync; the service ends without it","ms":20000\}\n/);
  assert.match(stderr, /\nassetlog: a system call has not returned for 1000 ms; .*, and not with exit code 5\n$/);
  await assertStarts(t, service.data, []);
});
