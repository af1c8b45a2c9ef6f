/** `assetlog token`: prints a new token for a client, and its SHA-256 for the deployments file. */

import { exitCodes } from '../config/exit-codes.ts';
import { writeSecret } from '../config/files.ts';
import { flagOption, pathOf } from '../config/options.ts';
import { NOT_AFTER, newToken, readNotAfter } from '../deployments/tokens.ts';
import { type Right, rights } from '../http/router.ts';
import { defineCommand, refuse } from './cli/command.ts';

interface TokenValues {
  readonly name: string;
  readonly notAfter: string | undefined;
  readonly may: readonly Right[] | undefined;
  /** Undefined: standard output. */
  readonly out: string | undefined;
}

export const token = defineCommand<TokenValues>(
  {
    summary: 'print a fresh token and its entry for the deployments file',
    about:
      'Prints two lines: the token, which is for the client and is stored nowhere but in the file of --out, and its entry\n' +
      'for the tokens of a deployment. A deployment may have any number of tokens, so you can issue a new one before you\n' +
      'revoke the old one; its member "notAfter" makes a token expire: at the end of a day in UTC, or at a time. "may" says\n' +
      'what its clients may do: report, read, and forward what other journals have. Without it they may report and forward.',
    notes: [
      'Examples:',
      '  assetlog token --name cron --not-after 2027-01-31',
      '  assetlog token --name dashboard --may read',
      '  assetlog token --name device-17 --may forward --out hub.token      the token is on no screen',
      '',
      'A deployments file:',
      '  {"deployments": [{"name": "prod", "tokens": [{"name": "ci", "sha256": "…", "may": ["report", "read"]}]}]}',
      '',
      'Exit codes:',
      '  0 printed; 2 flags, or the file of --out cannot be made: it never replaces one',
    ],
    options: {
      name: {
        argument: 'TEXT',
        help: 'names the client of the token, for readers of the file',
        initial: 'client',
        flagOnly: true, // ASSETLOG_NAME is the name of the service
        parse: (text) => text,
      },
      notAfter: flagOption(
        'DATE',
        'when it expires: 2027-01-31, until the end of that day in UTC, or 2027-01-31T12:00:00Z',
        (text) => {
          const ms = readNotAfter(text);
          if (ms === undefined) throw new Error(`is not ${NOT_AFTER}`);
          if (ms <= Date.now()) throw new Error('is in the past; give a later one');
          return text;
        },
      ),
      may: {
        ...flagOption(
          'RIGHTS',
          'what its clients may do: report, read, forward, or several of them [report,forward]',
          readRights,
        ),
        choices: [...rights, rights.join(',')],
      },
      out: flagOption(
        'FILE',
        'write the token to this new file, which only its owner may read, and print the entry alone',
        pathOf('the file for the token'),
      ),
    },
  },
  async ({ name, notAfter, may, out }, output) => {
    const { say } = output;
    const { token: secret, digest } = newToken();
    try {
      if (out === undefined) say(secret);
      else await writeSecret(out, `${secret}\n`);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      return refuse(output, code === 'EEXIST' ? `${out} is there, and is not replaced; name a new file` : message);
    }
    say(JSON.stringify({ name, sha256: digest, notAfter, may }));
    return exitCodes.done;
  },
);

/** For `parse`. @throws Error if a word is no right */
function readRights(text: string): readonly Right[] {
  const words = text.split(',');
  const may = rights.filter((right) => words.includes(right));
  if (may.length < words.length) throw new Error(`is not a list of rights; use ${rights.join(', ')} or ${rights}`);
  return may;
}
