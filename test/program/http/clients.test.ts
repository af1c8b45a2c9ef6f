/** Real clients of these endpoints, with their own headers and framing. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { journalText, type Running, startService } from '../../support/program.ts';
import { missing } from '../../support/tools.ts';

interface Reply {
  readonly status: number | undefined;
  readonly body: string;
}

interface Client {
  /** Completes "… gets 200, and its line is recorded". */
  readonly name: string;
  /** Why the client cannot run here; undefined if it can. */
  readonly missing?: string | false;
  readonly report: (service: Running, t: TestContext) => Promise<Reply>;
  /** The members of its line besides seq, id, time and crc. */
  readonly line: Readonly<Record<string, unknown>>;
}

const accepted: Reply = { status: 200, body: '{}' };

const noPython = missing('python3 is not installed', 'python3', ['--version']);
const noRequests = missing('python3 or its package requests is not installed', 'python3', ['-c', 'import requests']);
const noCurl = missing('curl is not installed', 'curl', ['--version']);
const noJq = missing('jq is not installed', 'jq', ['--version']);
const noHttp2InCurl = missing('curl without HTTP/2, or none, is installed', 'sh', [
  '-c',
  'curl --version | grep -qw HTTP2',
]);

const clients: readonly Client[] = [
  {
    name: 'Python urllib with a JSON body',
    missing: noPython,
    report: (service) =>
      python(
        service,
        `
body = {'asset_key': ['urllib', 'orders'], 'partition': '2026-11-20', 'metadata': {'rows': 2**70, 'ratio': 0.5, 'note': 'é'}}
request = urllib.request.Request(base + '/report_asset_materialization/', data=json.dumps(body).encode(), method='POST',
                                 headers={'Content-Type': 'application/json'})
show(urllib.request.urlopen(request))`,
      ),
    line: {
      type: 'AssetMaterialization',
      asset_key: ['urllib', 'orders'],
      partition: '2026-11-20',
      metadata: { rows: 2 ** 70, ratio: 0.5, note: 'é' },
    },
  },
  {
    name: 'Python urllib with everything in the query and no body',
    missing: noPython,
    report: (service) =>
      python(
        service,
        `
query = urllib.parse.urlencode({'check_name': 'no nulls & more', 'passed': 'true', 'metadata': json.dumps({'rows': 10})})
request = urllib.request.Request(base + '/report_asset_check/urllib/orders?' + query, method='POST')
show(urllib.request.urlopen(request))`,
      ),
    line: {
      type: 'AssetCheckEvaluation',
      asset_key: ['urllib', 'orders'],
      check_name: 'no nulls & more',
      passed: true,
      severity: 'ERROR',
      metadata: { rows: 10 },
    },
  },
  {
    // Without a body it still sends the Content-Type of a form.
    name: 'Python urllib with data of zero bytes',
    missing: noPython,
    report: (service) =>
      python(
        service,
        `show(urllib.request.urlopen(base + '/report_asset_observation/urllib/empty?data_version=v1', data=b''))`,
      ),
    line: { type: 'AssetObservation', asset_key: ['urllib', 'empty'], tags: { data_version: 'v1' } },
  },
  {
    name: 'Python requests with a JSON body',
    missing: noRequests,
    report: (service) =>
      python(
        service,
        `
import requests
reply = requests.post(base + '/report_asset_check/', json={'asset_key': 'requests', 'check_name': 'fresh', 'passed': False,
                                                           'severity': 'WARN', 'metadata': {'age_hours': 30, 'why': None}})
assert reply.json() == {}
print(reply.status_code, reply.text)`,
      ),
    line: {
      type: 'AssetCheckEvaluation',
      asset_key: ['requests'],
      check_name: 'fresh',
      passed: false,
      severity: 'WARN',
      metadata: { age_hours: 30, why: null },
    },
  },
  {
    name: 'Node http with a chunked body and without Accept',
    report: async ({ port }) => {
      const path = '/report_asset_observation/http/orders';
      const headers = { 'Content-Type': 'application/json' };
      const asked = request({ host: '127.0.0.1', port, path, method: 'POST', headers, agent: false });
      const answered = once(asked, 'response');
      const bytes = Buffer.from('{"data_version":"v2","metadata":{"rows":[1,2.5,"é",{"deep":true}]}}');
      const cut = bytes.indexOf(0xc3) + 1; // in the middle of é
      await new Promise((resolve) => asked.write(bytes.subarray(0, cut), resolve));
      asked.end(bytes.subarray(cut));
      assert.equal(asked.getHeader('Accept'), undefined);
      assert.equal(asked.chunkedEncoding, true);
      const [reply] = (await answered) as [IncomingMessage];
      return { status: reply.statusCode, body: await text(reply) };
    },
    line: {
      type: 'AssetObservation',
      asset_key: ['http', 'orders'],
      tags: { data_version: 'v2' },
      metadata: { rows: [1, 2.5, 'é', { deep: true }] },
    },
  },
  {
    name: 'fetch with a JSON body',
    report: (service) =>
      reportWithFetch(`${service.url}/report_asset_materialization/`, {
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ asset_key: ['fetch', 'orders'], description: 'two\nlines', metadata: { 'a b': '😀' } }),
      }),
    line: {
      type: 'AssetMaterialization',
      asset_key: ['fetch', 'orders'],
      description: 'two\nlines',
      metadata: { 'a b': '😀' },
    },
  },
  {
    // Wrappers around fetch often set the header even without a body.
    name: 'fetch with Content-Type: application/json and no body',
    report: (service) =>
      reportWithFetch(`${service.url}/report_asset_materialization/fetch/empty`, {
        headers: { 'Content-Type': 'application/json' },
      }),
    line: { type: 'AssetMaterialization', asset_key: ['fetch', 'empty'] },
  },
  {
    name: 'curl with a JSON body',
    missing: noCurl,
    report: (service) =>
      curl(`${service.url}/report_asset_observation/`, [
        ...['--header', 'Content-Type: application/json'],
        ...['--data', '{"asset_key": ["curl", "orders"], "metadata": {"rows": 10}}'],
      ]),
    line: { type: 'AssetObservation', asset_key: ['curl', 'orders'], metadata: { rows: 10 } },
  },
  {
    name: 'curl that waits for 100 Continue before its chunked body',
    missing: noCurl,
    report: async (service) => {
      const trace: string[] = [];
      const reply = await curl(
        `${service.url}/report_asset_check/curl`,
        [
          ...['--header', 'Content-Type: application/json', '--header', 'Transfer-Encoding: chunked'],
          ...['--header', 'Expect: 100-continue', '--expect100-timeout', '20', '--verbose'],
          ...['--data', '{"check_name": "fresh", "passed": true}'],
        ],
        trace,
      );
      assert.match(trace.join(''), /^< HTTP\/1\.1 100 Continue/m);
      return reply;
    },
    line: { type: 'AssetCheckEvaluation', asset_key: ['curl'], check_name: 'fresh', passed: true, severity: 'ERROR' },
  },
  {
    name: 'curl --http2 with its offer of an upgrade beside a JSON body',
    missing: noHttp2InCurl,
    report: async (service) => {
      const trace: string[] = [];
      const reply = await curl(
        `${service.url}/report_asset_materialization/`,
        [
          ...['--http2', '--verbose', '--header', 'Content-Type: application/json'],
          ...['--data', '{"asset_key": "http2", "data_version": "v3"}'],
        ],
        trace,
      );
      assert.match(trace.join(''), /^> Upgrade: h2c/m);
      return reply;
    },
    line: { type: 'AssetMaterialization', asset_key: ['http2'], tags: { data_version: 'v3' } },
  },
];

