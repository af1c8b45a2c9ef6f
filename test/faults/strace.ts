/**
 * The program under strace: what it asks of the system, in order, and a system that refuses, delays or kills on demand.
 *
 * strace runs with `-D`, as a process beside the program: the child of the test is the program itself, signals and exit
 * codes are its own, and strace ends with it.
 */

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { newFolder, type RunOptions } from '../support/program.ts';

export interface TraceOptions {
  /** Names of system calls; a question mark before one means that not every machine has it. */
  readonly calls: readonly string[];
  /** `pwrite64:error=ENOSPC:when=2`, in strace's own words. It counts the calls of a thread that are on `paths`. */
  readonly inject?: readonly string[];
  /** Only calls on these files and folders are traced and tampered with; on all of them where this is absent. */
  readonly paths?: readonly string[];
}

export interface Strace {
  /** What makes `launch`, `run` and `startService` run the program under strace. */
  readonly options: RunOptions & { readonly under: readonly string[] };
  /** Everything that was traced: all of it once the program is `finished`, since strace holds its standard error too. */
  calls(): Call[];
}

/** One system call. Lines are those of the trace, which is in the order of time. */
export interface Call {
  readonly name: string;
  readonly args: string;
  /** Line on which it was entered, and on which it returned: the same where nothing else happened meanwhile. */
  readonly began: number;
  readonly ended: number;
  /** NaN for a call that never returned. */
  readonly result: number;
}

export function underStrace(t: TestContext, { calls, inject = [], paths = [] }: TraceOptions): Strace {
  const output = join(newFolder(t), 'trace');
  const under = [
    ...['strace', '-D', '-f', '-q', '-y', '-s', '4194304', '-o', output, '-e', `trace=${calls.join(',')}`],
    // The kernel drops a signal that strace gives where the filter has stopped the program.
    ...(inject.some((what) => what.includes(':signal=')) ? [] : filter),
    ...inject.flatMap((what) => ['-e', `inject=${what}`]),
    ...paths.flatMap((path) => ['-P', path]),
  ];
  return {
    // strace counts for each thread: with one for the disk, the count is that of the program. It sees no io_uring.
    options: { under, env: { UV_THREADPOOL_SIZE: '1', UV_USE_IO_URING: '0' } },
    calls: () => parseTrace(readFileSync(output, 'utf8')),
  };
}

/** Makes calls that are not traced as fast as without strace, where kernel and strace know how. */
const filter =
  spawnSync('strace', ['-f', '--seccomp-bpf', '-e', 'trace=none', 'true'], { stdio: 'ignore' }).status === 0
    ? ['--seccomp-bpf']
    : [];

/** What runs a program whose writes take so long, and so its syncs. `strace -D` does not become the parent of its process. */
export const withSlowWrites = (ms: number): string[] => [
  ...['strace', '-D', '-f', '-qq', '--seccomp-bpf', '-o', '/dev/null'],
  ...['-e', 'trace=pwrite64', '-e', `inject=pwrite64:delay_exit=${ms}000`],
];

/** @param text what `strace -f -y -o` wrote */
function parseTrace(text: string): Call[] {
  const calls: Call[] = [];
  const unfinished = new Map<string, { name: string; args: string; began: number }>();
  for (const [line, content] of text.split('\n').entries()) {
    const [, thread = '', rest = ''] = /^(\d+) +(.*)$/.exec(content) ?? [];
    const begun = /^(\w+)\((.*?) ?<unfinished \.\.\.>$/.exec(rest);
    const [, name = '', args = ''] = begun ?? [];
    if (begun !== null) unfinished.set(thread, { name, args, began: line });
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest);
    const first = resumed === null ? undefined : unfinished.get(thread);
    const whole = first === undefined ? rest : `${first.name}(${first.args}${resumed?.[1] ?? ''}`;
    const ended = /^(\w+)\((.*)\) += (-?\d+|\?)/.exec(whole);
    if (begun !== null || ended === null) continue;
    unfinished.delete(thread);
    const [, of = '', its = '', result = ''] = ended;
    calls.push({ name: of, args: its, began: first?.began ?? line, ended: line, result: Number(result) });
  }
  for (const { name, args, began } of unfinished.values())
    calls.push({ name, args, began, ended: Number.POSITIVE_INFINITY, result: Number.NaN });
  return calls;
}

/** The bytes of every string among the arguments, as latin1. */
export function bytesOf({ args }: Call): string {
  return [...args.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, escaped = '']) => bytesFrom(escaped)).join('');
}

/** What the call's first argument is open on: a path, or `socket:[…]`. */
export function openOn({ args }: Call): string {
  return /^\d+<([^>]*)>/.exec(args)?.[1] ?? '';
}

const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t', v: '\v', f: '\f' };

function bytesFrom(escaped: string): string {
  return escaped.replace(/\\([0-7]{1,3}|.)/g, (_, code: string) =>
    /^[0-7]/.test(code) ? String.fromCharCode(Number.parseInt(code, 8)) : (ESCAPES[code] ?? code),
  );
}
