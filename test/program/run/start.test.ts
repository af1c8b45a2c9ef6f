/** A start: its output, its warnings, and the exit codes of its failures. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { segmentName } from '../../../src/journal/segments.ts';
import { StartError } from '../../../src/service.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { entriesOf } from '../../support/log.ts';
import { IN_OTHER_NETWORK, withoutNetworkNamespaces } from '../../support/machine.ts';
import { eventsIn, freePort, newFolder, run, startService } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { noTerminal, serveOnTerminal } from '../../support/terminal.ts';
import { eventually, HANG_MS, runWithin } from '../../support/tools.ts';
import { ask, errorOf, get, post } from '../../support/wire.ts';
import { hold } from '../../world/gate.ts';
import { type Call, SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

const TARGET = '/report_asset_materialization/';
const READY = get('/readyz');
const LIVE = get('/livez');

const noCurl = noTerminal('curl');

test('on a terminal a start prints its address, its folder and a command, whose event is shown in colour', {
  skip: noCurl,
}, async (t) => {
  const data = newFolder(t);
  const terminal = await serveOnTerminal(t, ['--data', data, '--path-prefix', "/it's/$a"]);
  const shown = terminal.shown();
  assert.match(
    shown,
    /\nassetlog listening on http:\/\/127\.0\.0\.1:\d+\/it's\/\$a\n {2}events go to {2}\/\S+\n {2}the page is {3}http:\/\/127\.0\.0\.1:\d+\/it's\/\$a\/\n {2}to try it {5}curl /,
  );
  assert.ok(shown.includes(`  events go to  ${data}\n`));
  const [, command = ''] = /to try it +(curl .*)\n/.exec(shown) ?? [];
  assert.equal((await promisify(execFile)('bash', ['-c', `${command} -s`])).stdout, '{}');
  assert.deepEqual(eventsIn(data)[0]?.['asset_key'], ['warehouse', 'orders']);
  const recorded = '\u001b[32mrecorded\u001b[0m AssetMaterialization warehouse/orders';
  await eventually('the event is shown', () => terminal.shown().includes(recorded));
});

test('in hosted mode the command has a deployment and the header of the token; with --quiet and NO_COLOR only a refusal is shown', {
  skip: noCurl,
}, async (t) => {
  const data = newFolder(t);
  const { args, tokenOf } = writeDeployments(t, ['prod']);
  const more = ['--token-header', 'X-Token', '--quiet'];
  const terminal = await serveOnTerminal(t, ['--data', data, ...args, ...more], { NO_COLOR: '1' });
  const shown = terminal.shown();
  assert.ok(shown.includes(`  events go to  ${join(data, 'prod')}\n`), shown);
  const [, command = ''] = /to try it +(curl .*)\n/.exec(shown) ?? [];
  assert.match(
    command,
    /-H 'X-Token: TOKEN' http:\/\/127\.0\.0\.1:\d+\/prod\/report_asset_materialization\/warehouse\/orders$/,
  );
  const { stdout } = await promisify(execFile)('bash', ['-c', `${command.replace('TOKEN', tokenOf('prod'))} -s`]);
  assert.equal(stdout, '{}');
  assert.equal(
    (await ask(terminal.port, post(`/prod${TARGET}`, undefined, [`X-Token: ${tokenOf('prod')}`]))).status,
    400,
  );
  const refused = /\n\d\d:\d\d:\d\d 400 refused POST \/prod\/report_asset_materialization\/: /;
  await eventually('the refusal is shown', () => refused.test(terminal.shown()));
  assert.doesNotMatch(terminal.shown(), /recorded|\u001b/);
});

test('an unknown variable is a warning at each start, and a misspelt ASSETLOG_DEPLOYMENTS ends the start with 2', async (t) => {
  const data = newFolder(t);
  for (const start of ['the first', 'a later']) {
    const service = await startService(t, { data, env: { ASSETLOG_RETAIN_BYTE: '300MB', ASSETLOG_SHARDS: '8' } });
    const { stderr } = await service.kill('SIGTERM');
    const warnings = entriesOf(
      stderr,
      'a variable is not read: this version has no option of its name; rename or unset it',
    );
    assert.deepEqual(
      warnings.map(({ level, variable, meant }) => [level, variable, meant]),
      [
        ['warn', 'ASSETLOG_RETAIN_BYTE', 'ASSETLOG_RETAIN_BYTES'],
        ['warn', 'ASSETLOG_SHARDS', undefined],
      ],
      start,
    );
  }
  assert.deepEqual(await run(['serve', '--port', '0'], { env: { ASSETLOG_DEPLOYMENT: 'x.json' } }), {
    code: 2,
    signal: null,
    stdout: '',
    stderr:
      'assetlog: ASSETLOG_DEPLOYMENT is not read, and without ASSETLOG_DEPLOYMENTS any client may report; rename it\n',
  });
});

test('no client meets a service whose journal is open within five seconds before it is open', async (t) => {
  const disk = new SimulatedDisk(newFolder(t));
  const release = hold(disk, 'list');
  const port = await freePort(t);
  const starting = serve(t, { disk, args: ['--port', String(port)], limits: { openWaitMs: 60_000 } });
  await eventually('the journal is being opened', () => disk.count('list') === 1);
  await assert.rejects(ask(port, post(`${TARGET}a`)), { code: 'ECONNREFUSED' });
  release();
  await starting;
  assert.equal((await ask(port, post(`${TARGET}a`))).status, 200);
});

test('while a journal is read for longer the service is alive, not ready, and refuses reports', async (t) => {
  const disk = new SimulatedDisk(newFolder(t));
  disk.put(segmentName(1), Buffer.alloc(0));
  const release = hold(disk, 'list');
  const port = await freePort(t);
  const starting = serve(t, { disk, args: ['--port', String(port)], limits: { openWaitMs: 20 } });
  await eventually('it listens', () => ask(port, LIVE).then(Boolean, () => false));
  assert.equal((await ask(port, LIVE)).status, 200);
  for (const request of [READY, get('/server_info')])
    assert.equal(errorOf(await ask(port, request)), 'the journal is being opened');
  assert.equal((await ask(port, post(`${TARGET}a`))).status, 503);
  release();
  const { notices } = await starting;
  assert.deepEqual(notices.map((line) => JSON.parse(line).path).filter(Boolean), [`${TARGET}a`]);
  assert.equal((await ask(port, post(`${TARGET}a`))).status, 200);
});

test('a failed start reports its reason, with an exit code for it, and leaves folder and port free', async (t) => {
  const running = await serve(t);
  const [damaged, broken] = [newFolder(t), newFolder(t)];
  writeFileSync(join(damaged, segmentName(1)), 'garbage\n{"seq":2,"x":1,"crc":"00000000"}\n');
  mkdirSync(join(broken, segmentName(1)));
  const table: readonly (readonly [args: readonly string[], data: string, reason: RegExp])[] = [
    [
      ['--port', String(running.port)],
      newFolder(t),
      /^2 port \d+ on 127\.0\.0\.1 is busy; stop what listens there or choose another with --port$/,
    ],
    [
      ['--host', '192.0.2.1'],
      newFolder(t),
      /^5 cannot listen on 192\.0\.2\.1 port 0: .*EADDRNOTAVAIL.*; add the address to this machine, or choose another with --host and --port$/,
    ],
    [
      ['--host', 'fe80::1%assetlog9'],
      newFolder(t),
      /^5 cannot listen on fe80::1%assetlog9 port 0: .*; add the address/,
    ],
    [
      ['--host', 'name.invalid'],
      newFolder(t),
      /^[25] --host name\.invalid is not an address of this machine: .*; give another/,
    ],
    [
      [],
      '/dev/null/data',
      /^2 the data folder \/dev\/null\/data cannot be used: .*; make it writable or choose another with --data$/,
    ],
    [[], running.data, /^4 .* is in use by process (\d+|unknown); stop it, or use another --data$/],
    [[], damaged, /^3 the journal is damaged: .*events-0+1\.jsonl, line 1, byte 0: it is not of the form/],
    [[], broken, /^5 the journal in .* cannot be opened: .*is not a regular file; move it away/],
  ];
  for (const [args, data, reason] of table) {
    const error: unknown = await serve(t, { args, data }).catch((error) => error);
    assert.ok(error instanceof StartError, String(error));
    assert.match(`${error.exitCode} ${error.message}`, reason);
    assert.doesNotMatch(error.message, /\n/);
  }
  writeFileSync(join(damaged, segmentName(1)), '');
  await (await serve(t, { data: damaged })).stop();
});

test('a start ends with 5 if the disk fails, and with 2 only for a mistake of the operator [service-10]', async (t) => {
  const ended = async (code: string, arrange: (disk: SimulatedDisk, error: Error) => void) => {
    const disk = new SimulatedDisk(newFolder(t));
    arrange(disk, systemError(code));
    const error: unknown = await serve(t, { disk }).catch((error) => error);
    assert.ok(error instanceof StartError, String(error));
    return `${error.exitCode} ${error.message}`;
  };
  const steps: [string, RegExp, (disk: SimulatedDisk, error: Error) => void][] = [
    ['the folder is created', /^5 the data folder \S+ cannot be used: E\w+: simulated, 'file'$/, failPrepare],
    ['the mount is read', /^5 the start failed: E\w+: simulated, 'file'$/, failMount],
    ['the folder is listed', /^5 the folder \S+ cannot be read: E\w+: simulated, 'file'$/, fail('list')],
    ['the file is created', /^5 the journal in \S+ cannot be opened: E\w+: simulated, 'file'$/, fail('create')],
  ];
  for (const [step, expected, arrange] of steps) {
    for (const code of ['EIO', 'EMFILE', 'ENFILE', 'ENOMEM']) assert.match(await ended(code, arrange), expected, step);
    for (const code of ['EACCES', 'EPERM']) assert.match(await ended(code, arrange), /^2 .*E(ACCES|PERM)/, step);
  }
  assert.match(await ended('EROFS', failPrepare), /^5 .*; make it writable or choose another with --data$/);
  for (const arrange of [failMount, fail('list'), fail('create')])
    assert.match(await ended('EROFS', arrange), /^5 .*EROFS/);
});

function failPrepare(disk: SimulatedDisk, error: Error): void {
  disk.prepare = () => Promise.reject(error);
}

function failMount(disk: SimulatedDisk, error: Error): void {
  disk.mount = () => Promise.reject(error);
}

function fail(failing: Call): (disk: SimulatedDisk, error: Error) => void {
  return (disk, error) => {
    disk.fault = (call) => (call === failing ? error : undefined);
  };
}

test('a name that no name server answers for yet ends a start with 5, and an unknown name with 2', {
  skip: withoutNetworkNamespaces,
}, async (t) => {
  const data = newFolder(t);
  const args = ['serve', '--port', '0', '--data', data, '--host', 'device.example'];
  const alone = await runWithin(HANG_MS, args, { under: IN_OTHER_NETWORK });
  assert.equal(alone.code, 5, alone.stderr);
  assert.match(alone.stderr, /^assetlog: --host device\.example is not an address of this machine: .*EAI_AGAIN.*\n$/);
  const name = 'x'.repeat(300); // longer than any name, so it is never sent to a name server
  const wrong = await runWithin(HANG_MS, [...args.slice(0, -1), name], { under: IN_OTHER_NETWORK });
  assert.equal(wrong.code, 2, wrong.stderr);
  assert.deepEqual(readdirSync(data), []);
});

test('a start warns if --retain-bytes exceeds the disk, and names --keep-free', async (t) => {
  const warned = async (...args: string[]) => {
    const disk = new SimulatedDisk(newFolder(t));
    disk.freeSpace = { freeBytes: 9_000_000, usableBytes: 9_000_000, totalBytes: 10_000_000 };
    const { notices, stop } = await serve(t, { disk, args: ['--min-free-bytes', '0', ...args] });
    await stop();
    return notices.some((line) => /"warn".*--retain-bytes exceeds the disk.*--keep-free.*10000000/.test(line));
  };
  assert.equal(await warned('--retain-bytes', '10MB'), true);
  assert.equal(await warned('--retain-bytes', '9MB'), false);
  assert.equal(await warned('--retain-bytes', '10MB', '--keep-free', '1MB'), false);
  assert.equal(await warned(), false);
});

test('--keep-free is refused on a file system that reports no free space', async (t) => {
  const disk = new SimulatedDisk(newFolder(t));
  disk.space = async () => undefined;
  await assert.rejects(
    serve(t, { disk, args: ['--keep-free', '1MB'] }),
    /--keep-free is 1000000, but the file system of \S+ reports no free space; leave it out, or give --retain-bytes/,
  );
});

test('a folder that is locked late because of a full disk gets the same warnings', async (t) => {
  const data = join(newFolder(t), 'data');
  const disk = new SimulatedDisk(data);
  let attempts = 0;
  disk.prepare = async () => {
    attempts += 1;
    if (attempts < 3) throw systemError('ENOSPC');
    mkdirSync(data, { recursive: true });
  };
  disk.otherWriters = async () => ({ kind: 'every user' });
  const { notices } = await serve(t, { disk, limits: { probeMs: 10 } });
  const at = (text: string) => notices.findIndex((line) => line.includes(text));
  const waits = at('waits for space to lock its data folder');
  assert.ok(waits >= 0 && at('every user of this machine may write to the data folder') > waits, notices.join(''));
});

test('a failed start keeps its folder locked while the journal that it opened might still be written', async (t) => {
  const data = newFolder(t);
  const disk = new SimulatedDisk(data);
  const isLocked = () => readdirSync(data).some((name) => name.startsWith('.lock-'));
  const release = hold(disk, 'list');
  const fd = openSync(join(data, 'no-socket'), 'w');
  t.after(() => closeSync(fd));
  const limits = { openWaitMs: 20, lastSyncMs: 20 };
  const alive = setInterval(() => {}, 1_000); // keeps the process alive, like a request to a real disk
  await assert.rejects(serve(t, { disk, limits, parts: { fd } }), /the socket that was passed/);
  clearInterval(alive);
  assert.equal(disk.count('list'), 1);
  assert.ok(isLocked());
  release();
  await eventually('the folder is free', () => !isLocked());
});
