/** The space of a file system, in bytes. */

export interface Space {
  /** Free bytes for users other than root. */
  readonly freeBytes: number;
  /** Free bytes for this process: root may also use the blocks that a file system reserves for root. */
  readonly usableBytes: number;
  readonly totalBytes: number;
}

interface Blocks {
  readonly bavail: number;
  readonly bfree: number;
  readonly blocks: number;
  readonly bsize: number;
}

/** @returns undefined for a file system that reports no size */
export function spaceOf({ bavail, bfree, blocks, bsize }: Blocks): Space | undefined {
  if (blocks === 0) return undefined;
  const usable = process.geteuid?.() === 0 ? bfree : bavail;
  return { freeBytes: bavail * bsize, usableBytes: usable * bsize, totalBytes: blocks * bsize };
}

/** @throws the error of statfs, unless the kernel or a sandbox does not support statfs for the folder */
export function unlessUnsupported(error: NodeJS.ErrnoException): undefined {
  if (!['ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EPERM'].includes(error.code ?? '')) throw error;
}
