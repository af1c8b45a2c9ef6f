/** No 200 leaves before its line and the entry of its file are synced: the system calls of a service under load. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { newFolder, root, startService } from '../support/program.ts';
import { eventually, runWithin, withoutStrace } from '../support/tools.ts';
import { report, startLoad } from './load.ts';
import { checkOrder, ORDER_CALLS, type Order } from './order.ts';
import { type Call, openOn, parseTrace, underStrace } from './strace.ts';

const ACKNOWLEDGED_MIN = 2_000;
const FILES_MIN = 50;

/** A start after an unclean stop, then a load that fills many small files, and what the trace says of both. */
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
  await eventually('the load is done', () => load.acknowledged.size >= ACKNOWLEDGED_MIN);
  await load.stop();
  const { code, stderr } = await service.kill('SIGTERM');
  assert.equal(code, 0, stderr);
  return { order: checkOrder(strace.calls(), service.data), acknowledged: new Set(load.acknowledged) };
}

test('no 200 begins to leave before the sync of its line, and of the entry of its file, has returned [order-2]', {
  skip: withoutStrace,
}, async (t) => {
  const { order, acknowledged } = await orderUnderLoad(t);
  assert.deepEqual(order.violations, []);
  assert.deepEqual(order.acknowledged, acknowledged, 'the trace has to show every reply');
  assert.ok(order.files.size >= FILES_MIN, `${order.files.size} files`);
});

test('a folder that was made by a start that died is synced into its parent before the first 200 [order-3]', {
  skip: withoutStrace,
}, async (t) => {
  const parent = newFolder(t);
  const data = join(parent, 'data');
  const args = ['--port', '0', '--data', data];
  const dying = underStrace(t, { calls: ['fsync'], inject: ['fsync:signal=KILL:when=1'], paths: [parent] });
  assert.equal((await runWithin(10_000, args, dying.options)).signal, 'SIGKILL');
  assert.deepEqual(readdirSync(parent), ['data'], 'the folder is there, and was not synced');
  const strace = underStrace(t, { calls: ['fsync'] });
  const service = await startService(t, { data, ...strace.options });
  await service.kill('SIGTERM');
  assert.ok(strace.calls().some((call) => openOn(call) === parent && call.result === 0));
});

/** Runs a script with the arguments of its own. @returns the calls of these kinds on the file `x` of a folder */
function callsOf(t: TestContext, folder: string, calls: readonly string[], script: string, ...own: string[]): Call[] {
  const strace = underStrace(t, { calls, paths: [join(folder, 'x')] });
  const [tool = '', ...args] = strace.options.under;
  const node = [process.execPath, '--import', 'tsx', '--input-type=module', '-e', script, folder, ...own];
  // The tracer ends with the program, and holds its output until then.
  execFileSync(tool, [...args, ...node], { cwd: root, timeout: 20_000 });
  return strace.calls();
}

/** Two appends and a cut, by a disk alone: what the second argument says is whether its writes sync. */
const APPENDING = `
  import { openDisk } from './src/journal/disk.ts';
  const [folder, syncingWrites] = process.argv.slice(-2);
  const log = await openDisk(folder, syncingWrites === 'true').createLog('x');
  await log.append(Buffer.from('one'), 0);
  await log.append(Buffer.from('two'), 3);
  await log.truncate(3);
`;

test('an append is on the disk when it resolves, and what was cut off stays away [order-4]', {
  skip: withoutStrace,
}, (t) => {
  const appended = { true: ['pwrite64'], false: ['pwrite64', 'fdatasync'] };
  for (const [syncingWrites, calls] of Object.entries(appended)) {
    const traced = ['openat', 'pwrite64', 'ftruncate', 'fdatasync'];
    const [opened, ...others] = callsOf(t, newFolder(t), traced, APPENDING, syncingWrites);
    assert.equal(/O_DSYNC/.test(opened?.args ?? ''), syncingWrites === 'true');
    assert.deepEqual(
      others.map(({ name }) => name),
      [...calls, ...calls, 'ftruncate', 'fdatasync'],
    );
  }
});

/** Two slots of a cursor, by a disk alone. */
const SLOTS = `
  import { openDisk } from './src/journal/disk.ts';
  const slots = await openDisk(process.argv.at(-1)).openSlots('x');
  await slots.write(Buffer.alloc(1024), 0);
  await slots.write(Buffer.alloc(512), 512);
`;

test('a slot is on the disk when its write resolves [order-1]', { skip: withoutStrace }, (t) => {
  const names = callsOf(t, newFolder(t), ['pwrite64', 'fdatasync'], SLOTS).map(({ name }) => name);
  assert.deepEqual(names, ['pwrite64', 'fdatasync', 'pwrite64', 'fdatasync']);
});

const FILE = '/data/events-00000000000000000001.jsonl';
const NEXT = '/data/events-00000000000000000002.jsonl';

