/** The command line: finds the command, prints help, and writes to standard output and standard error. */

import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { version } from '../config/names.ts';
import { didYouMean } from '../event/nearest.ts';
import { printable } from '../telemetry/printable.ts';
import { type Command, type Environment, type Output, refuse } from './cli/command.ts';
import { healthcheck } from './healthcheck.ts';
import { serve } from './serve.ts';

/** The commands of a container are loaded at startup, the others only when one of them is called. */
const resident: Readonly<Record<string, Command>> = { serve, healthcheck };

const versionWords: ReadonlySet<string> = new Set(['--version', '-v', '-V', 'version']);

/**
 * Runs a command.
 * @returns the exit code of the process; for `serve` only after the service has ended. Not 0 if standard output could not be
 *   written; a closed pipe (EPIPE) is no failure
 */
export async function main(args: readonly string[], env: Environment): Promise<ExitCode> {
  // A stream error must not stop a running service, or end a command with a stack trace.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  let failure: Error | undefined;
  const out = openOutput((error) => {
    if (failure === undefined) out.complain(`standard output cannot be written: ${error.message}`);
    failure ??= error;
  });
  const code = await runCommand(args, env, out).catch((error) => {
    if (error === failure) return exitCodes.diskFailed;
    throw error;
  });
  await out.written();
  return failure !== undefined && code === exitCodes.done ? exitCodes.diskFailed : code;
}

/** Like `main`, for any output. */
export async function runCommand(args: readonly string[], env: Environment, output: Output): Promise<ExitCode> {
  const [first = ''] = args;
  const isNamed = first !== '' && !first.startsWith('-');
  const name = isNamed ? first : 'serve';
  const rest = isNamed ? args.slice(1) : args;
  const print = (text: string) => {
    output.print(text);
    return exitCodes.done;
  };

  if (versionWords.has(first)) return print(`assetlog ${version}`);
  if (first === 'help') return print(await helpFor(args[1]));
  const commands = Object.hasOwn(resident, name) ? resident : (await import('./all-commands.ts')).commands;
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) {
    return refuse(output, `unknown command ${JSON.stringify(name)}${didYouMean(name, Object.keys(commands))}`);
  }
  const outcome = await command.run(rest, env, output);
  if (outcome.kind === 'help') return print(await helpFor(isNamed ? first : undefined));
  return outcome.kind === 'ended' ? outcome.exitCode : refuse(output, ...outcome.problems);
}

/** @returns the line on standard error that reports a problem */
export function complaint(problem: string): string {
  return `assetlog: ${printable(problem)}\n`;
}

/** @param onError called with each error of standard output, except for a closed pipe */
function openOutput(onError: (error: Error) => void): Output & { readonly written: () => Promise<unknown> } {
  const { stderr, stdout } = process;
  let last: Promise<unknown> = Promise.resolve();
  const write = (text: string | Buffer) => {
    const written = new Promise<boolean>((resolve, reject) => {
      stdout.write(text, (error) => {
        if (!error) return resolve(true);
        if ((error as NodeJS.ErrnoException).code === 'EPIPE') return resolve(false);
        onError(error);
        reject(error);
      });
    });
    last = written.catch(() => {});
    return written;
  };
  return {
    print: (text) => void write(`${text}\n`).catch(() => {}),
    complain: (problem) => void stderr.write(complaint(problem)),
    progress: stderr.isTTY ? (text) => void stderr.write(`\r${text}\x1b[K`) : () => {},
    written: () => last,
    stdout: { columns: stdout.isTTY ? stdout.columns || 80 : undefined, write },
  };
}

/** @returns the help of a command, or of the program if there is no such command */
async function helpFor(name: string | undefined): Promise<string> {
  const { help = '', [`help ${name}`]: found = help } = (await import('./all-commands.ts')).texts();
  return found;
}
