/** Runs the built program as a user who is not root. Needs root. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, copyFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { newFolder, outerEnvironment, root } from './program.ts';

/** The uid and the gid. */
export const USER = 65_534;

const built = join(root, 'dist/server.js');
export const withoutBuilt = !existsSync(built) && 'the built program is missing; run npm run build';

/** @returns a new folder that belongs to the user */
export function userFolder(t: TestContext): string {
  const folder = newFolder(t);
  chownSync(folder, USER, USER);
  return folder;
}

/** @returns how the program ended, or its port once it is ready */
export async function runAsUser(
  t: TestContext,
  data: string,
): Promise<{ code: number | null; stderr: string; port: number }> {
  const copy = join(newFolder(t), 'server.js');
  copyFileSync(built, copy);
  chmodSync(join(copy, '..'), 0o755);
  const child: ChildProcess = spawn(process.execPath, [copy, '--port', '0', '--data', data], {
    uid: USER,
    gid: USER,
    cwd: '/',
    env: { ...outerEnvironment, NODE_V8_COVERAGE: undefined }, // the user has no permission to write coverage
  });
  t.after(() => child.kill('SIGKILL'));
  let [stderr, port] = ['', 0];
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const ready = new Promise<void>((resolve) => {
    child.stdout?.setEncoding('utf8').on('data', (text) => {
      port = Number(/:(\d+)\n/.exec(text)?.[1]);
      resolve();
    });
  });
  await Promise.race([ready, once(child, 'close')]);
  return { code: child.exitCode, stderr, port };
}
