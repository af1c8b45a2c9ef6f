/** What every command has: how it is described, what it takes, what it may say, and what the process ends with. */

import type { ExitCode } from '../config/exit-codes.ts';
import { type Operands, type Options, readOptions } from '../config/options.ts';

/** How a command speaks. */
export interface Output {
  /** Lines for standard output. */
  readonly say: (text: string) => void;
  /** One line for standard error. */
  readonly complain: (problem: string) => void;
  /** Replaces the line that says how far the work is, on a terminal. Empty at the end. */
  readonly progress: (text: string) => void;
  readonly page: Page;
}

/** Standard output for much text. */
export interface Page {
  /** How wide the terminal is that it goes to; undefined for a pipe or a file. */
  readonly columns: number | undefined;
  /**
   * Resolves when the text has left, so that whoever waits for it keeps no more than that in memory.
   * @returns false when nobody reads any more
   * @throws the error of a system call
   */
  write(text: string | Buffer): Promise<boolean>;
}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Description<Values> {
  /** A line for the list of all commands. */
  readonly summary: string;
  readonly about: string;
  readonly operands?: Operands;
  readonly options: Options<Values>;
  /** What the help says below the options: examples, limits, exit codes. */
  readonly notes: readonly string[];
}

export interface Command extends Description<Readonly<Record<string, unknown>>> {
  /**
   * @param args what follows the command's name
   * @returns what the process ends with, or what is wrong with the arguments
   */
  run(args: readonly string[], env: Environment, output: Output): Promise<ExitCode | { problems: string[] }>;
}

/** @param act what the command does with values that are sound; for a command that runs on, it resolves at its end */
export function defineCommand<Values extends object>(
  description: Description<Values>,
  act: (values: Values, output: Output, operands: readonly string[]) => Promise<ExitCode>,
): Command {
  return {
    ...(description as Description<never>),
    run: async (args, env, output) => {
      const read = readOptions(args, env, description.options, description.operands);
      return 'problems' in read ? read : act(read.values, output, read.operands);
    },
  };
}
