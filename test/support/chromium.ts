/** A real browser. */

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Scope } from './program.ts';
import { HANG_MS } from './tools.ts';

const CHROMIUM = '/usr/bin/chromium';
/** Why tests with a browser are skipped; false if there is one. */
export const noBrowser = !existsSync(CHROMIUM) && `${CHROMIUM} is not installed`;

/** The part of playwright-core that tests use. Its own types need the types of a browser, which this project does not have. */
export interface Page {
  goto(url: string): Promise<unknown>;
  reload(): Promise<unknown>;
  evaluate<Result>(expression: string): Promise<Result>;
  addInitScript(script: { content: string }): Promise<void>;
  click(selector: string): Promise<void>;
  fill(selector: string, text: string): Promise<void>;
  selectOption(selector: string, value: string): Promise<unknown>;
  setViewportSize(size: { width: number; height: number }): Promise<void>;
  emulateMedia(media: { colorScheme?: 'light' | 'dark'; media?: 'print' | 'screen' }): Promise<void>;
  screenshot(options: { path: string }): Promise<unknown>;
  readonly mouse: { move(x: number, y: number): Promise<void>; click(x: number, y: number): Promise<void> };
  readonly keyboard: { press(key: string): Promise<void>; type(text: string): Promise<void> };
  on(event: 'pageerror', listener: (error: Error) => void): void;
  on(event: 'console', listener: (message: { type(): string; text(): string }) => void): void;
  on(event: 'request' | 'requestfinished' | 'requestfailed', listener: (request: { url(): string }) => void): void;
  close(): Promise<void>;
}

export interface Browser {
  newPage(): Promise<Page>;
  setDefaultTimeout(ms: number): void;
  close(): Promise<void>;
}

interface Playwright {
  chromium: {
    launchPersistentContext(
      folder: string,
      options: { executablePath: string; chromiumSandbox: boolean; timeout: number; args: readonly string[] },
    ): Promise<Browser>;
  };
}

/** Starts a browser with a new profile. Both are removed with the test. */
export async function startBrowser(t: Scope, args: readonly string[] = []): Promise<Browser> {
  const playwright: Playwright = createRequire(import.meta.url)('playwright-core');
  const profile = mkdtempSync(join(tmpdir(), 'assetlog-'));
  let browser: Browser | undefined;
  // In this order: a browser writes its profile while it ends.
  t.after(async () => {
    await browser?.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
  });
  browser = await playwright.chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM,
    chromiumSandbox: process.getuid?.() !== 0, // root has no sandbox
    timeout: HANG_MS,
    args: [
      ...['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
      ...['--disable-background-networking', '--disable-component-update', ...args],
    ],
  });
  browser.setDefaultTimeout(HANG_MS);
  return browser;
}
