/** HAProxy as a process, with exactly the file of the handbook. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Front, makeCertificate, replaced, startProxy } from './nginx.ts';
import { freePort, newFolder, root, type Scope } from './program.ts';
import { HANG_MS, missing } from './tools.ts';

export const haproxyFile = readFileSync(join(root, 'bin/handbook/haproxy.cfg'), 'utf8');

/** Why tests with HAProxy are skipped; false if it is there. */
export const withoutHaproxy =
  missing('haproxy is not installed', 'haproxy', ['-v']) || missing('openssl is not installed', 'openssl', ['version']);

/** Starts HAProxy with the handbook's file, in front of a port. */
export async function startHaproxy(t: Scope, upstreamPort: number, text = haproxyFile): Promise<Front> {
  const folder = newFolder(t);
  const port = await freePort(t);
  const { certificateFile, keyFile } = makeCertificate(folder);
  const certificate = readFileSync(certificateFile, 'utf8');
  const [file, both] = [join(folder, 'haproxy.cfg'), join(folder, 'both.pem')];
  writeFileSync(both, certificate + readFileSync(keyFile, 'utf8'));
  const at = replaced(text, 'bind :443', `bind 127.0.0.1:${port}`);
  const filled = replaced(at, '127.0.0.1:3000', `127.0.0.1:${upstreamPort}`);
  writeFileSync(file, replaced(filled, '/etc/ssl/assets.example.pem', both));
  const checked = spawnSync('haproxy', ['-c', '-f', file], { encoding: 'utf8', timeout: HANG_MS });
  assert.equal(checked.status, 0, checked.stderr);
  assert.doesNotMatch(checked.stderr, /WARNING|ALERT/, 'HAProxy finds no problem');
  const proxy = { port, certificate, certificateFile, log: () => '' };
  await startProxy(t, proxy, ['haproxy', '-db', '-f', file]);
  return proxy;
}
