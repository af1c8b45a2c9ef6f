/**
 * Loads the commands that a service does not need. In the built program they are compressed, and compiled when one of them is
 * called: the file is a fifth smaller, and a service starts without them.
 */

import { compileFunction } from 'node:vm';
import { unpack } from '../http/packed.ts';

type Commands = Pick<typeof import('./all-commands.ts'), 'commands' | 'texts'>;

/** @returns all commands, and the texts of the help */
export async function loadCommands(): Promise<Commands> {
  if (typeof ASSETLOG_COMMANDS !== 'string') return import('./all-commands.ts');
  const evaluate = compileFunction(unpack(ASSETLOG_COMMANDS), ['shared', 'loaded'], { filename: 'assetlog-commands' });
  return new Promise((resolve) => {
    evaluate(ASSETLOG_SHARED, resolve);
  });
}

/** Put here by `build.ts`: the code of `all-commands.ts` and of what nothing else needs, see `unpack`. It calls `loaded` with the exports. */
declare const ASSETLOG_COMMANDS: string;
/** Put here by `build.ts`: what that code imports of the rest, which it knows as `shared`. */
declare const ASSETLOG_SHARED: object;
