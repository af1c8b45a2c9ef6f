/** Small file systems of their own, to be filled up, broken and cut off from their disk. Needs root and Linux. */

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

/** `plain ext4` has no journal: nothing becomes durable but what was synced itself. `ramfs` has no size, and reports none. */
export type Kind = 'ext4' | 'plain ext4' | 'xfs' | 'tmpfs' | 'ramfs';

export interface Mount {
  /** Where it is mounted; the owner may make what it likes in it. */
  readonly folder: string;
  /** Takes all the space that is left with a file of its own, but for some bytes. */
  fill(leaveBytes?: number): void;
  /** Gives back what `fill` took. */
  free(): void;
  /** Makes empty files until no further one goes in. @returns what removes them */
  fillInodes(): () => void;
  /** From here on nothing reaches the disk, and every call fails. With `flush` what the journal of the file system holds is written first. */
  cutPower(flush?: boolean): void;
  /** Unmounts and mounts again, which replays the file system's journal. No process may use it. */
  remount(): void;
  /** Changes the options of the mount, as `mount -o remount` does. */
  change(options: string): void;
  /** Mounts what is on the disk at this moment, as a power cut would leave it, in another place. */
  copyOfDisk(): Mount;
  /** Makes the file system find an error, after which it takes no writes (ext4). */
  breakDown(): void;
}

const MOUNTS = '/proc/self/mounts';
const FILLER = 'filler';
const UNRESERVED_BYTES = 16 * 1024 * 1024;
/** An XFS is refused below 300 MiB. The images are sparse, so it costs nothing. */
const XFS_BYTES_MIN = 320 * 1024 * 1024;

export interface MountOptions {
  readonly bytes: number;
  /** How many files it can hold (ext4); its own folders take a few. */
  readonly inodes?: number;
  /** As `mount -o` takes them. */
  readonly options?: string;
  /** The folder of its image; with less space there than `bytes`, it is a disk that has less space than it reports. */
  readonly within?: Mount;
}

/** Makes a file system and mounts it; it is gone with the scope, whatever happened. */
export function mountNew(
  scope: Scope,
  kind: Kind,
  { bytes, inodes, options = 'defaults', within }: MountOptions,
): Mount {
  const place = makePlace(scope, 'mount', within?.folder);
  if (kind === 'tmpfs') {
    command('mount', '-t', 'tmpfs', '-o', `size=${bytes},${options}`, 'tmpfs', place.folder);
    return mounted(scope, place, options);
  }
  if (kind === 'ramfs') {
    command('mount', '-t', 'ramfs', 'ramfs', place.folder);
    return mounted(scope, place, options);
  }
  writeFileSync(place.image, '');
  truncateSync(place.image, kind === 'xfs' ? Math.max(bytes, XFS_BYTES_MIN) : bytes);
  if (kind === 'xfs') command('mkfs.xfs', '-q', place.image);
  // Without blocks held back for root, full means full.
  else {
    const features = kind === 'ext4' ? [] : ['-O', '^has_journal'];
    const count = inodes === undefined ? [] : ['-N', String(inodes)];
    command('mkfs.ext4', '-q', '-F', '-m', '0', ...features, ...count, place.image);
  }
  command('mount', '-o', `loop,${options}`, place.image, place.folder);
  return mounted(scope, place, options);
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

function mounted(scope: Scope, { image, folder }: Place, options: string): Mount {
  const filler = join(folder, FILLER);
  return {
    folder,
    fill: (leaveBytes = 0) => fill(filler, leaveBytes),
    free: () => rmSync(filler, { force: true }),
    fillInodes: () => fillInodes(join(folder, 'fillers')),
    cutPower: (flush = false) => command('xfs_io', '-x', '-c', flush ? 'shutdown -f' : 'shutdown', folder),
    remount: () => {
      command('umount', folder);
      command('mount', '-o', `loop,${options}`, image, folder);
    },
    change: (changed) => command('mount', '-o', `remount,${changed}`, folder),
    copyOfDisk: () => {
      const place = makePlace(scope, 'copy');
      command('cp', '--sparse=always', image, place.image);
      command('mount', '-o', 'loop', place.image, place.folder);
      return mounted(scope, place, 'defaults');
    },
    breakDown: () => writeFileSync(`/sys/fs/ext4/${basename(deviceOf(folder))}/trigger_fs_error`, '1'),
  };
}

/** Unmounts what a test left mounted below a folder, because it was killed before it could. */
export function unmountBelow(folder: string): void {
  for (const { at } of mounts().reverse()) if (at.startsWith(`${folder}/`)) unmount(at);
}

/** A process that still has a file open there, after a test that failed, keeps it from being unmounted at once. */
function unmount(folder: string): void {
  if (!isMounted(folder)) return;
  try {
    command('umount', folder);
  } catch {
    command('umount', '--lazy', folder);
  }
}

function isMounted(folder: string): boolean {
  return existsSync(folder) && deviceOf(folder) !== '';
}

function deviceOf(folder: string): string {
  return mounts().find(({ at }) => at === folder)?.device ?? '';
}

/** What is mounted, in the order in which it was. Nothing on a system other than Linux. */
function mounts(): { readonly device: string; readonly at: string }[] {
  if (!existsSync(MOUNTS)) return [];
  const lines = readFileSync(MOUNTS, 'utf8').trimEnd().split('\n');
  return lines.map((line) => line.split(' ')).map(([device = '', at = '']) => ({ device, at }));
}

/** Writes until nothing more goes in, in ever smaller pieces, and makes the file system really take the space. */
function fill(filler: string, leaveBytes: number): void {
  const { bavail, bsize } = statfsSync(dirname(filler));
  // Most of a large one is taken without being written.
  const reservedBytes = bavail * bsize - UNRESERVED_BYTES;
  if (reservedBytes > 0) command('fallocate', '-l', String(reservedBytes), filler);
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

function command(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { timeout: HANG_MS, stdio: 'pipe' });
}
