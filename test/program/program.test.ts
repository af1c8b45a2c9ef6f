/** The program as its users meet it: commands, exit codes, signals. */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventsIn, launch, newFolder, type Running, root, run, type Scope, startService } from '../support/program.ts';
import { flip } from '../support/segments.ts';
import { eventually, within } from '../support/tools.ts';
import { ask, errorOf, post, Wire } from '../support/wire.ts';

const TARGET = '/report_asset_materialization/';

test('--help teaches each command, --version tells the version', async () => {
  const [general, serve, healthcheck, topic, version] = await Promise.all([
    run(['--help']),
    run(['serve', '--help']),
    run(['healthcheck', '-h']),
    run(['help', 'healthcheck']),
    run(['--version']),
  ]);
  for (const { code, stderr } of [general, serve, healthcheck, topic, version])
    assert.deepEqual([code, stderr], [0, '']);
  assert.match(general.stdout, /^Usage: assetlog \[command\] \[options\]\n/);
  for (const word of ['serve', 'healthcheck', 'Exit codes:', 'Limits:', 'curl -X POST'])
    assert.ok(general.stdout.includes(word), word);
  for (const flag of [
    'host',
    'port',
    'data',
    'path-prefix',
    'allowed-host',
    'segment-bytes',
    'min-free-bytes',
    'max-connections',
    'log-level',
  ]) {
    assert.match(serve.stdout, new RegExp(`  --${flag} `));
    assert.ok(serve.stdout.includes(`ASSETLOG_${flag.replaceAll('-', '_').toUpperCase()}`));
  }
  assert.match(serve.stdout, /\[3000\]/);
  assert.doesNotMatch(healthcheck.stdout, /--data/);
  assert.equal(topic.stdout, healthcheck.stdout);
  assert.match(version.stdout, /^assetlog \d+\.\d+\.\d+\n$/);
});

test('bad flags and commands end with 2, one line each, and the nearest match', async () => {
  const table: readonly (readonly [readonly string[], string])[] = [
    [['--prot', '1'], 'assetlog: unknown option --prot; did you mean --port?\n'],
    [['serv'], 'assetlog: unknown command "serv"; did you mean serve?\n'],
    [['toString'], 'assetlog: unknown command "toString"\n'],
    [
      ['serve', '--port', 'x', '--data='],
      'assetlog: --data needs a value: --data FOLDER\nassetlog: --port "x" is not a whole number from 0 to 65535\n',
    ],
    [['healthcheck', '--data', 'x'], 'assetlog: unknown option --data\n'],
    [['events', '--data', '/no\n\u001b\u2028'], 'assetlog: there is no journal in /no\\u000a\\u001b\\u2028: '],
  ];
  for (const [args, expected] of table) {
    const { code, stderr, stdout } = await run(args);
    const told = expected.endsWith('\n') ? stderr : stderr.slice(0, expected.length);
    assert.deepEqual([code, told, stdout], [2, expected, ''], args.join(' '));
  }
});

test('a start that can not be is told in one line, with its exit code, and no stack', async (t) => {
  const service = await startService(t);
  const damaged = newFolder(t);
  writeFileSync(join(damaged, 'events-00000000000000000001.jsonl'), 'x\n{"seq":2,"x":1,"crc":"00000000"}\n');
  const table: readonly (readonly [number, readonly string[], RegExp])[] = [
    [
      2,
      ['--port', String(service.port), '--data', newFolder(t)],
      /^assetlog: port \d+ on 127\.0\.0\.1 is busy; .*--port\n$/,
    ],
    [
      2,
      ['--port', '0', '--data', '/proc/nowhere/data'],
      /^assetlog: the data folder \/proc\/nowhere\/data can not be used: .*--data\n$/,
    ],
    [2, ['--port', '0', '--data', join(root, 'package.json')], /^assetlog: the data folder .* can not be used: .*\n$/],
    [3, ['--port', '0', '--data', damaged], /^assetlog: the journal is damaged: .*line 1, byte 0: .*\n$/],
    [4, ['--port', '0', '--data', service.data], /^assetlog: .* is in use by process \d+; .*\n$/],
  ];
  for (const [code, args, expected] of table) {
    const end = await run(args);
    assert.equal(end.code, code, end.stderr);
    const problems = end.stderr.split('\n').filter((line) => line.startsWith('assetlog: '));
    assert.match(`${problems.join('\n')}\n`, expected);
    assert.doesNotMatch(end.stderr, /\n {4}at /);
    assert.equal(end.stdout, '');
  }
});

