/** `assetlog report` against this service, a hosted one, and servers that misbehave. */

import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createNetServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { report } from '../../support/command-output.ts';
import { runRows } from '../../support/command-rows.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { freePort, journalText, launch, newFolder, run, startService } from '../../support/program.ts';
import { eventually, missing } from '../../support/tools.ts';
import { listenOn } from '../../world/http-server.ts';

const KEY = ['materialization', 'warehouse/orders'];

/** The part of each journal line that the report decides, without its idempotency key. */
function reported(data: string): string[] {
  const lines = journalText(data).trimEnd().split('\n');
  return lines.map((line) =>
    line
      .replace(/^.*?"type":/, '"type":')
      .replace(/,"crc".*$/, '')
      .replace(/,"idempotency_key":"[^"]*"$/, ''),
  );
}

test('each kind is recorded as given, without output', async (t) => {
  const service = await startService(t);
  const everything = [...KEY, '--partition', '2026-11-20', '--data-version=v1', '--description', 'nightly "load"'];
  const table: readonly (readonly [readonly string[], string])[] = [
    [KEY, '"type":"AssetMaterialization","asset_key":["warehouse","orders"]'],
    [
      [...everything, '--metadata', 'rows:=12345678901234567890', '--metadata', 'by=10', '--metadata', 'x=a=b:=c'],
      '"type":"AssetMaterialization","asset_key":["warehouse","orders"],"partition":"2026-11-20",' +
        '"description":"nightly \\"load\\"","tags":{"data_version":"v1"},' +
        '"metadata":{"rows":12345678901234567890,"by":"10","x":"a=b:=c"}',
    ],
    [
      ['observation', '["a/b", "c"]', '--metadata-json', '{ "a": 1.50, "a": 1e400 }'],
      '"type":"AssetObservation","asset_key":["a/b","c"],"metadata":{"a":1.50,"a":1e400}',
    ],
    [
      ['check', 'warehouse', 'orders', '--check-name', 'no_nulls', '--failed', '--severity', 'warn'],
      '"type":"AssetCheckEvaluation","asset_key":["warehouse","orders"],"check_name":"no_nulls","passed":false,"severity":"WARN"',
    ],
    [
      ['check', 'k', '--passed', '--check-name', 'c', '--partition', 'p'],
      '"type":"AssetCheckEvaluation","asset_key":["k"],"partition":"p","check_name":"c","passed":true,"severity":"ERROR"',
    ],
    [
      ['check', 'k', '--check-name', 'c', '--passed', 'false'],
      '"type":"AssetCheckEvaluation","asset_key":["k"],"check_name":"c","passed":false,"severity":"ERROR"',
    ],
    [
      ['--failed=false', 'check', '--check-name', 'c', 'k', 'l'],
      '"type":"AssetCheckEvaluation","asset_key":["k","l"],"check_name":"c","passed":true,"severity":"ERROR"',
    ],
    [
      ['observation', 'k', '--metadata', 'a=b', '--event-time', '2026-11-20 16:19:45.250+01:00'],
      '"type":"AssetObservation","asset_key":["k"],"metadata":{"a":"b"},"event_time":"2026-11-20T15:19:45.250Z"',
    ],
  ];
  for (const [args] of table) {
    const { code, stdout, stderr } = await report(`${service.url}/`, args);
    assert.deepEqual([code, stdout, stderr], [0, '', ''], args.join(' '));
  }
  assert.deepEqual(
    reported(service.data),
    table.map(([, line]) => line),
  );
});

test('a file on a disk that fails ends the command with 5, since the same call can succeed later', {
  skip: process.platform !== 'linux' && 'it needs a file that fails with EIO',
}, async (t) => {
  const eio = /^assetlog: \/proc\/self\/mem cannot be read: EIO/;
  await runRows({ DATA: newFolder(t) }, [
    ['report --from /proc/self/mem --url http://127.0.0.1:1', 5, '', eio],
    ['serve --port 0 --data $DATA --deployments /proc/self/mem', 5, '', /^assetlog: --deployments: EIO: /],
  ]);
});

test('a login from a file is sent in the header of --token-header', async (t) => {
  const header = `Basic ${Buffer.from('me:secret').toString('base64')}`;
  const gateway = createServer(({ headers: { authorization } }, response) =>
    response.writeHead(authorization === header ? 200 : 401, { 'Content-Type': 'application/json' }).end('{}'),
  );
  const url = `http://127.0.0.1:${await listenOn(t, gateway)}`;
  const file = join(newFolder(t), 'login');
  writeFileSync(file, `${header}\n`, { mode: 0o600 });
  await runRows({ URL: url, LOGIN: file }, [
    ['report observation a --url $URL --retry-for 0', 1, '', /answers 401/],
    ['report observation a --url $URL --token-header Authorization --token-file $LOGIN', 0],
  ]);
});

test('a refusal ends with 1 and the error of the server', async (t) => {
  const service = await startService(t, { args: ['--path-prefix', '/p'] });
  const { port, url } = service;
  await runRows({ URL: url, PORT: String(port) }, [
    [
      `report observation 'a\u0001' --url $URL`,
      1,
      '',
      /^assetlog: \$URL answers 400: asset_key in the body has a control character: .*\n$/,
    ],
    [
      'report observation a --url http://127.0.0.1:$PORT',
      1,
      '',
      /answers 404: nothing is at this path; .*POST a report to \/p\/report_asset_materialization/,
    ],
    ['report observation a --url https://127.0.0.1:$PORT/p', 1, '', /is it an http:\/\/ address\?/],
  ]);
  assert.deepEqual(service.events(), []);
});

