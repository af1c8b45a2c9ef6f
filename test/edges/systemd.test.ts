/** The units of the handbook, word for word: systemd accepts them, and the service runs with what they allow. */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventsIn, freePort, launch, newFolder, root, startService } from '../support/program.ts';
import { runWithin, withoutStrace } from '../support/tools.ts';
import { ask, post, Wire } from '../support/wire.ts';

const REPORT = '/report_asset_observation/a';
const handbook = readFileSync(join(root, 'bin/README.md'), 'utf8');
const [service = '', socket = '', hosted = ''] = [...handbook.matchAll(/^```ini\n(.*?)^```$/gms)].map(
  ([, unit]) => unit,
);

const withoutSystemd =
  spawnSync('systemd-analyze', ['--version'], { stdio: 'ignore' }).status !== 0 && 'systemd-analyze is not installed';
const withoutActivation =
  spawnSync('systemd-socket-activate', ['--version'], { stdio: 'ignore' }).status !== 0 &&
  'systemd-socket-activate is not installed';

test('systemd finds nothing wrong with the units, nor with the drop-in of hosted mode', {
  skip: withoutSystemd,
}, (t) => {
  const folder = newFolder(t);
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const paths = [write('assetlog.service', service), write('assetlog.socket', socket)];
  mkdirSync(join(folder, 'assetlog.service.d'));
  const ours = () => {
    const args = ['verify', ...paths];
    const { stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8', timeout: 30_000 });
    // Node may be somewhere else on this machine, and other units of it are none of our business.
    return stderr
      .split('\n')
      .filter((line) => line.includes('assetlog') && !line.includes('/usr/bin/node is not executable'));
  };
  assert.deepEqual(ours(), []);
  const dropIn = 'assetlog.service.d/hosted.conf';
  write(dropIn, hosted);
  assert.deepEqual(ours(), []);
  write(dropIn, hosted.replace('LoadCredential', 'LoadCredentials'));
  assert.match(ours().join('\n'), /hosted\.conf:\d+: .*LoadCredentials/);
  write(dropIn, hosted.replace('ExecStart=\n', ''));
  assert.match(ours().join('\n'), /more than one ExecStart=/);
  write(dropIn, '');
  write('assetlog.service', service.replace('ProtectSystem=strict', 'ProtectSystem=stirct'));
  assert.match(ours().join('\n'), /assetlog\.service:\d+: .*stirct/);
});

test('it is exposed to at most 2.0 of 10', { skip: withoutSystemd }, (t) => {
  const file = join(newFolder(t), 'assetlog.service');
  const security = (text: string) => {
    writeFileSync(file, text);
    const args = ['security', '--offline=true', '--threshold=20', '--no-pager', file];
    return spawnSync('systemd-analyze', args, { encoding: 'utf8', timeout: 30_000 });
  };
  const { status, stdout, stderr } = security(service);
  assert.match(stdout, /Overall exposure level for assetlog\.service: [0-2]\.\d OK/, stderr);
  assert.equal(status, 0, stdout);
  assert.equal(security(service.replace(/^(Protect|Private|Restrict).*\n/gm, '')).status, 1);
});

test('it runs with the system calls that the unit leaves it', { skip: withoutSystemd || withoutStrace }, async (t) => {
  const filters = [...service.matchAll(/^SystemCallFilter=(~?)(.*)$/gm)];
  const allowed = new Set<string>();
  for (const [, taken, groups = ''] of filters) {
    for (const call of groups.split(' ').flatMap(callsOf)) taken ? allowed.delete(call) : allowed.add(call);
  }
  const error = /^SystemCallErrorNumber=(.*)$/m.exec(service)?.[1];
  const filter = (calls: Iterable<string>) => {
    const names = [...calls].map((call) => `?${call}`).join(',');
    // -D, and no output: the process is then the service itself, and is stopped as such.
    return { under: ['strace', '-D', '-f', '-qq', '-o', '/dev/null', '-e', `inject=!${names}:error=${error}`] };
  };
  assert.ok(allowed.size > 200 && allowed.has('fdatasync') && !allowed.has('mount'), `${allowed.size} calls`);
  const data = newFolder(t);
  for (let start = 1; start <= 2; start += 1) {
    const running = await startService(t, { data, args: ['--segment-bytes', '4096'], ...filter(allowed) });
    for (let count = 0; count < 50; count += 1) assert.equal((await ask(running.port, post(REPORT))).status, 200);
    assert.equal((await running.kill('SIGTERM')).code, 0, running.stderr());
    assert.equal(eventsIn(data).length, 50 * start);
  }
  allowed.delete('listen');
  const without = await runWithin(20_000, ['--port', '0', '--data', data], filter(allowed));
  assert.equal(without.code, 2, 'the filter holds');
  assert.match(without.stderr, /operation not permitted|EPERM/);
});

test('what systemd-socket-activate hands over is served', { skip: withoutActivation }, async (t) => {
  const port = await freePort(t);
  const data = newFolder(t);
  const at = /^ListenStream=(.*):3000$/m.exec(socket)?.[1];
  const under = ['systemd-socket-activate', '-l', `${at}:${port}`, '-E', 'NODE_V8_COVERAGE'];
  const { child, finished } = launch(['--data', data], { under });
  t.after(() => child.kill('SIGKILL'));
  const wire = await connected(port);
  wire.send(post(REPORT));
  assert.equal((await wire.reply())?.status, 200);
  child.kill('SIGTERM');
  const { code, stdout } = await finished;
  assert.deepEqual([code, stdout], [0, `assetlog listening on http://${at}:${port}\n`]);
  assert.equal(eventsIn(data).length, 1);
});

/** What a group such as `@system-service` stands for. */
function callsOf(group: string): string[] {
  const text = execFileSync('systemd-analyze', ['syscall-filter', group], { encoding: 'utf8', timeout: 10_000 });
  const names = text
    .split('\n')
    .slice(1)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  return names.flatMap((name) => (name.startsWith('@') ? callsOf(name) : [name]));
}

async function connected(port: number): Promise<Wire> {
  for (const late = performance.now() + 10_000; performance.now() < late; await sleep(10)) {
    const wire = await Wire.open(port).catch(() => undefined);
    if (wire !== undefined) return wire;
  }
  throw new Error(`nobody listens on port ${port}`);
}