const built = join(root, 'dist/server.js');
const withoutBuilt = !existsSync(built) && 'npm run build makes it';

test('a folder without write permission is told in one line', { skip: withoutBuilt }, async (t) => {
  const folder = newFolder(t);
  const [program, data] = [join(folder, 'server.js'), join(folder, 'data')];
  chmodSync(folder, 0o755);
  cpSync(built, program);
  mkdirSync(data, 0o555);
  // Root may write everywhere, so root runs it as nobody, who has to be able to read the program.
  const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  const child = spawnSync(process.execPath, [program, '--port', '0', '--data', data], {
    ...nobody,
    encoding: 'utf8',
    cwd: folder,
    env: { NODE_V8_COVERAGE: undefined }, // nobody may write where coverage is collected
  });
  assert.equal(child.status, 2, `${child.error} ${child.stderr}`);
  assert.match(
    child.stderr,
    /^assetlog: the data folder \S+ can not be used: .*EACCES.*; make it writable or choose another with --data\n$/,
  );
});

test('flags go over environment, and the ready line is the only thing on standard output', async (t) => {
  const data = newFolder(t);
  const service = await startService(t, {
    data,
    env: { ASSETLOG_PATH_PREFIX: '/from/env', ASSETLOG_PORT: '1', ASSETLOG_LOG_LEVEL: 'error' },
  });
  assert.equal(service.url, `http://127.0.0.1:${service.port}/from/env`);
  assert.equal((await ask(service.port, post(`/from/env${TARGET}a`))).status, 200);
  const { code, stdout, stderr } = await service.kill('SIGTERM');
  assert.deepEqual([code, stdout, stderr], [0, `assetlog listening on ${service.url}\n`, '']);
});

test('a healthcheck tells by its exit code whether reports are taken', async (t) => {
  const service = await startService(t, { args: ['--path-prefix', '/p'] });
  const check = (...args: string[]) => run(['healthcheck', '--port', String(service.port), ...args]);
  const good = await check('--path-prefix', '/p', '--host', '0.0.0.0');
  assert.deepEqual([good.code, good.stdout, good.stderr], [0, '', '']);
  const wrongPath = await check();
  assert.equal(wrongPath.code, 1);
  assert.match(wrongPath.stderr, /^assetlog: http:\/\/127\.0\.0\.1:\d+\/readyz answers 404: /);
  await service.kill('SIGTERM');
  const gone = await check('--path-prefix', '/p');
  assert.equal(gone.code, 1);
  assert.match(gone.stderr, /^assetlog: http:\S+ does not answer: .*ECONNREFUSED/);
  const silent = createServer(() => {}).listen(0, '127.0.0.1');
  t.after(() => silent.close());
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  const hung = await run(['healthcheck', '--port', String(port)]);
  assert.match(hung.stderr, /no complete reply within 3 s\n$/);
});

test('a server that switches protocols has recorded nothing, and neither report nor healthcheck ends with 0', async (t) => {
  const switching = createServer((socket) => {
    socket.on('error', () => {}); // the client may have gone
    socket.once('data', () =>
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
    );
  }).listen(0, '127.0.0.1');
  t.after(() => switching.close());
  await once(switching, 'listening');
  const { port } = switching.address() as AddressInfo;
  const check = await run(['healthcheck', '--port', String(port)]);
  assert.deepEqual([check.code, check.stdout], [1, '']);
  assert.match(check.stderr, /^assetlog: http:\S+\/readyz answers 101: \n$/);
  const url = `http://127.0.0.1:${port}`;
  const one = await run(['report', 'observation', 'k', '--url', url]);
  assert.deepEqual([one.code, one.stdout], [1, '']);
  assert.match(one.stderr, /answers 101: nothing; is this the right address\?\n$/);
  const input = '{"type":"observation","asset_key":"k"}\n'.repeat(2);
  const lines = await run(['report', '--from', '-', '--url', url], { input });
  assert.deepEqual([lines.code, lines.stdout], [1, '0 recorded, 0 refused\n']);
  assert.match(lines.stderr, /stopped before line 1; continue with --from-line 1\n$/);
});

