/**
 * Builds the page from `index.html`, `style.css` and `browser/`: one HTML document with its style and script inline. Part of the
 * build, not of the program, except that a program that runs from its source builds the page on the first request.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'esbuild';

const folder = fileURLToPath(new URL('.', import.meta.url));

/** @returns the page: `<!doctype html>…` */
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
    target: ['chrome120', 'firefox120', 'safari17'],
    logLevel: 'warning',
  });
  const textOf = (ending: string) => outputFiles.find(({ path }) => path.endsWith(ending))?.text.trim() ?? '';
  const [script, style] = [textOf('.js'), textOf('.css')];
  if (/<\/(script|style)/i.test(script + style))
    throw new Error('the page has the end of its own script or style in it');
  const html = readFileSync(join(folder, 'index.html'), 'utf8').replace(/\n\s*/g, '\n');
  return html.replace('/*style*/', () => style).replace('/*script*/', () => script);
}

/** @returns the page for esbuild, as the value of `ASSETLOG_PAGE`: see `packed` */
export async function packedPage(): Promise<string> {
  return packed(await buildPage());
}

/**
 * @returns a text as an expression of JavaScript, a string literal that `unpack` of `http/packed.ts` reads: compressed, and in
 *   digits of 92. What is read ends with zeros that fill up the last number; the compressed data ends before
 */
export function packed(text: string): string {
  const digit = (value: number) => String.fromCharCode(35 + value).replace('\\', '!');
  let digits = '';
  let [bits, count] = [0, 0];
  const write = () => {
    const width = (bits & 8191) < 272 ? 14 : 13;
    const value = bits & (2 ** width - 1);
    digits += digit(value % 92) + digit(Math.floor(value / 92));
    bits >>>= width;
    count -= width;
  };
  for (const byte of brotliCompressSync(text)) {
    bits |= byte << count;
    count += 8;
    while (count >= 14) write();
  }
  while (count > 0) write();
  return JSON.stringify(digits);
}
