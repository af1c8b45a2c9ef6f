/** The definition of a command: its description, options and operands, its output, and its exit code. */

import { readAppendedFile } from '../../config/descriptors.ts';
import { type ExitCode, exitCodeOf, exitCodes } from '../../config/exit-codes.ts';
import { version } from '../../config/names.ts';
import { asksForHelp, type Invalid, type Operands, type Options, readOptions } from '../../config/options.ts';

export interface Output {
  /** Writes lines to standard output. */
  readonly print: (text: string) => void;
  /** Writes one line to standard error, after `assetlog: `. */
  readonly complain: (problem: string) => void;
  /** Replaces the progress line, on a terminal only. An empty text removes the line at the end of the work. */
  readonly progress: (text: string) => void;
  readonly stdout: Stdout;
}

/** Standard output for large texts, with backpressure. */
export interface Stdout {
  /** Width of the terminal; undefined for a pipe or a file. */
  readonly columns: number | undefined;
  /**
   * Resolves when the text is written. A caller that awaits it holds at most one text in memory.
   * @returns false if the reading end of the pipe is closed (EPIPE)
   * @throws the error of a system call
   */
  write(text: string | Buffer): Promise<boolean>;
}

/** Prints the problems of a call, each with what to do. @returns the exit code for a wrong call: 2 */
export function refuse({ complain }: Pick<Output, 'complain'>, ...problems: readonly string[]): ExitCode {
  for (const problem of problems) complain(problem);
  return exitCodes.configuration;
}

/** Ends a command whose errors are reported by `reportErrors`, with a sentence and an exit code. */
export class NotDoneError extends Error {
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, problem: string) {
    super(problem);
    this.exitCode = exitCode;
  }
}

/**
 * Like `refuse`, for an error of an option, or of a file that an option names. @returns 2, or 5 if the problem can disappear
 * without a change
 */
export function refuseError(output: Pick<Output, 'complain'>, error: Error): ExitCode {
  refuse(output, ...error.message.split('\n'));
  return exitCodeOf(error);
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** The entry of a command in the help and the completion; `Values` are the values of its options by name. */
export interface Description<Values> {
  /** One line for the list of all commands, without a period at the end. */
  readonly summary: string;
  /** Lines of the help between the usage and the options. */
  readonly about: string;
  readonly operands?: Operands;
  readonly options: Options<Values>;
  /** Options that an earlier version had, each with its replacement. */
  readonly goneOptions?: Readonly<Record<string, string>>;
  /** Lines of the help below the options: examples, limits, exit codes; an inner array has lines that several commands share. */
  readonly notes: readonly (string | readonly string[])[];
}

export interface CommandEnd {
  readonly kind: 'ended';
  readonly exitCode: ExitCode;
}

/** The arguments request the help of the command. */
interface HelpWanted {
  readonly kind: 'help';
}

/** A command with any set of options. */
export interface Command extends Description<Readonly<Record<string, unknown>>> {
  /** @returns the exit code of the process, or the problems of the arguments */
  run(args: readonly string[], env: Environment, output: Output): Promise<CommandEnd | HelpWanted | Invalid>;
}

/**
 * @param act runs the command with valid values; resolves to the exit code when the command has finished; `args` are the
 *   arguments before they were parsed
 */
export function defineCommand<Values extends object>(
  description: Description<Values>,
  act: (
    values: Values,
    output: Output,
    operands: readonly string[],
    env: Environment,
    args: readonly string[],
  ) => Promise<ExitCode>,
): Command {
  return {
    ...(description as Description<never>),
    run: async (args, env, output) => {
      const { options, operands, goneOptions = {} } = description;
      if (asksForHelp(args, options, operands)) return { kind: 'help' };
      const [gone] = args.flatMap((word) => word.split('=', 1)).filter((flag) => goneOptions[flag] !== undefined);
      if (gone !== undefined) return { kind: 'invalid', problems: [`${gone} is gone; ${goneOptions[gone]}`] };
      const read = readOptions(args, env, options, operands);
      if (read.kind === 'invalid') return read;
      return { kind: 'ended', exitCode: await act(read.values, output, read.operands, env, args) };
    },
  };
}

/**
 * Defines a command that prints one file, such as a module of a test, and has no options.
 * @param description its notes end before the exit codes
 * @param text returns the file, which ends with a line feed
 */
export function defineFile(description: Omit<Description<object>, 'options'>, text: () => Promise<string>): Command {
  const notes = [...description.notes, '', 'Exit codes:', '  0 printed; 2 flags, or >> to a file that has it already'];
  return defineCommand<object>({ ...description, notes, options: {} }, async (_values, output) => {
    const file = await text();
    const [begin = ''] = file.split(version, 1);
    const [line] = readAppendedFile(process.stdout.fd).match(RegExp(`^${begin}[^:\\n]*`, 'm')) ?? [];
    if (line !== undefined)
      return refuse(output, `the file has "${line}" already; remove that first, and append to the file again`);
    output.print(file.slice(0, -1));
    return exitCodes.done;
  });
}
