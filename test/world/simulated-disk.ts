/**
 * A disk in memory that fails on request and can lose its power. As on a real disk, a write goes to a cache and only a sync makes it
 * durable. A failed sync forgets the bytes that it should have written: the next sync succeeds without them.
 */

import type { OtherWriters } from '../../src/config/files.ts';
import type { Disk, LogFile, NewFile, ReadOptions, SlotFile } from '../../src/journal/disk.ts';
import { SyncError, writeWhole } from '../../src/journal/disk.ts';
import type { Mount } from '../../src/journal/open/mount.ts';
import type { Space } from '../../src/journal/space.ts';

export type Call =
  | 'prepare'
  | 'write'
  | 'sync'
  | 'truncate'
  | 'create'
  | 'createFolder'
  | 'open'
  | 'rename'
  | 'replace'
  | 'remove'
  | 'syncFolder'
  | 'close'
  | 'list'
  | 'size'
  | 'read';

/** What happens instead of the call: an error, a write that is `shortBy` bytes short, or a wait first. */
export type Fault = Error | { readonly shortBy: number } | Promise<void> | undefined;

interface Inode {
  bytes: Buffer;
  /** The content that a power cut certainly leaves. */
  durable: Buffer;
  /** The start and end of each write since the last sync. */
  dirty: { start: number; end: number }[];
}

/** How much of the unsynced changes a power cut leaves. */
export interface Remains {
  /** How much of the changes to the folder; a number is a share from 0 to 1, since a file system keeps their order. */
  readonly entries: 'none' | 'half' | 'all' | number;
  /** How much of the unsynced bytes of a file, from 0 to 1, in their order. */
  readonly share: number;
  /** The content of the sector after them: nothing, zeros up to the new length, or garbage. */
  readonly behind: 'nothing' | 'zeros' | 'garbage';
}

/** How much a power cut leaves of one file. */
export interface FileRemains extends Pick<Remains, 'share' | 'behind'> {
  /** For a disk that writes sectors in any order: whether the next sector is written. Replaces `share`. */
  readonly hasSector?: (() => boolean) | undefined;
}

const SHARES = { none: 0, half: 0.5, all: 1 } as const;
const SECTOR_BYTES = 512;
const NEVER = new Promise<never>(() => {});

export class SimulatedDisk implements Disk {
  readonly folder: string;
  /** Every call so far, such as `write events-….jsonl`. */
  readonly calls: string[] = [];
  /** Called before each call, with the number of bytes that the call writes. */
  fault: (call: Call, name: string, bytes: number) => Fault = () => undefined;
  /** Called after the sync of a file, or of the folder with an empty name. */
  onSynced: (name: string) => void = () => {};
  freeSpace: Space = { freeBytes: 2 ** 40, usableBytes: 2 ** 40, totalBytes: 2 ** 41 };
  #entries = new Map<string, Inode>();
  #durableEntries = new Map<string, Inode>();
  /** The changes to the folder since its last sync, each as the file of a name from then on. */
  #changes: ReadonlyMap<string, Inode | undefined>[] = [];

  /** @param folder a real folder if something besides the disk needs one, such as the lock */
  constructor(folder = '/simulated') {
    this.folder = folder;
  }

  /** Creates a durable file. */
  put(name: string, bytes: Buffer): void {
    const inode = { bytes, durable: bytes, dirty: [] };
    this.#entries.set(name, inode);
    this.#durableEntries.set(name, inode);
  }

