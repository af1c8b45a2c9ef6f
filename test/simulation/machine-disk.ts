/**
 * The disk of a machine, with a simulated disk for each folder. A call that changes something has two events: the system does it, also after the process that called has died, and
 * the process hears of it. A power cut ends both, and leaves of what was not synced only what `SimulatedDisk.afterPowerCut` says.
 */

import type { Disk, LogFile, NewFile, ReadOptions, SlotFile } from '../../src/journal/disk.ts';
import type { Space } from '../../src/journal/space.ts';
import { type Call, type Fault, type FileRemains, SimulatedDisk } from '../world/simulated-disk.ts';
import { Incarnation, type WallClock, type World } from '../world/time.ts';

/** Called before each disk call, with the bytes that it writes; what it returns happens in place of the call. */
export type FaultOf = (call: Call, name: string, bytes: number, folder: string) => Fault;

/** What a power cut leaves of what was not synced: of the folder a share of its changes, and of each file its own part. */
export interface PowerCut {
  readonly entries: number;
  readonly of: (name: string, folder: string) => FileRemains;
}

/** Called before each disk call. */
export type OnCall = (folder: string, call: Call, name: string) => void;

/** Mean of the time that a sync takes, in milliseconds: during a long one much comes meanwhile. */
const SYNC_MS = [2, 30];
/** The same of other calls. */
const MEAN_MS: Readonly<Partial<Record<Call, number>>> = { write: 0.1, read: 0.1 };
const OTHER_MEAN_MS = 0.05;
/** Mean of the longest time that a call of a slow disk takes. */
const SLOW_MS_MAX = 2_000;
/** Share of the writes that the system brings to the disk by itself, some time later. */
const WRITTEN_BACK = 0.05;
const WRITE_BACK_MS = 100;
/** The most frequent calls change nothing, and are one event each. */
const FINDS: readonly Call[] = ['list', 'size', 'read'];
/** Until a process hears that a call has ended. */
const HEARD_MS = 0.02;
const NEVER = new Promise<never>(() => {});

export class MachineDisk {
  readonly #world: World;
  readonly #name: string;
  readonly #clock: WallClock;
  readonly #folder: string;
  readonly #syncMs: number;
  readonly #folders = new Map<string, SimulatedDisk>();
  /** From power-on to power-off: calls of an earlier one never take effect. */
  #powered: Incarnation;
  /** Asked in their order; the first that has one decides. */
  readonly faults = new Set<FaultOf>();
  onCall: OnCall = () => {};
  /** Called after a file was synced, or with an empty name the folder. */
  onSynced: (folder: string, name: string) => void = () => {};
  /** Called after a process has replaced a file, or has appended to one. */
  onWritten: (folder: string, name: string, bytes: Buffer) => void = () => {};
  /** The process has died in the middle of what it did: what comes next, such as the sync after a write, never happens. */
  isAbandoned = false;
  /** Multiplies the time of each call. */
  slowness = 1;
  /** Each read of a line fails. */
  isUnreadable = false;
  /** When a call failed last, or when the last call that takes longer than usual ends. */
  troubledMs = Number.NEGATIVE_INFINITY;
  /** When a call was last made that takes longer than usual. */
  slowMs = Number.NEGATIVE_INFINITY;

  constructor(world: World, name: string, clock: WallClock, folder: string) {
    this.#world = world;
    this.#name = name;
    this.#clock = clock;
    this.#folder = folder;
    this.#syncMs = world.chance(`disk of ${name}`).oneOf(SYNC_MS);
    this.#powered = new Incarnation(world, `${name} system`, clock);
  }

