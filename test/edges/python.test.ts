/**
 * The client that `assetlog python` prints, in each version of Python that it is for, with a service in test mode and with servers
 * that answer like neighbours. Pauses take no time, and are returned.
 */

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { createServer as createPlainHttp } from 'node:http';
import { createServer } from 'node:https';
import { createServer as createPlain, type Server } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { version } from '../../src/config/names.ts';
import { runHere } from '../support/command-output.ts';
import { fault } from '../support/faults.ts';
import { page } from '../support/handbook.ts';
import { makeCertificate } from '../support/nginx.ts';
import { freePort, newFolder, startService } from '../support/program.ts';
import { type Cases, testInEach } from '../support/pythons.ts';
import { missing, pythonText, within } from '../support/tools.ts';
import type { Scripted } from '../world/http.ts';
import { listenOn, startScripted } from '../world/http-server.ts';

const DRIVER = pythonText('client-driver.py');

interface Result {
  readonly wrong: readonly { readonly item: number; readonly error: string }[];
  readonly pauses: readonly number[];
  readonly raised?: string;
  readonly text?: string;
  readonly key?: string;
  readonly done?: number;
  readonly status?: number;
}

type Report = (items: readonly unknown[], options?: object) => Promise<Result>;

/** Starts a Python that runs calls, one after the other. It ends with the test. */
async function startClient(t: TestContext, python: string, env: Readonly<Record<string, string>> = {}) {
  const folder = newFolder(t);
  writeFileSync(join(folder, 'assetlog_client.py'), (await runHere(['python'])).stdout);
  const own = { PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1', ASSETLOG_URL: '', ...env };
  const child = spawn(python, ['-c', DRIVER], { env: { ...process.env, ...own }, stdio: 'pipe' });
  const ended = once(child, 'close');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let problems = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    problems += text;
  });
  t.after(async () => {
    child.stdin.end();
    await ended;
  });
  /** @param call an expression of Python */
  const evaluate = async (call: string): Promise<Result> => {
    child.stdin.write(`${call}\n`);
    const { done, value } = await within(`the end of ${call.slice(0, 200)}`, 60_000, lines.next());
    return done === true ? assert.fail(problems) : JSON.parse(value);
  };
  /** @param options of the call, without the items */
  const report: Report = (items, options = {}) =>
    evaluate(`assetlog_client.report(**json.loads(${JSON.stringify(JSON.stringify({ items, ...options }))}))`);
  return { evaluate, report };
}

const item = (asset_key: string, more = {}) => ({ type: 'observation', asset_key, ...more });
const items = (count: number, more = {}) => Array.from({ length: count }, (_, index) => item(`a${index + 1}`, more));
/** The numbers of lines that are items, in the body of a request. */
const numbersIn = (body: string) => body.split('\n').flatMap((line, index) => (line === '' ? [] : [index + 1]));

