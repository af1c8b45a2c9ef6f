/**
 * The program under strace: its system calls, in order, and a system that refuses, delays or kills on demand.
 *
 * strace runs with `-D`, as a process beside the program: the child of the test is the program itself, with its own
 * signals and exit code, and strace ends with it.
 */

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { newFolder, type RunOptions } from '../support/program.ts';

interface TraceOptions {
  /** Names of system calls; a question mark marks a call that some machines do not have. */
  readonly calls: readonly string[];
  /** `pwrite64:error=ENOSPC:when=2`, in strace's syntax. It counts the calls of a thread that are on `paths`. */
  readonly inject?: readonly string[];
  /** Only calls on these files and folders are traced and tampered with; by default all calls. */
  readonly paths?: readonly string[];
}

export interface Strace {
  /** Makes `launch`, `run` and `startService` run the program under strace. */
  readonly options: RunOptions & { readonly under: readonly string[] };
  /** All traced calls, complete when the program is `finished`, since strace holds its standard error too. */
  calls(): Call[];
}

/** One system call. Lines are lines of the trace, which is in the order of time. */
export interface Call {
  readonly name: string;
  readonly args: string;
  /** The line on which the call started, and the line on which it returned: the same if no other call came between. */
  readonly startLine: number;
  readonly endLine: number;
  /** NaN for a call that never returned. */
  readonly result: number;
}

export function underStrace(t: TestContext, { calls, inject = [], paths = [] }: TraceOptions): Strace {
  const output = join(newFolder(t), 'trace');
  const under = [
    ...['strace', '-D', '-f', '-q', '-y', '-s', '4194304', '-o', output, '-e', `trace=${calls.join(',')}`],
    // The kernel drops a signal from strace if the filter has stopped the program.
    ...(inject.some((what) => what.includes(':signal=')) ? [] : filter),
    ...inject.flatMap((what) => ['-e', `inject=${what}`]),
    ...paths.flatMap((path) => ['-P', path]),
  ];
  return {
    // strace counts for each thread: with one thread for the disk, its count is the program's. It does not see io_uring.
    options: { under, env: { UV_THREADPOOL_SIZE: '1', UV_USE_IO_URING: '0' } },
    calls: () => parseTrace(readFileSync(output, 'utf8')),
  };
}

/** Makes untraced calls as fast as without strace, if kernel and strace support it. */
const filter =
  spawnSync('strace', ['-f', '--seccomp-bpf', '-e', 'trace=none', 'true'], { stdio: 'ignore' }).status === 0
    ? ['--seccomp-bpf']
    : [];

/** The start of a command line for a program whose writes and syncs are slow. `strace -D` does not become the parent of its process. */
export const withSlowWrites = (ms: number): string[] => [
  ...['strace', '-D', '-f', '-qq', '--seccomp-bpf', '-o', '/dev/null'],
  ...['-e', 'trace=pwrite64', '-e', `inject=pwrite64:delay_exit=${ms}000`],
];

/** @param text the output of `strace -f -y -o` */
function parseTrace(text: string): Call[] {
  const calls: Call[] = [];
  const unfinished = new Map<string, { name: string; args: string; startLine: number }>();
  for (const [line, content] of text.split('\n').entries()) {
    const [, thread = '', rest = ''] = /^(\d+) +(.*)$/.exec(content) ?? [];
    const unfinishedCall = /^(\w+)\((.*?) ?<unfinished \.\.\.>$/.exec(rest);
    const [, name = '', args = ''] = unfinishedCall ?? [];
    if (unfinishedCall !== null) unfinished.set(thread, { name, args, startLine: line });
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest);
    const first = resumed === null ? undefined : unfinished.get(thread);
    const whole = first === undefined ? rest : `${first.name}(${first.args}${resumed?.[1] ?? ''}`;
    const ended = /^(\w+)\((.*)\) += (-?\d+|\?)/.exec(whole);
    if (unfinishedCall !== null || ended === null) continue;
    unfinished.delete(thread);
    const [, of = '', its = '', result = ''] = ended;
    calls.push({ name: of, args: its, startLine: first?.startLine ?? line, endLine: line, result: Number(result) });
  }
  for (const { name, args, startLine } of unfinished.values())
    calls.push({ name, args, startLine, endLine: Number.POSITIVE_INFINITY, result: Number.NaN });
  return calls;
}

/** @returns the bytes of every string in the arguments, as latin1 */
export function bytesOf({ args }: Call): string {
  return [...args.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, escaped = '']) => bytesFrom(escaped)).join('');
}

/** @returns the file of the call's first argument: a path, or `socket:[…]` */
export function openOn({ args }: Call): string {
  return /^\d+<([^>]*)>/.exec(args)?.[1] ?? '';
}

const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t', v: '\v', f: '\f' };

function bytesFrom(escaped: string): string {
  return escaped.replace(/\\([0-7]{1,3}|.)/g, (_, code: string) =>
    /^[0-7]/.test(code) ? String.fromCharCode(Number.parseInt(code, 8)) : (ESCAPES[code] ?? code),
  );
}
