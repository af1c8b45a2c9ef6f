import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { commands } from '../../src/commands/all-commands.ts';
import { type Limits, limits, limitsFor, waitLimits } from '../../src/config/limits.ts';
import { version } from '../../src/config/names.ts';
import { hasVariable, variableOf } from '../../src/config/options.ts';
import {
  type Config,
  options,
  readConfig,
  readPassedSocket,
  segmentBytesOf,
  unreadVariables,
} from '../../src/config/options-of-service.ts';
import { root } from '../support/program.ts';
import { sources } from '../support/sources.ts';

function config(args: readonly string[], env: Record<string, string> = {}): Config {
  const read = readConfig(args, env);
  assert.ok(read.kind === 'valid', JSON.stringify(read));
  return read.config;
}

function problems(args: readonly string[], env: Record<string, string> = {}): readonly string[] {
  const read = readConfig(args, env);
  assert.ok(read.kind === 'invalid', JSON.stringify(read));
  return read.problems;
}

const NO_SIZE =
  'is not a size; write bytes, or a whole number with kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 300MB';

test('a service in test mode does not forward, and a token for forwarding needs a URL', () => {
  const test =
    '--test has no --forward-to, no --forward and no --on-failed-check, since a reset replaces its journal; leave one of them out';
  const url =
    '--forward-token-file and --forward-ca-file are for --forward-to; give it, or tokenFile and caFile in the file of --forward';
  for (const [args, problem] of [
    [['--test', '--forward-to', 'http://a'], test],
    [['--test', '--forward', 'file'], test],
    [['--test', '--on-failed-check', 'http://a'], test],
    [['--forward-token-file', 'token'], url],
    [['--forward', 'file', '--forward-ca-file', 'ca'], url],
    [['--forward-to', 'hub.example'], '--forward-to "hub.example" is not a URL such as https://assets.example/prod'],
    [['--forward-to', 'nats:/u:p/@w@h'], '--forward-to "nats:***@h" is not a URL such as https://assets.example/prod'],
    [['--when-behind', 'wait'], '--when-behind "wait" is neither refuse nor remove'],
  ] as const)
    assert.deepEqual(problems(args), [problem]);
});

test('flags override the environment, and the environment overrides defaults', () => {
  const env = {
    ASSETLOG_PORT: '1',
    ASSETLOG_HOST: '0.0.0.0',
    ASSETLOG_DATA: '',
    ASSETLOG_ALLOWED_HOST: 'A.example,[::1]',
  };
  const read = config(['--port=3', '--path-prefix', '/some/path/', '--log-level=debug'], env);
  assert.deepEqual(
    [read.port, read.host, read.data, read.allowedHost, read.pathPrefix, read.logLevel],
    [3, '0.0.0.0', './assetlog-data', ['a.example', '[::1]'], '/some/path', 'debug'],
  );
  assert.deepEqual(config(['--allowed-host', 'a', '--allowed-host', 'b'], env).allowedHost, ['a', 'b']);
});

test('every bad value is reported, with its source and the expected form', () => {
  const found = problems(
    [
      '--port=65536',
      '--data=',
      '--host=a b',
      '--segment-bytes=1',
      '--log-level=loud',
      '--allowed-host=http://x',
      '--max-connections=0',
      '--idle-timeout=14',
      '--min-free-bytes=5G',
      '--path-prefix=x',
    ],
    { ASSETLOG_PORT: 'never looked at' },
  );
  assert.deepEqual(found, [
    '--data needs a value: --data FOLDER',
    '--host "a b" is not an IP address or a host name',
    '--port "65536" is not a whole number from 0 to 65535',
    '--path-prefix "x" is not a path such as /some/path',
    '--allowed-host "http://x" is not a host name; give it without scheme and port',
    '--segment-bytes "1" is not from 4096 to 1073741824 bytes',
    `--min-free-bytes "5G" ${NO_SIZE}`,
    '--max-connections "0" is not a whole number from 1 to 65536',
    '--idle-timeout "14" is not a whole number from 15 to 7200',
    '--log-level "loud" is not a level; use one of error, warn, info, debug',
  ]);
  assert.deepEqual(problems(['--port']), ['--port needs a value: --port PORT']);
  assert.match(
    problems([], { ASSETLOG_PORT: 'tcp://10.0.0.1:3000' })[0] ?? '',
    /^ASSETLOG_PORT .*Kubernetes.*enableServiceLinks/,
  );
  assert.ok(options.idleTimeout.help.endsWith(`[${limits.idleMs / 1000}]`));
  for (const port of ['0x10', '1e3', '-1', ' 1', '3000.0']) assert.equal(problems([`--port=${port}`]).length, 1, port);
});