const cases: Cases = {
  'the example of the handbook reports, and returns the wrong items': async (t, python) => {
    const [, example = ''] = /^```python\n(.*?)^```$/ms.exec(page('report-clients')) ?? [];
    assert.match(page('report-clients'), /^```bash\nassetlog python > assetlog_client\.py\n```$/m);
    assert.match(example, /^from assetlog_client import .*report/);
    const service = await startService(t);
    const { evaluate } = await startClient(t, python, { ASSETLOG_URL: service.url });
    const run = `(lambda names: (exec(${JSON.stringify(example)}, names), names["wrong"])[1])({})`;
    assert.deepEqual(await evaluate(run), { wrong: [], pauses: [] });
    assert.deepEqual((await evaluate(run)).wrong, []);
    const found = service.events().map((event) => [event['asset_key'], event['idempotency_key']]);
    assert.deepEqual(found, [[['warehouse', 'orders'], 'load-17/1']]);
  },

  'each item is recorded once whatever happens to a request or its reply, after growing pauses [edges-python-1]':
    async (t, python) => {
      const service = await startService(t, { args: ['--test'] });
      const effects = [
        { drop: 'reply' },
        { status: 503, retry_after: 7 },
        { drop: 'half' },
        { drop: 'request' },
        { status: 502, html: true },
        { status: 429 },
        { status: 408 },
      ];
      const set = await fetch(`${service.url}/test/faults`, {
        method: 'PUT',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ faults: effects.map((effect) => fault({}, effect, { times: 1 })) }),
      });
      assert.equal(set.status, 200, await set.text());
      const { report } = await startClient(t, python, { ASSETLOG_URL: service.url });
      const { wrong, pauses } = await report(items(3));
      assert.deepEqual(wrong, []);
      assert.equal(service.events().length, 3);
      const bounds = [0.25, 7.5, 1, 2, 4, 8, 10].map((most) => [most > 7 && most < 8 ? 7.25 : most / 2, most]);
      for (const [index, [least = 0, most = 0]] of bounds.entries())
        assert.ok(pauses[index]! >= least && pauses[index]! <= most, `${pauses}`);
      assert.equal(pauses.length, bounds.length);
    },

  'wrong items are returned with their numbers, also beyond 100 and if all are wrong': async (t, python) => {
    const service = await startService(t);
    const { report } = await startClient(t, python, { ASSETLOG_URL: service.url });
    const some = items(600).map((one, index) => (index % 2 === 0 ? one : item('')));
    const { wrong } = await report(some, { key: 'k' });
    assert.deepEqual(
      wrong.map((one) => one.item),
      some.flatMap(({ asset_key }, index) => (asset_key === '' ? [index + 1] : [])),
    );
    assert.match(wrong[299]!.error, /^asset_key in the body has an empty part/);
    assert.deepEqual([service.events().length, service.events()[299]?.['idempotency_key']], [300, 'k/599']);
    assert.equal((await report([item(''), item('')])).wrong.length, 2);
    const conflict = (await report([item('other'), ...some.slice(1)], { key: 'k' })).wrong[0];
    assert.match(conflict?.error ?? '', /^idempotency_key "k\/1" was used before/);
    assert.deepEqual((await report([])).wrong, []);
    assert.equal(service.events().length, 300);
  },

  'a list that exceeds a body is sent with the keys k, k/1, k/2, also after any end': async (t, python) => {
    const service = await startService(t, { args: ['--test'] });
    const { report } = await startClient(t, python, { ASSETLOG_URL: service.url });
    const text = 'x'.repeat(300_000);
    const large = [...items(10, { description: text }), item(''), item('huge', { description: 'x'.repeat(2 ** 20) })];
    const lost = fault({}, { status: 503, retry_after: 1 }, { after: 1, times: 1_000 });
    const set = (faults: readonly object[]) =>
      fetch(`${service.url}/test/faults`, {
        method: 'PUT',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ faults }),
      });
    await set([lost]);
    const first = await report(large, { key: 'k', retry_for: 5 });
    assert.deepEqual([first.raised, first.key, first.done, first.status], ['Unavailable', 'k', 3, 503]);
    assert.match(first.text ?? '', /^http:\S+ answers 503: .* \(key k, 3 of 12 items done\)$/);
    await set([]);
    for (const recorded of [10, 10]) {
      const { wrong } = await report(large, { key: 'k' });
      assert.deepEqual(
        wrong.map((one) => one.item),
        [11, 12],
      );
      assert.match(wrong[1]!.error, /^it has 1048\d+ bytes, and a request has at most 1048576$/);
      assert.equal(service.events().length, recorded);
    }
    assert.deepEqual(
      service.events().map((event) => event['idempotency_key']),
      ['k/1', 'k/2', 'k/3', 'k/1/1', 'k/1/2', 'k/1/3', 'k/2/1', 'k/2/2', 'k/2/3', 'k/3/1'],
    );
    const many = await report(items(limits.batchItemsMax + 1), { key: 'many' });
    assert.deepEqual([many.wrong, service.events().at(-1)?.['idempotency_key']], [[], 'many/1/1']);
    const long = await report(items(limits.batchItemsMax), { key: 'k'.repeat(limits.idempotencyKeyCharactersMax) });
    assert.deepEqual([long.wrong, service.events().length], [[], 10 + 2 * limits.batchItemsMax + 1]);
    const full = items(1)[0]!;
    const line = JSON.stringify({ ...full, description: '' });
    const whole = { ...full, description: 'x'.repeat(limits.bodyBytesMax - line.length) };
    assert.deepEqual((await report([whole], { key: 'whole' })).wrong, []);
    assert.equal(service.events().at(-1)?.['idempotency_key'], 'whole/1');
  },

  'a list that a proxy accepts only in parts is sent in parts, with the same key': async (t, python) => {
    const { url, got } = await startScripted(t, ({ body }) => {
      const numbers = numbersIn(body);
      if (numbers.length > 2 || numbers.includes(4)) return [413, '<h1>413 Request Entity Too Large</h1>'];
      return [200, JSON.stringify({ recorded: numbers.length })];
    });
    const { report } = await startClient(t, python, { ASSETLOG_URL: `${url}/` });
    const { wrong } = await report(items(5), { key: 'a"\\' });
    assert.deepEqual(wrong, [{ item: 4, error: '<h1>413 Request Entity Too Large</h1>' }]);
    assert.deepEqual(
      got.map(({ body }) => numbersIn(body)),
      [[1, 2, 3, 4, 5], [1, 2], [3, 4, 5], [3], [4, 5], [4], [5]],
    );
    assert.ok(got.every(({ headers }) => headers['idempotency-key'] === '"a\\"\\\\"'));
  },

  'a request to this machine uses no proxy, and one to another does': async (t, python) => {
    const service = await startService(t);
    const dead = `http://127.0.0.1:${await freePort(t)}`;
    const proxy = await startScripted(t, () => [200, '{"recorded": 1}']);
    const none = { no_proxy: '', NO_PROXY: '', https_proxy: '', HTTPS_PROXY: '', HTTP_PROXY: '' };
    const direct = await startClient(t, python, { ...none, http_proxy: dead });
    for (const host of ['127.0.0.1', 'localhost'])
      assert.deepEqual(await direct.report(items(1), { url: `http://${host}:${service.port}` }), {
        wrong: [],
        pauses: [],
      });
    assert.equal(service.events().length, 2);
    const led = await startClient(t, python, { ...none, http_proxy: proxy.url });
    assert.deepEqual((await led.report(items(1), { url: 'http://assets.example/prod' })).wrong, []);
    assert.deepEqual(proxy.got[0]?.url, 'http://assets.example/prod/report_asset_batch/');
    const env = { ...none, http_proxy: proxy.url, no_proxy: 'a.example, 192.0.2.0/24 fd00::/8' };
    const { evaluate } = await startClient(t, python, env);
    for (const [url, isExcepted] of [
      ['192.0.2.7', true],
      ['[fd12::1]', true],
      ['[::ffff:192.0.2.7]', true],
      ['192.0.3.7', false],
      ['[fc00::1]', false],
      ['example', false],
    ] as const) {
      const call = `assetlog_client.Call("http://${url}:3000/p", {}, 0, 1)`;
      const proxies = `[one.proxies for one in ${call}.opener.handlers if hasattr(one, "proxies")]`;
      assert.deepEqual((await evaluate(`len(${proxies})`)).wrong, isExcepted ? 0 : 1, url);
    }
  },

  'a final refusal is raised at once, and no redirect is followed': async (t, python) => {
    const other = await startScripted(t, () => [200, '{"recorded": 1}']);
    const challenge = { 'WWW-Authenticate': 'Custom realm="assetlog"', 'Retry-After': '1' };
    const table: readonly (readonly [Scripted, string])[] = [
      [[401, '{"error": "no valid token"}'], 'answers 401: no valid token'],
      [[400, '{"error": "the body is not JSON"}'], 'answers 400: the body is not JSON'],
      [[422, '{"error": "used before"}'], 'answers 422: used before'],
      [[429, '{"error": "too many"}', challenge], 'answers 429: too many'],
      [[405, 'Method Not Allowed'], 'answers 405: Method Not Allowed'],
      [[200, '<p>Sign in to this network'], 'answers 200: <p>Sign in'],
      [[200, '[1]'], 'answers 200: [1]'],
      [[200, '{"recorded": 2}'], 'answers 200: {"recorded": 2}'],
      [[207, '{"recorded": 0, "failed": 1, "errors": []}'], 'answers 207: '],
      [[207, '{"recorded": 0, "failed": 1, "errors": [{"item": 2, "error": "x"}]}'], 'answers 207: '],
      [[207, '{"recorded": 0, "failed": 1, "errors": [5]}'], 'answers 207: '],
      ...[301, 302, 303, 307, 308].map(
        (status) => [[status, '', { Location: `${other.url}/b` }], `answers ${status}: ${other.url}/b`] as const,
      ),
    ];
    let next = 0;
    const { url, got } = await startScripted(t, () => table[next]![0]);
    const { report } = await startClient(t, python, { ASSETLOG_URL: url });
    for (next = 0; next < table.length; next += 1) {
      const { raised, text = '', pauses, status, done } = await report(items(1), { key: 'k' });
      assert.deepEqual([raised, status, done, pauses], ['Refused', table[next]![0][0], 0, []], text);
      assert.ok(text.startsWith(`${url} ${table[next]![1]}`), text);
    }
    assert.deepEqual([got.length, other.got.length], [table.length, 0]);
  },

  'a service that is away or silent is tried until the time is over, and no longer': async (t, python) => {
    const dead = `http://127.0.0.1:${await freePort(t)}`;
    const { report } = await startClient(t, python, { ASSETLOG_URL: dead });
    const { raised, key = '', text = '', done, status, pauses } = await report(items(2), { retry_for: 20 });
    assert.deepEqual([raised, done, status], ['Unavailable', 0, 0]);
    assert.match(key, /^[0-9a-f-]{36}$/);
    assert.match(text, / does not answer: .*Connection refused \(key [0-9a-f-]{36}, 0 of 2 items done\)$/);
    assert.equal(Math.round(pauses.reduce((sum, pause) => sum + pause)), 20);
    assert.deepEqual((await report(items(1), { retry_for: 0 })).pauses, []);
    const silent = await startScripted(t, ({ url }) => (url === '/x' ? [200, ''] : [503, '', { 'Retry-After': '60' }]));
    const late = await report(items(1), { url: silent.url, retry_for: 30 });
    assert.deepEqual([late.raised, late.status, late.pauses], ['Unavailable', 503, []]);
    silent.server.removeAllListeners('request').on('request', () => {});
    const quiet = await report(items(1), { url: silent.url, retry_for: 0.1, timeout: 0.1 });
    assert.match(quiet.text ?? '', / does not answer: timed out /);
    silent.server.removeAllListeners('request').on('request', ({ socket }) => socket.end('no HTTP\n\n'));
    assert.equal((await report(items(1), { url: silent.url, retry_for: 0 })).raised, 'Unavailable');
  },

  'a call ends whatever arrives, also while a test has frozen the clocks': async (t, python) => {
    const folder = newFolder(t);
    const { certificateFile, keyFile } = makeCertificate(folder);
    const [cert, key] = [certificateFile, keyFile].map((file) => readFileSync(file));
    const again = (socket: { readonly destroyed: boolean; write(text: string): unknown }, text: string) => {
      const timer = setInterval(() => (socket.destroyed ? clearInterval(timer) : socket.write(text)), 20);
    };
    const raw = (head: string, text: string) =>
      createPlain((socket) => {
        socket.on('error', () => {}).write(head);
        again(socket, text);
      });
    const listener: RequestListener = (_, response) =>
      again(
        response.on('error', () => {}),
        'x',
      );
    const endless: RequestListener = (_, response) => {
      const fill = () => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
      };
      response.on('drain', fill).on('error', () => {});
      fill();
    };
    const text = ' does not answer: timed out ';
    const table: readonly (readonly [string, Server, string, string])[] = [
      ['a head that drips', raw('HTTP/1.1 200 OK\r\nX-A: ', 'x'), 'http', text],
      ['100 Continue', raw('', 'HTTP/1.1 100 Continue\r\n\r\n'), 'http', text],
      ['a body that drips', createPlainHttp(listener), 'http', text],
      ['the same over TLS', createServer({ cert, key }, listener), 'https', text],
      ['a body without end', createPlainHttp(endless), 'http', ` answers 200: ${'x'.repeat(300)} (key`],
    ];
    for (const [name, server, scheme, expected] of table) {
      const url = `${scheme}://127.0.0.1:${await listenOn(t, server)}`;
      const client = await startClient(t, python, { SSL_CERT_FILE: certificateFile, FROZEN: '1' });
      const { raised, text: found = '' } = await client.report(items(1), { url, retry_for: 0.5, timeout: 0.2 });
      assert.ok(raised === (scheme === 'http' && expected !== text ? 'Refused' : 'Unavailable'), `${name}: ${raised}`);
      assert.ok(found.includes(expected), `${name}: ${found.slice(0, 500)}`);
    }
  },

  'after a lost reply a report to a service without keys is in doubt, and not sent again': async (t, python) => {
    const documentWith = (path: string, parameters: object) =>
      JSON.stringify({ paths: { [path]: {} }, components: { parameters } });
    const none = documentWith('/report_asset_batch/', { asset_key: {} });
    const keys = documentWith('/{deployment_name}/report_asset_batch/', { 'Idempotency-Key': {} });
    for (const lost of [undefined, [502, 'x'], [500, 'x'], [504, 'x']] as const) {
      const sent: string[] = [];
      let document: Scripted = [200, none];
      const { url, got } = await startScripted(t, ({ method, url: path = '' }) => {
        if (method === 'GET') return path === '/openapi.json' ? document : [404, '{"error": "no such path"}'];
        sent.push(path);
        return sent.length === 2 ? [200, '{"recorded": 1}'] : (lost as Scripted | undefined);
      });
      const { report } = await startClient(t, python);
      for (const other of [
        [200, none],
        [200, '<p>'],
        [404, '{}'],
      ] as const) {
        document = [...other];
        sent.length = 0;
        const { raised, done, text } = await report(items(1), { url });
        assert.deepEqual([raised, done, sent.length], ['InDoubt', 0, 1]);
        assert.match(text ?? '', /; the report is in doubt, since the service takes no keys \(key /);
      }
      [document, sent.length] = [[200, keys], 0];
      assert.deepEqual((await report(items(1), { url: `${url}/prod` })).wrong, []);
      assert.deepEqual(sent, ['/prod/report_asset_batch/', '/prod/report_asset_batch/']);
      assert.equal(got.filter(({ url: path }) => path === '/openapi.json').length, 4, 'once in each call');
      [document, sent.length] = [[503, ''], 0];
      assert.equal((await report(items(1), { url, retry_for: 5 })).raised, 'Unavailable');
      assert.equal(sent.length, 1, 'nothing is sent again before it is known');
    }
  },

  'a certificate is verified, and a wrong one is raised at once': async (t, python) => {
    const { certificateFile, keyFile } = makeCertificate(newFolder(t));
    const [cert, key] = [certificateFile, keyFile].map((file) => readFileSync(file));
    const create = (listener: RequestListener) => createServer({ cert, key }, listener);
    const { url, got } = await startScripted(t, () => [200, '{"recorded": 1}'], { create });
    const { raised, text, pauses } = await (await startClient(t, python, { ASSETLOG_URL: url })).report(items(1));
    assert.deepEqual([raised, pauses], ['Refused', []]);
    assert.match(text ?? '', / does not answer: .*CERTIFICATE_VERIFY_FAILED/);
    const trusting = await startClient(t, python, { ASSETLOG_URL: url, SSL_CERT_FILE: certificateFile });
    assert.deepEqual([await trusting.report(items(1)), got.length], [{ wrong: [], pauses: [] }, 1]);
  },

  'Retry-After as a date counts from the date of the reply': async (t, python) => {
    let count = 0;
    const { url } = await startScripted(t, () => {
      count += 1;
      const dates = { Date: 'Sun, 06 Nov 1994 08:49:37 GMT', 'Retry-After': 'Sun, 06 Nov 1994 08:49:57 GMT' };
      if (count === 1) return [503, '', dates];
      return count === 2 ? [503, '', { 'Retry-After': 'soon' }] : [200, '{"recorded": 1}'];
    });
    const { report } = await startClient(t, python, { ASSETLOG_URL: url });
    const { pauses } = await report(items(1));
    assert.deepEqual(pauses.map(Math.floor), [20, 0]);
  },

  'each request has the token, and a token of the caller is not replaced': async (t, python) => {
    const { url, got } = await startScripted(t, () => [200, '{"recorded": 1}']);
    const file = join(newFolder(t), 'token');
    writeFileSync(file, 'secret-1\n');
    const plain = await startClient(t, python, { ASSETLOG_URL: url, ASSETLOG_TOKEN_FILE: file });
    await plain.report(items(1), { headers: { 'X-A': 'b' } });
    await plain.report(items(1), { headers: { 'Service-Cloud-Api-Token': 'own' } });
    const env = { ASSETLOG_URL: url, ASSETLOG_TOKEN_FILE: file, ASSETLOG_TOKEN_HEADER: 'Dagster-Cloud-Api-Token' };
    await (await startClient(t, python, env)).report(items(1));
    const [first, second, third] = got.map(({ headers }) => headers);
    assert.deepEqual([first?.['service-cloud-api-token'], first?.['x-a']], ['secret-1', 'b']);
    assert.equal(second?.['service-cloud-api-token'], 'own');
    assert.equal(third?.['dagster-cloud-api-token'], 'secret-1');
  },

  'a wrong argument is a ValueError that names it, before anything is sent': async (t, python) => {
    const { url, got } = await startScripted(t, () => [200, '{"recorded": 1}']);
    const { evaluate } = await startClient(t, python, { ASSETLOG_URL: url });
    const table: readonly (readonly [string, RegExp])[] = [
      ['[{}, {"metadata": NAN}]', /^item 2 is not JSON: Out of range/],
      ['[{"metadata": BYTES}]', /^item 1 is not JSON: /],
      ['[{}], key="a b"', /^key 'a b' is not 1 to 255 visible/],
      ['[{}], key=""', /^key '' is not/],
      ['[{}] * 20000, key="k" * 254', /^key 'k+\/1' is not/],
      ['[{}], headers={"X-A": "secret\\nsecret"}', /^the value of X-A is not one line of ASCII characters$/],
      ...['http://me:secret@b', 'http://me@b', 'https://:secret@[::1]:1/x', 'http://me:secret\u2100@b'].map(
        (wrong) =>
          [
            `[{}], url=${JSON.stringify(wrong)}`,
            /^url has a login before its host; leave it out, and give headers=\{"Authorization": "Basic \.\.\."\}$/,
          ] as const,
      ),
      ['[{}], url="http://me:sec/ret@b"', /^url is not a base URL such as/],
      ...[
        'localhost:3000',
        'http://a:b@c/?x',
        'http://[::1',
        'http://a:0',
        'http://a:65536',
        'http://a/?x',
        'http://a/#x',
        'http://a:b',
        'ftp://a',
        'http://a/b c',
      ].map((wrong) => [`[{}], url=${JSON.stringify(wrong)}`, /./] as const),
    ];
    for (const [args, text] of table) {
      const result = await evaluate(`assetlog_client.report(${args})`);
      assert.equal(result.raised, 'ValueError', args);
      assert.match(result.text ?? '', text, args);
    }
    assert.deepEqual(got, []);
  },
};

testInEach(cases);

const withoutPython = missing('Python is not installed', 'python3', ['--version']);

test('the Python client needs Python 3.8, and imports only the standard library', { skip: withoutPython }, async () => {
  const { stdout } = await runHere(['python']);
  assert.ok(stdout.startsWith(`# Client of assetlog ${version}: assetlog python > assetlog_client.py\n`), stdout);
  const check = pythonText('foreign-modules.py');
  const { stdout: foreign, stderr } = spawnSync('python3', ['-c', check], { input: stdout, encoding: 'utf8' });
  assert.equal(foreign, 'set()\n', stderr);
});
