/** A device, a hook and commands behind tinyproxy, which asks for a login: what goes through it, and which machine an error names. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { assertAtHub, forwardFile, forwardStatus, reachesHub } from '../support/forwarded.ts';
import { makeCertificate } from '../support/nginx.ts';
import { freePort, newFolder, run as runProgram, startService } from '../support/program.ts';
import { record } from '../support/report.ts';
import { eventually, missing } from '../support/tools.ts';
import { listenOn } from '../world/http-server.ts';

/** What is on the loopback interface is never reached through a proxy. */
const address = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;
const skip =
  missing('tinyproxy is not installed', 'tinyproxy', ['-v']) ||
  missing('openssl is not installed', 'openssl', ['version']) ||
  (address === undefined && 'this machine has no address besides loopback');

const PASSWORD = 'correct-horse-battery';

async function startTinyproxy(t: TestContext) {
  const folder = newFolder(t);
  const port = await freePort(t);
  const [file, logFile] = [join(folder, 'tinyproxy.conf'), join(folder, 'log')];
  const lines = [`Port ${port}`, 'Listen 127.0.0.1', 'Timeout 60', 'LogLevel Info', `LogFile "${logFile}"`];
  writeFileSync(file, [...lines, 'MaxClients 50', `BasicAuth me ${PASSWORD}`, ''].join('\n'));
  const child = spawn('tinyproxy', ['-d', '-c', file], { stdio: 'ignore' });
  const closed = once(child, 'close');
  const stop = async () => {
    child.kill('SIGKILL');
    await closed;
  };
  t.after(stop);
  const url = (password = PASSWORD) => `http://me:${password}@127.0.0.1:${port}`;
  await eventually('tinyproxy listens', () => answers(port));
  return { name: `http://127.0.0.1:${port}`, url, stop, log: () => readFileSync(logFile, 'utf8') };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

/** Leads what arrives at the machine's other address to a port of loopback. */
async function startRelay(t: TestContext, port: number, create: (listener: (socket: Socket) => void) => Server) {
  const all = new Set<Socket>();
  const server = create((socket) => {
    const other = connect(port, '127.0.0.1');
    socket.pipe(other).pipe(socket);
    for (const one of [socket, other]) {
      all.add(one);
      one
        .on('error', () => {})
        .on('close', () => {
          all.delete(one);
          socket.destroy();
          other.destroy();
        });
    }
  });
  const end = () => {
    server.close();
    for (const socket of all) socket.destroy();
  };
  t.after(end);
  return { port: await listenOn(t, server, address), end };
}

test('events reach remote hubs through tinyproxy, with TLS and without, and a hub on this machine directly', {
  skip,
}, async (t) => {
  const proxy = await startTinyproxy(t);
  const folder = newFolder(t);
  const { certificateFile, keyFile } = makeCertificate(folder, address);
  const key = { key: readFileSync(keyFile), cert: readFileSync(certificateFile) };
  const args = ['--allowed-host', address!];
  const hubs = await Promise.all([1, 2, 3].map(() => startService(t, { args })));
  const [plainHub, tlsHub, nearHub] = hubs as [(typeof hubs)[0], (typeof hubs)[0], (typeof hubs)[0]];
  const plain = await startRelay(t, plainHub.port, (listener) => createServer(listener));
  const tls = await startRelay(t, tlsHub.port, (listener) => createTlsServer(key, listener));
  const file = join(folder, 'forward.json');
  writeFileSync(join(folder, 'proxy.url'), proxy.url());
  const destinations = [
    { name: 'plain', to: `http://${address}:${plain.port}` },
    { name: 'tls', to: `https://${address}:${tls.port}`, caFile: certificateFile, proxy: { file: 'proxy.url' } },
    { name: 'near', to: nearHub.url },
  ];
  forwardFile(file, ...destinations);
  const env = {
    ASSETLOG_FORWARD_PROXY: proxy.url(),
    HTTP_PROXY: 'http://127.0.0.1:1',
    HTTPS_PROXY: 'http://127.0.0.1:1',
  };
  const device = await startService(t, { args: ['--forward', file], env });
  for (let count = 0; count < 300; count += 1) await record(device, `observation/a?partition=${count}`);
  for (const hub of hubs) {
    await reachesHub(hub, device.data, 300);
    assertAtHub(hub.data, device.data);
  }
  assert.match(proxy.log(), new RegExp(`CONNECT ${address}:${tls.port}`));
  assert.match(proxy.log(), new RegExp(`(GET|PUT) http://${address}:${plain.port}/forward/`));
  assert.doesNotMatch(proxy.log(), new RegExp(`:${nearHub.port}`));
  tls.end();
  plain.end();
  await record(device, 'observation/a');
  const statusOf = async (name: string, reason: RegExp) => {
    let found = '';
    await eventually(`${name}: ${reason}`, async () => {
      found = JSON.stringify(await forwardStatus(device.data, name));
      return reason.test(found);
    });
    return found;
  };
  const seen = [
    await statusOf('tls', RegExp(`the proxy ${proxy.name}, asked for ${address}:${tls.port}: it answers 50\\d`)),
    await statusOf('plain', RegExp(`answers 50\\d through the proxy ${proxy.name}`)),
  ];
  writeFileSync(join(folder, 'proxy.url'), proxy.url('wrong-password'));
  seen.push(await statusOf('tls', /"stopped".*it answers 40[17]; check its login, and what it permits/));
  await proxy.stop();
  seen.push(await statusOf('plain', RegExp(`the proxy ${proxy.name}: connect ECONNREFUSED`)));
  const { stderr } = await device.kill();
  for (const name of ['plain', 'tls']) assert.match(stderr, RegExp(`through proxy .*${name}`));
  assert.doesNotMatch(stderr, /through proxy .*near/);
  const secrets = [PASSWORD, 'wrong-password', ...[PASSWORD, 'wrong-password'].map((one) => btoa(`me:${one}`))];
  const shown = `${seen.join('\n')}${stderr}`;
  assert.deepEqual(
    secrets.filter((secret) => shown.includes(secret)),
    [],
  );
});

test('commands with --url use the variables of the environment, and healthcheck does not', { skip }, async (t) => {
  const proxy = await startTinyproxy(t);
  const { certificateFile, keyFile } = makeCertificate(newFolder(t), address);
  const key = { key: readFileSync(keyFile), cert: readFileSync(certificateFile) };
  const service = await startService(t, { args: ['--allowed-host', address!] });
  const plain = await startRelay(t, service.port, (listener) => createServer(listener));
  const tls = await startRelay(t, service.port, (listener) => createTlsServer(key, listener));
  const env = { HTTP_PROXY: proxy.url(), https_proxy: proxy.url(), NODE_EXTRA_CA_CERTS: certificateFile };
  const run = (args: string[], more: Record<string, string> = {}) => runProgram(args, { env: { ...env, ...more } });
  for (const url of [`http://${address}:${plain.port}`, `https://${address}:${tls.port}`]) {
    const reported = await run(['report', 'observation', 'a', '--url', url]);
    assert.equal(reported.code, 0, reported.stderr);
    const read = await run(['events', '--json', '--url', url]);
    assert.equal(read.code, 0, read.stderr);
    const refused = await run(['events', '--url', url, '--retry-for', '0'], {
      HTTP_PROXY: proxy.url('wrong-password'),
      https_proxy: proxy.url('wrong-password'),
    });
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /asked for .* it answers 40[17]; check its login|answers 401: .*proxy/);
    assert.doesNotMatch(refused.stderr, /wrong-password/);
  }
  const before = proxy.log();
  const direct = await run(['report', 'observation', 'a', '--url', `http://${address}:${plain.port}`], {
    NO_PROXY: address!,
  });
  assert.equal(direct.code, 0, direct.stderr);
  assert.equal((await run(['report', 'observation', 'a', '--url', service.url])).code, 0);
  assert.equal((await run(['healthcheck', '--port', String(service.port)])).code, 0);
  assert.equal(proxy.log(), before);
});
