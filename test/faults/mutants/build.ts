/** Mutants of how the files of the package are built. */

import type { Mutant } from './mutant.ts';

export const build: readonly Mutant[] = [
  {
    breaks: 'an older Node prints a stack trace of minified code',
    file: 'build.ts',
    within: 'versionCheck',
    from: '(function(v){if(',
    to: '(function(v){if(0&&',
    tests: ['program/versions'],
  },
  {
    breaks: 'Node 20.18 is taken for new enough',
    file: 'build.ts',
    within: 'versionCheck',
    from: '||v[0]==',
    to: '||0&&v[0]==',
    tests: ['program/versions'],
  },
  {
    breaks: 'the built file can not be called by its path',
    file: 'build.ts',
    within: 'buildServer',
    from: "chmodSync(join(dist, 'server.js'), 0o755);",
    to: "chmodSync(join(dist, 'server.js'), 0o644);",
    tests: ['program/versions'],
  },
];