  names(): string[] {
    return [...this.#entries.keys()];
  }

  bytes(name: string): Buffer | undefined {
    return this.#entries.get(name)?.bytes;
  }

  /** The names that a power cut certainly leaves. */
  durableNames(): string[] {
    return [...this.#durableEntries.keys()];
  }

  /** The names that were created, renamed or removed since the last sync of the folder. */
  unsyncedNames(): string[] {
    return this.#changes.flatMap((change) => [...change.keys()]);
  }

  /** The content of a file that a power cut certainly leaves: the same object until it changes. */
  durableBytes(name: string): Buffer | undefined {
    return this.#durableEntries.get(name)?.durable;
  }

  text(name: string): string {
    return this.bytes(name)?.toString() ?? '';
  }

  /** Removes a file, even if a process has it open. */
  drop(name: string): void {
    this.#entries.delete(name);
  }

  count(call: Call): number {
    return this.calls.filter((made) => made.startsWith(`${call} `)).length;
  }

  /** Writes cached data to the disk without a sync, as a system might at any time. @param only one file, if it exists */
  writeBack(only?: string): void {
    for (const [name, inode] of this.#entries) if (only === undefined || only === name) flush(inode);
  }

  /** The number of bytes that the next sync of a file writes. */
  unsyncedBytes(name: string): number {
    return this.#entries.get(name)?.dirty.reduce((sum, { start, end }) => sum + end - start, 0) ?? 0;
  }

  /** The disk after a power cut now. @param of returns what is left of each file, in place of one share for all */
  afterPowerCut(
    { entries, share, behind }: Remains,
    of: (name: string) => FileRemains = () => ({ share, behind }),
  ): SimulatedDisk {
    const part = typeof entries === 'number' ? entries : SHARES[entries];
    const names = new Map(this.#durableEntries);
    for (const change of this.#changes.slice(0, Math.floor(part * this.#changes.length))) apply(change, names);
    const after = new SimulatedDisk(this.folder);
    for (const [name, inode] of names) after.put(name, remainsOf(inode, of(name)));
    return after;
  }

  /** The disk after a crash of the process alone. */
  afterCrash(): SimulatedDisk {
    const after = new SimulatedDisk(this.folder);
    const copies = new Map<Inode, Inode>();
    const copied = <Entry extends Inode | undefined>([name, inode]: readonly [string, Entry]): [string, Entry] => {
      if (inode === undefined) return [name, inode];
      const copy = copies.get(inode) ?? { ...inode, dirty: [...inode.dirty] };
      copies.set(inode, copy);
      return [name, copy as Entry];
    };
    after.#entries = new Map([...this.#entries].map(copied));
    after.#durableEntries = new Map([...this.#durableEntries].map(copied));
    after.#changes = this.#changes.map((change) => new Map([...change].map(copied)));
    return after;
  }

  async prepare(): Promise<void> {
    await this.#call('prepare', '');
  }

  async list(): Promise<string[]> {
    await this.#call('list', '');
    return [...new Set(this.names().map((name) => name.split('/', 1)[0] ?? ''))];
  }

  async size(name: string): Promise<number> {
    await this.#call('size', name);
    return this.#inode(name).bytes.length;
  }

  async *read(
    name: string,
    start = 0,
    end = Number.POSITIVE_INFINITY,
    { chunkBytes = Number.POSITIVE_INFINITY }: ReadOptions = {},
  ): AsyncIterable<Buffer> {
    await this.#call('read', name);
    const bytes = Buffer.from(this.#inode(name).bytes.subarray(start, end));
    // Small chunks, so that lines are cut. The chunks of a large file are large, since each write copies all bytes.
    for (let at = 0, length = 1_000; at < bytes.length; at += length) {
      length = Math.min(chunkBytes, at < 100_000 ? 1_000 : 1_000_000);
      const chunk = bytes.subarray(at, at + length);
      yield chunk;
      chunk.fill(0xff); // a real disk reads the next chunk into the same memory
    }
  }

  async create(name: string): Promise<NewFile> {
    return this.#newFile(name, await this.#create(name));
  }

  async createLog(name: string): Promise<LogFile> {
    return this.#logFile(name, await this.#create(name));
  }

  async openLog(name: string): Promise<LogFile> {
    await this.#call('open', name);
    return this.#logFile(name, this.#inode(name));
  }

  async openSlots(name: string): Promise<SlotFile> {
    await this.#call('open', name);
    const known = this.#entries.get(name);
    if (known !== undefined) {
      await this.syncFolder();
      await this.#sync(name, known);
    }
    const inode = known ?? (await this.#create(name));
    const writeUnsynced = async (bytes: Buffer, position: number) => {
      const written = await this.#write(name, inode, bytes, position);
      if (written < bytes.length) throw systemError('ENOSPC', name);
    };
    return {
      write: async (bytes, position) => {
        await writeUnsynced(bytes, position);
        await this.#sync(name, inode);
      },
      writeUnsynced,
      close: async () => void (await this.#call('close', name)),
    };
  }

  async #create(name: string): Promise<Inode> {
    await this.#call('create', name);
    if (this.#entries.has(name)) throw systemError('EEXIST', name);
    const inode: Inode = { bytes: Buffer.alloc(0), durable: Buffer.alloc(0), dirty: [] };
    this.#change([[name, inode]]);
    await this.syncFolder().catch((error: Error) => {
      throw new SyncError(error);
    });
    return inode;
  }

  async copyFrom(source: Pick<Disk, 'folder' | 'read'>, name: string, to: string): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of source.read(name)) chunks.push(Buffer.from(chunk));
    const file = await this.create(to);
    await writeWhole(file, Buffer.concat(chunks), 0);
    await file.close();
  }

  async replace(name: string, bytes: Buffer): Promise<void> {
    await this.#call('replace', name);
    this.#change([[name, { bytes, durable: Buffer.alloc(0), dirty: [{ start: 0, end: bytes.length }] }]]);
  }

  async createFolder(name: string): Promise<void> {
    await this.#call('createFolder', name);
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#call('rename', from);
    const inode = this.#inode(from);
    this.#change([
      [to, inode],
      [from, undefined],
    ]);
  }

  async remove(name: string): Promise<void> {
    await this.#call('remove', name);
    if (!this.#entries.has(name)) throw systemError('ENOENT', name);
    this.#change([[name, undefined]]);
  }

  async syncFolder(): Promise<void> {
    await this.#call('syncFolder', '');
    this.#durableEntries = new Map(this.#entries);
    this.#changes = [];
    this.onSynced('');
  }

  async space(): Promise<Space | undefined> {
    return this.freeSpace;
  }

  async mount(): Promise<Mount | undefined> {
    return undefined;
  }

  async otherWriters(): Promise<OtherWriters | undefined> {
    return undefined;
  }

  #newFile(name: string, inode: Inode): NewFile {
    return {
      name,
      write: (bytes, position) => this.#write(name, inode, bytes, position),
      sync: () => this.#sync(name, inode),
      close: async () => void (await this.#call('close', name)),
    };
  }

  /** An append counts as two calls, since its write and its sync can each fail. */
  #logFile(name: string, inode: Inode): LogFile {
    return {
      name,
      append: async (bytes, end) => {
        const written = await this.#write(name, inode, bytes, end);
        await this.#sync(name, inode).catch((error: Error) => {
          throw new SyncError(error);
        });
        return written;
      },
      truncate: async (bytes) => {
        await this.#call('truncate', name);
        inode.bytes = inode.bytes.subarray(0, bytes);
        inode.dirty = inode.dirty.filter(({ start }) => start < bytes);
        await this.#sync(name, inode);
      },
      sizeInFolder: () => (this.#entries.get(name) === inode ? inode.bytes.length : undefined),
      close: async () => void (await this.#call('close', name)),
    };
  }

  async #write(name: string, inode: Inode, bytes: Buffer, position: number): Promise<number> {
    const fault = await this.#call('write', name, bytes.length);
    const written = Math.max(0, bytes.length - (fault?.shortBy ?? 0));
    const after = Buffer.alloc(Math.max(inode.bytes.length, position + written));
    inode.bytes.copy(after);
    bytes.copy(after, position, 0, written);
    inode.bytes = after;
    inode.dirty.push({ start: position, end: position + written });
    return written;
  }

  async #sync(name: string, inode: Inode): Promise<void> {
    try {
      await this.#call('sync', name);
    } catch (error) {
      inode.dirty = [];
      throw error;
    }
    flush(inode);
    this.onSynced(name);
  }

  #change(entries: readonly (readonly [string, Inode | undefined])[]): void {
    const change = new Map(entries);
    apply(change, this.#entries);
    this.#changes.push(change);
  }

  #inode(name: string): Inode {
    const inode = this.#entries.get(name);
    if (inode === undefined) throw systemError('ENOENT', name);
    return inode;
  }

  async #call(call: Call, name: string, bytes = 0): Promise<{ shortBy: number } | undefined> {
    this.calls.push(`${call} ${name}`);
    const fault = this.fault(call, name, bytes);
    if (fault instanceof Error) throw fault;
    if (fault instanceof Promise) await fault;
    else if (fault !== undefined) return fault;
    return undefined;
  }
}

