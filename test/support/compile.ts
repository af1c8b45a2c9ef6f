/**
 * Compiles the source file by file into `coverage/program`, with a source map for each. A process of it takes a third of the
 * processor time of one that compiles its modules as it loads them, and its coverage is counted by line of the source, which
 * that of a bundle is not.
 */

import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { root } from './program.ts';

const outdir = join(root, 'coverage/program');

/** Each module imports the others as files of their own. */
const keepModules: Plugin = {
  name: 'keep modules',
  setup({ onResolve }) {
    onResolve({ filter: /^\.{1,2}\// }, ({ path, kind }) =>
      kind === 'entry-point' ? undefined : { path: path.replace(/\.ts$/, '.js'), external: true },
    );
  },
};

rmSync(outdir, { recursive: true, force: true });
const names = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
await build({
  absWorkingDir: root,
  entryPoints: names
    .filter((name) => name.endsWith('.ts') && name !== 'build.ts')
    .map((name) => join(root, 'src', name)),
  outdir,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.19',
  sourcemap: true,
  sourcesContent: false,
  logLevel: 'warning',
  plugins: [keepModules],
});
