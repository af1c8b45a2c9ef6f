/** The relay that `assetlog relay` prints, as a process. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { freePort, newFolder, root } from './program.ts';
import { eventually } from './tools.ts';

interface RelayOptions {
  readonly python: string;
  /** `ALARM_FORM`. */
  readonly form: string;
  /** `ALARM_URL`. */
  readonly target: string;
  /** The limit of a connection, 20 in the program. */
  readonly seconds?: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts the relay before a target. It ends with the test. */
export async function startRelay(t: TestContext, { python, form, target, seconds = 20, env = {} }: RelayOptions) {
  const port = await freePort(t);
  const none = { http_proxy: 'http://127.0.0.1:9', HTTP_PROXY: '', no_proxy: '', NO_PROXY: '' };
  const own = { ALARM_FORM: form, ALARM_URL: target, ALARM_TOPIC: 'alarms', PORT: `${port}`, ...none, ...env };
  const program = readFileSync(join(root, 'src/commands/printed/assetlog_relay.py'), 'utf8');
  const script = join(newFolder(t), 'assetlog_relay.py');
  assert.match(program, /^CONNECTIONS, SECONDS, BODY_BYTES = 16, 20, /m);
  writeFileSync(script, program.replace('= 16, 20, ', `= 16, ${seconds}, `));
  const child = spawn(python, ['-u', script], { env: { ...process.env, ...own }, stdio: ['ignore', 'ignore', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const ended = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const to = `http://127.0.0.1:${port}`;
  /** @returns the status; undefined if the connection ends without one */
  const postText = async (body: string, headers: Readonly<Record<string, string>> = {}) =>
    (await fetch(to, { method: 'POST', body, headers }).catch(() => undefined))?.status;
  await eventually('the relay listens', async () => (await postText('')) === 400);
  return { to, port, postText, post: (body: object) => postText(JSON.stringify(body)), stderr: () => stderr };
}
