/** All commands, with the help and completion texts made from their descriptions. */

import type { Command } from './cli/command.ts';
import { completionOf, completionScripts } from './cli/completion.ts';
import { type CommandGroups, commandHelp, generalHelp } from './cli/help.ts';
import { forward } from './forward/forward.ts';
import { healthcheck } from './healthcheck.ts';
import { asset } from './look/asset.ts';
import { assets } from './look/assets.ts';
import { eraseCommand } from './look/erase.ts';
import { events } from './look/events.ts';
import { sources } from './look/sources.ts';
import { dagster, pytest, python, relay } from './printed/printed.ts';
import { report } from './send/report.ts';
import { serve, serveNotes } from './serve.ts';
import { token } from './token.ts';
import { backup } from './upkeep/backup.ts';
import { repairCommand } from './upkeep/repair.ts';
import { verifyCommand } from './upkeep/verify.ts';

/** The commands, in the order in which the help lists them. */
const groups: CommandGroups = {
  'Run a service': { serve, healthcheck, token },
  'Send reports': { report, python },
  'Look at a journal': { events, assets, asset, sources },
  'Look after a journal': { backup, verify: verifyCommand, repair: repairCommand, erase: eraseCommand, forward },
  'Feed Dagster': { dagster },
  'Pass alarms on': { relay },
  'Test with it': { pytest },
  'Set up a shell': { completion: completionOf((shell) => texts()[`completion ${shell}`] ?? '') },
};

export const commands: Readonly<Record<string, Command>> = Object.assign({}, ...Object.values(groups));

type Texts = Readonly<Record<string, string>>;

/** @returns the help of the program and of its commands, and the completion scripts: by `help`, `help events`, `completion bash` … */
export function texts(): Texts {
  const withPrefix = (kind: string, texts: Texts) =>
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [`${kind} ${name}`, text]));
  const helps = Object.entries(commands).map(([name, command]) => [name, commandHelp(name, command)]);
  return {
    help: generalHelp(groups, serveNotes),
    ...withPrefix('help', Object.fromEntries(helps)),
    ...withPrefix('completion', completionScripts(commands)),
  };
}