test('a command whose work never ends does not end with 0, and says so', async (t) => {
  const service = await startService(t);
  assert.equal((await ask(service.port, post(`${TARGET}a`))).status, 200);
  // Standard output that takes everything and never says that it has left.
  const broken = '--import=data:text/javascript,process.stdout.write=()=>true';
  const { code, stderr } = await run(['events', '--data', service.data], { env: { NODE_OPTIONS: broken } });
  assert.deepEqual([code, stderr.split(';')[0]], [1, 'assetlog: ended before its work was done']);
});

test('SIGTERM and SIGINT end with 0 when everything is on the disk, and say so', async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const service = await startService(t);
    const wires = await Promise.all(Array.from({ length: 20 }, () => Wire.open(service.port)));
    await ask(service.port, 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n'); // those before it have been accepted
    for (const wire of wires) wire.send(post(`${TARGET}a`));
    await sleep(5);
    const ended = service.kill(signal);
    let acknowledged = 0;
    for (const wire of wires) if ((await wire.reply())?.status === 200) acknowledged += 1;
    const { code, stderr } = await ended;
    assert.equal(code, 0, stderr);
    assert.match(stderr, new RegExp(`"message":"stopping","signal":"${signal}"`));
    assert.equal(service.events().length, acknowledged);
    assert.deepEqual(readdirSync(service.data).sort(), ['.stopped-cleanly', 'events-00000000000000000001.jsonl']);
  }
});

/** A service whose stop waits for the rest of a request. */
async function startStopping(t: Scope, signal: NodeJS.Signals): Promise<{ service: Running; wire: Wire }> {
  const service = await startService(t);
  const wire = await Wire.open(service.port);
  wire.send(`${post(`${TARGET}before`)}${UNFINISHED}`);
  assert.equal((await wire.reply())?.status, 200); // so what follows it was read too
  process.kill(service.pid, signal);
  await eventually('the stop begins', () => service.stderr().includes(`"message":"stopping","signal":"${signal}"`));
  return { service, wire };
}

const UNFINISHED = post(TARGET, '{"asset_key":"a"}').slice(0, -5);

test('a second signal ends the process at once, and by that signal', async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const { service } = await startStopping(t, 'SIGTERM');
    const end = await within('the end', 5_000, service.kill(signal));
    assert.deepEqual([end.code, end.signal], [null, signal]);
  }
});

test('SIGHUP stops a service without deployments cleanly, however often a terminal that closes sends it', async (t) => {
  const { service, wire } = await startStopping(t, 'SIGHUP');
  for (let count = 0; count < 3; count += 1) process.kill(service.pid, 'SIGHUP');
  wire.send(post(TARGET, '{"asset_key":"a"}').slice(-5));
  assert.equal((await wire.reply())?.status, 200);
  const { code, stderr } = await service.finished;
  assert.equal(code, 0, stderr);
  assert.equal(stderr.match(/"stopping"/g)?.length, 1);
  assert.ok(existsSync(join(service.data, '.stopped-cleanly')));
});

test('a signal ends also a start that hangs, and SIGHUP is no reason to end for a service with deployments', async (t) => {
  const [data, file] = [newFolder(t), join(newFolder(t), 'deployments.json')];
  execFileSync('mkfifo', [file]); // nothing writes to it, so it is never read
  const { child, finished } = launch(['--port', '0', '--data', data, '--deployments', file]);
  t.after(() => child.kill('SIGKILL'));
  await eventually('it reads the file', () => {
    try {
      const writer = openSync(file, constants.O_WRONLY | constants.O_NONBLOCK); // ENXIO while there is no reader
      t.after(() => closeSync(writer));
      return true;
    } catch {
      return false;
    }
  });
  child.kill('SIGHUP');
  child.kill('SIGTERM');
  const { code, signal, stderr } = await within('the end', 10_000, finished);
  assert.deepEqual([code, signal], [null, 'SIGKILL'], stderr);
  assert.match(
    stderr,
    /"message":"stopping","signal":"SIGTERM"\}\nassetlog: a system call has not returned for 1000 ms; /,
  );
});

