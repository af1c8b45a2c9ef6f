/** Finds file systems that break guarantees of the journal. */

import { readFile, realpath } from 'node:fs/promises';
import { type Platform, platform } from '../../config/platform.ts';

/** A mounted file system. */
export interface Mount {
  /** Such as `ext4`, `tmpfs` or `nfs4`. */
  readonly type: string;
  /** Options of the mount and of the file system. */
  readonly options: readonly string[];
}

/** @returns the file system of a folder; undefined on a system that does not report it */
export async function findMount(folder: string, system: Platform = platform): Promise<Mount | undefined> {
  try {
    if (system.isLinux) return mountOf(await readFile('/proc/self/mountinfo', 'utf8'), await realpath(folder));
    return system.isWindows ? shareOf(await realpath(folder)) : undefined;
  } catch {
    return undefined; // a container can hide /proc; the result is used for a warning only
  }
}

/**
 * @param path the real path of a folder on Windows. The real path of a network share starts with `\\\\`, whatever the letter of
 * its drive
 */
export function shareOf(path: string): Mount | undefined {
  return path.startsWith('\\\\') ? { type: 'smb', options: [] } : undefined;
}

/**
 * @param mountinfo the text of /proc/self/mountinfo: proc_pid_mountinfo(5)
 * @param path the path of a folder, absolute and without symbolic links: `/data`
 * @returns the mount of the folder; undefined if the text has none
 */
export function mountOf(mountinfo: string, path: string): Mount | undefined {
  let found: Mount | undefined;
  let foundBytes = 0;
  for (const line of mountinfo.split('\n')) {
    const [own = '', system = ''] = line.split(' - ');
    const [, , , , point = '', options = ''] = own.split(' ');
    const [type = '', , systemOptions = ''] = system.split(' ');
    const at = decodeOctal(point);
    if (at === '' || !(path === at || path.startsWith(at.endsWith('/') ? at : `${at}/`))) continue;
    // A later mount on the same mount point hides the earlier one.
    if (at.length < foundBytes) continue;
    found = { type, options: [...options.split(','), ...systemOptions.split(',')] };
    foundBytes = at.length;
  }
  return found;
}

/** @returns the guarantee that the file system breaks, as a sentence for the operator; undefined if it breaks none */
export function hazardOf({ type, options }: Mount): string | undefined {
  if (type === 'tmpfs' || type === 'ramfs') {
    return `the data folder is in memory (${type}): a restart of the machine loses every event; choose a folder on a disk with --data`;
  }
  if (type === 'overlay' && options.some((option) => option === 'volatile' || option === 'fsync=volatile')) {
    return 'the data folder is on an overlay that is mounted volatile: syncs do nothing, so a power cut can lose acknowledged events; mount a volume there';
  }
  if (NETWORK.test(type)) {
    return `the data folder is on a network file system (${type}): the lock does not keep out writers on other machines, and the server decides whether a sync is durable; use a local disk`;
  }
  return undefined;
}

const NETWORK =
  /^(nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|glusterfs|lustre|gpfs|ncpfs|beegfs|ocfs2|gfs2|fuse\.(sshfs|s3fs|glusterfs|ceph|rclone|gcsfuse|goofys|mount-s3|davfs2?|juicefs))$/;

/** Decodes a mount point of mountinfo, in which white space and backslashes are octal escapes. */
function decodeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
