/** Real clients of these endpoints, with their own headers and framing. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { type Running, startService } from '../../support/program.ts';
import type { Reported } from '../../support/report.ts';
import { missing } from '../../support/tools.ts';

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
const noCurl = missing('curl is not installed', 'curl', ['--version']);
const HTTP2 = ['-c', 'curl --version | grep -qw HTTP2'];
const noHttp2InCurl = missing('curl without HTTP/2, or none, is installed', 'sh', HTTP2);

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