/** A hosted service, the URL of its deployment, and a file with its token. */
async function startHosted(t: TestContext): Promise<{ url: string; data: string; secret: string; tokenFile: string }> {
  const { args, tokenOf } = writeDeployments(t, ['prod']);
  const tokenFile = join(newFolder(t), 'token');
  writeFileSync(tokenFile, `${tokenOf('prod')}\n`, { mode: 0o600 });
  const service = await startService(t, { args });
  return { url: `${service.url}/prod`, data: join(service.data, 'prod'), secret: tokenOf('prod'), tokenFile };
}

const LINES = { input: '{"type":"observation","asset_key":"k"}\n'.repeat(3) };

test('a hosted service gets the token from a file, and the token is never shown', async (t) => {
  const { url, data, secret, tokenFile } = await startHosted(t);
  const good = await run(['report', ...KEY], { env: { ASSETLOG_URL: url, ASSETLOG_TOKEN_FILE: tokenFile } });
  assert.deepEqual([good.code, good.stderr], [0, '']);
  const values = { URL: url, TOKEN: tokenFile };
  const line = 'report materialization warehouse/orders --url $URL';
  await runRows(values, [[`${line} --token-file $TOKEN --token-header Dagster-Cloud-Api-Token`, 0]]);
  assert.equal(reported(data).length, 2);
  chmodSync(tokenFile, 0o644);
  await runRows(values, [
    [
      `${line} --token-file $TOKEN`,
      0,
      '',
      'assetlog: every user of this machine can read the token in $TOKEN; chmod 600 it',
    ],
    [line, 1, '', /answers 401: /],
  ]);
  const lines = await report(url, ['--from', '-'], LINES);
  assert.deepEqual([lines.code, lines.stderr.match(/answers 401/g)?.length], [1, 1]); // the other lines would get the same
  for (const text of ['', `${secret}\nand more`, 'the-sécret']) {
    writeFileSync(tokenFile, text);
    const bad = await report(url, [...KEY, '--token-file', tokenFile]);
    assert.deepEqual([bad.code, /does not contain one token/.test(bad.stderr)], [2, true]);
    assert.ok(!bad.stderr.includes(secret) && !bad.stderr.includes('sécret'), bad.stderr);
  }
});

test('a service that starts late gets the report; a service that does not start ends the command with 75', async (t) => {
  const port = await freePort(t);
  const { finished } = launch(['report', ...KEY, '--url', `http://127.0.0.1:${port}`]);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const service = await startService(t, { args: ['--port', String(port)] });
  const { code, stderr } = await finished;
  assert.deepEqual([code, stderr, service.events().length], [0, '', 1]);

  await service.kill();
  const gone = await report(service.url, [...KEY, '--retry-for', '500ms']);
  assert.equal(gone.code, 75);
  assert.match(gone.stderr, /^assetlog: http:\S+ cannot be reached: connect ECONNREFUSED \S+; try again later\n$/);
  const lines = await report(service.url, ['--from', '-', '--retry-for', '0', '--from-line', '2'], LINES);
  assert.equal(lines.code, 75);
  assert.match(
    lines.stderr,
    /line 2: cannot be reached: .*\nassetlog: stopped before line 2; continue with --from-line 2\n$/,
  );
});

test('a report whose connection breaks ends with 75, is reported as in doubt, and is not retried', async (t) => {
  let reports = 0;
  const server = createNetServer((socket) =>
    socket
      .on('error', () => {})
      .once('data', (bytes) => {
        if (String(bytes).startsWith('POST ')) reports += 1;
        socket.destroy();
      }),
  );
  const url = `http://127.0.0.1:${await listenOn(t, server)}`;
  const { code, stderr } = await report(url, [...KEY, '--retry-for', '500ms']);
  assert.deepEqual([code, reports], [75, 1]);
  assert.match(
    stderr,
    /sent no complete reply: .*; it might have been recorded, and sending it again might record it twice\n$/,
  );
});

test('a signal ends a run after the current line, also while no input arrives', async (t) => {
  const service = await startService(t);
  const { child, finished } = launch(['report', '--from', '-', '--run-id', 'night/7', '--url', service.url], {
    openInput: true,
  });
  child.stdin?.write('{"type":"observation","asset_key":"k"}\n');
  await eventually('it is recorded', () => service.events().length > 0);
  child.kill('SIGINT');
  const { code, stdout, stderr } = await finished;
  assert.deepEqual(
    [code, stdout, stderr],
    [75, '1 recorded, 0 refused\n', 'assetlog: stopped before line 2; continue with --from-line 2 --run-id night/7\n'],
  );
});

const withoutPython = missing('python3 is not installed', 'python3', ['--version']);

test('a terminal shows a progress bar, and the reason for a wait', { skip: withoutPython }, async (t) => {
  const service = await startService(t);
  const file = join(newFolder(t), 'lines.jsonl');
  writeFileSync(file, '{"type":"observation","asset_key":"k"}\n'.repeat(20_000));
  const pty = ['python3', '-c', 'import pty, sys, os; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))'];
  const { code, stdout } = await run(['report', '--from', file, '--url', service.url], { under: pty });
  assert.equal(code, 0, stdout);
  assert.match(stdout, /\r\[#*\.*\] \d+ % {2}\d+ recorded, 0 not, \d+\/s, \d+ s left\x1b\[K/);
  assert.match(stdout, /\r\x1b\[K20000 recorded, 0 refused\r\n$/);
  const away = await report('http://127.0.0.1:1', [...KEY, '--retry-for', '300ms'], { under: pty });
  assert.equal(away.code, 75);
  assert.match(away.stdout, /\rhttp:\S+ cannot be reached: .*; again in 0\.\d s\x1b\[K/);
});
