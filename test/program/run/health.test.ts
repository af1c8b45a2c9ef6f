/** Whether a service accepts reports, and the other replies that need no token: the metrics and the OpenAPI document. */

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { version } from '../../../src/config/names.ts';
import { runRows } from '../../support/command-rows.ts';
import { freePort, startService } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { ask, get, post, readFailure, Wire } from '../../support/wire.ts';
import { listenOn } from '../../world/http-server.ts';

test('health, metrics and the OpenAPI document are below the prefix, answer HEAD, and follow the access rules', async (t) => {
  const { port, url } = await serve(t, { args: ['--path-prefix', '/some/path/'] });
  assert.equal(url, `http://127.0.0.1:${port}/some/path`);
  const json = ['livez', 'readyz', 'server_info', 'openapi.json'].map((name) => [name, 'application/json'] as const);
  for (const [name, type] of [...json, ['metrics', 'text/plain; version=0.0.4; charset=utf-8'] as const]) {
    const path = `/some/path/${name}`;
    const { status, headers, body } = await ask(port, get(path));
    assert.deepEqual([status, headers.get('content-type')], [200, type], name);
    if (name.endsWith('z')) assert.equal(body, '{"status":"ok"}');
    if (name === 'server_info') assert.deepEqual(JSON.parse(body), { assetlog_version: version });
    const wire = await Wire.open(port);
    t.after(() => wire.close());
    wire.send(get(path).replace('GET', 'HEAD'));
    const head = await wire.reply(true);
    assert.deepEqual([head?.status, head?.headers.get('content-type')], [200, type], name);
    if (name !== 'metrics') assert.equal(head?.headers.get('content-length'), String(Buffer.byteLength(body)));
    wire.send(get('/some/path/livez')); // on the same connection: the reply to HEAD has no body
    assert.equal((await wire.reply())?.status, 200);
    for (const [refused, bytes] of [
      [404, get(`/${name}`)],
      [404, get(`${path}/`)],
      [405, post(path)],
      [403, get(path).replace('localhost', 'evil.example')],
      [403, get(path, 'Origin: https://evil.example')],
      [403, get(path, 'Sec-Fetch-Site: cross-site')],
    ] as const) {
      const reply = await ask(port, bytes);
      assert.equal(reply.status, refused, bytes);
      assert.ok(readFailure(reply.body));
    }
  }
});

test('a healthcheck ends with 0 only if reports are accepted', async (t) => {
  const service = await startService(t, { args: ['--path-prefix', '/p', '--port', String(await freePort(t))] });
  const stalled = await listenOn(t, createServer());
  const values = { PORT: String(service.port), STALLED: String(stalled) };
  await runRows(values, [
    ['healthcheck --port $PORT --path-prefix /p --host 0.0.0.0', 0],
    ['healthcheck --port $PORT', 1, '', /^assetlog: http:\/\/127\.0\.0\.1:\$PORT\/readyz answers 404: /],
    ['healthcheck --port $STALLED', 1, '', /no complete reply within 3 s\n$/],
  ]);
  await service.kill('SIGTERM');
  await runRows(values, [
    ['healthcheck --port $PORT --path-prefix /p', 1, '', /^assetlog: http:\S+ does not answer: .*ECONNREFUSED/],
  ]);
});
