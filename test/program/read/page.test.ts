/** `GET /` of a service: which clients get the page, which get the links, and the policy that protects the page. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { writeDeployments } from '../../support/deployments.ts';
import { serve } from '../../support/service.ts';
import { ask, get, post, type WireReply } from '../../support/wire.ts';

const BROWSER = 'Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

function isPage({ status, body, headers }: WireReply): boolean {
  return (
    status === 200 && body.startsWith('<!doctype html>') && headers.get('content-type') === 'text/html; charset=utf-8'
  );
}

function linksIn({ status, body, headers }: WireReply): Record<string, unknown> {
  assert.deepEqual([status, headers.get('content-type'), headers.get('vary')], [200, 'application/json', 'Accept']);
  return JSON.parse(body);
}

test('clients that name HTML get the page, and others get the links', async (t) => {
  const { port } = await serve(t, { args: ['--path-prefix', '/some/path'] });
  for (const accept of [BROWSER, 'accept: TEXT/HTML', 'Accept: application/json, text/html;level=1']) {
    assert.ok(isPage(await ask(port, get('/some/path/', accept))), accept);
  }
  const links = {
    report: ['materialization', 'check', 'observation', 'batch'].map((kind) => `/some/path/report_asset_${kind}/`),
    ...Object.fromEntries(['events', 'assets', 'sources', 'refusals'].map((name) => [name, `/some/path/${name}`])),
    ...{ openapi: '/some/path/openapi.json', metrics: '/some/path/metrics' },
    ...{ livez: '/some/path/livez', readyz: '/some/path/readyz' },
  };
  for (const accept of ['Accept: */*', 'Accept: application/json', 'Accept: text/html;q=0', 'X: y']) {
    const found = linksIn(await ask(port, get('/some/path/', accept)));
    assert.deepEqual([found['service'], found['links']], ['assetlog', links], accept);
  }
  const head = await fetch(`http://localhost:${port}/some/path/`, { method: 'HEAD', headers: { Accept: 'text/html' } });
  assert.deepEqual([head.status, Number(head.headers.get('content-length')) > 10_000], [200, true]);
  assert.equal((await ask(port, get('/', BROWSER))).status, 404);
});

test('the policy allows the script and the style of the page, and nothing else', async (t) => {
  const { port } = await serve(t);
  const { headers, body } = await ask(port, get('/', BROWSER));
  const hashOf = (name: string) => {
    const [, text = ''] = new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(body) ?? assert.fail(name);
    return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  };
  const policy = [
    ...["default-src 'none'", `script-src ${hashOf('script')}`, `style-src ${hashOf('style')}`, 'img-src data:'],
    ...["connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ];
  assert.equal(headers.get('content-security-policy'), policy.join('; '));
  assert.doesNotMatch(body, /\s(?:src|style|on[a-z]+)\s*=/, 'it has no resource and no handler in its HTML');
});

test('in hosted mode the page is served below any name, and needs no token', async (t) => {
  const { port } = await serve(t, { args: writeDeployments(t, ['prod']).args });
  for (const path of ['/', '/prod/', '/unknown/']) assert.ok(isPage(await ask(port, get(path, BROWSER))), path);
  const root = linksIn(await ask(port, get('/')));
  assert.deepEqual([root['token_header'], root['below_deployment']], ['Service-Cloud-Api-Token', undefined]);
  assert.equal((root['links'] as Record<string, unknown>)['events'], '/{deployment_name}/events');
  const named = linksIn(await ask(port, get('/unknown/')));
  assert.deepEqual(named, { ...root, below_deployment: true });
  for (const path of ['/-', '/-/', '/..%2f', '/..%2f/', '//', '/prod/x']) {
    assert.equal((await ask(port, get(path, BROWSER))).status, 401, path);
  }
});

test('a page address without its last slash redirects a browser, and the address of the service answers any client', async (t) => {
  const assertRedirect = async (port: number, path: string, location: string) => {
    const { status, headers } = await ask(port, get(path, BROWSER));
    assert.deepEqual([status, headers.get('location'), headers.get('vary')], [301, location, 'Accept'], path);
    assert.ok(isPage(await ask(port, get(new URL(location, `http://a${path}`).pathname, BROWSER))), path);
  };
  const local = await serve(t, { args: ['--path-prefix', '/some/a:b'] });
  await assertRedirect(local.port, '/some/a:b', './a:b/');
  await assertRedirect(local.port, '/some/a:b?key=x%20y', './a:b/?key=x%20y');
  assert.equal(linksIn(await ask(local.port, get('/some/a:b')))['service'], 'assetlog');
  const statusOf = async (port: number, request: string) => (await ask(port, request)).status;
  assert.deepEqual(
    [await statusOf(local.port, post('/some/a:b')), await statusOf(local.port, get('/some', BROWSER))],
    [404, 404],
  );
  const deployments = writeDeployments(t, ['prod']);
  const hosted = await serve(t, { args: [...deployments.args, '--path-prefix', '/x'] });
  for (const name of ['prod', 'unknown']) await assertRedirect(hosted.port, `/x/${name}`, `./${name}/`);
  await assertRedirect(hosted.port, '/x', './x/');
  assert.equal(linksIn(await ask(hosted.port, get('/x')))['token_header'], 'Service-Cloud-Api-Token');
  assert.deepEqual(
    [
      await statusOf(hosted.port, get('/x/prod')),
      await statusOf(hosted.port, get('/x/prod', deployments.headerOf('prod'))),
      await statusOf(hosted.port, post('/x/prod', undefined, [BROWSER])),
    ],
    [401, 404, 401],
  );
});
