/** Runs a command inside the process of the test, and collects its output. */

import type { Output } from '../../src/commands/cli/command.ts';
import { complaint, runCommand } from '../../src/commands/main.ts';
import { type Finished, outerEnvironment, type RunOptions, run } from './program.ts';

export interface CollectedOutput {
  readonly output: Output;
  readonly said: string[];
  readonly complaints: string[];
  readonly progress: string[];
}

export function collectOutput(): CollectedOutput {
  const [said, complaints, progress]: [string[], string[], string[]] = [[], [], []];
  const write = async (text: string | Buffer) => {
    said.push(String(text));
    return true;
  };
  const output = {
    print: (text: string) => void said.push(text),
    complain: (problem: string) => void complaints.push(problem),
    progress: (text: string) => void progress.push(text),
    stdout: { columns: undefined, write },
  };
  return { output, said, complaints, progress };
}

/**
 * Like `run` of `program.ts`, for a command that reads no standard input and needs no signal: it uses a tenth of the processor time
 * of a process.
 */
export async function runHere(
  args: readonly string[],
  { env = {} }: { readonly env?: Readonly<Record<string, string>> } = {},
): Promise<Pick<Finished, 'code' | 'stdout' | 'stderr'>> {
  let stdout = '';
  let stderr = '';
  const code = await runCommand(
    args,
    { ...outerEnvironment, ...env },
    {
      print: (text) => {
        stdout += `${text}\n`;
      },
      complain: (problem) => {
        stderr += complaint(problem);
      },
      progress: () => {},
      stdout: {
        columns: undefined,
        write: async (text) => {
          stdout += text;
          return true;
        },
      },
    },
  );
  return { code, stdout, stderr };
}

/** @returns each line of an output, parsed */
export function jsonIn(output: string) {
  return output.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
}

/** `assetlog report`: as a process if standard input or certificates are needed. */
export function report(url: string, args: readonly string[], options?: RunOptions) {
  const all = ['report', '--url', url, ...args];
  return options === undefined ? runHere(all) : run(all, options);
}
