/** A hostile page in a real browser: whatever it sends, nothing is recorded, and it can read no reply. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, type Page, startBrowser } from '../support/chromium.ts';
import { brokenBuild, EVIL, openPage, RESOLVE, type Replacement, rebind } from '../support/hostile-site.ts';
import { type Running, startService } from '../support/program.ts';
import { eventually } from '../support/tools.ts';

const ENDPOINT = '/report_asset_materialization/';

/**
 * The attempts of `hostile-page.js`, by the request that reaches a service on another origin. OPTIONS is the browser's
 * preflight: when it is refused, nothing follows.
 */
const attempts = {
  POST: ['fetch-text', 'beacon-text', 'ping-link', 'form-fields', 'form-multipart', 'form-text-plain'],
  OPTIONS: ['fetch-json', 'fetch-header', 'beacon-json'],
  GET: [
    ...['fetch-get', 'form-get', 'frame-get', 'window-open', 'image', 'script', 'style', 'web-socket'],
    'event-source',
  ],
};
/** POST as well: a service that accepts them would record a report. */
const reports = [
  ...['beacon-empty', 'fetch-credentials', 'fetch-empty', 'fetch-keepalive', 'fetch-no-referrer', 'fetch-readable'],
  ...['fetch-redirected', 'fetch-worker', 'form-empty', 'form-new-window', 'form-redirected', 'frame-sandboxed'],
  'xhr-empty',
];
const requests = Object.entries({ ...attempts, POST: [...attempts.POST, ...reports] })
  .flatMap(([method, names]) => names.map((name) => `${method} ${name}`))
  .sort();
const names = requests.map((request) => request.split(' ')[1] ?? '').sort();

/** The hosts of the page. Another port is another origin, and another name is another site as well. */
const pageHosts = ['127.0.0.1', 'localhost', EVIL];
/** The names by which the page addresses the service. The browser sends no Sec-Fetch-Site to the last one. */
const serviceHosts = ['127.0.0.1', 'localhost', EVIL];

const originRules: readonly Replacement[] = [
  ['origin !== undefined && !isSameServer(', 'false && !isSameServer('],
  ["fetchSite !== undefined && fetchSite !== 'none'", "false && fetchSite !== 'none'"],
];
const hostRule: readonly Replacement[] = [['ownNames.has(nameOf(authority))', 'true']];

test('no page of another origin can report or read a reply', { skip: noBrowser }, async (t) => {
  const browser = await startBrowser(t, RESOLVE);
  const service = await startService(t, { args: ['--log-level', 'debug'] });
  for (const pageHost of pageHosts) {
    const page = await openPage(t, browser, pageHost);
    for (const serviceHost of serviceHosts) {
      await t.test(`from ${pageHost} to ${serviceHost}`, async () => {
        const learned = await attack(page, service, pageHost, serviceHost);
        assert.deepEqual(learned, Object.fromEntries(names.map((name) => [name, 'nothing'])));
        const arrived = await waitForArrivals(service, pageHost, serviceHost, names.length);
        assert.deepEqual(arrived.map(({ request }) => request).sort(), requests);
        for (const { request, status } of arrived) assert.equal(status, 403, request);
        assert.deepEqual(service.events(), []);
      });
    }
  }
  await t.test('the service records a report that is not from a page', async () => {
    assert.equal(await reportFromHere(service), 200);
    assert.deepEqual(keysIn(service), ['from-here']);
  });
});

for (const [what, args, learns] of [
  // For the browser the service is the page's own server, so the page can read the refusal.
  ['this machine', [], /^nothing$|^(403 )?{"error":"Host /],
  ['every interface', ['--host', '0.0.0.0'], /^(?!200)/],
] as const) {
  test(`DNS rebinding cannot report to a service that listens on ${what}`, { skip: noBrowser }, async (t) => {
    const { page, service } = await rebind(t, await startBrowser(t, RESOLVE), { args });
    const learned = await attack(page, service, EVIL, EVIL);
    assert.match(learned['fetch-json'] ?? '', /^403 {"error":"Host \\"evil\.example:\d+\\" is not this service/);
    for (const [name, read] of Object.entries(learned)) assert.match(read, learns, name);
    assert.deepEqual(service.events(), []);
    assert.equal(await reportFromHere(service), 200);
    assert.deepEqual(keysIn(service), ['from-here']);
  });
}

test('without the rule for Origin and Sec-Fetch-Site, a page of another origin can report', {
  skip: noBrowser,
}, async (t) => {
  const browser = await startBrowser(t, RESOLVE);
  const service = await startService(t, { program: await brokenBuild(t, originRules), args: ['--log-level', 'debug'] });
  const page = await openPage(t, browser, EVIL);
  await attack(page, service, EVIL, '127.0.0.1');
  await waitForArrivals(service, EVIL, '127.0.0.1', names.length);
  await eventually('all reports are recorded', () => service.events().length >= reports.length);
  assert.deepEqual(keysIn(service), reports);
});

test('without the rule for Host, DNS rebinding can report', {
  skip: noBrowser,
}, async (t) => {
  const { page, service } = await rebind(t, await startBrowser(t, RESOLVE), {
    program: await brokenBuild(t, hostRule),
  });
  const learned = await attack(page, service, EVIL, EVIL);
  assert.equal(learned['fetch-json'], '200 {}');
  assert.ok(keysIn(service).includes('fetch-json'), keysIn(service).join());
});

/** Makes all attempts. @returns what each could read, by its name */
function attack(
  page: Page,
  service: Running,
  pageHost: string,
  serviceHost: string,
): Promise<Readonly<Record<string, string>>> {
  const base = `http://${serviceHost}:${service.port}${ENDPOINT}${pageHost}/${serviceHost}/`;
  return page.evaluate(`attack(${JSON.stringify(base)})`);
}

interface Arrival {
  readonly request: string;
  readonly status: number;
}

/** Waits until the service has logged `count` different requests of the page. */
async function waitForArrivals(
  service: Running,
  pageHost: string,
  serviceHost: string,
  count: number,
): Promise<Arrival[]> {
  const seen = new Map<string, Arrival>();
  const path = `${ENDPOINT}${pageHost}/${serviceHost}/`;
  await eventually(`${count} requests arrive`, () => {
    for (const line of service.stderr().split('\n').slice(0, -1)) {
      const entry = JSON.parse(line);
      if (entry.message !== 'request' || !entry.path.startsWith(path)) continue;
      const request = `${entry.method} ${entry.path.slice(path.length)}`;
      seen.set(`${request} ${entry.status}`, { request, status: entry.status });
    }
    return seen.size >= count;
  });
  return [...seen.values()];
}

/** The last part of each recorded key. */
function keysIn(service: Running): string[] {
  return service
    .events()
    .map((event) => (event['asset_key'] as string[]).at(-1) ?? '')
    .sort();
}

async function reportFromHere({ url }: Running): Promise<number> {
  const reply = await fetch(`${url}${ENDPOINT}from-here`, { method: 'POST' });
  await reply.arrayBuffer();
  return reply.status;
}
