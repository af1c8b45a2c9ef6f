/** What a person types: which command it is, its help, and how it speaks. */

import { assets } from './assets.ts';
import { type Command, type Environment, type ExitCode, exitCodes, type Output } from './command.ts';
import { version } from './config.ts';
import { events } from './events.ts';
import { healthcheck } from './healthcheck.ts';
import { didYouMean, flagOf, hasVariable, variableOf } from './options.ts';
import { serve, serveNotes } from './serve.ts';
import { token } from './token.ts';
import { repairCommand, verifyCommand } from './upkeep.ts';

/** In the order of the help. */
const commands: Readonly<Record<string, Command>> = {
  serve,
  healthcheck,
  token,
  events,
  assets,
  verify: verifyCommand,
  repair: repairCommand,
};

/**
 * @param args what follows the program's name
 * @returns what the process ends with; for `serve` only once the service has ended
 */
export async function main(args: readonly string[], env: Environment): Promise<ExitCode> {
  const [first = ''] = args;
  const named = first !== '' && !first.startsWith('-');
  const name = named ? first : 'serve';
  const rest = named ? args.slice(1) : args;

  if (first === '--version') return say(`assetlog ${version}`);
  if (first === 'help') return say(helpFor(args[1]));
  if (rest.some((word) => word === '--help' || word === '-h')) return say(helpFor(named ? first : undefined));
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) {
    return complain([`unknown command ${JSON.stringify(name)}${didYouMean(name, Object.keys(commands))}`]);
  }
  const outcome = await command.run(rest, env, output());
  return typeof outcome === 'number' ? outcome : complain(outcome.problems);
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
  const { stdout } = process;
  return new Promise((resolve, reject) => {
    // It is told twice of a failure: once as an event, which would end the process.
    const ignore = () => {};
    stdout.once('error', ignore);
    stdout.write(text, (error) => {
      if (!error) {
        stdout.off('error', ignore);
        resolve(true);
      } else if ((error as NodeJS.ErrnoException).code === 'EPIPE') resolve(false);
      else reject(error);
    });
  });
}

function say(text: string): ExitCode {
  process.stdout.write(`${text}\n`);
  return exitCodes.done;
}

function complain(problems: readonly string[]): ExitCode {
  for (const problem of problems) process.stderr.write(`assetlog: ${problem}\n`);
  return exitCodes.configuration;
}

function helpFor(name: string | undefined): string {
  if (name === undefined || !Object.hasOwn(commands, name)) return generalHelp();
  const { about, operands, options, notes } = commands[name] as Command;
  const entries = Object.entries(options);
  const flags = entries.map(([option, { argument }]) => `--${flagOf(option)} ${argument}`.trimEnd());
  const width = Math.max(...flags.map(({ length }) => length));
  const lines = entries.map(([name, option], index) => {
    const { help, initial } = option;
    const standard = typeof initial === 'number' || (typeof initial === 'string' && initial !== '');
    const first = `  ${flags[index]?.padEnd(width)}  ${help}${standard ? ` [${initial}]` : ''}`;
    if (!hasVariable(option)) return first;
    return `${first}\n${' '.repeat(width + 4)}(or ${variableOf(name)} in the environment)`;
  });
  const usage = ['Usage: assetlog', name, operands?.text, '[options]'].filter((word) => word !== undefined);
  return [usage.join(' '), '', about, '', 'Options:', ...lines, '', ...notes].join('\n');
}

function generalHelp(): string {
  const rows = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(12)} ${summary}`);
  return [
    'Usage: assetlog [command] [options]',
    '',
    'Records reports about data assets: one POST, one JSON line on disk, 200 only when the line would survive a power cut.',
    '',
    'Commands:',
    ...rows,
    '',
    '  assetlog COMMAND --help   its options',
    '  assetlog --version        the version',
    '',
    ...serveNotes,
  ].join('\n');
}