test('variables that no option has are reported, but not the variables of Kubernetes, of commands and of what they print', () => {
  const found = (env: Record<string, string>) => unreadVariables(env).map(({ variable, meant }) => [variable, meant]);
  assert.deepEqual(
    found({
      ASSETLOG_RETAIN_BYTE: '1',
      ASSET_LOG_DATA: '/d',
      ASSETLOG_DEPLOYMENT: 'x',
      ASSETLOG_STRIC: 'true',
      ASSETLOG_QUIET: 'true',
    }),
    [
      ['ASSETLOG_RETAIN_BYTE', 'ASSETLOG_RETAIN_BYTES'],
      ['ASSET_LOG_DATA', 'ASSETLOG_DATA'],
      ['ASSETLOG_DEPLOYMENT', 'ASSETLOG_DEPLOYMENTS'],
      ['ASSETLOG_STRIC', 'ASSETLOG_STRICT'],
      ['ASSETLOG_QUIET', '--quiet'],
    ],
  );
  assert.deepEqual(
    found({ ASSETLOG_SHARDS: '8', ASSETLOG_: 'x', ASSETLOG_RETAIN_HOURS: '1', ASSETLOG_TIMEOUTS: '1s', ASSETS: '1' }),
    [
      ['ASSETLOG_SHARDS', undefined],
      ['ASSETLOG_', undefined],
      ['ASSETLOG_RETAIN_HOURS', undefined],
      ['ASSETLOG_TIMEOUTS', 'ASSETLOG_TIMEOUT'],
    ],
  );
  const others = Object.values(commands).flatMap(({ options }) =>
    Object.entries(options).map(([name, option]) => (hasVariable(option) ? variableOf(name) : 'ASSETLOG_PROGRAM')),
  );
  const named = [...sources.values()].flatMap((source) => source.match(/\bASSETLOG_[A-Z_]+\b/g) ?? []);
  const known = [...others, ...named].filter((name) => !['ASSETLOG_PAGE', 'ASSETLOG_PRINTED'].includes(name)); // parts of the build
  assert.ok(known.includes('ASSETLOG_PROGRAM') && known.includes('ASSETLOG_TICK_EVENTS'));
  assert.deepEqual(found(Object.fromEntries(known.map((name) => [name, 'x']))), []);
  for (const service of ['ASSETLOG', 'ASSET_LOG', 'ASSETLOG_A', 'ASSETLOGS', 'ASSETLOG_HOST', 'ASSETLOG_TEST']) {
    const address = 'tcp://10.0.0.1:3000';
    const parts = { PROTO: 'tcp', PORT: '3000', ADDR: '10.0.0.1' };
    const links = Object.entries(parts).map(([part, value]) => [`${service}_PORT_3000_TCP_${part}`, value]);
    const env = {
      [`${service}_SERVICE_HOST`]: '10.0.0.1',
      [`${service}_SERVICE_PORT`]: '3000',
      [`${service}_SERVICE_PORT_HTTP`]: '3000',
      [`${service}_PORT`]: address,
      [`${service}_PORT_3000_TCP`]: address,
      ...Object.fromEntries(links),
    };
    assert.deepEqual(found(env), [], service);
  }
  assert.deepEqual(found({ ASSETLOG_DAT: '', DATA: 'x' }), []);
});

test('sizes are bytes or whole numbers with an exact unit', () => {
  for (const [text, bytes] of Object.entries({
    ...{ '16384': 16_384, '300kB': 300_000, '300MB': 300_000_000, '2GB': 2e9, '1TB': 1e12 },
    ...{ '64KiB': 65_536, '64MiB': 67_108_864, '2GiB': 2_147_483_648, '1TiB': 1_099_511_627_776, '007MB': 7_000_000 },
  })) {
    assert.equal(config([`--retain-bytes=${text}`]).retainBytes, bytes, text);
    assert.equal(config([], { ASSETLOG_KEEP_FREE: text }).keepFree, bytes, text);
    assert.equal(config([`--min-free-bytes=${text}`]).minFreeBytes, bytes, text);
  }
  assert.equal(config(['--segment-bytes=1MiB']).segmentBytes, 1_048_576);
  assert.equal(config(['--min-free-bytes=0']).minFreeBytes, 0);
  for (const text of [
    ...['300mb', '300Mb', '300M', '5G', '300KB', '300kiB', '1.5GB'],
    ...['1e9', '+1MB', '-1', '300 MB', 'MB', '0x10'],
  ]) {
    assert.deepEqual(problems([`--retain-bytes=${text}`]), [`--retain-bytes ${JSON.stringify(text)} ${NO_SIZE}`]);
  }
  for (const text of ['1', '16383', '15kB', '10000TB', '999999999999999TiB']) {
    const [problem] = problems([`--retain-bytes=${text}`]);
    assert.equal(problem, `--retain-bytes "${text}" is not from 16384 to 9007199254740991 bytes`);
  }
});

