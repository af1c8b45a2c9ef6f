/** Builds earlier commits of the program, to run them beside this one. */

import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { build } from 'esbuild';
import { newFolder, root, type Scope } from './program.ts';

export interface OlderProgram {
  /** Why it cannot be built; false if it can. */
  readonly isMissing: string | false;
  build(t: Scope): Promise<string>;
}

const git = (...args: string[]) => spawnSync('git', ['-C', root, ...args], { maxBuffer: 64 * 1024 * 1024 });

function programOf(commit: string): OlderProgram {
  const found = git('cat-file', '-e', `${commit}^{commit}`);
  const tool = found.error ?? spawnSync('tar', ['--version']).error;
  const isUnknown = found.status !== 0;
  const missing = `the history has no ${commit.slice(0, 7)}, as in a shallow clone or a copy without .git`;
  return {
    isMissing: tool !== undefined ? `it needs git and tar: ${tool.message}` : isUnknown && missing,
    build: async (t) => {
      const folder = newFolder(t);
      execFileSync('tar', ['-x', '-C', folder], { input: git('archive', commit, 'src', 'package.json').stdout });
      const outfile = join(folder, 'server.cjs');
      await build({
        absWorkingDir: folder,
        entryPoints: [join(folder, 'src/server.ts')],
        outfile,
        bundle: true,
        platform: 'node',
        target: 'node20.19',
        format: 'iife',
        define: { ASSETLOG_PAGE: '""' }, // no test uses the page of an older program
        banner: { js: 'var require=process.getBuiltinModule;' },
        logLevel: 'error',
      });
      return outfile;
    },
  };
}

/** The last program whose lines end with the metadata. It has no batches and no idempotency keys. */
export const beforeBatches = programOf('9005697fa8ad8ea43d3e595cf8b736648350c503');
/** Its hubs know the journal before them only, and refuse what came through themselves. */
export const release030 = programOf('7f057c02515b1988ddae29173755da224fb6b945');
/** Its hubs ask each other which journals the events reach, and do not name the journals that lines came through. */
export const release020 = programOf('2c545f7ab12f5be72547ac09ee5740c9ab311b04');
