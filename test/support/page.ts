/** The page of the service in a real browser, for tests: opening it, waiting for what it shows, and reading it. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, afterEach, before } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Browser, noBrowser, type Page, startBrowser } from './chromium.ts';
import type { Running } from './program.ts';
import { record } from './report.ts';
import { HANG_MS } from './tools.ts';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

let browser: Browser;
/** Errors in the pages of a test. */
let problems: string[] = [];
const releases: (() => unknown)[] = [];
const scope = { after: (release: () => unknown) => void releases.push(release) };

/** Starts a browser for the tests of a file. A test fails if a page of it has an error, or breaks its policy. */
export function useBrowser(): void {
  before(async () => {
    if (noBrowser === false) browser = await startBrowser(scope);
  });
  after(async () => {
    for (const release of releases) await release();
  });
  afterEach(() => {
    const found = problems;
    problems = [];
    assert.deepEqual(found, [], 'no error, and nothing that the policy of the page forbids');
  });
}

/** Opens a page, in which a script runs first. Each error that it logs, and each violation of its Content-Security-Policy, fails the test. */
export async function open(url: string, script = ''): Promise<Page> {
  const page = await browser.newPage();
  releases.unshift(() => page.close());
  await page.addInitScript({
    content: `addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
      console.error('forbidden: ' + violatedDirective + ' ' + blockedURI));
      ${script}`,
  });
  page.on('pageerror', ({ message }) => problems.push(message));
  page.on('console', (message) => {
    const isExpected = /Failed to load resource/.test(message.text()); // of replies other than 2xx
    if (message.type() === 'error' && !isExpected) problems.push(message.text());
  });
  await page.setViewportSize({ width: 1280, height: 720 });
  await page.goto(url);
  return page;
}

/** Resolves when an expression is true in the page. (Playwright's own waiting needs eval, which the policy forbids.) */
export async function sees(page: Page, expression: string): Promise<void> {
  for (const late = performance.now() + HANG_MS; !(await page.evaluate<boolean>(expression)); await sleep(30)) {
    if (performance.now() > late)
      assert.fail(`not so within ${HANG_MS} ms: ${expression}\nthe page has: ${await textOf(page, 'body')}`);
  }
}

export const hide = (page: Page, hidden: boolean) =>
  page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${hidden} });
    document.dispatchEvent(new Event('visibilitychange'));`);
export const textOf = (page: Page, selector: string) =>
  page.evaluate<string>(`document.querySelector(${JSON.stringify(selector)})?.innerText ?? ''`);
export const has = (selector: string, text: string) =>
  `(document.querySelector(${JSON.stringify(selector)})?.innerText ?? '').includes(${JSON.stringify(text)})`;
export const count = (selector: string) => `document.querySelectorAll(${JSON.stringify(selector)}).length`;
/** The texts of a column of the list, from the top. */
export const COLUMN = `((kind) => [...document.querySelectorAll('.row')]
  .sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)
  .map((row) => row.querySelector('.' + kind).innerText))`;
export const column = (page: Page, kind: string) => page.evaluate<string[]>(`${COLUMN}('${kind}')`);
export const isLive = has('#state', 'Live');

export async function report(service: Pick<Running, 'url'>, items: readonly object[], headers = {}): Promise<void> {
  for (let at = 0; at < items.length; at += 1_000)
    await record(service, 'batch/', { body: items.slice(at, at + 1_000), headers });
}

/** @returns what axe-core finds in the page */
export const violationsOf = (page: Page) =>
  page.evaluate<string[]>(`(async () => {
    ${'if (!window.axe) (0, () => {'}${readFileSync(axe, 'utf8')}${'})();'}
    const { violations } = await axe.run();
    return violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' '));
  })()`);
