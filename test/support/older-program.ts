/** Builds the program of an earlier commit, to run it beside this one. */

import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { build } from 'esbuild';
import { newFolder, root, type Scope } from './program.ts';

/** The last commit whose lines end with the metadata; it knows neither batches nor idempotency keys. */
const BEFORE = '9005697fa8ad8ea43d3e595cf8b736648350c503';
const git = (...args: string[]) => spawnSync('git', ['-C', root, ...args], { maxBuffer: 64 * 1024 * 1024 });
const found = git('cat-file', '-e', `${BEFORE}^{commit}`);
const missing = found.error ?? spawnSync('tar', ['--version']).error;
/** Why it cannot be built; false if it can. */
export const withoutHistory = missing
  ? `it needs git and tar: ${missing.message}`
  : found.status !== 0 && `the history has no ${BEFORE.slice(0, 7)}, as in a shallow clone or a copy without .git`;

/** Builds the program of that commit. @returns its path */
export async function buildBefore(t: Scope): Promise<string> {
  const folder = newFolder(t);
  execFileSync('tar', ['-x', '-C', folder], { input: git('archive', BEFORE, 'src', 'package.json').stdout });
  const outfile = join(folder, 'server.cjs');
  await build({
    absWorkingDir: folder,
    entryPoints: [join(folder, 'src/server.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'iife',
    banner: { js: 'var require=process.getBuiltinModule;' },
    logLevel: 'error',
  });
  return outfile;
}
