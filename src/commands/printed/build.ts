/**
 * Reads the files that commands print. It belongs to the build, not to the program. Only a program that runs from its source
 * reads them itself, when it prints one.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';

const folder = fileURLToPath(new URL('.', import.meta.url));

/** @returns the files for the built program, compressed to a third: see `textOf` */
export function packPrinted(): string {
  return brotliCompressSync(JSON.stringify(readPrinted())).toString('base64');
}

/** @returns the text of each file by its name, such as `assetlog_client.py` */
export function readPrinted(): Readonly<Record<string, string>> {
  const names = readdirSync(folder).filter((name) => name.endsWith('.py'));
  return Object.fromEntries(names.sort().map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
}