test('after SIGKILL under load the next start has every acknowledged event once, and goes on at once', async (t) => {
  const data = newFolder(t);
  const acknowledged: string[] = [];
  for (let round = 0; round < 3; round += 1) {
    const service = await startService(t, { data, args: ['--segment-bytes', '20000'] });
    let running = true;
    const clients = Array.from({ length: 8 }, async (_, client) => {
      const wire = await Wire.open(service.port);
      for (let count = 0; running; count += 1) {
        const name = `${round}.${client}.${count}`;
        wire.send(post(`${TARGET}${name}`));
        const reply = await wire.reply();
        if (reply?.status !== 200) break;
        acknowledged.push(name);
      }
    });
    const enough = acknowledged.length + 100;
    while (acknowledged.length < enough) await sleep(5);
    const end = service.kill('SIGKILL');
    running = false;
    await Promise.all(clients);
    await end;
  }
  const last = await startService(t, { data });
  const events = last.events();
  const counts = new Map<string, number>();
  for (const [index, event] of events.entries()) {
    assert.equal(event['seq'], index + 1);
    const [name = ''] = event['asset_key'] as string[];
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  for (const name of acknowledged) assert.equal(counts.get(name), 1, name);
});

const DEPLOYMENTS = ['prod', 'test'];

/** @returns the arguments of a hosted service whose deployments have their names for tokens */
function hostedArgs(t: Scope, ...more: readonly string[]): string[] {
  const file = join(newFolder(t), 'deployments.json');
  const digest = (token: string) => createHash('sha256').update(token).digest('hex');
  const deployments = DEPLOYMENTS.map((name) => ({ name, tokens: [{ name, sha256: digest(name) }] }));
  writeFileSync(file, JSON.stringify({ deployments }));
  return ['--deployments', file, ...more];
}

/** Eight clients that report to every deployment in turn, until their connections end. */
async function reportToAll({ port }: Running, round: number, acknowledged: string[]): Promise<void> {
  const clients = Array.from({ length: 8 }, async (_, client) => {
    const wire = await Wire.open(port);
    for (let count = 0; ; count += 1) {
      const deployment = DEPLOYMENTS[(client + count) % DEPLOYMENTS.length] ?? '';
      const name = `${deployment}.${round}.${client}.${count}`;
      wire.send(post(`/${deployment}${TARGET}${name}`, undefined, [`Service-Cloud-Api-Token: ${deployment}`]));
      if ((await wire.reply())?.status !== 200) return;
      acknowledged.push(name);
    }
  });
  await Promise.all(clients);
}

/** Checks that the seq of each deployment is whole. @returns the names of the events of all of them */
function namesIn(data: string): string[] {
  return DEPLOYMENTS.flatMap((deployment) =>
    eventsIn(join(data, deployment)).map((event, index) => {
      const [name = ''] = event['asset_key'] as string[];
      assert.deepEqual([event['seq'], name.split('.')[0]], [index + 1, deployment]);
      return name;
    }),
  );
}

test('in hosted mode SIGTERM under load leaves every journal whole, with what was acknowledged and nothing else', async (t) => {
  const service = await startService(t, { args: hostedArgs(t, '--segment-bytes', '20000') });
  const acknowledged: string[] = [];
  const load = reportToAll(service, 0, acknowledged);
  while (acknowledged.length < 400) await sleep(10); // more than one file of each
  const { code, stderr } = await service.kill('SIGTERM');
  await load;
  assert.equal(code, 0, stderr);
  assert.deepEqual(namesIn(service.data).sort(), acknowledged.sort());
  assert.deepEqual(readdirSync(service.data).sort(), DEPLOYMENTS);
  for (const deployment of DEPLOYMENTS) {
    const [stopped, ...files] = readdirSync(join(service.data, deployment)).sort();
    assert.equal(stopped, '.stopped-cleanly');
    assert.ok(files.length > 1, `${files.length} files`);
    for (const file of files) assert.match(file, /^(events-\d{20}\.jsonl|keys-\d{20}\.idx)$/);
  }
});

test('in hosted mode nobody else writes to the folder, and SIGKILL under load loses nothing of any deployment', async (t) => {
  const data = newFolder(t);
  const args = hostedArgs(t, '--segment-bytes', '20000');
  const acknowledged: string[] = [];
  for (let round = 0; round < 2; round += 1) {
    const service = await startService(t, { data, args });
    const load = reportToAll(service, round, acknowledged);
    const second = await run(['--port', '0', '--data', data, ...args]);
    assert.equal(second.code, 4, second.stderr);
    assert.match(second.stderr, /is in use by process \d+/);
    const enough = acknowledged.length + 100;
    while (acknowledged.length < enough) await sleep(5);
    await service.kill('SIGKILL');
    await load;
  }
  const last = await startService(t, { data, args });
  // A journal is mended by the first report that it gets.
  for (const deployment of DEPLOYMENTS) {
    const headers = [`Service-Cloud-Api-Token: ${deployment}`];
    assert.equal((await ask(last.port, post(`/${deployment}${TARGET}${deployment}`, undefined, headers))).status, 200);
  }
  const counts = new Map<string, number>();
  for (const name of namesIn(data)) counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const name of acknowledged) assert.equal(counts.get(name), 1, name);
});

