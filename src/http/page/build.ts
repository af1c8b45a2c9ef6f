/**
 * Builds the page from `index.html`, `style.css` and `browser/`: one HTML document with its style and script inline. Part of the
 * build, not of the program, except that a program that runs from its source builds the page on the first request.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'esbuild';
import type { Page } from './page.ts';

const folder = fileURLToPath(new URL('.', import.meta.url));

/** @returns the page, for example `{ html: '<!doctype html>…', script: "'sha256-…'", style: "'sha256-…'" }` */
export async function buildPage(): Promise<Page> {
  const { outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: ['browser/main.ts', 'style.css'],
    outdir: 'out',
    write: false,
    bundle: true,
    minify: true,
    charset: 'utf8',
    format: 'iife',
    target: ['chrome120', 'firefox120', 'safari17'],
    logLevel: 'warning',
  });
  const textOf = (ending: string) => outputFiles.find(({ path }) => path.endsWith(ending))?.text.trim() ?? '';
  const [script, style] = [textOf('.js'), textOf('.css')];
  if (/<\/(script|style)/i.test(script + style))
    throw new Error('the page has the end of its own script or style in it');
  const html = readFileSync(join(folder, 'index.html'), 'utf8').replace(/\n\s*/g, '\n');
  return {
    html: html.replace('/*style*/', () => style).replace('/*script*/', () => script),
    script: hashOf(script),
    style: hashOf(style),
  };
}

/** @returns the definition, for esbuild, that puts the page into the program: its JSON text, compressed and in Base64 */
export async function pageDefinition(): Promise<{ readonly ASSETLOG_PAGE: string }> {
  const packed = brotliCompressSync(JSON.stringify(await buildPage()));
  return { ASSETLOG_PAGE: JSON.stringify(packed.toString('base64')) };
}

/** A source of the Content-Security-Policy (CSP Level 3, section 2.3.1). */
function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
