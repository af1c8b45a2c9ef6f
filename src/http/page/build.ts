/**
 * Builds the page from `index.html`, `style.css` and `browser/`: one HTML document with its style and script inline. It
 * belongs to the build, not to the program. Only a program that runs from its source builds the page itself, on the first
 * request.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'esbuild';

const folder = fileURLToPath(new URL('.', import.meta.url));

/** @returns the page for the built program, compressed to a third: see `loadPage` */
export async function packPage(): Promise<string> {
  return brotliCompressSync(await buildPage()).toString('base64');
}

export async function buildPage(): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: ['browser/main.ts', 'style.css'],
    outdir: 'out',
    write: false,
    bundle: true,
    minify: true,
    charset: 'utf8',
    format: 'iife',
    target: ['chrome123', 'firefox120', 'safari17.5'],
    logLevel: 'warning',
  });
  const textOf = (ending: string) => outputFiles.find(({ path }) => path.endsWith(ending))?.text.trim() ?? '';
  const [script, style] = [textOf('.js'), textOf('.css')];
  if (/<\/(script|style)/i.test(script + style))
    throw new Error('the script or style of the page contains its own end tag');
  const html = readFileSync(join(folder, 'index.html'), 'utf8').replace(/\n\s*/g, '\n');
  return html.replace('/*style*/', () => style).replace('/*script*/', () => script);
}
