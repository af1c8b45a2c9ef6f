/** A hostile page in a real browser: whatever it requests, it learns nothing that a service has recorded. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, type Page, startBrowser } from '../support/chromium.ts';
import { jsonIn } from '../support/command-output.ts';
import { brokenBuild, EVIL, openPage, RESOLVE, rebind } from '../support/hostile-site.ts';
import { type Running, type Scope, startService } from '../support/program.ts';
import { eventually } from '../support/tools.ts';

const PATHS = ['/events', '/assets', '/refusals'];
/** Part of each key that is recorded or refused here. */
const SECRET = 'secret';
/** Another port is another origin, and another name another site as well. To EVIL the browser sends no Sec-Fetch-Site. */
const hosts = ['127.0.0.1', 'localhost', EVIL];
/** The `readings` of `hostile-page.js`. */
const READINGS = 29;
/** The readings that open a window. In it the page of the service requests itself as JSON, from its own origin. */
const WINDOWS = 3;
const FOREIGN_HOST = /^403 {"error":"Host \\"evil\.example:\d+\\" is not this service/;
const isDebug = ['--log-level', 'debug'];

test('no page of another origin can read events, assets or refusals', {
  skip: noBrowser,
}, async (t) => {
  const browser = await startBrowser(t, RESOLVE);
  for (const pageHost of hosts) {
    const page = await openPage(t, browser, pageHost);
    for (const serviceHost of hosts) {
      await t.test(`from ${pageHost} at ${serviceHost}`, async (t) => {
        const service = await startService(t, { args: isDebug });
        await report(service);
        await assertLearnsNothing(page, service, serviceHost, PATHS);
        for (const path of PATHS) {
          const arrived = await waitForArrivals(service, path, readingsOf(pageHost));
          assert.deepEqual(new Set(arrived), new Set([403]), path);
        }
        // The operator can see that a page has tried.
        const { refusals } = (await (await fetch(`${service.url}/refusals`)).json()) as {
          refusals: { error: string }[];
        };
        assert.ok(refusals.some(({ error }) => /^(Host|Origin|Sec-Fetch-Site) /.test(error)));
      });
    }
  }
});

test('a page of another site can open a window of the page of the service, but cannot read it', {
  skip: noBrowser,
}, async (t) => {
  const browser = await startBrowser(t, RESOLVE);
  const page = await openPage(t, browser, EVIL);
  for (const serviceHost of ['127.0.0.1', EVIL]) {
    await t.test(`at ${serviceHost}`, async (t) => {
      const service = await startService(t, { args: isDebug });
      await report(service);
      await assertLearnsNothing(page, service, serviceHost, ['/']);
      const arrived = await waitForArrivals(service, '/', readingsOf(EVIL));
      const opened = serviceHost === EVIL ? 0 : WINDOWS;
      assert.equal(arrived.filter((status) => status === 403).length, readingsOf(EVIL) - opened);
      assert.equal(arrived.includes(200), opened > 0);
    });
  }
});

test('a page on a name that later points at the service cannot read', { skip: noBrowser }, async (t) => {
  await assertReadsOnlyRefusals(t, []);
});

test('without the rule for Host, DNS rebinding can read', { skip: noBrowser }, async (t) => {
  const program = await brokenBuild(t, [['ownNames.has(nameOf(authority))', 'true']]);
  const { page, service } = await rebind(t, await startBrowser(t, RESOLVE), { program });
  await report(service);
  const learned = await readAll(page, service, EVIL, PATHS);
  for (const path of PATHS) assert.match(learned[`cors ${path}`] ?? '', new RegExp(`^200 .*${SECRET}`), path);
  assert.equal(learned['event-source /events'], 'opened');
});

/** Reads in every way, as a page on a name that leads to the service by now, and finds that each is refused. */
async function assertReadsOnlyRefusals(t: Scope, args: readonly string[]): Promise<void> {
  const { page, service } = await rebind(t, await startBrowser(t, RESOLVE), { args: [...args, ...isDebug] });
  await report(service);
  const learned = await readAll(page, service, EVIL, PATHS);
  for (const [name, read] of Object.entries(learned)) {
    assert.ok(!read.includes(SECRET), `${name}: ${read}`);
    // For the browser the service is the page's own server, so the page can read the refusal.
    if (!name.startsWith('redirected')) assert.match(read, /^nothing$|^403 $|^(403 )?{"error":"Host /, name);
  }
  for (const path of PATHS) {
    assert.match(learned[`cors ${path}`] ?? '', FOREIGN_HOST);
    assert.match(learned[`xhr ${path}`] ?? '', FOREIGN_HOST);
    // One fewer: the redirect would have come from the page's own server.
    assert.deepEqual(new Set(await waitForArrivals(service, path, readingsOf(EVIL) - 1)), new Set([403]), path);
  }
}

/** Checks that a page of another origin gets nothing from any reading. */
async function assertLearnsNothing(
  page: Page,
  service: Running,
  host: string,
  paths: readonly string[],
): Promise<void> {
  const learned = await readAll(page, service, host, paths);
  assert.deepEqual(learned, Object.fromEntries(Object.keys(learned).map((name) => [name, 'nothing'])));
  assert.equal(Object.keys(learned).length, READINGS * paths.length);
  assert.deepEqual(await page.evaluate('leaks()'), []);
}

/** @returns what the page could read, by the name of the reading and the path: `cors /events` */
function readAll(
  page: Page,
  { port }: Running,
  host: string,
  paths: readonly string[],
): Promise<Readonly<Record<string, string>>> {
  return page.evaluate(`read(${JSON.stringify(paths.map((path) => `http://${host}:${port}${path}`))})`);
}

/** Only a page with TLS or from this machine has service workers. */
function readingsOf(pageHost: string): number {
  return pageHost === EVIL ? READINGS - 1 : READINGS;
}

/** Waits until the service has logged `count` requests of a path. @returns their statuses */
async function waitForArrivals(service: Running, path: string, count: number): Promise<number[]> {
  let statuses: number[] = [];
  await eventually(`${count} requests of ${path}`, () => {
    statuses = jsonIn(service.stderr())
      .filter((entry) => entry.message === 'request' && entry.path === path)
      .map(({ status }) => status);
    return statuses.length >= count;
  }).catch((error) => assert.fail(`${error.message}; there were ${statuses.length}`));
  return statuses;
}

/** Records one event, and sends one report that is refused. */
async function report({ url }: Running, prefix = '', token = ''): Promise<void> {
  const headers = { 'Service-Cloud-Api-Token': token };
  const send = async (path: string) => (await fetch(`${url}${prefix}${path}`, { method: 'POST', headers })).status;
  assert.equal(await send(`/report_asset_materialization/${SECRET}`), 200);
  assert.equal(await send(`/report_asset_check/${SECRET}`), 400);
}
