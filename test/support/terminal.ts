/** A real terminal, by `script` of util-linux. */

import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { shellWord } from '../../src/telemetry/printable.ts';
import { outerEnvironment, program, root, type Scope } from './program.ts';
import { eventually, HANG_MS } from './tools.ts';

/** @returns why there is no terminal, or false */
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
 * Runs the program on a terminal, to its end.
 * @param code the expected exit code
 * @returns the text on the terminal
 */
export function onTerminal(args: readonly string[], columns: number, code = 0): Promise<string> {
  const words = [...program, ...args].map((word) => shellWord(word));
  const command = `stty cols ${columns}; exec ${words.join(' ')}`;
  return new Promise((resolve, reject) => {
    const options = { cwd: root, timeout: HANG_MS, encoding: 'utf8' } as const;
    execFile('script', ['-qec', command, '/dev/null'], options, (error, stdout) =>
      (error?.code ?? 0) === code ? resolve(stdout.replaceAll('\r\n', '\n')) : reject(error),
    ).stdin?.end();
  });
}

/**
 * Starts a shell command on a terminal. What is written to its standard input is typed: `\x03` is Ctrl-C.
 * @param onText gets each piece that appears
 * @returns its process, and what resolves after its end
 */
export function spawnOnTerminal(
  command: string,
  options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
  onText: (text: string) => void,
) {
  const child = spawn('script', ['-qec', command, '/dev/null'], { ...options, stdio: ['pipe', 'pipe', 'ignore'] });
  child.stdin.on('error', () => {}); // the command might have ended already
  child.stdout.setEncoding('utf8').on('data', onText);
  return { child, closed: once(child, 'close') };
}

/** Starts a service on a terminal, up to its printed example; it ends with the test. @returns the text on the terminal so far */
export async function serveOnTerminal(
  t: Scope,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<{ readonly port: number; shown(): string }> {
  const words = [...program, '--port', '0', ...args].map((word) => shellWord(word)).join(' ');
  let text = '';
  const options = { cwd: root, env: { ...outerEnvironment, NO_COLOR: '', TERM: 'xterm', ...env } };
  const { child, closed } = spawnOnTerminal(`exec ${words}`, options, (more) => {
    text += more;
  });
  t.after(async () => {
    child.stdin.write('\x03'); // Ctrl-C
    const tooLong = setTimeout(() => child.kill('SIGKILL'), 5_000);
    await closed;
    clearTimeout(tooLong);
  });
  const shown = () => text.replaceAll('\r', '');
  await eventually('the example is shown', () => /to try it .*\n(?: {4}.*\n)?/.test(shown()));
  return { port: Number(/listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(shown())?.[1]), shown };
}
