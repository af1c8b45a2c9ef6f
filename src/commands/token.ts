/** `assetlog token`: prints a new token for a client, and its SHA-256 for the deployments file. */

import { exitCodes } from '../config/exit-codes.ts';
import { newToken } from '../deployments/tokens.ts';
import { defineCommand } from './command.ts';

/** `assetlog token`. */
export const token = defineCommand(
  {
    summary: 'print a fresh token and its entry for the deployments file',
    about:
      'Prints two lines: the token, which is for the client and is stored nowhere, and its entry for the tokens\n' +
      'of a deployment. A deployment may have any number of tokens, so you can issue a new one before you revoke the old one;\n' +
      'a member "notAfter" with a date such as "2027-01-31" makes a token expire.',
    options: {
      name: {
        argument: 'TEXT',
        help: 'names the client of the token, for readers of the file',
        initial: 'client',
        parse: (text) => text,
      },
    },
    notes: [
      'Examples:',
      '  assetlog token --name cron',
      '',
      'A deployments file:',
      '  {"deployments": [{"name": "prod", "tokens": [{"name": "ci", "sha256": "…", "notAfter": "2027-01-31"}]}]}',
      '',
      'Exit codes:',
      '  0 printed, 2 flags',
    ],
  },
  async ({ name }, { say }) => {
    const { token: secret, digest } = newToken();
    say(secret);
    say(JSON.stringify({ name, sha256: digest }));
    return exitCodes.done;
  },
);
