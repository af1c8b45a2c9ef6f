/**
 * The idempotency keys of one journal, while it is open. They are read from the sidecars of the closed files and from the last
 * file, and added when their lines are durable. When a file is closed, its keys are written to a sidecar. They are forgotten
 * when retention removes their file. `memory.ts` decides how many are remembered.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { Defect } from '../../config/defect.ts';
import type { Limits } from '../../config/limits.ts';
import type { Event } from '../../event/event.ts';
import type { Notices } from '../../telemetry/log.ts';
import type { Disk } from '../disk.ts';
import { clearName } from '../file-io.ts';
import type { Committed, Follower } from '../follower.ts';
import { lineBytes } from '../line/record.ts';
import type { OnGoodLine } from '../open/scan.ts';
import { contentsOf, type SegmentName, segmentName, sidecarFirstSeq, sidecarName } from '../segments.ts';
import type { KeyMemory } from './memory.ts';
import {
  type ClosedFile,
  countKeys,
  KeyCollector,
  type KeyRows,
  type KeyScan,
  readSidecar,
  type Sidecar,
  type SidecarMemory,
  scanKeys,
  writeSidecar,
} from './sidecar.ts';
import { type Entry, type HashedKey, type HashKey, hashKey, type KeyTable, type LineLocation } from './table.ts';

export interface JournalKeysOptions {
  readonly disk: Disk;
  readonly notices: Notices;
  /** Shared by all journals of the service. */
  readonly memory: KeyMemory;
  readonly limits: Limits;
  /** Called if the keys in memory differ from those in the lines. */
  readonly onDefect: (error: Defect) => void;
  /** Only tests pass another function. */
  readonly hash?: HashKey | undefined;
}

type FileEnd = Pick<ClosedFile, 'bytes' | 'chain'>;

export class JournalKeys implements Follower {
  readonly #options: JournalKeysOptions;
  readonly #hash: HashKey;
  readonly #table: KeyTable;
  /** The first seq of each file of the journal, in order. Lines are appended to the last file. */
  #firstSeqs: number[] = [];
  /** Number of lines with a key in the last file. */
  #lastFileKeys = 0;
  /** The keys of the last file, while a start reads it. */
  #collector: KeyCollector;
  #writing = Promise.resolve();
  #sidecarsWaiting = 0;

  /** Adds an empty table to `options.memory`. No file is read before `load`. */
  constructor(options: JournalKeysOptions) {
    this.#options = options;
    this.#hash = options.hash ?? hashKey;
    this.#table = options.memory.open(options.disk.folder);
    this.#collector = new KeyCollector(this.#hash, 0);
  }

