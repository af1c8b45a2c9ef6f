/** A real terminal, made by `script` of util-linux. */

import { execFile, execFileSync } from 'node:child_process';
import { shellWord } from '../../src/telemetry/printable.ts';
import { program, root } from './program.ts';

/** @returns why there is no terminal to be had, or false */
export function noTerminal(...tools: string[]): string | false {
  const commands = ['stty cols 80', ...tools.map((tool) => `${tool} --version`)];
  try {
    execFileSync('script', ['-qec', commands.join(' && '), '/dev/null'], { stdio: 'ignore' });
    return false;
  } catch {
    return `${['script of util-linux', ...tools].join(' or ')} is not installed`;
  }
}

/**
 * Runs the program with its output on a terminal, to its end or for so long.
 * @param code that it has to exit with
 * @returns what a person would get to see
 */
export function onTerminal(args: readonly string[], columns: number, endMs = 20_000, code = 0): Promise<string> {
  const words = [...program, ...args].map(shellWord);
  const command = `stty cols ${columns}; exec ${words.join(' ')}`;
  return new Promise((resolve, reject) => {
    const options = { cwd: root, timeout: endMs, encoding: 'utf8' } as const;
    execFile('script', ['-qec', command, '/dev/null'], options, (error, stdout) =>
      (error?.code ?? 0) === code ? resolve(stdout.replaceAll('\r\n', '\n')) : reject(error),
    ).stdin?.end();
  });
}