test('the reports of real clients are recorded', async (t) => {
  const service = await startService(t);
  for (const { name, missing, report, line } of clients) {
    await t.test(`${name} gets 200, and its line is recorded`, { skip: missing ?? false }, async (t) => {
      const before = service.events().length;
      assert.deepEqual(await report(service, t), accepted);
      const lines = service.events().slice(before);
      assert.deepEqual(lines.map(withoutPlace), [line]);
      assert.equal(lines[0]?.['seq'], before + 1);
    });
  }
});

/** Digits that a reader of doubles would lose, and characters at which some readers split lines. */
const difficultMetadata =
  '{"rows":12345678901234567890,"ratio":1.0,"huge":1e400,"precise":0.12345678901234567890,"text":"a\\u2028b"}';

const readers = [
  {
    name: 'jq reads the journal line by line and gets what was reported',
    missing: noJq,
    // Raw input makes each line a separate text, so a value over two lines would not be read.
    read: (file: string) => run('jq', ['-c', '-R', 'fromjson | [.seq, .type, .asset_key, .metadata.text]', file]),
    lines: [
      '[1,"AssetMaterialization",["read","numbers"],"a\u2028b"]',
      '[2,"AssetObservation",["read","é\u2028\u0085/x"],null]',
      '[3,"AssetCheckEvaluation",["read"],null]',
    ],
  },
  {
    name: 'Python reads the journal line by line and gets what was reported, integers digit for digit',
    missing: noPython,
    read: (file: string) =>
      run('python3', [
        '-c',
        `
import json, sys
text = open(sys.argv[1], encoding='utf-8', newline='').read()
# splitlines breaks at every separator that Unicode knows, so it is the strictest reader.
for line in text.splitlines():
    event = json.loads(line)
    metadata = event.get('metadata', {})
    print(json.dumps([event['seq'], event['type'], event['asset_key'], metadata.get('rows'), metadata.get('text')]))`,
        file,
      ]),
    lines: [
      '[1, "AssetMaterialization", ["read", "numbers"], 12345678901234567890, "a\\u2028b"]',
      '[2, "AssetObservation", ["read", "\\u00e9\\u2028\\u0085/x"], null, null]',
      '[3, "AssetCheckEvaluation", ["read"], null, null]',
    ],
  },
];