  /** @returns the function that `recover` calls with each good line of the last file. A second call drops the keys of the first */
  startScan(): OnGoodLine {
    const collector = new KeyCollector(this.#hash, this.#options.memory.keysMax);
    this.#collector = collector;
    return (bytes, start, end, seq, offset) => collector.addLine(bytes, start, end, seq, offset);
  }

  /**
   * Reads the keys of the closed files, after `recover` has read the last file: from their sidecars, and from the files without a
   * good sidecar, up to `limits.keyScanBytesMax` bytes. Starts with the newest file, and stops when no older key can be
   * remembered. Logs the number of keys.
   * @throws the error of a system call that lists the folder; a file that cannot be read is logged
   */
  async load(): Promise<void> {
    const { disk, notices, limits, memory } = this.#options;
    const names = await disk.list();
    const { segments } = contentsOf(names);
    this.#firstSeqs = segments.map(({ firstSeq }) => firstSeq);
    await this.#removeStale(names);
    this.#lastFileKeys = this.#collector.count;
    memory.reserve(this.#table, await this.#countKeys(segments));
    let hasSpace = this.#addAll(this.#collector.keys);
    this.#collector = new KeyCollector(this.#hash, 0);
    let bytesLeft = limits.keyScanBytesMax;
    const sidecarMemory = { buffer: Buffer.alloc(0) };
    for (let index = segments.length - 2; index >= 0 && hasSpace; index -= 1) {
      const segment = segments[index] as SegmentName;
      const sidecar = await this.#readSidecar(segment, sidecarMemory);
      if (sidecar !== undefined) hasSpace = this.#addAll(sidecar);
      if (sidecar?.isComplete === true || !hasSpace) continue;
      const scan = bytesLeft > 0 ? await this.#scan(segment, segments[index + 1]?.firstSeq ?? 0, bytesLeft) : undefined;
      if (scan !== undefined) hasSpace = this.#addAll(scan.collector.keys);
      if (scan?.file !== undefined) this.#writeSidecar(scan.file, scan.collector.count);
      bytesLeft -= scan?.bytes ?? 0;
      if (scan?.isFromStart === true) continue;
      notices.warn('idempotency keys of older events are unknown: a report with such a key is recorded again', {
        before_seq: scan?.firstSeq ?? segments[index + 1]?.firstSeq,
        file: segment.name,
      });
      break;
    }
    for (const [index, segment] of segments.slice(0, -1).entries())
      this.#checkLater(segment, segments[index + 1]!.firstSeq);
    if (this.#table.size > 0) {
      notices.info('idempotency keys known', { keys: this.#table.size, since_seq: this.#table.at(0).seq });
    }
  }

  /**
   * @returns the key of each event with its hash; undefined for an event without a key, and for a forwarded event, whose key was
   *   looked up by the journal that recorded it first
   */
  hashAll(events: readonly Event[]): (HashedKey | undefined)[] {
    return events.map(({ idempotencyKey: key, origin }) =>
      key === undefined || origin !== undefined ? undefined : this.#hash(key),
    );
  }

  /** @returns the lines of the keys with the same hash, the latest first; empty for an unknown key */
  find(key: HashedKey): readonly LineLocation[] {
    return this.#table.find(key);
  }

  /**
   * Remembers the keys of a batch.
   * @throws Defect if the lines of the entries do not account for the growth of the file
   */
  committed({
    entries,
    before,
    after,
  }: Pick<Committed, 'entries'> & { readonly before: FileEnd; readonly after: FileEnd }): void {
    if (entries.every((entry) => entry.keys === undefined)) return;
    const nowSeconds = Math.floor(Date.now() / 1000);
    let { seq } = before.chain;
    let offset = before.bytes;
    for (const { lines, keys } of entries) {
      for (let index = 0; index < lines.length; index += 1) {
        const key = keys?.[index];
        if (key !== undefined) {
          this.#lastFileKeys += 1;
          this.#options.memory.add(this.#table, key, { seq, offset }, nowSeconds);
        }
        offset += lineBytes(lines[index]!, seq);
        seq += 1;
      }
    }
    if (seq === after.chain.seq && offset === after.bytes) return;
    throw new Defect(
      `the keys of a batch end at byte ${offset}, seq ${seq}, and its lines at ${after.bytes}, ${after.chain.seq}`,
    );
  }

  /** @returns the name of the file that has the line with this seq; undefined if retention removed it */
  fileOf(seq: number): string | undefined {
    const firstSeq = this.#firstSeqs.findLast((first) => first <= seq);
    return firstSeq === undefined ? undefined : segmentName(firstSeq);
  }

  /** Writes the sidecar of the last file, in the background. */
  rotated({ bytes, chain }: FileEnd): void {
    const firstSeq = this.#firstSeqs.at(-1) as number;
    this.#writeSidecar({ firstSeq, bytes, chain }, this.#lastFileKeys);
    this.#checkLater({ firstSeq, name: segmentName(firstSeq) }, chain.seq);
    this.#firstSeqs.push(chain.seq);
    this.#lastFileKeys = 0;
  }

  /**
   * Called only after the removal: if keys were forgotten before a removal that fails, a repeated report would be
   * recorded again.
   */
  removed(lastSeq: number): void {
    this.#firstSeqs = this.#firstSeqs.filter((firstSeq) => firstSeq > lastSeq);
    this.#options.memory.forgetBefore(this.#table, lastSeq + 1);
  }

  /** Forgets all keys, and resolves when the sidecars are written. Never rejects. */
  async close(): Promise<void> {
    this.#options.memory.close(this.#table);
    await this.#writing;
  }

  /** Removes sidecars without a closed file, and incomplete sidecars. */
  async #removeStale(names: readonly string[]): Promise<void> {
    const { disk, notices } = this.#options;
    const closed = new Set(this.#firstSeqs.slice(0, -1).map(sidecarName));
    for (const name of names) {
      if (sidecarFirstSeq(name) === undefined || closed.has(name)) continue;
      await clearName(disk, name).catch((error: Error) => {
        notices.warn('an unneeded file with idempotency keys could not be removed', {
          file: name,
          problem: error.message,
        });
      });
    }
  }

  /** @returns approximately how many keys will be added */
  async #countKeys(segments: readonly SegmentName[]): Promise<number> {
    let count = this.#lastFileKeys;
    for (let index = segments.length - 2; index >= 0 && count < this.#options.memory.keysMax; index -= 1)
      count += await countKeys(this.#options.disk, segments[index]!.firstSeq);
    return count;
  }

  /** @returns undefined if it cannot be used */
  async #readSidecar({ firstSeq }: SegmentName, memory: SidecarMemory): Promise<Sidecar | undefined> {
    const { disk, notices, limits } = this.#options;
    try {
      return await readSidecar(disk, firstSeq, limits, memory);
    } catch (error) {
      const problem = (error as Error).message;
      notices.warn('a file with idempotency keys cannot be read', { file: sidecarName(firstSeq), problem });
      return undefined;
    }
  }

  /** A read that fails is tried again, since reports wait: without these keys, reports that are sent again are recorded twice. */
  async #scan(segment: SegmentName, endSeq: number, bytesMax: number): Promise<KeyScan | undefined> {
    const { disk, notices, limits, memory } = this.#options;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const collector = new KeyCollector(this.#hash, memory.keysMax);
        return await scanKeys(disk, segment, endSeq, collector, { ...limits, bytesMax });
      } catch (error) {
        const problem = (error as Error).message;
        notices.warn('a segment cannot be read for its idempotency keys', { file: segment.name, problem, attempt });
        if (attempt === SCANS_MAX) return undefined;
        await sleep(limits.openRetryMs);
      }
    }
  }

  /** Adds the keys that are older than all keys in the table, the newest first. @returns whether older keys could be added */
  #addAll(keys: KeyRows): boolean {
    const { memory } = this.#options;
    const beforeSeq = this.#table.size === 0 ? Number.POSITIVE_INFINITY : this.#table.at(0).seq;
    for (let index = keys.size - 1; index >= 0; index -= 1) {
      const entry = keys.at(index);
      if (entry.seq >= beforeSeq) continue; // already added from an incomplete sidecar
      if (!memory.addOldest(this.#table, entry, entry, entry.seconds)) return false;
    }
    return true;
  }

  /**
   * Checks the keys of a closed file, after the queued sidecars are written. @param endSeq first seq of the next file
   */
  #checkLater(segment: SegmentName, endSeq: number): void {
    if (this.#options.limits.keyCheckBytesMax === 0) return;
    this.#writing = this.#writing.then(() => this.#check(segment, endSeq)).catch(this.#options.onDefect);
  }

  /**
   * A file is not checked if it is damaged, too large or unreadable.
   * @throws Defect if the keys in memory differ from those in the lines
   */
  async #check(segment: SegmentName, endSeq: number): Promise<void> {
    const { disk, limits, memory } = this.#options;
    const limit = { ...limits, bytesMax: limits.keyCheckBytesMax };
    const collector = new KeyCollector(this.#hash, memory.keysMax);
    const scan = await scanKeys(disk, segment, endSeq, collector, limit).catch(() => undefined);
    if (scan?.file?.chain.seq !== endSeq) return;
    // The oldest keys are forgotten first, so the remaining keys must be the newest of the file, and must be all of them if
    // older keys remain.
    const { keys } = collector;
    const first = this.#table.countBefore(segment.firstSeq);
    const held = this.#table.countBefore(endSeq) - first;
    let isSame = first === 0 ? held <= keys.size : held === keys.size;
    for (let back = 1; back <= held && isSame; back += 1)
      isSame = placeOf(this.#table.at(first + held - back)) === placeOf(keys.at(keys.size - back));
    if (isSame) return;
    throw new Defect(`the keys of ${segment.name} in memory are not those of its lines`);
  }

  /** Writes one sidecar after the other, concurrently with the batches. A failure is only logged: the next start reads the file. */
  #writeSidecar(file: ClosedFile, keyCount: number): void {
    const { disk, notices, limits } = this.#options;
    if (this.#sidecarsWaiting >= limits.sidecarsWaitingMax) return;
    this.#sidecarsWaiting += 1;
    this.#writing = this.#writing
      .then(() => writeSidecar(disk, file, this.#table, keyCount))
      .catch((error: Error) => {
        notices.warn('idempotency keys could not be written beside a segment; the next start reads it', {
          file: sidecarName(file.firstSeq),
          problem: error.message,
        });
      })
      .finally(() => {
        this.#sidecarsWaiting -= 1;
      });
  }
}

/** How often a start tries to read the keys of a segment. */
const SCANS_MAX = 3;

function placeOf({ high, low, seq, offset }: Entry): string {
  return `${high} ${low} ${seq} ${offset}`;
}
