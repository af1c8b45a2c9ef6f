/** Copies of the project, whose source is broken on purpose and then restored. */

import { execFile } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { compile, typeScriptFiles } from '../../support/compiler.ts';
import { root } from '../../support/program.ts';

/** A copy of the project. One worker uses it at a time, for one mutant. */
export interface Copy {
  readonly folder: string;
  /** The system's folder for temporary files, as its tests see it. */
  readonly temporary: string;
  /**
   * Replaces the text of a file below `src/`, such as `journal/disk.ts`, and compiles it.
   * @returns a function that restores the old text. @throws if the new text does not compile
   */
  patch(file: string, change: (text: string) => string): Promise<() => Promise<void>>;
  remove(): void;
}

/** Copies the project, and compiles its source and its tests. */
export async function makeCopy(): Promise<Copy> {
  const base = mkdtempSync(join(tmpdir(), 'm-')); // short: the path of a socket has at most 108 bytes
  chmodSync(base, 0o755); // a test runs the program as another user
  const [folder, temporary] = [join(base, 'copy'), join(base, 't')];
  mkdirSync(temporary, { mode: 0o755 });
  for (const name of ['.ci', 'bin', 'src', 'test', 'package.json', 'tsconfig.json'])
    cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  await compile(folder, typeScriptFiles(folder));
  return {
    folder,
    temporary,
    async patch(file, change) {
      const path = join(folder, 'src', file);
      const original = readFileSync(path, 'utf8');
      const write = async (text: string) => {
        writeFileSync(path, text);
        if (file.endsWith('.ts')) await compile(folder, [`src/${file}`]);
      };
      const restore = () => write(original);
      await write(change(original)).catch(async (error) => {
        await restore();
        throw error;
      });
      return restore;
    },
    remove: () => rmSync(base, { recursive: true, force: true }),
  };
}

/** Builds `dist/server.js` of a copy with the copy's own `src/build.ts`. @throws if the source cannot be built */
export async function bundleProgram({ folder }: Copy): Promise<void> {
  await promisify(execFile)(process.execPath, ['--import', 'tsx', 'src/build.ts', 'server'], { cwd: folder });
}
