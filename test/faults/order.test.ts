/** No 200 is sent before its line and the entry of its file are synced: the system calls of a service under load. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { withoutStrace } from '../support/machine.ts';
import { newFolder, root, startService } from '../support/program.ts';
import { eventually, HANG_MS, runWithin } from '../support/tools.ts';
import { report, startLoad } from './load.ts';
import { checkOrder, ORDER_CALLS, type Order } from './order.ts';
import { type Call, openOn, underStrace } from './strace.ts';

const ACKNOWLEDGED_MIN = 2_000;
const FILES_MIN = 50;

/** Traces a start after an unclean stop, then a load that fills many small files. */
async function orderUnderLoad(t: TestContext): Promise<{ order: Order; acknowledged: Set<string> }> {
  const before = await startService(t);
  assert.equal(await report(before.port, 'before'), 200);
  await before.kill('SIGKILL');
  const strace = underStrace(t, { calls: ORDER_CALLS });
  const service = await startService(t, {
    data: before.data,
    args: ['--segment-bytes', '4096'],
    ...strace.options,
  });
  const load = startLoad(service.port, { clients: 8, name: 'order' });
  t.after(load.stop);
  await eventually('enough reports are acknowledged', () => load.acknowledged.size >= ACKNOWLEDGED_MIN);
  await load.stop();
  const { code, stderr } = await service.kill('SIGTERM');
  assert.equal(code, 0, stderr);
  return { order: checkOrder(strace.calls(), service.data), acknowledged: new Set(load.acknowledged) };
}

test('no 200 is sent before the sync of its line, and of the entry of its file, has returned [order-2]', {
  skip: withoutStrace,
}, async (t) => {
  const { order, acknowledged } = await orderUnderLoad(t);
  assert.deepEqual(order.violations, []);
  assert.deepEqual(order.acknowledged, acknowledged, 'the trace has to show every reply');
  assert.ok(order.files.size >= FILES_MIN, `${order.files.size} files`);
});

test('a folder made by a start that died is synced into its parent before the first 200', {
  skip: withoutStrace,
}, async (t) => {
  const parent = newFolder(t);
  const data = join(parent, 'data');
  const args = ['--port', '0', '--data', data];
  const dying = underStrace(t, { calls: ['fsync'], inject: ['fsync:signal=KILL:when=1'], paths: [parent] });
  assert.equal((await runWithin(HANG_MS, args, dying.options)).signal, 'SIGKILL');
  assert.deepEqual(readdirSync(parent), ['data'], 'the folder is there, and was not synced');
  const strace = underStrace(t, { calls: ['fsync'] });
  const service = await startService(t, { data, ...strace.options });
  await service.kill('SIGTERM');
  assert.ok(strace.calls().some((call) => openOn(call) === parent && call.result === 0));
});

/** Runs a script with these arguments. @returns the calls of these kinds on the file `x` of a folder */
function callsOf(t: TestContext, folder: string, calls: readonly string[], script: string, ...own: string[]): Call[] {
  const strace = underStrace(t, { calls, paths: [join(folder, 'x')] });
  const [tool = '', ...args] = strace.options.under;
  const node = [process.execPath, '--import', 'tsx', '--input-type=module', '-e', script, folder, ...own];
  // The tracer ends with the program, and holds its output until then.
  execFileSync(tool, [...args, ...node], { cwd: root, timeout: HANG_MS });
  return strace.calls();
}

/** Two appends and a cut on the disk of a system. */
const APPENDING = `
  import { openDisk } from './src/journal/disk.ts';
  import { platformOf } from './src/config/platform.ts';
  const [folder, system] = process.argv.slice(-2);
  const log = await openDisk(folder, platformOf(system)).createLog('x');
  await log.append(Buffer.from('one'), 0);
  await log.append(Buffer.from('two'), 3);
  await log.truncate(3);
`;

test('an append and a truncation are synced before they resolve [order-4]', {
  skip: withoutStrace,
}, (t) => {
  const appended = { linux: ['pwrite64'], darwin: ['pwrite64', 'fdatasync'] };
  for (const [system, calls] of Object.entries(appended)) {
    const traced = ['openat', 'pwrite64', 'ftruncate', 'fdatasync'];
    const [opened, ...others] = callsOf(t, newFolder(t), traced, APPENDING, system);
    assert.equal(/O_DSYNC/.test(opened?.args ?? ''), system === 'linux');
    assert.deepEqual(
      others.map(({ name }) => name),
      [...calls, ...calls, 'ftruncate', 'fdatasync'],
    );
  }
});

/** Two slots of a cursor on a disk. */
const SLOTS = `
  import { openDisk } from './src/journal/disk.ts';
  const slots = await openDisk(process.argv.at(-1)).openSlots('x');
  await slots.write(Buffer.alloc(1024), 0);
  await slots.write(Buffer.alloc(512), 512);
`;

test('the write of a slot is synced before it resolves [order-1]', { skip: withoutStrace }, (t) => {
  const names = callsOf(t, newFolder(t), ['pwrite64', 'fdatasync'], SLOTS).map(({ name }) => name);
  assert.deepEqual(names, ['pwrite64', 'fdatasync', 'pwrite64', 'fdatasync']);
});