test('other programs read the journal', async (t) => {
  const service = await startService(t);
  const json = { 'Content-Type': 'application/json' };
  for (const [path, body] of [
    ['/report_asset_materialization/read/numbers', `{ "metadata": ${difficultMetadata} }`],
    ['/report_asset_observation/', '{"asset_key":["read","é\u2028\u0085/x"]}'],
    ['/report_asset_check/read', '{"check_name":"c","passed":true}'],
  ] as const) {
    assert.deepEqual(await reportWithFetch(`${service.url}${path}`, { headers: json, body }), accepted);
  }
  const file = join(service.data, 'events-00000000000000000001.jsonl');

  await t.test('the digits of numbers are in the journal as sent', () => {
    assert.equal(readFileSync(file, 'utf8'), journalText(service.data));
    assert.ok(journalText(service.data).includes(`,"metadata":${difficultMetadata},`));
  });
  for (const { name, missing, read, lines } of readers) {
    await t.test(name, { skip: missing ?? false }, async () => {
      assert.deepEqual((await read(file)).stdout.trimEnd().split('\n'), lines);
    });
  }
});

const run = promisify(execFile);

/** Runs a script that prints the status and the body of the reply last. */
async function python({ url }: Running, script: string): Promise<Reply> {
  const beginning = `
import json, sys, urllib.parse, urllib.request
base = sys.argv[1]
def show(reply):
    print(reply.status, reply.read().decode())
`;
  // A proxy of the environment must not be used for this machine.
  const env = { ...process.env, NO_PROXY: '*', no_proxy: '*' };
  const { stdout } = await run('python3', ['-c', beginning + script, url], { env });
  return replyIn(stdout);
}

/** @param trace receives curl's output about the exchange */
async function curl(url: string, args: readonly string[], trace: string[] = []): Promise<Reply> {
  const always = ['--silent', '--show-error', '--noproxy', '*', '--request', 'POST', '--write-out', '\\n%{http_code}'];
  const { stdout, stderr } = await run('curl', [...always, ...args, url]);
  trace.push(stderr);
  const statusAt = stdout.lastIndexOf('\n');
  return { status: Number(stdout.slice(statusAt)), body: stdout.slice(0, statusAt) };
}

function replyIn(output: string): Reply {
  const [status, ...body] = output.trimEnd().split(' ');
  return { status: Number(status), body: body.join(' ') };
}

async function reportWithFetch(url: string | URL, options: RequestInit): Promise<Reply> {
  const reply = await fetch(url, { method: 'POST', ...options });
  return { status: reply.status, body: await reply.text() };
}

function withoutPlace({ seq, id, time, crc, ...reported }: Record<string, unknown>): Record<string, unknown> {
  for (const member of [seq, id, time, crc]) assert.notEqual(member, undefined);
  return reported;
}
