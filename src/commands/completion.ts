/** `assetlog completion`: prints a shell completion script, which `completion-scripts.ts` makes. */

import { exitCodes } from '../config/exit-codes.ts';
import { didYouMean } from '../event/nearest.ts';
import { type Command, defineCommand } from './command.ts';
import type { Shell } from './completion-scripts.ts';

const shells: readonly Shell[] = ['bash', 'zsh'];

/**
 * The command `assetlog completion`, as in `assetlog completion bash`.
 * @param scriptFor returns the script for a shell; called when the command runs
 */
export function completionOf(scriptFor: (shell: Shell) => string): Command {
  return defineCommand<object>(
    {
      summary: 'print a script that makes bash or zsh complete commands, options and files',
      about: 'Prints a script for the shell. It knows the commands of this version, and does not run assetlog again.',
      notes: [
        'Examples:',
        "  echo 'source <(assetlog completion bash)' >> ~/.bashrc",
        "  echo 'source <(assetlog completion zsh)' >> ~/.zshrc     after the line with compinit",
        '  assetlog completion zsh > /usr/local/share/zsh/site-functions/_assetlog',
        '',
        'Exit codes:',
        '  0 printed, 2 an unknown shell',
      ],
      operands: { max: 1, text: shells.join('|'), choices: shells },
      options: {},
    },
    async (_values, { say, complain }, [word = '']) => {
      const shell = shells.find((known) => known === word);
      if (shell === undefined) {
        complain(`name a shell: assetlog completion ${shells.join('|')}${didYouMean(word, shells)}`);
        return exitCodes.configuration;
      }
      say(scriptFor(shell));
      return exitCodes.done;
    },
  );
}
