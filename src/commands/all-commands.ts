/** All commands, and the texts that are made of their descriptions. */

import { endpoints } from '../event/parameters.ts';
import { assets } from './assets.ts';
import { backup } from './backup.ts';
import type { Command } from './command.ts';
import { completionOf } from './completion.ts';
import { completionScripts } from './completion-scripts.ts';
import { events } from './events.ts';
import { forward } from './forward.ts';
import { healthcheck } from './healthcheck.ts';
import { commandHelp, type Groups, generalHelp } from './help.ts';
import { repairCommand } from './repair.ts';
import { reportOf } from './report.ts';
import { serve, serveNotes } from './serve.ts';
import { token } from './token.ts';
import { verifyCommand } from './verify.ts';

/** The commands, in the order in which the help lists them. */
const groups: Groups = {
  'Run a service': { serve, healthcheck, token },
  'Report to one': { report: reportOf(endpoints) },
  'Look at a journal': { events, assets },
  'Look after a journal': { backup, verify: verifyCommand, repair: repairCommand, forward },
  'Set up a shell': { completion: completionOf((shell) => texts()[`completion ${shell}`] ?? '') },
};

/** The commands by name: `commands.events`. */
export const commands: Readonly<Record<string, Command>> = Object.assign({}, ...Object.values(groups));

/** The help of the program and of its commands, and the completion scripts: `{ help: 'Usage: …', 'help events': 'Usage: …', … }`. */
type Texts = Readonly<Record<string, string>>;

/** @returns those texts */
export function texts(): Texts {
  const named = (kind: string, texts: Texts) =>
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [`${kind} ${name}`, text]));
  const helps = Object.entries(commands).map(([name, command]) => [name, commandHelp(name, command)]);
  return {
    help: generalHelp(groups, serveNotes),
    ...named('help', Object.fromEntries(helps)),
    ...named('completion', completionScripts(commands)),
  };
}
