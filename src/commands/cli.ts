/** The command line: finds the command, prints help, and writes to standard output and standard error. */

import { version } from '../config/config.ts';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { didYouMean } from '../event/nearest.ts';
import { endpoints } from '../event/parameters.ts';
import { packedText } from '../http/packed.ts';
import { printable } from '../telemetry/printable.ts';
import { assets } from './assets.ts';
import { backup } from './backup.ts';
import type { Command, Environment, Output } from './command.ts';
import { completionOf } from './completion.ts';
import { completionScripts } from './completion-scripts.ts';
import { events } from './events.ts';
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
  'Look after a journal': { backup, verify: verifyCommand, repair: repairCommand },
  'Set up a shell': { completion: completionOf((shell) => texts()[`completion ${shell}`] ?? '') },
};

const commands: Readonly<Record<string, Command>> = Object.assign({}, ...Object.values(groups));

/** What asks for the version. Which of them a user tries first depends on the programs that they know. */
const versionWords: ReadonlySet<string> = new Set(['--version', '-v', '-V', 'version']);

/**
 * Runs a command. For example `await main(['verify', '/var/lib/assetlog'], process.env)` is `0` if the journal is good.
 * @param args the arguments after the program's name
 * @returns the exit code of the process; for `serve` only after the service has ended
 */
export async function main(args: readonly string[], env: Environment): Promise<ExitCode> {
  // A closed pipe (EPIPE) must not stop a running service, or end a command with a stack trace.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const [first = ''] = args;
  const named = first !== '' && !first.startsWith('-');
  const name = named ? first : 'serve';
  const rest = named ? args.slice(1) : args;

  if (versionWords.has(first)) return say(`assetlog ${version}`);
  if (first === 'help') return say(helpFor(args[1]));
  if (rest.some((word) => word === '--help' || word === '-h')) return say(helpFor(named ? first : undefined));
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) {
    return complain([`unknown command ${JSON.stringify(name)}${didYouMean(name, Object.keys(commands))}`]);
  }
  const outcome = await command.run(rest, env, output());
  return outcome.kind === 'ended' ? outcome.exitCode : complain(outcome.problems);
}

function output(): Output {
  const { stderr, stdout } = process;
  return {
    say: (text) => void say(text),
    complain: (problem) => void complain([problem]),
    progress: stderr.isTTY ? (text) => void stderr.write(`\r${text}\x1b[K`) : () => {},
    page: { columns: stdout.isTTY ? stdout.columns || 80 : undefined, write: writePage },
  };
}

function writePage(text: string | Buffer): Promise<boolean> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => {
      if (!error) resolve(true);
      else if ((error as NodeJS.ErrnoException).code === 'EPIPE') resolve(false);
      else reject(error);
    });
  });
}

function say(text: string): ExitCode {
  process.stdout.write(`${text}\n`);
  return exitCodes.done;
}

function complain(problems: readonly string[]): ExitCode {
  for (const problem of problems) process.stderr.write(`assetlog: ${printable(problem)}\n`);
  return exitCodes.configuration;
}

/** @returns the help of a command, or of the program if there is no such command */
function helpFor(name: string | undefined): string {
  const { help = '', [`help ${name}`]: found = help } = texts();
  return found;
}

/** The help of the program and of its commands, and the completion scripts: `{ help: 'Usage: …', 'help events': 'Usage: …', … }`. */
type Texts = Readonly<Record<string, string>>;

/** Unpacked only to print one of them, so that a service starts without them. */
function texts(): Texts {
  return typeof ASSETLOG_HELP === 'number' ? JSON.parse(packedText(ASSETLOG_HELP)) : makeTexts();
}

/** @returns all texts that depend on nothing at run time, for the build */
export function makeTexts(): Texts {
  const named = (kind: string, texts: Texts) =>
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [`${kind} ${name}`, text]));
  const helps = Object.entries(commands).map(([name, command]) => [name, commandHelp(name, command)]);
  return {
    help: generalHelp(groups, serveNotes),
    ...named('help', Object.fromEntries(helps)),
    ...named('completion', completionScripts(commands)),
  };
}

/** Put here by `build.ts`: the number of the texts of `makeTexts` as JSON, see `packedText`. */
declare const ASSETLOG_HELP: number;
