/** The units of the handbook, word for word: systemd accepts them, and the service runs under their restrictions. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { segmentName } from '../../src/journal/segments.ts';
import { writeDeployments } from '../support/deployments.ts';
import { page, systemdUnits } from '../support/handbook.ts';
import { eventsIn, newFolder, root, run, startService } from '../support/program.ts';
import { ELSEWHERE, startSystemd, withoutOwnSystemd } from '../support/systemd.ts';
import { eventually, HANG_MS, missing, runWithin } from '../support/tools.ts';
import { ask, post } from '../support/wire.ts';

const [service = '', socket = '', hosted = '', forward = ''] = systemdUnits;

const BUILT = join(root, 'dist/server.js');
const withoutBuilt = !existsSync(BUILT) && 'dist/server.js is missing; npm run bundle makes it';
const withoutSystemd = missing('systemd-analyze is not installed', 'systemd-analyze', ['--version']);

test('systemd finds no mistake in the units and their drop-ins', {
  skip: withoutSystemd,
}, (t) => {
  const folder = newFolder(t);
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const unitWith = (text: string) => systemdUnits.find((unit) => unit.includes(text)) ?? '';
  const paths = [
    write('assetlog.service', service),
    write('assetlog.socket', socket),
    write('assetlog-verify.service', unitWith('server.js verify')),
    write('assetlog-verify.timer', unitWith('[Timer]')),
  ];
  mkdirSync(join(folder, 'assetlog.service.d'));
  const ours = () => {
    const args = ['verify', ...paths];
    const { stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8', timeout: HANG_MS });
    // Node can be in another place on this machine, and its other units do not matter.
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
  write(dropIn, hosted);
  write('assetlog.service.d/forward.conf', forward);
  assert.deepEqual(ours(), []);
  write('assetlog.service.d/forward.conf', forward.replace('IPAddressAllow', 'IPAddressAllows'));
  assert.match(ours().join('\n'), /forward\.conf:\d+: .*IPAddressAllows/);
  write('assetlog.service.d/forward.conf', '');
  write(dropIn, '');
  write('assetlog.service', service.replace('ProtectSystem=strict', 'ProtectSystem=stirct'));
  assert.match(ours().join('\n'), /assetlog\.service:\d+: .*stirct/);
});

test('the drop-in of unattended devices repairs before each start, also before the first one', async (t) => {
  const unit = systemdUnits.find((text) => text.includes('repair --yes')) ?? '';
  const folder = newFolder(t);
  if (withoutSystemd === false) {
    mkdirSync(join(folder, 'assetlog.service.d'));
    writeFileSync(join(folder, 'assetlog.service'), service);
    writeFileSync(join(folder, 'assetlog.service.d/repair.conf'), unit);
    const options = { encoding: 'utf8', timeout: HANG_MS } as const;
    const { stderr } = spawnSync('systemd-analyze', ['verify', join(folder, 'assetlog.service')], options);
    assert.doesNotMatch(stderr, /repair\.conf/);
  }
  const [, words = ''] = /^ExecStartPre=-\/usr\/bin\/node \/opt\/assetlog\/server\.js (.*)$/m.exec(unit) ?? [];
  const data = join(folder, 'assetlog');
  const repair = () => run(words.replace('%S', folder).split(' '));
  assert.deepEqual(await repair(), { ...(await repair()), code: 0, stderr: '' }, 'the folder does not exist yet');

  const first = await startService(t, { data });
  const item = JSON.stringify({ type: 'observation', asset_key: 'a', description: 'x'.repeat(1_000) });
  const batch = post('/report_asset_batch/', `[${Array(20).fill(item).join()}]`);
  for (let count = 0; count < 2; count += 1) assert.equal((await ask(first.port, batch)).status, 200);
  await first.kill('SIGKILL');
  // Like after a power cut on a disk that reorders the pages of a write: one page is missing.
  const journal = join(data, segmentName(1));
  const bytes = readFileSync(journal);
  bytes.fill(0, 32_768, 36_864);
  writeFileSync(journal, bytes);
  const refused = await runWithin(HANG_MS, ['--port', '0', '--data', data]);
  assert.equal(refused.code, 3, refused.stderr);
  assert.equal((await repair()).code, 0);
  const next = await startService(t, { data });
  assert.equal((await ask(next.port, batch)).status, 200);
  await next.kill('SIGTERM');
  assert.equal((await repair()).stdout.split('\n')[0], 'nothing to repair');
  const kept = next.events().length;
  assert.ok(kept >= 53 && kept < 60, `${kept} events`);
});

test('systemd rates the exposure of the service at most 2.0 of 10', { skip: withoutSystemd }, (t) => {
  const file = join(newFolder(t), 'assetlog.service');
  const security = (text: string) => {
    writeFileSync(file, text);
    const args = ['security', '--offline=true', '--threshold=20', '--no-pager', file];
    return spawnSync('systemd-analyze', args, { encoding: 'utf8', timeout: HANG_MS });
  };
  const { status, stdout, stderr } = security(service);
  assert.match(stdout, /Overall exposure level for assetlog\.service: [0-2]\.\d OK/, stderr);
  assert.equal(status, 0, stdout);
  assert.equal(security(service.replace(/^(Protect|Private|Restrict).*\n/gm, '')).status, 1);
});

test('under systemd a device forwards, and root backs it up and restores it, with the lines of the handbook', {
  skip: withoutOwnSystemd,
}, async (t) => {
  const systemd = await startSystemd(t);
  const { shell, beside, units } = systemd;
  const folder = newFolder(t);
  const { args, tokenOf } = writeDeployments(t, ['prod']);
  const token = tokenOf('prod');
  writeFileSync(join(folder, 'hub.token'), token, { mode: 0o600 });
  const hosting = ['--host', ELSEWHERE, ...args];
  const hub = await startService(t, { args: hosting, under: beside });
  const atHub = () => (existsSync(join(hub.data, 'prod')) ? eventsIn(join(hub.data, 'prod')).length : 0);
  const report = (key: string) => shell(`/opt/assetlog/server.js report observation ${key} --timeout 60s`);
  const write = (dropIn: string) => {
    mkdirSync(join(units, 'assetlog.service.d'), { recursive: true });
    writeFileSync(join(units, 'assetlog.service'), service);
    const ofTest = 'StandardOutput=append:/run/assetlog.log\nStandardError=append:/run/assetlog.log\n';
    writeFileSync(join(units, 'assetlog.service.d/test.conf'), `[Service]\n${ofTest}`);
    const here = dropIn
      .replace('/etc/assetlog', folder)
      .replace('https://hub.example', `http://hub.example:${hub.port}`);
    writeFileSync(join(units, 'assetlog.service.d/forward.conf'), here);
    const { status, stderr } = shell('systemctl daemon-reload && systemctl restart assetlog');
    assert.equal(status, 0, `${stderr}${shell('systemctl status assetlog; cat /run/assetlog.log').stdout}`);
  };
  const log = () => shell('systemctl --no-pager status assetlog; cat /run/assetlog.log').stdout;

  write(forward.replace(/^IPAddressAllow=.*\n/m, ''));
  assert.equal(report('a/1').status, 0, log());
  await sleep(1_500); // a device that may connect needs a tenth of this
  if (atHub() > 0)
    t.diagnostic('systemd cannot forbid addresses here, so nothing shows that IPAddressAllow= is needed');
  write(forward);
  assert.equal(report('a/2').status, 0, log());
  await eventually(`both events are at the hub: ${log()}`, () => atHub() === 2);
  assert.match(shell('stat -c %U /var/lib/private/assetlog').stdout, /^(?!root)/);
  await eventually('the device reports no lag', () => {
    const { stdout, stderr } = shell('/opt/assetlog/server.js forward status --data /var/lib/assetlog --json');
    assert.notEqual(stdout, '', stderr);
    return JSON.parse(stdout).destinations[0].lag_events === 0;
  });

  const cron = /^[0-9*]+ \* \* \* \* root (.*)$/m.exec(page('operate'))?.[1] ?? '';
  const first = shell(`mkdir /mnt/backup && ${cron}`);
  assert.deepEqual([first.status, first.stdout, first.stderr], [0, '', ''], 'cron would send mail');
  assert.equal(report('a/3').status, 0);
  assert.equal(shell(cron).status, 0);
  const restore = /^To restore, as root:\n\n```bash\n(.*?)^```$/ms.exec(page('operate'))?.[1] ?? '';
  const restored = shell(`set -e\n${restore}`);
  assert.equal(restored.status, 0, restored.stderr);
  assert.equal(report('a/4').status, 0, log());
  await eventually(`all events are at the hub: ${log()}`, () => atHub() === 4);

  // The backup lacks a/4, which the hub has.
  assert.equal(shell(`set -e\nrm -r /var/lib/private/assetlog.before\n${restore}`).status, 0, log());
  assert.equal(report('a/5').status, 0, log());
  const [, status = '', rest = ''] =
    /^```bash\n(.* forward status .*)\n([^`]* --seq N [^`]*)^```$/m.exec(page('operate')) ?? [];
  let next: string | undefined;
  await eventually('forwarding is stopped, and its status says how to continue', () => {
    next = /forward identity --new --seq (\d+)/.exec(shell(status).stdout)?.[1];
    return next !== undefined;
  });
  const continued = shell(`set -e\n${rest.replace('--seq N', `--seq ${next}`)}`);
  assert.deepEqual([next, continued.status], ['4', 0], continued.stderr);
  await eventually(`the event after the restore is at the hub: ${log()}`, () => atHub() === 5);
  assert.ok(!log().includes(token));
});

test('under systemd a service starts after any number of starts without its address or on a read-only disk', {
  skip: withoutOwnSystemd,
}, async (t) => {
  const { shell, units } = await startSystemd(t);
  const address = '192.0.2.9';
  writeFileSync(join(units, 'assetlog.service'), service);
  mkdirSync(join(units, 'assetlog.service.d'));
  const dropIn = (settings: string) =>
    writeFileSync(
      join(units, 'assetlog.service.d/test.conf'),
      // Shorter than in the handbook, so that the test sees more starts than systemd allows by default.
      `[Service]\nRestartSec=100ms\nStandardError=append:/run/assetlog.log\nIPAddressAllow=${address}\n${settings}`,
    );
  const log = () => shell('systemctl --no-pager status assetlog; cat /run/assetlog.log').stdout;
  const startsWith = async (problem: string) => {
    assert.equal(shell('systemctl daemon-reload && : >/run/assetlog.log').status, 0);
    shell('systemctl start assetlog');
    const lines = () =>
      log()
        .split('\n')
        .filter((line) => line.includes(problem));
    await eventually(`the seventh start: ${problem}: ${log()}`, () => lines().length >= 7, HANG_MS);
  };
  const answers = (host: string) =>
    eventually(`it answers: ${log()}`, () => shell(`curl -sf http://${host}:3000/readyz`).status === 0, HANG_MS);

  dropIn(`Environment=ASSETLOG_HOST=${address}\n`);
  await startsWith('EADDRNOTAVAIL');
  shell(`ip address add ${address}/32 dev lo`);
  await answers(address);

  dropIn('');
  assert.equal(shell('systemctl stop assetlog && mount -o remount,ro /var/lib').status, 0);
  await startsWith('EROFS');
  shell('mount -o remount,rw /var/lib');
  await answers('127.0.0.1');

  dropIn('Environment=ASSETLOG_PORT=none\n');
  writeFileSync(join(units, 'assetlog.socket'), socket);
  const stateOf = (unit: string) => shell(`systemctl show ${unit} -P ActiveState -P Result`).stdout;
  shell('systemctl daemon-reload; : >/run/assetlog.log; systemctl restart assetlog');
  await eventually('a wrong option needs a person', () => stateOf('assetlog') === 'exit-code\nfailed\n');
  shell('systemctl start assetlog.socket; curl -s http://127.0.0.1:3000/readyz');
  await eventually(
    `the socket gives up too: ${log()}`,
    () => stateOf('assetlog.socket') === 'trigger-limit-hit\nfailed\n',
    HANG_MS,
  );
  const starts = Number(shell('grep -c "is not" /run/assetlog.log').stdout);
  assert.ok(starts >= 2 && starts <= 6, `${starts} starts`);
});

test('an update replaces the program only with a complete file, which prints its version', {
  skip: withoutBuilt,
}, (t) => {
  const folder = newFolder(t);
  const line = /^ssh device '(.*)'$/m.exec(page('upgrade'))?.[1] ?? '';
  const script = line.replaceAll('/opt/assetlog', folder).replace('systemctl restart assetlog', 'echo restarted');
  const whole = readFileSync(BUILT);
  for (const [copy, replaces] of [
    [Buffer.alloc(0), false],
    [whole.subarray(0, 65_536), false],
    [whole.subarray(0, -1_000), false],
    [Buffer.concat([whole.subarray(0, 100_000), Buffer.alloc(whole.length - 100_000)]), false],
    [Buffer.from('#!/bin/sh\necho assetlog 0.1.0\n'), false],
    [whole, true],
  ] as const) {
    writeFileSync(join(folder, 'server.js'), 'old');
    writeFileSync(join(folder, 'new.js'), copy, { mode: 0o755 });
    const { status, stdout } = spawnSync('sh', ['-c', script], { encoding: 'utf8', timeout: HANG_MS });
    assert.deepEqual([status === 0, stdout.includes('restarted')], [replaces, replaces], `${copy.length} bytes`);
    assert.equal(readFileSync(join(folder, 'server.js')).equals(whole), replaces);
  }
});