test('without its own limit a segment is closed at a quarter of the retained bytes, at most 64 MiB', () => {
  const closedAt = (...args: string[]) => segmentBytesOf(config(args));
  assert.equal(closedAt(), 67_108_864);
  assert.equal(closedAt('--retain-bytes=1GiB', '--keep-free=1GB'), 67_108_864);
  assert.equal(closedAt('--retain-bytes=1MB'), 250_000);
  assert.equal(closedAt('--keep-free=16384'), 4_096);
  assert.equal(closedAt('--retain-bytes=2MB', '--keep-free=1MB'), 250_000);
  assert.equal(closedAt('--retain-bytes=2MB', '--segment-bytes=2MB'), 2_000_000);
});

test('sizes that contradict each other are refused together, with what to do', () => {
  assert.deepEqual(
    problems(['--retain-bytes=1MB', '--segment-bytes=1000001', '--keep-free=2MB', '--min-free-bytes=2MB']),
    [
      '--segment-bytes is 1000001, more than the 1000000 of --retain-bytes: the newest file alone would exceed the limit; leave it out or give at most 250000',
      '--keep-free is 2000000, not more than the 2000000 of --min-free-bytes: /readyz would turn 503 before files are removed; give more, such as 4000000',
    ],
  );
  assert.equal(config(['--keep-free=2MB', '--min-free-bytes=1999999']).keepFree, 2_000_000);
});

test('a passed socket is used if it is for this process and the only one', () => {
  assert.deepEqual(readPassedSocket({}, 7), { kind: 'none' });
  assert.deepEqual(readPassedSocket({ LISTEN_FDS: '1' }, 7), { kind: 'none' });
  assert.deepEqual(readPassedSocket({ LISTEN_PID: '8', LISTEN_FDS: '2' }, 7), { kind: 'none' });
  assert.deepEqual(readPassedSocket({ LISTEN_PID: '7', LISTEN_FDS: '1' }, 7), { kind: 'passed', fd: 3 });
  for (const count of ['0', '2', '', 'x', undefined]) {
    const read = readPassedSocket({ LISTEN_PID: '7', LISTEN_FDS: count }, 7);
    assert.ok(read.kind === 'invalid' && read.problems[0]?.endsWith('; give the socket unit one ListenStream='), count);
  }
});

/** 0 turns it off outside of tests. */
const CHECKED = 'keyCheckBytesMax';

test('limits are positive whole numbers, and their names end in their unit', () => {
  for (const [name, value] of Object.entries({ ...limits, ...waitLimits })) {
    assert.ok(Number.isSafeInteger(value) && (value > 0 || name === CHECKED), name);
    assert.match(name, /(Ms|Seconds|Bytes|Max|Percent)$/, name);
  }
});

test('little memory lowers the caps of bodies and queues, and a report of any allowed size is still accepted', () => {
  const MIB = 1024 * 1024;
  assert.equal(limitsFor(Number.POSITIVE_INFINITY), limits);
  assert.equal(limitsFor(512 * MIB), limits);
  const capsOf = ({
    uploadBytesMax,
    spareBuffersMax,
    queueBytesMax,
    backlogBytesMax,
    batchBytesMax,
    collectBytes,
  }: Limits) =>
    [uploadBytesMax, spareBuffersMax, queueBytesMax, backlogBytesMax, batchBytesMax, collectBytes].map(
      (cap) => cap / MIB,
    );
  const wholeLine = (limits.lineBytesMax + limits.queueEventBytes) / MIB;
  assert.deepEqual(capsOf(limitsFor(256 * MIB)), [8, 4 / MIB, 8, 32, 2, 8]);
  assert.deepEqual(capsOf(limitsFor(96 * MIB)), [4, 1 / MIB, wholeLine, 12, 1, 3]);
  assert.deepEqual(capsOf(limitsFor(64 * MIB)), [4, 1 / MIB, wholeLine, 8, 1, 2]);
  assert.deepEqual(capsOf(limitsFor(1)), [4, 1 / MIB, wholeLine, wholeLine, 1, 1]);
  const { uploadBytesMax: _, ...others } = limitsFor(64 * MIB);
  for (const [name, value] of Object.entries(others)) {
    const isPositive = value > 0 || name === CHECKED;
    assert.ok(Number.isSafeInteger(value) && isPositive && value <= limits[name as keyof Limits], name);
  }
});

test('the version is the version of the package', () => {
  assert.equal(version, JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version);
});
