/**
 * Where the lock of a folder listens: at a socket file in the folder, or at a name that is derived from the folder's file
 * id.
 *
 * | system | where | if its path is too long for a socket address |
 * |---|---|---|
 * | Linux | socket file; abstract socket on a file system without socket files | through the open folder in /proc/self/fd |
 * | macOS, others | socket file | through a short link, which exists only while the socket is bound or connected |
 * | Windows | named pipe | – |
 */

import { closeSync, constants, fstatSync, mkdtempSync, openSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Platform, platform } from '../../config/platform.ts';

/** An open folder. */
export interface Place {
  readonly folder: string;
  /** File descriptor of the folder. */
  readonly directory: number;
  readonly system: Platform;
}

/** @throws the error of a system call */
export function openPlace(folder: string, system: Platform = platform): Place {
  return { folder, directory: openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY), system };
}

export function closePlace({ directory }: Place): void {
  closeSync(directory);
}

/**
 * @returns the address that every process derives from the folder, whatever its path: an abstract socket or a named pipe;
 * undefined
 *   on a system that has neither
 */
export function nameOfFolder({ directory, system }: Place): string | undefined {
  if (!system.isLinux && !system.isWindows) return undefined;
  // Read from the open folder, as bigints: versions of Node on Windows report different volumes for a path.
  const { dev, ino } = fstatSync(directory, { bigint: true });
  return `${system.isWindows ? '\\\\.\\pipe\\' : '\0'}assetlog-${dev}-${ino}`;
}

/**
 * @param name the name of a socket file in the folder, such as `.lock-1`, or the result of `nameOfFolder`
 * @param act binds or connects a socket. The path is valid until the returned promise is settled
 * @throws the error of `act`, or of a system call
 */
export async function atAddress<Value>(
  { folder, directory, system }: Place,
  name: string,
  act: (path: string) => Promise<Value>,
): Promise<Value> {
  if (!name.startsWith('.')) return act(name);
  const path = join(folder, name);
  if (Buffer.byteLength(path) <= SOCKET_PATH_BYTES_MAX) return act(path);
  if (system.isLinux) return act(`/proc/self/fd/${directory}/${name}`);
  const own = mkdtempSync('/tmp/assetlog-'); // mode 0700. `tmpdir()` of macOS is too long as well
  try {
    symlinkSync(resolve(folder), join(own, 'to'));
    return await act(join(own, 'to', name));
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

/** @returns the names with this prefix. Links are excluded, since root would connect to their target. */
export function listSockets(folder: string, prefix: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.name.startsWith(prefix) && !entry.isSymbolicLink()).map(({ name }) => name);
}

/** `sun_path` has 108 bytes on Linux and 104 elsewhere, including a closing zero. */
const SOCKET_PATH_BYTES_MAX = 103;
