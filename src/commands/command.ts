/** The definition of a command: its description, options and operands, its output, and its exit code. */

import type { ExitCode } from '../config/exit-codes.ts';
import { type Invalid, type Operands, type Options, readOptions } from '../config/options.ts';

/** The output channels of a command: `output.say('3 recorded, 0 refused')` prints a line. */
export interface Output {
  /** Writes lines to standard output. */
  readonly say: (text: string) => void;
  /** Writes one line to standard error, after `assetlog: `. */
  readonly complain: (problem: string) => void;
  /**
   * Replaces the progress line, on a terminal only, such as `40 %  81.2 MB of 203.0 MB, 310 MB/s`. An empty text removes it at
   * the end of the work.
   */
  readonly progress: (text: string) => void;
  readonly page: Page;
}

/** Standard output for large texts, with backpressure: `{ columns: 120, write }` on a terminal of that width. */
export interface Page {
  /** Width of the terminal; undefined for a pipe or a file. */
  readonly columns: number | undefined;
  /**
   * Resolves when the text is written, so that a caller that awaits it holds no more than one text in memory.
   * @returns false if the reading end of the pipe is closed (EPIPE)
   * @throws the error of a system call
   */
  write(text: string | Buffer): Promise<boolean>;
}

/** Environment variables by name, such as `{ ASSETLOG_PORT: '4000' }`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * What the help and the completion know of a command; `Values` are the values of its options by name. For example
 * `{ summary: 'show what was recorded', about: '…', options: { data: folderOption }, notes: [] }`.
 */
export interface Description<Values> {
  /** One line for the list of all commands, without a period. */
  readonly summary: string;
  /** Lines of the help between the usage and the options. */
  readonly about: string;
  readonly operands?: Operands;
  readonly options: Options<Values>;
  /** Lines of the help below the options: examples, limits, exit codes; an array in it has lines that commands share. */
  readonly notes: readonly (string | readonly string[])[];
}

/** How a command that ran has ended: `{ kind: 'ended', exitCode: 0 }`. */
export interface CommandEnd {
  readonly kind: 'ended';
  readonly exitCode: ExitCode;
}

/**
 * A command, whatever its options, such as `serve`. Its `run(['--port', 'x'], {}, output)` resolves to
 * `{ kind: 'invalid', problems: ['--port "x" is not a whole number from 0 to 65535'] }`.
 */
export interface Command extends Description<Readonly<Record<string, unknown>>> {
  /**
   * @param args the arguments after the command's name
   * @returns the exit code of the process, or the problems of the arguments
   */
  run(args: readonly string[], env: Environment, output: Output): Promise<CommandEnd | Invalid>;
}

/**
 * Makes a command of its description. For example `defineCommand(description, async (_, { say }) => { say('done'); return 0; })`
 * prints a line and ends with exit code 0.
 * @param act runs the command with valid values; resolves to the exit code when the command has finished
 */
export function defineCommand<Values extends object>(
  description: Description<Values>,
  act: (values: Values, output: Output, operands: readonly string[]) => Promise<ExitCode>,
): Command {
  return {
    ...(description as Description<never>),
    run: async (args, env, output) => {
      const read = readOptions(args, env, description.options, description.operands);
      if (read.kind === 'invalid') return read;
      return { kind: 'ended', exitCode: await act(read.values, output, read.operands) };
    },
  };
}
