/** Compiles TypeScript files one by one, so that a process that loads them needs no compiler and no loader hooks. */

import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { build } from 'esbuild';

/** Relative to the project; `src/server.ts` becomes `coverage/compiled/src/server.js`. */
export const COMPILED = 'coverage/compiled';

const posix = (path: string) => path.replaceAll(sep, '/');

/** @returns all TypeScript files of `src`, `test` and `.ci`, such as `src/journal/disk.ts` */
export function typeScriptFiles(folder: string): string[] {
  const below = (name: string) =>
    readdirSync(join(folder, name), { recursive: true, encoding: 'utf8' }).map((path) => posix(`${name}/${path}`));
  return [...below('src'), ...below('test'), ...below('.ci')].filter((path) => path.endsWith('.ts'));
}

/**
 * Compiles files of a project, such as `src/journal/disk.ts`, to JavaScript with source maps in `coverage/compiled`. A compiled module
 * still finds the files beside its source, such as `index.html`.
 * @param define constants that the build of the program sets, such as `{ ASSETLOG_PAGE: '"…"' }`
 * @throws if a file does not compile
 */
export async function compile(
  folder: string,
  files: readonly string[],
  define: Readonly<Record<string, string>> = {},
): Promise<void> {
  const { outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: [...files],
    outdir: COMPILED,
    outbase: '.',
    define: { ...define },
    write: false,
    format: 'esm',
    target: `node${process.versions.node}`,
    minifyWhitespace: true,
    keepNames: true,
    sourcemap: true,
    sourcesContent: false,
    logLevel: 'silent',
  });
  for (const { path, text } of outputFiles) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, path.endsWith('.map') ? text : resolveNames(text));
  }
}

/**
 * Keeps the length of the name of an imported file, so that the columns of the source map stay right. The place of a source is computed
 * when it is used: Wine has another path for it.
 */
function resolveNames(text: string): string {
  return text
    .replace(/((?:from|import) ?\(?"\.{1,2}\/[^"]*)\.ts"/g, '$1.js"')
    .replace(/\bimport\.meta\.url\b/g, `$&.replace("/${COMPILED}/","/").replace(/js$/,"ts")`);
}
