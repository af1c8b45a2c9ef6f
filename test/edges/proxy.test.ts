/** A device, a hook and commands behind tinyproxy, which asks for a login: what goes through it, and which machine an error names. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { assertAtHub, forwardFile, forwardStatus, reachesHub } from '../support/forwarded.ts';
import { makeCertificate } from '../support/nginx.ts';
import { newFolder, run as runProgram, startService } from '../support/program.ts';
import { record } from '../support/report.ts';
import { outerAddress, startOuter, startTinyproxy, withoutTinyproxy } from '../support/tinyproxy.ts';
import { eventually, missing } from '../support/tools.ts';

const skip = withoutTinyproxy || missing('openssl is not installed', 'openssl', ['version']);
const address = String(outerAddress);

test('events reach remote hubs through tinyproxy, with TLS and without, and a hub on this machine directly', {
  skip,
}, async (t) => {
  const proxy = await startTinyproxy(t);
  const folder = newFolder(t);
  const { certificateFile, keyFile } = makeCertificate(folder, address);
  const key = { key: readFileSync(keyFile), cert: readFileSync(certificateFile) };
  const args = ['--allowed-host', address];
  const hubs = await Promise.all([1, 2, 3].map(() => startService(t, { args })));
  const [plainHub, tlsHub, nearHub] = hubs as [(typeof hubs)[0], (typeof hubs)[0], (typeof hubs)[0]];
  const plain = await startOuter(t, plainHub.port);
  const tls = await startOuter(t, tlsHub.port, (listener) => createTlsServer(key, listener));
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
  const passwords = [proxy.password, 'wrong-password'];
  const secrets = [...passwords, ...passwords.map((one) => btoa(`me:${one}`))];
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
  const service = await startService(t, { args: ['--allowed-host', address] });
  const plain = await startOuter(t, service.port);
  const tls = await startOuter(t, service.port, (listener) => createTlsServer(key, listener));
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
    NO_PROXY: address,
  });
  assert.equal(direct.code, 0, direct.stderr);
  assert.equal((await run(['report', 'observation', 'a', '--url', service.url])).code, 0);
  assert.equal((await run(['healthcheck', '--port', String(service.port)])).code, 0);
  assert.equal(proxy.log(), before);
});
