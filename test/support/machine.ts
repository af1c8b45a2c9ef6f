/**
 * What only some machines let a test do. Each `without…` is a reason to skip, or false. It is found out when this file is loaded, by
 * a command each, so what most tests need is in `tools.ts`.
 */

import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { missing } from './tools.ts';

/** With `-D`, like the tests: in some containers strace is installed but tracing is forbidden. */
export const withoutStrace = missing('strace is missing or tracing is forbidden', 'strace', [
  '-D',
  '-f',
  '-o',
  '/dev/null',
  'true',
]);

export const withoutRoot = (process.platform !== 'linux' || process.getuid?.() !== 0) && 'it needs root on Linux';
/** Root in a container can lack the right to mount: then there is no loop device. */
export const withoutMounts =
  withoutRoot ||
  (!existsSync('/dev/loop-control') && 'there are no loop devices') ||
  missing('mkfs.ext4 (e2fsprogs) is missing', 'mkfs.ext4', ['-V']);
export const withoutXfs = withoutMounts || missing('mkfs.xfs (xfsprogs) is missing', 'mkfs.xfs', ['-V']);
/** The power cuts use both file systems. */
export const withoutPowerCut = withoutMounts || missing('xfs_io (xfsprogs) is missing', 'xfs_io', ['-V']);

export const withoutPrlimit = missing('prlimit (util-linux, Linux) is missing', 'prlimit', ['--version']);

/**
 * Limits the size of files of one process, like a full disk: the write that reaches the limit is short, the next one fails.
 */
export function limitFiles({ pid }: { readonly pid: number }, bytes: number | 'unlimited'): void {
  execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:unlimited`]);
}

/** A group of processes with a memory limit of the kernel. */
export interface MemoryGroup {
  /** The first words of a command line that runs in the group. */
  readonly under: readonly string[];
  /** Needs all its processes to have ended. */
  remove(): void;
}

/** Uses cgroup v1 if it is mounted, otherwise v2. @throws if neither is there, or writing to it is forbidden */
export function createMemoryGroup(bytes: number): MemoryGroup {
  const v1 = existsSync('/sys/fs/cgroup/memory/memory.limit_in_bytes');
  const folder = mkdtempSync(v1 ? '/sys/fs/cgroup/memory/assetlog-' : '/sys/fs/cgroup/assetlog-');
  const remove = () => rmdirSync(folder);
  const limit = join(folder, v1 ? 'memory.limit_in_bytes' : 'memory.max');
  try {
    if (!existsSync(limit)) throw new Error(`there is no ${limit}`);
    writeFileSync(limit, String(bytes));
    if (!v1 && existsSync(join(folder, 'memory.swap.max'))) writeFileSync(join(folder, 'memory.swap.max'), '0');
  } catch (error) {
    remove();
    throw error;
  }
  return { under: ['sh', '-c', 'echo $$ > "$1" && shift && exec "$@"', 'sh', join(folder, 'cgroup.procs')], remove };
}

export const withoutMemoryGroups = withoutRoot || reasonAgainst(() => createMemoryGroup(64 * 1024 * 1024).remove());

function reasonAgainst(attempt: () => void): string | false {
  try {
    attempt();
    return false;
  } catch (error) {
    return `the memory of a process cannot be limited with a cgroup: ${(error as Error).message}`;
  }
}

export const IN_OTHER_NETWORK = ['unshare', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh'];
const [unshare = '', ...unshareArgs] = IN_OTHER_NETWORK;
export const withoutNetworkNamespaces = missing(
  'it needs root, Linux, unshare and ip to make a network namespace',
  unshare,
  [...unshareArgs, 'true'],
);

/** Runs a command as the first process of a PID namespace. */
export const IN_OTHER_PIDS = ['unshare', '--pid', '--fork', '--mount-proc'];
const [, ...pidArgs] = IN_OTHER_PIDS;
export const withoutPidNamespaces = missing('it needs root, Linux and unshare to make a PID namespace', unshare, [
  ...pidArgs,
  'true',
]);
