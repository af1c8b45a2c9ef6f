/** Which durability guarantees of the journal the file system of a folder breaks. */

/** One mounted file system. */
export interface Mount {
  /** The system's name of the file system, such as `ext4`, `tmpfs`, `nfs4`. */
  readonly type: string;
  /** Options of the mount and of the file system. */
  readonly options: readonly string[];
}

/**
 * @param mountinfo the text of /proc/self/mountinfo: proc_pid_mountinfo(5)
 * @param path of a folder, absolute and without symbolic links: `/data`
 * @returns the mount that the folder is on; undefined if the text has none
 */
export function mountOf(mountinfo: string, path: string): Mount | undefined {
  let found: Mount | undefined;
  let foundBytes = 0;
  for (const line of mountinfo.split('\n')) {
    const [own = '', system = ''] = line.split(' - ');
    const [, , , , point = '', options = ''] = own.split(' ');
    const [type = '', , systemOptions = ''] = system.split(' ');
    const at = unescaped(point);
    if (at === '' || !(path === at || path.startsWith(at.endsWith('/') ? at : `${at}/`))) continue;
    // Of two mounts on the same mount point the later one hides the earlier.
    if (at.length < foundBytes) continue;
    found = { type, options: [...options.split(','), ...systemOptions.split(',')] };
    foundBytes = at.length;
  }
  return found;
}

/** @returns which guarantee the file system breaks, as a sentence for the operator; undefined if it breaks none */
export function hazardOf({ type, options }: Mount): string | undefined {
  if (type === 'tmpfs' || type === 'ramfs') {
    return `the data folder is in memory (${type}): a restart of the machine loses every event; choose a folder on a disk with --data`;
  }
  if (type === 'overlay' && options.some((option) => option === 'volatile' || option === 'fsync=volatile')) {
    return 'the data folder is on an overlay that is mounted volatile: syncs do nothing, so a power cut may lose events that were acknowledged; mount a volume there';
  }
  if (NETWORK.test(type)) {
    return `the data folder is on a network file system (${type}): the lock does not keep out writers on other machines, and what a sync means is up to the server; use a local disk`;
  }
  return undefined;
}

const NETWORK =
  /^(nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|glusterfs|lustre|gpfs|ncpfs|beegfs|ocfs2|gfs2|fuse\.(sshfs|s3fs|glusterfs|ceph|rclone|gcsfuse|goofys|mount-s3|davfs2?|juicefs))$/;

/** Decodes a mount point of mountinfo, in which white space and backslashes are octal escapes. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
