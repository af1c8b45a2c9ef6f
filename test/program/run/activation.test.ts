/** A socket that systemd opens before the start of the service, and hands over. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newFolder, type RunOptions, startService } from '../../support/program.ts';
import { eventually, HANG_MS, pythonText, runWithin } from '../../support/tools.ts';
import { ask, post, Wire } from '../../support/wire.ts';

const REPORT = '/report_asset_observation/a';

/** Acts like systemd (sd_listen_fds(3)), and becomes the program. Not in Node, which would accept connections on the socket. */
const SYSTEMD = pythonText('activate-socket.py');

/** @param portFile a file that gets the port of the socket, or none */
function underSystemd(host: string, portFile = '', count = '1', pid = '', kind = 'AF_INET'): RunOptions {
  return { under: ['python3', '-c', SYSTEMD, kind, host, portFile, count, pid] };
}

/** @returns the port in a file, when the file is complete */
async function portIn(file: string): Promise<number> {
  await eventually(
    'the port of the socket is written',
    () => existsSync(file) && readFileSync(file, 'utf8').endsWith('\n'),
  );
  return Number(readFileSync(file, 'utf8'));
}

const withoutPython =
  spawnSync('python3', ['--version']).status !== 0 && 'python3, which plays the part of systemd, is not installed';

test('the service uses the passed socket, and ignores --host and --port', { skip: withoutPython }, async (t) => {
  const portFile = join(newFolder(t), 'port');
  const args = ['--host', '0.0.0.0', '--port', '1'];
  const service = await startService(t, { args, ...underSystemd('127.0.0.1', portFile) });
  const port = await portIn(portFile);
  assert.equal(service.url, `http://127.0.0.1:${port}`);
  assert.equal((await ask(port, post(REPORT))).status, 200);
  assert.equal(service.events().length, 1);
  const foreign = await ask(port, 'GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n');
  assert.equal(foreign.status, 403, 'the address of the socket counts, which is a loopback address');
  assert.doesNotMatch(service.stderr(), /any client that can reach this address/);
  assert.equal((await service.kill('SIGTERM')).code, 0);
});

test('on a socket for every address the rules for loopback do not apply', { skip: withoutPython }, async (t) => {
  const service = await startService(t, underSystemd('0.0.0.0'));
  const { port } = service;
  assert.equal(service.url, `http://0.0.0.0:${port}`);
  assert.equal((await ask(port, 'GET /livez HTTP/1.1\r\nHost: edge.example\r\n\r\n')).status, 200);
  assert.match(service.stderr(), /any client that can reach this address may report.*"address":"0\.0\.0\.0"/);
});

test('a client that reports before the start waits, and is not refused', { skip: withoutPython }, async (t) => {
  const portFile = join(newFolder(t), 'port');
  const starting = startService(t, underSystemd('127.0.0.1', portFile, 'when a client connects'));
  const port = await portIn(portFile);
  const wires = await Promise.all(Array.from({ length: 5 }, () => Wire.open(port)));
  for (const wire of wires) wire.send(post(REPORT));
  for (const wire of wires) assert.equal((await wire.reply())?.status, 200);
  assert.equal((await starting).events().length, 5);
});

test('a socket that the service cannot use ends the start with 2 and says what to do', {
  skip: withoutPython,
}, async (t) => {
  const folder = newFolder(t);
  const table: readonly (readonly [RunOptions, RegExp])[] = [
    [underSystemd('127.0.0.1', '', '2'), /^assetlog: LISTEN_FDS is 2; give the socket unit one ListenStream=\n$/m],
    [
      underSystemd(join(folder, 'socket'), '', '1', '', 'AF_UNIX'),
      /^assetlog: cannot listen on the socket that was passed: it is not a TCP socket; its unit needs a ListenStream= with a port$/m,
    ],
    [
      underSystemd('127.0.0.1', '', 'datagram'),
      /^assetlog: cannot listen on the socket that was passed: .*EINVAL.*; its unit/m,
    ],
  ];
  for (const [options, expected] of table) {
    const data = join(folder, 'data');
    const { code, stdout, stderr } = await runWithin(HANG_MS, ['serve', '--port', '0', '--data', data], options);
    assert.deepEqual([code, stdout], [2, ''], stderr);
    assert.match(stderr, expected);
  }
});