  /** The data folder of its service. */
  get disk(): SimulatedDisk {
    return this.in(this.#folder);
  }

  in(folder: string): SimulatedDisk {
    return this.#folders.get(folder) ?? this.#put(new SimulatedDisk(folder));
  }

  cutPower({ entries, of }: PowerCut): void {
    this.#powered.end();
    this.#powered = new Incarnation(this.#world, `${this.#name} system`, this.#clock);
    for (const [folder, disk] of this.#folders) {
      const nothing = { entries, share: 0, behind: 'nothing' } as const;
      this.#put(disk.afterPowerCut(nothing, (name) => of(name, folder)));
    }
  }

  /** An operator puts other files in place of all of a folder. Calls that are under way reach the old ones. */
  exchange(folder: string, files: ReadonlyMap<string, Buffer>): void {
    this.#powered.end();
    this.#powered = new Incarnation(this.#world, `${this.#name} system`, this.#clock);
    for (const disk of this.#folders.values()) this.#put(disk);
    const disk = new SimulatedDisk(folder);
    for (const [name, bytes] of files) disk.put(name, bytes);
    this.#put(disk);
  }

  /** A folder as a process sees it. */
  openFor(process: Incarnation, folder: string): Disk {
    const onWritten = (name: string, bytes: Buffer) => this.onWritten(folder, name, bytes);
    return new ProcessDisk(this.#world, process, this.in(folder), onWritten);
  }

  /** @param ms how long the trouble lasts from now on */
  #troubled(ms: number): void {
    this.troubledMs = Math.max(this.troubledMs, this.#world.nowMs + ms);
  }

  #put(disk: SimulatedDisk): SimulatedDisk {
    const powered = this.#powered;
    const { folder } = disk;
    this.#folders.set(folder, disk);
    disk.onSynced = (name) => this.onSynced(folder, name);
    disk.fault = (call, name, bytes) => {
      if (this.isAbandoned) return NEVER;
      this.onCall(folder, call, name);
      for (const faultOf of this.faults) {
        const fault = faultOf(call, name, bytes, folder);
        if (fault === undefined) continue;
        if (!(fault instanceof Promise)) this.#troubled(0);
        return fault;
      }
      if (call === 'write' && powered.chance.happens(WRITTEN_BACK)) {
        const ms = powered.chance.exponentialMs(WRITE_BACK_MS);
        this.#world.plan(ms, `writes back ${name}`, () => disk.writeBack(name), powered);
      }
      const meanMs = call.startsWith('sync') ? this.#syncMs : (MEAN_MS[call] ?? OTHER_MEAN_MS);
      const ms = powered.chance.exponentialMs(Math.min(meanMs * this.slowness, SLOW_MS_MAX));
      if (this.slowness > 1) {
        this.slowMs = this.#world.nowMs;
        this.#troubled(ms);
      }
      // What changes nothing has no effect without the process that hears of it.
      const { current = powered } = this.#world;
      return this.#world.wait(ms, `${call} ${name}`, FINDS.includes(call) ? current : powered);
    };
    return disk;
  }
}

class ProcessDisk implements Disk {
  readonly folder: string;
  readonly #world: World;
  readonly #process: Incarnation;
  readonly #disk: SimulatedDisk;
  readonly #onWritten: (name: string, bytes: Buffer) => void;

  constructor(
    world: World,
    process: Incarnation,
    disk: SimulatedDisk,
    onWritten: (name: string, bytes: Buffer) => void,
  ) {
    this.folder = disk.folder;
    this.#onWritten = onWritten;
    this.#world = world;
    this.#process = process;
    this.#disk = disk;
  }

  prepare = () => this.#heard(this.#disk.prepare());
  list = () => this.#found(this.#disk.list());
  size = (name: string) => this.#found(this.#disk.size(name));
  replace = async (name: string, bytes: Buffer) => {
    const copy = Buffer.from(bytes);
    await this.#changed(this.#disk.replace(name, copy));
    this.#onWritten(name, copy);
  };
  copyFrom: Disk['copyFrom'] = (source, name, to) => this.#changed(this.#disk.copyFrom(source, name, to));
  createFolder = (name: string) => this.#changed(this.#disk.createFolder(name));
  rename = (from: string, to: string) => this.#changed(this.#disk.rename(from, to));
  remove = (name: string) => this.#changed(this.#disk.remove(name));
  syncFolder = () => this.#changed(this.#disk.syncFolder());
  space = (): Promise<Space | undefined> => this.#heard(this.#disk.space());
  mount = () => this.#heard(this.#disk.mount());
  otherWriters = () => this.#heard(this.#disk.otherWriters());

  async *read(name: string, start?: number, end?: number, options?: ReadOptions): AsyncIterable<Buffer> {
    const chunks = this.#disk.read(name, start, end, options)[Symbol.asyncIterator]();
    for (let count = 1; ; count += 1) {
      const next = await this.#found(chunks.next());
      if (count === 2 && !next.done) await this.#heard(Promise.resolve()); // so that others run between two chunks
      options?.signal?.throwIfAborted();
      if (next.done) return;
      yield next.value;
    }
  }

  async create(name: string): Promise<NewFile> {
    return this.#newFile(await this.#changed(this.#disk.create(name)));
  }

  async createLog(name: string): Promise<LogFile> {
    return this.#logFile(await this.#changed(this.#disk.createLog(name)));
  }

  async openLog(name: string): Promise<LogFile> {
    return this.#logFile(await this.#heard(this.#disk.openLog(name)));
  }

  async openSlots(name: string): Promise<SlotFile> {
    const file = await this.#heard(this.#disk.openSlots(name));
    return {
      write: (bytes, position) => this.#changed(file.write(Buffer.from(bytes), position)),
      writeUnsynced: (bytes, position) => this.#changed(file.writeUnsynced(Buffer.from(bytes), position)),
      close: () => this.#heard(file.close()),
    };
  }

  #newFile(file: NewFile): NewFile {
    return {
      name: file.name,
      write: (bytes, position) => this.#changed(file.write(Buffer.from(bytes), position)),
      sync: () => this.#changed(file.sync()),
      close: () => this.#heard(file.close()),
    };
  }

  #logFile(file: LogFile): LogFile {
    return {
      name: file.name,
      append: async (bytes, end) => {
        const copy = Buffer.from(bytes);
        const written = await this.#changed(file.append(copy, end));
        this.#onWritten(file.name, copy);
        return written;
      },
      truncate: (bytes) => this.#changed(file.truncate(bytes)),
      sizeInFolder: () => file.sizeInFolder(),
      close: () => this.#heard(file.close()),
    };
  }

  /** A call that changes the disk. */
  async #changed<Value>(done: Promise<Value>): Promise<Value> {
    this.#process.changes += 1;
    try {
      return await this.#heard(done);
    } finally {
      this.#process.changes -= 1;
    }
  }

  /** Of a call whose only event is that the process hears of it. A fault takes no time by itself. */
  #found<Value>(done: Promise<Value>): Promise<Value> {
    return done.catch((error: Error) => this.#heard(Promise.reject(error)));
  }

  /** Settles as the call did, a moment later; never if the process has ended by then. */
  #heard<Value>(done: Promise<Value>): Promise<Value> {
    return new Promise((resolve, reject) => {
      const hear = (settle: () => void) => void this.#world.plan(HEARD_MS, 'hears of the disk', settle, this.#process);
      done.then(
        (value) => hear(() => resolve(value)),
        (error: Error) => hear(() => reject(error)),
      );
    });
  }
}
