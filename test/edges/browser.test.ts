/** A hostile page in a real browser: whatever it sends, nothing is recorded, and it can read no reply. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, type Page, startBrowser } from '../support/chromium.ts';
import { brokenBuild, EVIL, openPage, RESOLVE, type Replacement, rebind } from '../support/hostile-site.ts';
import { type Running, startService } from '../support/program.ts';
import { eventually } from '../support/tools.ts';

const ENDPOINT = '/report_asset_materialization/';

/**
 * The attempts of `hostile-page.js`: the request that reaches a service on another origin, and whether a service that
 * accepts it would record a report. OPTIONS is the browser's preflight: when it is refused, nothing follows.
 */
const attempts: Readonly<Record<string, 'POST, a report' | 'POST' | 'GET' | 'OPTIONS'>> = {
  'fetch-empty': 'POST, a report',
  'fetch-text': 'POST',
  'fetch-json': 'OPTIONS',
  'fetch-readable': 'POST, a report',
  'fetch-header': 'OPTIONS',
  'fetch-credentials': 'POST, a report',
  'fetch-keepalive': 'POST, a report',
  'fetch-no-referrer': 'POST, a report',
  'fetch-redirected': 'POST, a report',
  'fetch-get': 'GET',
  'fetch-worker': 'POST, a report',
  'xhr-empty': 'POST, a report',
  'beacon-empty': 'POST, a report',
  'beacon-text': 'POST',
  'beacon-json': 'OPTIONS',
  'ping-link': 'POST',
  'form-empty': 'POST, a report',
  'form-fields': 'POST',
  'form-multipart': 'POST',
  'form-text-plain': 'POST',
  'form-redirected': 'POST, a report',
  'form-new-window': 'POST, a report',
  'form-get': 'GET',
  'frame-sandboxed': 'POST, a report',
  'frame-get': 'GET',
  'window-open': 'GET',
  image: 'GET',
  script: 'GET',
  style: 'GET',
  'web-socket': 'GET',
  'event-source': 'GET',
};
const names = Object.keys(attempts).sort();
const reports = names.filter((name) => attempts[name] === 'POST, a report');
const requests = names.map((name) => `${attempts[name]?.split(',')[0]} ${name}`).sort();

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

test('a page on a name that was pointed at the service afterwards cannot report', { skip: noBrowser }, async (t) => {
  const { page, service } = await rebind(t, await startBrowser(t, RESOLVE));
  const learned = await attack(page, service, EVIL, EVIL);
  // For the browser the service is the page's own server, so the page can read the refusal.
  assert.match(learned['fetch-json'] ?? '', /^403 {"error":"Host \\"evil\.example:\d+\\" is not this service/);
  for (const [name, read] of Object.entries(learned)) assert.match(read, /^nothing$|^(403 )?{"error":"Host /, name);
  assert.deepEqual(service.events(), []);
  assert.equal(await reportFromHere(service), 200);
  assert.deepEqual(keysIn(service), ['from-here']);
});

test('DNS rebinding cannot report to a service that listens on every interface', { skip: noBrowser }, async (t) => {
  const { page, service } = await rebind(t, await startBrowser(t, RESOLVE), { args: ['--host', '0.0.0.0'] });
  const learned = await attack(page, service, EVIL, EVIL);
  assert.match(learned['fetch-json'] ?? '', /^403 {"error":"Host \\"evil\.example:\d+\\" is not this service/);
  assert.deepEqual(service.events(), []);
  assert.equal(await reportFromHere(service), 200);
  assert.deepEqual(keysIn(service), ['from-here']);
});

test('without the rule for Origin and Sec-Fetch-Site, a page of another origin does report', {
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

test('without the rule for Host, DNS rebinding does report', {
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
