/** nginx as a process, with exactly the configuration of the handbook. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { linkedFrom, page } from './handbook.ts';
import { freePort, newFolder, type Scope } from './program.ts';
import { missing } from './tools.ts';

export const PUBLIC_NAME = 'assets.example';
const READY_MS = 60_000;
const STOP_MS = 3_000;

const install = page('install');
export const recommended = linkedFrom('nginx.conf', 'install');
/** The options for `assetlog serve` behind it. */
export const recommendedArgs = /`assetlog serve (--allowed-host [^`]*)`/.exec(install)?.[1]?.split(' ') ?? [];
/** More options for hosted mode. */
export const recommendedHostedArgs = /`(--trusted-proxy [^`]*)`,\s+so\s+that/.exec(install)?.[1]?.split(' ') ?? [];

/** Why tests with nginx are skipped; false if it is there. */
export const withoutNginx =
  missing('nginx is not installed', 'nginx', ['-v']) || missing('openssl is not installed', 'openssl', ['version']);

/** A proxy with TLS in front of a service. */
export interface Front {
  readonly port: number;
  /** The socket file that it listens on in place of the port. */
  readonly socketPath?: string | undefined;
  readonly certificate: string;
  readonly certificateFile: string;
  log(): string;
}

/**
 * Starts nginx with the handbook's configuration, in front of a port.
 * @param beside the first words of a command line that starts it in other namespaces, where it listens on a socket file
 */
export async function startNginx(
  t: Scope,
  upstreamPort: number,
  text = recommended,
  beside: readonly string[] = [],
): Promise<Front> {
  const folder = newFolder(t);
  const port = await freePort(t);
  const socketPath = beside.length === 0 ? undefined : join(folder, 'socket');
  const { certificateFile, keyFile } = makeCertificate(folder);
  let filled = replaced(text, '127.0.0.1:3000', `127.0.0.1:${upstreamPort}`);
  filled = replaced(filled, 'listen 443 ssl', `listen ${socketPath ? `unix:${socketPath}` : `127.0.0.1:${port}`} ssl`);
  filled = replaced(filled, '/etc/ssl/assets.example.pem', certificateFile);
  filled = replaced(filled, '/etc/ssl/assets.example.key', keyFile);
  const file = join(folder, 'nginx.conf');
  writeFileSync(file, mainConfiguration(folder, filled));
  const args = ['-p', folder, '-e', join(folder, 'error.log'), '-c', file];
  const log = () => readFileSync(join(folder, 'error.log'), 'utf8');
  const checked = spawnSync('nginx', ['-t', ...args], { encoding: 'utf8', timeout: READY_MS });
  assert.equal(checked.status, 0, checked.stderr);
  assert.doesNotMatch(checked.stderr, /\[(warn|error)/, 'nginx finds no problem');

  const proxy = { port, socketPath, certificate: readFileSync(certificateFile, 'utf8'), certificateFile, log };
  await startProxy(t, proxy, [...beside, 'nginx', ...args]);
  return proxy;
}

/** Starts the process of a proxy, and waits until it listens. */
export async function startProxy(t: Scope, proxy: Front, [file = '', ...args]: readonly string[]): Promise<void> {
  const child = spawn(file, args, { stdio: 'ignore' });
  t.after(() => stop(child));
  for (const late = performance.now() + READY_MS; !(await listens(proxy)); await sleep(20)) {
    if (performance.now() > late || child.exitCode !== null)
      throw new Error(`${file} ${args.join(' ')} does not listen: ${proxy.log()}`);
  }
}

/** The configuration around a site, with every path in a folder of the test. */
function mainConfiguration(folder: string, site: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => {
    mkdirSync(join(folder, name));
    return `${name}_temp_path ${join(folder, name)};`;
  });
  return [
    process.getuid?.() === 0 ? 'user root;' : '', // the folder belongs to root
    'daemon off;',
    `error_log ${join(folder, 'error.log')} warn;`,
    'worker_processes 2;',
    `pid ${join(folder, 'nginx.pid')};`,
    'events { worker_connections 4096; }',
    'http {',
    'access_log off;',
    ...temporary,
    site,
    '}',
  ].join('\n');
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, 'close');
  const tooLong = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  child.kill('SIGTERM');
  await closed;
  clearTimeout(tooLong);
}

export function makeCertificate(folder: string, address = '127.0.0.1'): { certificateFile: string; keyFile: string } {
  const certificateFile = join(folder, 'certificate.pem');
  const keyFile = join(folder, 'key.pem');
  const made = spawnSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
      ...['-subj', `/CN=${PUBLIC_NAME}`, '-addext', `subjectAltName=DNS:${PUBLIC_NAME},IP:${address}`],
      ...['-keyout', keyFile, '-out', certificateFile],
    ],
    { encoding: 'utf8', timeout: READY_MS },
  );
  assert.equal(made.status, 0, made.stderr);
  return { certificateFile, keyFile };
}

function listens({ port, socketPath, certificate }: Front): Promise<boolean> {
  return new Promise((resolve) => {
    const at = socketPath === undefined ? { host: '127.0.0.1', port } : { path: socketPath };
    const socket = connectTls({ ...at, servername: PUBLIC_NAME, ca: certificate });
    socket.once('secureConnect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('secureConnect', () => socket.destroy());
  });
}

/** Replaces `from`, which occurs once. @throws AssertionError if it does not */
export function replaced(text: string, from: string, to: string): string {
  assert.equal(text.split(from).length, 2, `occurs once in the handbook's example: ${from}`);
  return text.replace(from, () => to);
}
