/** Compiles TypeScript files one by one, so that a process that loads them needs neither a compiler nor the hooks of a loader. */

import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

/** Below the project; `src/server.ts` is `coverage/compiled/src/server.js` there. */
export const COMPILED = 'coverage/compiled';

/** @returns all TypeScript files of `src`, `test` and `.ci`, such as `src/journal/disk.ts` */
export function typeScriptFiles(folder: string): string[] {
  const below = (name: string) =>
    readdirSync(join(folder, name), { recursive: true, encoding: 'utf8' }).map((path) => `${name}/${path}`);
  return [...below('src'), ...below('test'), ...below('.ci')].filter((path) => path.endsWith('.ts'));
}

/**
 * Writes files of a project, such as `src/journal/disk.ts`, as JavaScript with source maps to `coverage/compiled`. A module
 * still finds what it reads, such as `index.html`, beside its source.
 * @param define constants that the program gets from its build, such as `{ ASSETLOG_PAGE: '"…"' }`
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
    const source = path.replace(join(folder, COMPILED), folder).replace(/\.js$/, '.ts');
    writeFileSync(path, path.endsWith('.map') ? text : located(text, pathToFileURL(source).href));
  }
}

/** The name of an imported file stays as long as it was, so that the columns of the source map stay right. */
function located(text: string, url: string): string {
  return text
    .replace(/((?:from|import) ?\(?"\.{1,2}\/[^"]*)\.ts"/g, '$1.js"')
    .replace(/\bimport\.meta\.url\b/g, JSON.stringify(url));
}
