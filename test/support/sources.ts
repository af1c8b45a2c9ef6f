/** The source, for tests of its structure and its text. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './program.ts';

const folder = join(root, 'src');

/** The text of each TypeScript file by its path in `src/`, such as `journal/disk.ts`. */
export const sources: ReadonlyMap<string, string> = new Map(
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .sort()
    .map((path) => [path, readFileSync(join(folder, path), 'utf8')]),
);

/** @returns whether a file in `src/` is part of the program; build and release scripts, and files for browsers, are not */
export function isProgram(path: string): boolean {
  return (
    !['build.ts', 'release.ts', 'http/page/build.ts', 'commands/printed/build.ts'].includes(path) &&
    !isForBrowsers(path)
  );
}

/** @returns whether a file in `src/` runs in a browser */
export function isForBrowsers(path: string): boolean {
  return path.startsWith('http/page/browser/');
}
