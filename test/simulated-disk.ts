/** A disk in memory that fails when it is told to: for what a real disk can not be made to show on demand. */

import type { Disk, DiskFile } from '../src/disk.ts';

export type Call =
  | 'write'
  | 'sync'
  | 'truncate'
  | 'create'
  | 'open'
  | 'rename'
  | 'remove'
  | 'syncFolder'
  | 'close'
  | 'list'
  | 'read';

/** What happens instead of the call: an error, a write of only so many bytes, or waiting for something first. */
export type Fault = Error | { readonly shortBy: number } | Promise<void> | undefined;

interface Inode {
  bytes: Buffer;
}

export class SimulatedDisk implements Disk {
  readonly folder: string;
  readonly files = new Map<string, Inode>();
  /** Every call so far, as `write events-….jsonl`. */
  readonly calls: string[] = [];
  /** Asked before each call. */
  fault: (call: Call, name: string) => Fault = () => undefined;

  /** @param folder a real one where something besides the disk needs it, such as the lock */
  constructor(folder = '/simulated') {
    this.folder = folder;
  }

  text(name: string): string {
    return this.files.get(name)?.bytes.toString() ?? '';
  }

  count(call: Call): number {
    return this.calls.filter((made) => made.startsWith(`${call} `)).length;
  }

  async prepare(): Promise<void> {}

  async list(): Promise<string[]> {
    await this.#call('list', '');
    return [...this.files.keys()];
  }

  async *read(name: string, start = 0, end = Number.POSITIVE_INFINITY): AsyncIterable<Buffer> {
    await this.#call('read', name);
    const bytes = Buffer.from(this.#inode(name).bytes.subarray(start, end));
    // In small chunks, so that lines are cut by them.
    for (let at = 0; at < bytes.length; at += 100) yield bytes.subarray(at, at + 100);
  }

  async create(name: string): Promise<DiskFile> {
    await this.#call('create', name);
    if (this.files.has(name)) throw systemError('EEXIST', name);
    const inode = { bytes: Buffer.alloc(0) };
    this.files.set(name, inode);
    return this.#file(name, inode);
  }

  async open(name: string): Promise<DiskFile> {
    await this.#call('open', name);
    return this.#file(name, this.#inode(name));
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#call('rename', from);
    this.files.set(to, this.#inode(from));
    this.files.delete(from);
  }

  async remove(name: string): Promise<void> {
    await this.#call('remove', name);
    if (!this.files.delete(name)) throw systemError('ENOENT', name);
  }

  async syncFolder(): Promise<void> {
    await this.#call('syncFolder', '');
  }

  #file(name: string, inode: Inode): DiskFile {
    return {
      name,
      write: async (bytes, position) => {
        const fault = await this.#call('write', name);
        const written = bytes.length - (fault?.shortBy ?? 0);
        inode.bytes = Buffer.concat([
          inode.bytes.subarray(0, position),
          bytes.subarray(0, written),
          inode.bytes.subarray(position + written),
        ]);
        return written;
      },
      truncate: async (bytes) => {
        await this.#call('truncate', name);
        inode.bytes = inode.bytes.subarray(0, bytes);
      },
      sync: async () => {
        await this.#call('sync', name);
      },
      sizeInFolder: () => (this.files.get(name) === inode ? inode.bytes.length : undefined),
      close: async () => {
        await this.#call('close', name);
      },
    };
  }

  #inode(name: string): Inode {
    const inode = this.files.get(name);
    if (inode === undefined) throw systemError('ENOENT', name);
    return inode;
  }

  async #call(call: Call, name: string): Promise<{ shortBy: number } | undefined> {
    this.calls.push(`${call} ${name}`);
    const fault = this.fault(call, name);
    if (fault instanceof Error) throw fault;
    if (fault instanceof Promise) await fault;
    else if (fault !== undefined) return fault;
    return undefined;
  }
}

export function systemError(code: string, name = 'file'): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: simulated, '${name}'`), { code });
}