/**
 * Makes the n-th call fail or never return.
 * @param what `once`: that call fails; `always`: it and all later calls fail; `power`: it and all later calls never return
 * @returns a `fault` for the disk, and how often it struck
 */
export function failingCall(
  n: number,
  what: 'once' | 'always' | 'power',
  code = 'EIO',
): { fault: () => Fault; struck: () => number } {
  let calls = 0;
  let struck = 0;
  return {
    fault: () => {
      calls += 1;
      if (what === 'once' ? calls !== n : calls < n) return undefined;
      struck += 1;
      return what === 'power' ? NEVER : systemError(code);
    },
    struck: () => struck,
  };
}

export function systemError(code: string, name = 'file'): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: simulated, '${name}'`), { code });
}

function apply(change: ReadonlyMap<string, Inode | undefined>, entries: Map<string, Inode>): void {
  for (const [name, inode] of change) {
    if (inode === undefined) entries.delete(name);
    else entries.set(name, inode);
  }
}

function flush(inode: Inode): void {
  inode.durable = overlay(inode, inode.dirty, inode.bytes.length);
  inode.dirty = [];
}

function remainsOf(inode: Inode, { share, behind, hasSector }: FileRemains): Buffer {
  if (hasSector !== undefined)
    return overlay(inode, sectorsOf(inode.dirty).filter(hasSector), Math.max(inode.durable.length, inode.bytes.length));
  if (share === 1) return overlay(inode, inode.dirty, inode.bytes.length);
  let left = Math.floor(share * inode.dirty.reduce((sum, { start, end }) => sum + end - start, 0));
  const written: { start: number; end: number }[] = [];
  let lastEnd = 0;
  for (const { start, end } of inode.dirty) {
    const part = Math.min(left, end - start);
    left -= part;
    if (part > 0) written.push({ start, end: start + part });
    lastEnd = start + part;
    if (part < end - start) break;
  }
  if (behind === 'nothing')
    return overlay(inode, written, Math.max(inode.durable.length, ...written.map(({ end }) => end)));
  const length = Math.max(inode.durable.length, inode.bytes.length);
  const bytes = overlay(inode, written, length);
  if (behind === 'garbage' && inode.dirty.length > 0)
    bytes.fill('\x07{"seq":\n', lastEnd, Math.min(length, sectorEnd(lastEnd)));
  return bytes;
}

/** A power cut damages the sector that is being written, not the next one. */
function sectorEnd(position: number): number {
  return (Math.floor(position / SECTOR_BYTES) + 1) * SECTOR_BYTES;
}

/** Ranges of bytes, cut at the borders of sectors. */
function sectorsOf(ranges: Inode['dirty']): Inode['dirty'] {
  const sectors: Inode['dirty'] = [];
  for (const { start, end } of ranges) {
    for (let at = start; at < end; at = sectorEnd(at)) sectors.push({ start: at, end: Math.min(end, sectorEnd(at)) });
  }
  return sectors;
}

/** The durable bytes, overlaid with parts of the cached ones. */
function overlay(inode: Inode, parts: readonly { start: number; end: number }[], length: number): Buffer {
  const bytes = Buffer.alloc(length);
  inode.durable.copy(bytes);
  for (const { start, end } of parts) inode.bytes.copy(bytes, start, start, Math.min(end, length));
  return bytes;
}
