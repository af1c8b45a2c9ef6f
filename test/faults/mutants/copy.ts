/** Copies of the project, in which the source is broken on purpose and then restored. */

import { execFile } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build, type Plugin } from 'esbuild';
import { root } from '../../support/program.ts';

/** A copy of the project. At any time one worker uses it, for one mutant. */
export interface Copy {
  readonly folder: string;
  /** What its tests use as the folder of the system for temporary files. */
  readonly temporary: string;
  /** Replaces the text of a file below `src/`, such as `journal/disk.ts`. @returns what puts the old text back */
  patch(file: string, change: (text: string) => string): () => void;
  remove(): void;
}

export function makeCopy(): Copy {
  const base = mkdtempSync(join(tmpdir(), 'm-')); // short: the path of a socket has at most 108 bytes
  chmodSync(base, 0o755); // a test runs the program as another user
  const [folder, temporary] = [join(base, 'copy'), join(base, 't')];
  mkdirSync(temporary, { mode: 0o755 });
  for (const name of ['bin', 'src', 'test', 'package.json', 'tsconfig.json'])
    cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return {
    folder,
    temporary,
    patch(file, change) {
      const path = join(folder, 'src', file);
      const original = readFileSync(path, 'utf8');
      writeFileSync(path, change(original));
      return () => writeFileSync(path, original);
    },
    remove: () => rmSync(base, { recursive: true, force: true }),
  };
}

/** Builds `dist/server.js` of a copy, as its own `src/build.ts` does. @throws if the source is no program */
export async function bundleProgram({ folder }: Copy): Promise<void> {
  await promisify(execFile)(process.execPath, ['--import', 'tsx', 'src/build.ts', 'server'], { cwd: folder });
}

/**
 * Builds a test file, such as `journal/disk`, with the source that it imports: it starts in 0.1 s, where compiling each
 * module as it is loaded takes 0.7 s. @returns its path; throws if a file that it imports does not compile
 */
export async function bundleTest({ folder }: Copy, name: string): Promise<string> {
  const outfile = join(folder, 'dist/tests', `${name}.mjs`);
  await build({
    absWorkingDir: folder,
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    logLevel: 'silent',
    entryPoints: [`test/${name}.test.ts`],
    outfile,
    format: 'esm',
    packages: 'external',
    plugins: [keepLocations],
  });
  return outfile;
}

/** Each module finds files from where its source is, not from where the bundle is. */
const keepLocations: Plugin = {
  name: 'keep locations',
  setup({ onLoad }) {
    onLoad({ filter: /\/(?:src|test)\/.*\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      return { loader: 'ts', contents: text.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)) };
    });
  },
};
