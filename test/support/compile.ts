/**
 * Compiles the source file by file into `coverage/program`, as tsx does it while it loads a module. A process of it takes a
 * third of the processor time, and c8 adds up the two, since each function is found at the same line and column. (The source
 * map of a bundle makes it count lines that never ran.)
 */

import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import { packedPage } from '../../src/http/page/build.ts';
import { root } from './program.ts';
import { isProgram } from './sources.ts';

const outdir = join(root, 'coverage/program');

const names = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
const { outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: names.filter((name) => name.endsWith('.ts') && isProgram(name)).map((name) => join(root, 'src', name)),
  outdir,
  define: { ASSETLOG_PAGE: await packedPage() },
  write: false,
  format: 'esm',
  target: `node${process.versions.node}`,
  minifyWhitespace: true,
  keepNames: true,
  sourcemap: true,
  sourcesContent: false,
});
rmSync(outdir, { recursive: true, force: true });
for (const { path, text } of outputFiles) {
  mkdirSync(dirname(path), { recursive: true });
  // As long as it was, so that the columns of the source map stay right.
  writeFileSync(
    path,
    path.endsWith('.map') ? text : text.replace(/((?:from|import) ?\(?"\.{1,2}\/[^"]*)\.ts"/g, '$1.js"'),
  );
}
