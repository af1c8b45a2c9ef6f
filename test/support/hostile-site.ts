/** The site of an attacker, for tests with a real browser: its server, and its name, whose address the attacker chooses. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { build, type Plugin } from 'esbuild';
import type { Browser, Page } from './chromium.ts';
import { freePort, newFolder, type Running, type RunOptions, root, type Scope, startService } from './program.ts';

/** A name that leads to this machine in a browser started with `RESOLVE`. */
export const EVIL = 'evil.example';
export const RESOLVE = [`--host-resolver-rules=MAP ${EVIL} 127.0.0.1`];

const SCRIPTS: Readonly<Record<string, string>> = {
  '/script': join(root, 'test/edges/hostile-page.js'),
  '/worker': join(root, 'test/edges/hostile-worker.js'),
};

/** @returns a page of a new server, under a name: `await openPage(t, browser, 'localhost')` */
export async function openPage(t: Scope, browser: Browser, host: string): Promise<Page> {
  const server = await startPageServer();
  t.after(() => closePageServer(server));
  const page = await browser.newPage();
  await page.goto(`http://${host}:${portOf(server)}/`);
  return page;
}

/**
 * DNS rebinding: the page is from the attacker's server, then its name leads to the service. The name keeps its address
 * here; the server on the port changes instead.
 */
export async function rebind(
  t: Scope,
  browser: Browser,
  { args = [], ...options }: { args?: readonly string[]; data?: string } & RunOptions = {},
): Promise<{ page: Page; service: Running }> {
  const port = await freePort(t); // no other test gets the port between the two servers
  const server = await startPageServer(port);
  const page = await browser.newPage();
  await page.goto(`http://${EVIL}:${port}/`);
  await closePageServer(server);
  return { page, service: await startService(t, { ...options, args: ['--port', String(port), ...args] }) };
}

async function startPageServer(port = 0): Promise<Server> {
  const server = createServer((req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? '', 'http://page');
    const script = SCRIPTS[pathname];
    if (pathname === '/redirect') res.writeHead(307, { Location: searchParams.get('to') ?? '' }).end();
    else if (script !== undefined) res.setHeader('Content-Type', 'text/javascript').end(readFileSync(script));
    else res.setHeader('Content-Type', 'text/html').end('<!doctype html><body><script src="/script"></script>');
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function closePageServer(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

/** A text in `http/origin.ts`, and its replacement. */
export type Replacement = readonly [from: string, to: string];

/** Builds the program with changes to `http/origin.ts`; each text occurs there once. @returns the command that runs it */
export async function brokenBuild(t: Scope, replacements: readonly Replacement[]): Promise<readonly string[]> {
  const file = join(newFolder(t), 'server.cjs');
  const breaks: Plugin = {
    name: 'breaks',
    setup: ({ onLoad }) =>
      onLoad({ filter: /\/http\/origin\.ts$/ }, ({ path }) => {
        let contents = readFileSync(path, 'utf8');
        for (const [from, to] of replacements) {
          assert.equal(contents.split(from).length, 2, `occurs once in origin.ts: ${from}`);
          contents = contents.replace(from, () => to);
        }
        return { contents, loader: 'ts' };
      }),
  };
  const entryPoints = [join(root, 'src/server.ts')];
  await build({ entryPoints, bundle: true, platform: 'node', format: 'cjs', outfile: file, plugins: [breaks] });
  return [process.execPath, file];
}