/** A report that is recorded, in a file that is made for it, as strace shows it. */
const good = [
  `12 openat(AT_FDCWD, "${FILE}", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0600) = 20<${FILE}>`,
  '12 fsync(21</data> <unfinished ...>',
  '11 read(22<socket:[7]>, "POST /report_asset_check/a HTTP/1.1\\r\\nHost: b\\r\\n\\r\\n", 65536) = 49',
  '12 <... fsync resumed>)              = 0',
  `12 pwrite64(20<${FILE}>, "{\\"seq\\":1,\\"asset_key\\":[\\"a\\"],\\"crc\\":\\"00000000\\"}\\n", 45, 0) = 45`,
  `12 fdatasync(20<${FILE}>) = 0`,
  '11 write(22<socket:[7]>, "HTTP/1.1 200 OK\\r\\n\\r\\n{}", 21) = 21',
  '11 +++ exited with 0 +++',
];
const [made, folderSyncBegins, read, folderSyncEnds, written, synced, replied] = good as [
  ...[string, string, string, string, string, string, string],
];
const madeSyncing = made.replace('O_WRONLY', 'O_WRONLY|O_DSYNC');
const syncBegins = `12 fdatasync(20<${FILE}> <unfinished ...>`;
const syncEnds = '12 <... fdatasync resumed>)              = 0';

function violations(...lines: readonly string[]): string[] {
  return checkOrder(parseTrace(lines.join('\n')), '/data').violations;
}

test('a trace in which everything is synced before the 200 is good', () => {
  const { acknowledged, files } = checkOrder(parseTrace(good.join('\n')), '/data');
  assert.deepEqual([acknowledged, files, violations(...good)], [new Set(['a']), new Set([FILE]), []]);
  assert.deepEqual(
    violations(made, folderSyncBegins, folderSyncEnds, read, written, syncBegins, syncEnds, replied),
    [],
  );
  const refused = replied.replace('200 OK', '503 Service Unavailable');
  assert.deepEqual(violations(read, refused), [], 'only a 200 promises something');
  assert.deepEqual(violations(madeSyncing, folderSyncBegins, folderSyncEnds, read, written, replied), []);
});

test('a trace in which a 200 comes too early is reported', () => {
  const before = [made, folderSyncBegins, folderSyncEnds, read];
  const notWritten = /^200 for a on line \d+: its line was not written, or did not survive$/;
  const notSynced = /^200 for a on line \d+: its line was not synced$/;
  const entryNotSynced = /^200 for a on line \d+: the entry of \S+ was not synced$/;
  const renamed = `12 rename("${FILE}", "${NEXT}") = 0`;
  const failed = synced.replace('= 0', '= -1 EIO (Input/output error)');
  const table: readonly (readonly [string, readonly string[], RegExp])[] = [
    ['nothing is written', [...before, replied], notWritten],
    ['the write fails', [...before, written.replace(/\d+$/, '-1 ENOSPC'), synced, replied], notWritten],
    ['the write is short', [...before, written.replace(/\d+$/, '44'), synced, replied], notWritten],
    [
      'the line is cut off again',
      [...before, written, `12 ftruncate(20<${FILE}>, 0) = 0`, synced, replied],
      notWritten,
    ],
    ['nothing is synced', [...before, written, replied], notSynced],
    ['the reply is before the sync', [...before, written, replied, synced], notSynced],
    ['the reply is during the sync', [...before, written, syncBegins, replied, syncEnds], notSynced],
    ['the sync never returns', [...before, written, syncBegins, replied], notSynced],
    ['the sync began before the write', [...before, syncBegins, written, syncEnds, replied], notSynced],
    ['another file is synced', [...before, written, synced.replaceAll(FILE, NEXT), replied], notSynced],
    ['the sync fails', [...before, written, failed, replied], notWritten],
    ['a failed sync is tried again', [...before, written, failed, synced, replied], notWritten],
    ['the folder is not synced', [made, read, written, synced, replied], entryNotSynced],
    [
      'the folder is synced too late',
      [made, read, written, synced, replied, folderSyncBegins, folderSyncEnds],
      entryNotSynced,
    ],
    ['the folder is still being synced', [made, folderSyncBegins, read, written, synced, replied], entryNotSynced],
    [
      'the folder sync began before the file',
      [folderSyncBegins, made, folderSyncEnds, read, written, synced, replied],
      entryNotSynced,
    ],
    ['the folder sync fails', [made, '12 fsync(21</data>) = -1 EIO', read, written, synced, replied], entryNotSynced],
    [
      'the write that syncs fails',
      [madeSyncing, ...before.slice(1), written.replace(/\d+$/, '-1 EIO'), replied],
      notWritten,
    ],
    [
      'the write that syncs is short',
      [madeSyncing, ...before.slice(1), written.replace(/\d+$/, '44'), replied],
      notWritten,
    ],
    [
      'the write that syncs has not returned',
      [madeSyncing, ...before.slice(1), written.replace(/\) = 45$/, ' <unfinished ...>'), replied],
      notWritten,
    ],
    [
      'the descriptor was opened again for writes that do not sync',
      [madeSyncing, ...before.slice(1), made.replace('O_CREAT|O_EXCL|', ''), written, replied],
      notSynced,
    ],
    ['the file gets another name', [...before, written, synced, renamed, replied], entryNotSynced],
    ['the file gets another name before its sync', [...before, written, renamed], /^a was put in place on line \d+:/],
  ];
  for (const [name, lines, expected] of table) {
    const found = violations(...lines);
    assert.equal(found.length, 1, name);
    assert.match(found[0] ?? '', expected, name);
  }
});
