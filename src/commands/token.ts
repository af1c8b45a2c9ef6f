/** `assetlog token`: prints a new token for a client, and its SHA-256 for the deployments file. */

import { exitCodes } from '../config/exit-codes.ts';
import { NOT_AFTER, newToken, readNotAfter } from '../deployments/tokens.ts';
import { type Right, rights } from '../http/router.ts';
import { defineCommand } from './cli/command.ts';

export const token = defineCommand<{ name: string; notAfter: string | undefined; may: readonly Right[] | undefined }>(
  {
    summary: 'print a fresh token and its entry for the deployments file',
    about:
      'Prints two lines: the token, which is for the client and is stored nowhere, and its entry for the tokens\n' +
      'of a deployment. A deployment may have any number of tokens, so you can issue a new one before you revoke the old one;\n' +
      'its member "notAfter" makes a token expire: at the end of a day in UTC, or at a time. "may" says what its clients may\n' +
      'do: report, read, and forward what other journals have. Without "may" they may report and forward.',
    notes: [
      'Examples:',
      '  assetlog token --name cron --not-after 2027-01-31',
      '  assetlog token --name dashboard --may read',
      '  assetlog token --name device-17 --may forward',
      '',
      'A deployments file:',
      '  {"deployments": [{"name": "prod", "tokens": [{"name": "ci", "sha256": "…", "may": ["report", "read"]}]}]}',
      '',
      'Exit codes:',
      '  0 printed, 2 flags',
    ],
    options: {
      name: {
        argument: 'TEXT',
        help: 'names the client of the token, for readers of the file',
        initial: 'client',
        parse: (text) => text,
      },
      notAfter: {
        argument: 'DATE',
        help: 'when it expires: 2027-01-31, until the end of that day in UTC, or 2027-01-31T12:00:00Z',
        initial: undefined,
        flagOnly: true,
        parse: (text) => {
          if (readNotAfter(text) === undefined) throw new Error(`is not ${NOT_AFTER}`);
          return text;
        },
      },
      may: {
        argument: 'RIGHTS',
        help: 'what its clients may do: report, read, forward, or several of them [report,forward]',
        choices: [...rights, rights.join(',')],
        initial: undefined,
        flagOnly: true,
        parse: (text) => {
          const words = text.split(',');
          const may = rights.filter((right) => words.includes(right));
          if (may.length < words.length)
            throw new Error(`is not a list of rights; use ${rights.join(', ')} or ${rights}`);
          return may;
        },
      },
    },
  },
  async ({ name, notAfter, may }, { say }) => {
    const { token: secret, digest } = newToken();
    say(secret);
    say(JSON.stringify({ name, sha256: digest, notAfter, may }));
    return exitCodes.done;
  },
);
