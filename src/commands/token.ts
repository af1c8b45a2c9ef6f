/** `assetlog token`: prints a new token for a client, and its SHA-256 for the deployments file. */

import { exitCodes } from '../config/exit-codes.ts';
import { writeSecret } from '../config/files.ts';
import { flagOption, option, text } from '../config/options.ts';
import { NOT_AFTER, newToken, readNotAfter } from '../deployments/tokens.ts';
import { type Right, rights } from '../http/router.ts';
import { defineCommand, refuse, refuseError } from './cli/command.ts';

export const token = defineCommand(
  {
    summary: 'print a fresh token and its entry for the deployments file',
    about:
      'Prints two lines: the token for the client, which is stored only in the file of --out, and its entry for the tokens\n' +
      'of a deployment. A deployment can have any number of tokens, so you can issue a new token before you revoke the old\n' +
      'one. The member "notAfter" makes a token expire: at the end of a day in UTC, or at a time. "may" lists the rights of\n' +
      'its clients: report, read, forward (the events of other journals) and erase. Without it they may report and forward.',
    notes: [
      'Examples:',
      '  assetlog token --name cron --not-after 2027-01-31',
      '  assetlog token --name dashboard --may read',
      '  assetlog token --name device-17 --may forward --out hub.token      the token is not shown',
      '',
      'A deployments file:',
      '  {"deployments": [{"name": "prod", "tokens": [{"name": "ci", "sha256": "…", "may": ["report", "read"]}]}]}',
      '',
      'Exit codes:',
      '  0 printed; 2 flags, or --out names no new file: an existing file is never replaced; 5 it cannot be written',
    ],
    options: {
      name: option<string>({
        argument: 'TEXT',
        help: 'names the client of the token, for readers of the file',
        initial: 'client',
        flagOnly: true, // ASSETLOG_NAME is the name of the service
        parse: (text) => text,
      }),
      notAfter: flagOption(
        'DATE',
        'when it expires: 2027-01-31, until the end of that day in UTC, or 2027-01-31T12:00:00Z',
        (text) => {
          const ms = readNotAfter(text);
          if (ms === undefined) throw new Error(`is not ${NOT_AFTER}`);
          if (ms <= Date.now()) throw new Error('is in the past; give a later date');
          return text;
        },
      ),
      may: option<readonly Right[] | undefined>({
        argument: 'RIGHTS',
        help: 'what its clients may do: report, read, forward, erase, or several of them [report,forward]',
        initial: undefined,
        flagOnly: true,
        repeated: true,
        choices: [...rights, rights.join(',')],
        parse: readRights,
      }),
      out: text('FILE', 'write the token to this new file, which only its owner may read, and print only the entry'),
    },
  },
  async ({ name, notAfter, may, out }, output) => {
    const { print } = output;
    const { token: secret, digest } = newToken();
    try {
      if (out === undefined) print(secret);
      else await writeSecret(out, `${secret}\n`);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') return refuseError(output, error as Error);
      return refuse(output, `${out} exists, and is not replaced; name a new file`);
    }
    print(JSON.stringify({ name, sha256: digest, notAfter, may }));
    return exitCodes.done;
  },
);

/** @param before the rights of the earlier flags @throws Error if a word is not a right */
function readRights(text: string, before: readonly Right[] = []): readonly Right[] {
  const words = text.split(',');
  const may = rights.filter((right) => words.includes(right));
  if (may.length < words.length) throw new Error(`is not a list of rights; use ${rights.join(', ')} or ${rights}`);
  return rights.filter((right) => before.includes(right) || may.includes(right));
}
