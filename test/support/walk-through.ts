/**
 * A page that is followed as it stands. Its commands run on terminals, and each has to print what the page shows.
 *
 * A page names a terminal in its prose (`Terminal 2`, `Ctrl-C in terminal 1`). Each `bash` block is typed there, and each `text`
 * block appears there. A service of a terminal runs until Ctrl-C. `…` is a line, or a part of one, that the page leaves out.
 */

import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { shellWord } from '../../src/telemetry/printable.ts';
import { newFolder, outerEnvironment, program, type Scope } from './program.ts';
import { spawnOnTerminal } from './terminal.ts';
import { eventually, HANG_MS, within } from './tools.ts';

export interface Walk {
  /** The page's text, with the ports of this run. */
  readonly page: string;
  /** Executables that the page calls, by their names; `assetlog` is one already. */
  readonly commands: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  /** Called after the last step, while the services still run. */
  readonly atEnd: () => Promise<void>;
}

/** A command that only reads: it is repeated until it prints what the page shows. */
const ONLY_READS = /^assetlog (?:events|assets|sources|forward status) [^\n;|>]*\n$/;
const SERVES = /^(?:assetlog serve|dagster dev) .*\n$/m;

export async function follow(t: Scope, { page, commands, env, atEnd }: Walk): Promise<void> {
  const folder = newFolder(t);
  const bin = newFolder(t);
  const own = { assetlog: `exec ${program.map((word) => shellWord(word)).join(' ')} "$@"`, ...commands };
  for (const [name, script] of Object.entries(own))
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const path = `${bin}${delimiter}${process.env['PATH']}`;
  const terminals = new Map<string, Terminal>();
  const open = (number: string) => {
    const terminal = terminals.get(number) ?? new Terminal(folder, { ...env, PATH: path });
    terminals.set(number, terminal);
    return terminal;
  };
  try {
    await take(stepsOf(page), open);
    await atEnd();
  } finally {
    await Promise.all([...terminals.values()].map((terminal) => terminal.close()));
  }
}

async function take(steps: readonly Step[], open: (terminal: string) => Terminal): Promise<void> {
  for (const [index, { terminals: named, kind, text }] of steps.entries()) {
    for (const terminal of named.map(open)) {
      if (kind === 'Ctrl-C') await terminal.interrupt();
      else if (kind === 'text') await terminal.shows(text);
      else if (SERVES.test(text)) terminal.start(text);
      else {
        const next = steps[index + 1];
        await runUntil(terminal, text, next?.kind === 'text' && next.terminals === named ? next.text : '');
      }
    }
  }
}

async function runUntil(terminal: Terminal, command: string, expected: string): Promise<void> {
  for (const late = performance.now() + HANG_MS; ; await sleep(100)) {
    const printed = await terminal.run(command);
    if (isShown(printed, expected)) return;
    if (!ONLY_READS.test(command) || performance.now() > late)
      assert.fail(`${command}\nprinted\n${printed}\nand the page shows\n${expected}`);
  }
}

interface Step {
  readonly terminals: readonly string[];
  readonly kind: 'bash' | 'text' | 'Ctrl-C';
  readonly text: string;
}

function stepsOf(page: string): Step[] {
  const steps: Step[] = [];
  let terminals: readonly string[] = [];
  const found = page.matchAll(/^```(bash|text)\n(.*?)^```$|(Ctrl-C in )?\bterminals?\s(\d)(?: and (\d))?/gims);
  for (const [, kind, text = '', interrupt, first, second] of found) {
    if (first !== undefined) terminals = second === undefined ? [first] : [first, second];
    if (interrupt !== undefined) steps.push({ terminals, kind: 'Ctrl-C', text });
    if (kind !== undefined) steps.push({ terminals, kind: kind as 'bash' | 'text', text });
  }
  return steps;
}

/** What differs from run to run is left out: times, ids, the process and the versions. */
function timeless(text: string): string {
  return text
    .replace(/\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+Z)?)?|\b\d\d:\d\d:\d\d\b/g, 'TIME')
    .replace(/\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b/g, 'ID')
    .replace(/\bpid=\d+/g, 'pid=0')
    .replace(/\b(version|node)="[^"]*"/g, '$1=""')
    .replace(/\b\d+ s\b/g, '0 s')
    .replace(/[ \t]+/g, ' ')
    .replace(/ $/gm, '');
}

function patternOf(shown: string): string {
  return shown
    .split('…')
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .join('.*?');
}

/** Whether a text is what the page shows, as a whole. */
function isShown(text: string, shown: string): boolean {
  return new RegExp(`^${patternOf(timeless(shown))}$`, 's').test(timeless(text));
}

class Terminal {
  readonly #options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv };
  #child: ChildProcess | undefined;
  #closed: Promise<unknown> = Promise.resolve();
  /** The text since the last command, or since Ctrl-C. */
  #text = '';

  constructor(cwd: string, env: Readonly<Record<string, string>>) {
    // Colors and the environment of the runner would change what is printed.
    const own = { NO_COLOR: '1', TERM: 'xterm', SHELL: '/bin/sh', NODE_TEST_CONTEXT: undefined };
    this.#options = { cwd, env: { ...outerEnvironment, ...own, ...env } };
  }

  start(command: string): void {
    this.#text = '';
    const { child, closed } = spawnOnTerminal(`stty cols 120\n${command}`, this.#options, (text) => {
      this.#text += text;
    });
    this.#child = child;
    this.#closed = closed;
  }

  /** @returns what a command printed, up to its end */
  async run(command: string): Promise<string> {
    this.start(command);
    await within(command, HANG_MS, this.#closed);
    assert.equal(this.#child?.exitCode, 0, `${command}\n${this.#shown()}`);
    return this.#shown();
  }

  async close(): Promise<void> {
    if (this.#child === undefined || this.#child.exitCode !== null) return;
    const tooLong = setTimeout(() => this.#child?.kill('SIGKILL'), 10_000);
    await this.interrupt();
    clearTimeout(tooLong);
  }

  async interrupt(): Promise<void> {
    this.#text = '';
    this.#child?.stdin?.write('\x03');
    await within('the end of a service after Ctrl-C', HANG_MS, this.#closed);
  }

  /** Waits until a part of what appeared is what the page shows. */
  async shows(expected: string): Promise<void> {
    const pattern = new RegExp(patternOf(timeless(expected.trimEnd())), 's');
    const isThere = () => pattern.test(timeless(this.#shown()));
    await eventually(expected, isThere, HANG_MS).catch((error) => {
      throw new Error(`${error.message}\nthe terminal shows\n${this.#shown()}`);
    });
  }

  #shown(): string {
    return this.#text.replace(/\x1b\[[\d;]*[A-Za-z]/g, '').replaceAll('\r', '');
  }
}
