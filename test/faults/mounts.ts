/** Small separate file systems, which tests fill up, break and cut off from their disk. Needs root and Linux. */

import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { Scope } from '../support/program.ts';
import { HANG_MS } from '../support/tools.ts';

/** `plain ext4` has no journal: only synced changes are durable. */
export type Kind = 'ext4' | 'plain ext4' | 'xfs' | 'tmpfs';

export interface Mount {
  /** The mount point, writable for its owner. */
  readonly folder: string;
  /** Fills the space with one file, except for some bytes. */
  fill(leaveBytes?: number): void;
  free(): void;
  /** Creates empty files until no inode is left. @returns a function that removes them */
  fillInodes(): () => void;
  /** From here on nothing reaches the disk, and every call fails. `flush` writes the journal of the file system first. */
  cutPower(flush?: boolean): void;
  /** Unmounts and mounts again, which replays the file system's journal. No process can have a file open there. */
  remount(): void;
  change(options: string): void;
  /** Mounts a copy of the disk at this moment, as after a power cut, in another place. */
  copyOfDisk(): Mount;
  /** Makes the file system find an error, after which it refuses writes (ext4). */
  breakDown(): void;
}

const MOUNTS = '/proc/self/mounts';
const FILLER = 'filler';
const UNRESERVED_BYTES = 16 * 1024 * 1024;
/** mkfs.xfs refuses less than 300 MiB. The images are sparse, so the size is free. */
const XFS_BYTES_MIN = 320 * 1024 * 1024;

export interface MountOptions {
  readonly bytes: number;
  /** The number of inodes (ext4); a few are used by the file system itself. */
  readonly inodes?: number;
  /** Options for `mount -o`. */
  readonly options?: string;
  /** The file system of the image. If it has less space than `bytes`, the disk has less space than it reports. */
  readonly within?: Mount;
}

/** Makes and mounts a file system; it is removed with the scope, also after a failure. */
export function mountNew(
  scope: Scope,
  kind: Kind,
  { bytes, inodes, options = 'defaults', within }: MountOptions,
): Mount {
  const place = makePlace(scope, 'mount', within?.folder);
  if (kind === 'tmpfs') {
    runCommand('mount', '-t', 'tmpfs', '-o', `size=${bytes},${options}`, 'tmpfs', place.folder);
    return mountOf(scope, place, options);
  }
  writeFileSync(place.image, '');
  truncateSync(place.image, kind === 'xfs' ? Math.max(bytes, XFS_BYTES_MIN) : bytes);
  if (kind === 'xfs') runCommand('mkfs.xfs', '-q', place.image);
  // Root has no reserved blocks, so full means full.
  else {
    const features = kind === 'ext4' ? [] : ['-O', '^has_journal'];
    const count = inodes === undefined ? [] : ['-N', String(inodes)];
    runCommand('mkfs.ext4', '-q', '-F', '-m', '0', ...features, ...count, place.image);
  }
  runCommand('mount', '-o', `loop,${options}`, place.image, place.folder);
  return mountOf(scope, place, options);
}

interface Place {
  readonly image: string;
  readonly folder: string;
}

function makePlace(scope: Scope, name: string, imageIn?: string): Place {
  const around = mkdtempSync(join(tmpdir(), `assetlog-${name}-`));
  const place = { image: join(imageIn ?? around, 'image'), folder: join(around, 'mounted') };
  mkdirSync(place.folder);
  scope.after(() => {
    unmount(place.folder);
    rmSync(around, { recursive: true, force: true });
  });
  return place;
}

function mountOf(scope: Scope, { image, folder }: Place, options: string): Mount {
  const filler = join(folder, FILLER);
  return {
    folder,
    fill: (leaveBytes = 0) => fill(filler, leaveBytes),
    free: () => rmSync(filler, { force: true }),
    fillInodes: () => fillInodes(join(folder, 'fillers')),
    cutPower: (flush = false) => runCommand('xfs_io', '-x', '-c', flush ? 'shutdown -f' : 'shutdown', folder),
    remount: () => {
      runCommand('umount', folder);
      runCommand('mount', '-o', `loop,${options}`, image, folder);
    },
    change: (changed) => runCommand('mount', '-o', `remount,${changed}`, folder),
    copyOfDisk: () => {
      const place = makePlace(scope, 'copy');
      runCommand('cp', '--sparse=always', image, place.image);
      runCommand('mount', '-o', 'loop', place.image, place.folder);
      return mountOf(scope, place, 'defaults');
    },
    breakDown: () => writeFileSync(`/sys/fs/ext4/${basename(deviceOf(folder))}/trigger_fs_error`, '1'),
  };
}

/** Unmounts everything below a folder that a killed test left mounted. */
export function unmountBelow(folder: string): void {
  for (const { at } of listMounts().reverse()) if (at.startsWith(`${folder}/`)) unmount(at);
}

/** After a failed test, a process with an open file can delay the unmount. */
function unmount(folder: string): void {
  if (!isMounted(folder)) return;
  try {
    runCommand('umount', folder);
  } catch {
    runCommand('umount', '--lazy', folder);
  }
}

function isMounted(folder: string): boolean {
  return existsSync(folder) && deviceOf(folder) !== '';
}

/** @returns the device of a mount point; empty if nothing is mounted there */
export function deviceOf(folder: string): string {
  return listMounts().find(({ at }) => at === folder)?.device ?? '';
}

/** @returns the mounts in their order; empty on a system other than Linux */
function listMounts(): { readonly device: string; readonly at: string }[] {
  if (!existsSync(MOUNTS)) return [];
  const lines = readFileSync(MOUNTS, 'utf8').trimEnd().split('\n');
  return lines.map((line) => line.split(' ')).map(([device = '', at = '']) => ({ device, at }));
}

/** Writes ever smaller pieces until nothing fits, and syncs, so that the space is really allocated. */
function fill(filler: string, leaveBytes: number): void {
  const { bavail, bsize } = statfsSync(dirname(filler));
  // Most of the space of a large file system is allocated without being written.
  const reservedBytes = bavail * bsize - UNRESERVED_BYTES;
  if (reservedBytes > 0) runCommand('fallocate', '-l', String(reservedBytes), filler);
  const file = openSync(filler, 'a');
  for (let piece = 1024 * 1024; piece >= 512; piece /= 2) {
    const bytes = Buffer.alloc(piece, 'x');
    try {
      while (writeSync(file, bytes) === piece);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }
  fsyncSync(file);
  closeSync(file);
  if (leaveBytes > 0) truncateSync(filler, Math.max(0, statSync(filler).size - leaveBytes));
}

function fillInodes(fillers: string): () => void {
  mkdirSync(fillers);
  for (let count = 0; ; count += 1) {
    try {
      writeFileSync(join(fillers, String(count)), '');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      return () => rmSync(fillers, { recursive: true });
    }
  }
}

function runCommand(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { timeout: HANG_MS, stdio: 'pipe' });
}