test('a torn end is cut, kept and told by the next start', async (t) => {
  const data = newFolder(t);
  const file = join(data, 'events-00000000000000000001.jsonl');
  const first = await startService(t, { data });
  for (const name of ['a', 'b']) await ask(first.port, post(`${TARGET}${name}`));
  await first.kill('SIGKILL');
  truncateSync(file, statSync(file).size - 10);
  const second = await startService(t, { data });
  assert.match(
    second.stderr(),
    /"the end of the journal was truncated: the last stop was not clean, and an interrupted write explains what was there"/,
  );
  assert.ok(existsSync(`${file}.torn`));
  await ask(second.port, post(`${TARGET}c`));
  assert.deepEqual(
    second.events().map((event) => [event['seq'], event['asset_key']]),
    [
      [1, ['a']],
      [2, ['c']],
    ],
  );
});

test('what no crash explains ends a start with 3, verify says the same, and a repair brings the service back', async (t) => {
  const crlf = (bytes: Buffer) => Buffer.from(bytes.toString().replaceAll('\n', '\r\n'));
  const damages: readonly (readonly [signal: NodeJS.Signals, damage: (bytes: Buffer) => Buffer, problem: RegExp])[] = [
    ['SIGTERM', crlf, /line 1, byte 0: its line is good but ends with a carriage return/],
    ['SIGKILL', crlf, /line 1, byte 0: its line is good but ends with a carriage return/],
    [
      'SIGTERM',
      (bytes) => flip(bytes, bytes.length - 30),
      /line 2, byte \d+: its crc is .*, although the last stop was clean/,
    ],
    [
      'SIGTERM',
      (bytes) => bytes.subarray(0, -1),
      /line 2, byte \d+: it ends without a newline, although the last stop/,
    ],
    [
      'SIGKILL',
      (bytes) => Buffer.concat([bytes, Buffer.alloc(1e7)]),
      /line 3, byte \d+: only zeros follow, for 10000000 bytes/,
    ],
    ['SIGKILL', (bytes) => Buffer.concat([bytes, Buffer.alloc(1e7, 255)]), /line 3, byte \d+: .*, for 10000000 bytes/],
  ];
  for (const [signal, damage, problem] of damages) {
    const data = newFolder(t);
    const file = join(data, 'events-00000000000000000001.jsonl');
    const first = await startService(t, { data });
    for (const name of ['a', 'b']) await ask(first.port, post(`${TARGET}${name}`));
    await first.kill(signal);
    const damaged = damage(readFileSync(file));
    writeFileSync(file, damaged);

    const refused = await run(['serve', '--port', '0', '--data', data]);
    assert.equal(refused.code, 3, refused.stderr);
    assert.match(refused.stderr, problem);
    assert.ok(refused.stderr.includes(`assetlog repair --data ${data}`));
    assert.deepEqual(readFileSync(file), damaged);
    const verified = await run(['verify', '--data', data]);
    assert.equal(verified.code, 3);
    assert.match(verified.stdout, problem);

    assert.equal((await run(['repair', '--data', data, '--yes'])).code, 0);
    assert.equal((await run(['verify', '--data', data])).code, 0);
    const second = await startService(t, { data });
    await ask(second.port, post(`${TARGET}c`));
    const keys = second.events().map((event) => event['asset_key']);
    assert.ok(keys.some((key) => `${key}` === 'a') && `${keys.at(-1)}` === 'c', JSON.stringify(keys));
    await second.kill();
  }
});

