/** Real clients of these endpoints, with their own headers and framing. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { journalText, type Running, startService } from '../../support/program.ts';
import { type Reported, record, reportOne } from '../../support/report.ts';
import { FIRST } from '../../support/segments.ts';
import { missing, pythonText } from '../../support/tools.ts';

interface Client {
  /** Completes "… gets 200, and its line is recorded". */
  readonly name: string;
  /** Why the client cannot run here. */
  readonly missing: string | false;
  readonly report: (service: Running) => Promise<Reported>;
  /** The members of its line besides seq, id, time and crc. */
  readonly line: Readonly<Record<string, unknown>>;
}

const run = promisify(execFile);
const noPython = missing('python3 is not installed', 'python3', ['--version']);
const noCurl = missing('curl is not installed', 'curl', ['--version']);
const HTTP2 = ['-c', 'curl --version | grep -qw HTTP2'];
const noHttp2InCurl = missing('curl without HTTP/2, or none, is installed', 'sh', HTTP2);

const EMPTY = pythonText('report-empty.py');

/** @param trace what curl has to print about the exchange */
async function curl(url: string, args: readonly string[], trace: RegExp): Promise<Reported> {
  const always = ['--silent', '--show-error', '--verbose', '--noproxy', '*', '--write-out', '\\n%{http_code}'];
  const type = ['--request', 'POST', '--header', 'Content-Type: application/json'];
  const { stdout, stderr } = await run('curl', [...always, ...type, ...args, url]);
  assert.match(stderr, trace);
  const [body = '', status] = stdout.split('\n');
  return { status: Number(status), body };
}

const clients: readonly Client[] = [
  {
    // Without a body it still sends the Content-Type of a form.
    name: 'Python urllib with data of zero bytes',
    missing: noPython,
    report: async ({ url }) => {
      // A proxy of the environment must not be used for this machine.
      const env = { ...process.env, NO_PROXY: '*', no_proxy: '*' };
      const [status, body = ''] = (await run('python3', ['-c', EMPTY, url], { env })).stdout.split(' ');
      return { status: Number(status), body };
    },
    line: { type: 'AssetObservation', asset_key: ['urllib', 'empty'], tags: { data_version: 'v1' } },
  },
  {
    name: 'Node http with a chunked body and without Accept',
    missing: false,
    report: async ({ port }) => {
      const path = '/report_asset_observation/http/orders';
      const headers = { 'Content-Type': 'application/json' };
      const asked = request({ host: '127.0.0.1', port, path, method: 'POST', headers, agent: false });
      const answered = once(asked, 'response');
      const bytes = Buffer.from('{"data_version":"v2","metadata":{"text":"é"}}');
      const cut = bytes.indexOf(0xc3) + 1; // in the middle of é
      await new Promise((resolve) => asked.write(bytes.subarray(0, cut), resolve));
      asked.end(bytes.subarray(cut));
      assert.deepEqual([asked.getHeader('Accept'), asked.chunkedEncoding], [undefined, true]);
      const [reply] = (await answered) as [IncomingMessage];
      return { status: reply.statusCode!, body: await text(reply) };
    },
    line: {
      type: 'AssetObservation',
      asset_key: ['http', 'orders'],
      tags: { data_version: 'v2' },
      metadata: { text: 'é' },
    },
  },
  {
    // Wrappers around fetch often set the header even without a body.
    name: 'fetch with Content-Type: application/json and no body',
    missing: false,
    report: (service) =>
      reportOne(service, 'materialization/fetch/empty', { headers: { 'Content-Type': 'application/json' } }),
    line: { type: 'AssetMaterialization', asset_key: ['fetch', 'empty'] },
  },
  {
    name: 'curl that waits for 100 Continue before its chunked body',
    missing: noCurl,
    report: ({ url }) => {
      const waits = ['--header', 'Expect: 100-continue', '--expect100-timeout', '20'];
      const body = ['--header', 'Transfer-Encoding: chunked', '--data', '{"check_name": "fresh", "passed": true}'];
      return curl(`${url}/report_asset_check/curl`, [...waits, ...body], /^< HTTP\/1\.1 100 Continue/m);
    },
    line: { type: 'AssetCheckEvaluation', asset_key: ['curl'], check_name: 'fresh', passed: true, severity: 'ERROR' },
  },
  {
    name: 'curl --http2 with its offer of an upgrade beside a JSON body',
    missing: noHttp2InCurl,
    report: ({ url }) => {
      const body = ['--data', '{"asset_key": "http2", "data_version": "v3"}'];
      return curl(`${url}/report_asset_materialization/`, ['--http2', ...body], /^> Upgrade: h2c/m);
    },
    line: { type: 'AssetMaterialization', asset_key: ['http2'], tags: { data_version: 'v3' } },
  },
];

test('the reports of real clients are recorded', async (t) => {
  const service = await startService(t);
  for (const { name, missing, report, line } of clients) {
    await t.test(`${name} gets 200, and its line is recorded`, { skip: missing }, async () => {
      const before = service.events().length;
      assert.deepEqual(await report(service), { status: 200, body: '{}' });
      const lines = service.events().slice(before);
      assert.equal(lines.length, 1);
      const { seq, id: _, time: __, crc: ___, ...reported } = lines[0]!;
      assert.deepEqual([seq, reported], [before + 1, line]);
    });
  }
});

/** Digits that a reader of doubles would lose, and characters at which some readers split lines. */
const difficultMetadata =
  '{"rows":12345678901234567890,"ratio":1.0,"huge":1e400,"precise":0.12345678901234567890,"text":"a\\u2028b"}';

const READ_JOURNAL = pythonText('read-journal.py');

test('Python reads the journal line by line and gets what was reported, integers digit for digit', {
  skip: noPython,
}, async (t) => {
  const service = await startService(t);
  await record(service, 'materialization/read/numbers', { body: `{ "metadata": ${difficultMetadata} }` });
  await record(service, 'observation/', { body: '{"asset_key":["read","é\u2028\u0085/x"]}' });
  assert.ok(journalText(service.data).includes(`,"metadata":${difficultMetadata},`));
  const { stdout } = await run('python3', ['-c', READ_JOURNAL, join(service.data, FIRST)]);
  assert.deepEqual(stdout.trimEnd().split('\n'), [
    '[1, "AssetMaterialization", ["read", "numbers"], 12345678901234567890, "a\\u2028b"]',
    '[2, "AssetObservation", ["read", "\\u00e9\\u2028\\u0085/x"], null, null]',
  ]);
});