test('a folder with nothing but the marker of what retention removed is damaged for start, verify and repair', async (t) => {
  const data = newFolder(t);
  writeFileSync(join(data, 'events-00000000000000000001-00000000000000000008.removed'), '');
  const refused = await run(['serve', '--port', '0', '--data', data]);
  assert.equal(refused.code, 3, refused.stderr);
  assert.match(refused.stderr, /all journal files are missing: the events from 9 on/);
  assert.equal((await run(['verify', '--data', data])).code, 3);
  assert.equal((await run(['repair', '--data', data])).code, 3);
  assert.equal((await run(['repair', '--data', data, '--yes'])).code, 0);
  const service = await startService(t, { data });
  await ask(service.port, post(`${TARGET}a`));
  assert.equal(service.events()[0]?.['seq'], 9);
});

test('a journal that is removed under the service gets 503 and ends it with 5', async (t) => {
  const service = await startService(t);
  assert.equal((await ask(service.port, post(`${TARGET}a`))).status, 200);
  rmSync(join(service.data, 'events-00000000000000000001.jsonl'));
  const reply = await ask(service.port, post(`${TARGET}b`));
  assert.equal(reply.status, 503);
  assert.match(errorOf(reply), /^the disk failed/);
  const { code, stderr } = await service.kill('SIGCONT');
  assert.equal(code, 5);
  assert.match(stderr, /was removed or replaced by another program/);
});

test('a connection that is held open on the lock keeps the service from nothing: neither from a stop nor from its end', async (t) => {
  for (const [code, end] of [
    [0, (service: Running) => service.kill('SIGTERM')],
    [
      5,
      async (service: Running) => {
        rmSync(join(service.data, 'events-00000000000000000001.jsonl'));
        assert.equal((await ask(service.port, post(`${TARGET}a`))).status, 503);
        return service.finished;
      },
    ],
  ] as const) {
    const service = await startService(t);
    const [lock = ''] = readdirSync(service.data).filter((name) => name.startsWith('.lock-'));
    const asker = connect({ path: join(service.data, lock), allowHalfOpen: true });
    t.after(() => asker.destroy());
    asker.on('error', () => {}); // the service ends
    await once(asker, 'connect');
    assert.equal((await within('the end', 10_000, end(service))).code, code);
  }
});

test('whoever reads the output may go away', async (t) => {
  const { child, finished } = launch(['--port', '0', '--data', newFolder(t), '--log-level', 'debug']);
  t.after(() => child.kill('SIGKILL'));
  const port = await new Promise<number>((resolve) => {
    child.stdout?.once('data', (text: string) => resolve(Number(new URL(/http\S+/.exec(text)?.[0] ?? '').port)));
  });
  child.stdout?.destroy();
  child.stderr?.destroy();
  for (let count = 0; count < 3; count += 1) assert.equal((await ask(port, post(`${TARGET}a`))).status, 200);
  child.kill('SIGTERM');
  const [code] = await new Promise<[number]>((resolve) =>
    child.once('exit', (...end) => resolve(end as unknown as [number])),
  );
  assert.equal(code, 0);
  void finished;
});

test('running out of file descriptors turns connections away, and ends neither the service nor what it has', async (t) => {
  const service = await startService(t, { openFilesMax: 120 }); // a program that is not bundled loads many files at once
  const first = await Wire.open(service.port);
  const crowd = await Promise.all(Array.from({ length: 140 }, () => Wire.open(service.port)));
  await eventually('clients are turned away', () => crowd.some(({ ended }) => ended));
  first.send(post(`${TARGET}a`));
  assert.equal((await first.reply())?.status, 200);
  for (const wire of [first, ...crowd]) wire.close();
  await eventually('it takes clients again', () =>
    ask(service.port, 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n').then(Boolean, () => false),
  );
  assert.equal((await ask(service.port, post(`${TARGET}b`))).status, 200);
  assert.equal(service.events().length, 2);
});

test('the built file runs alone, whatever kind of package is around it', {
  skip: withoutBuilt,
}, async (t) => {
  for (const type of [undefined, 'commonjs', 'module']) {
    const folder = newFolder(t);
    cpSync(built, join(folder, 'server.js'));
    if (type !== undefined) writeFileSync(join(folder, 'package.json'), JSON.stringify({ type }));
    const out = execFileSync(process.execPath, [join(folder, 'server.js'), '--version'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    assert.match(out, /^assetlog \d/);
  }
  const bin = execFileSync(process.execPath, [join(root, 'bin/assetlog.js'), '--version'], { encoding: 'utf8' });
  assert.match(bin, /^assetlog \d/);
});
