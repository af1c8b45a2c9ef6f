/**
 * The idempotency keys of a closed journal file: its sidecar, and the scan of the file that creates a sidecar.
 *
 * The sidecar `keys-<first seq of the file>.idx` saves a start from reading the file. Its content is also in the journal: if it is
 * missing or bad, a start reads the file.
 *
 *     sidecar = head row… tail                      (little endian)
 *     head    = 'assetlog keys 1\n', first seq (8), bytes of the file (8), seq after its last line (8), crc of its last line (4)
 *     row     = hash (4 + 4), seq - first seq (4), offset of the line (4), seconds since 1970 (4)
 *     tail    = number of rows (4), 1 if they are all keys of the file (4), CRC-32 of everything before it (4)
 *
 * The crc of a file's last line depends on all its lines (the checksum chain). So a sidecar with the same crc and length as the
 * file describes exactly that file. The sidecar of another journal, or of a file that `repair` rewrote, is not used.
 *
 * It is written to another name, synced and renamed, so after a crash it is complete or missing.
 */

import { crc32 } from 'node:zlib';
import type { Limits } from '../../config/limits.ts';
import { type Disk, unlessAbsent } from '../disk.ts';
import { clearName, renameOver, writeFile } from '../file-io.ts';
import { idempotencyKeyOf, timeOf } from '../line/members.ts';
import type { ChainPosition } from '../line/record.ts';
import { lastLine } from '../open/scan.ts';
import { type OnWalkedLine, walkSegment } from '../open/walk.ts';
import { type SegmentName, segmentName, sidecarName } from '../segments.ts';
import { type Entry, type HashKey, hashKey, KeyTable, OFFSET_MAX } from './table.ts';

/** A closed journal file, as described by its sidecar. */
export interface ClosedFile {
  readonly firstSeq: number;
  readonly bytes: number;
  /** The chain position after its last line. */
  readonly chain: ChainPosition;
}

/** Keys in the order of their lines. */
export interface KeyRows {
  readonly size: number;
  /** @param index from 0 to `size - 1` */
  at(index: number): Entry;
}

/**
 * A decoded sidecar. A key is valid until `at` is called again, and all keys are valid until the memory is used for another
 * sidecar.
 */
export interface Sidecar extends KeyRows {
  /**
   * Whether it has all keys of the file. Otherwise it has only the newest ones, because the others were forgotten before
   * it was written.
   */
  readonly isComplete: boolean;
}

/**
 * Writes the sidecar of a file and replaces an older one. Its bytes are synced here; its name is synced with the next file of
 * the journal, so that only the creation of a journal file can fail because the folder cannot be synced. If a power cut loses
 * the name of the last sidecar, the next start reads the journal file. The keys are read from the table in parts, so that other
 * work is not delayed. Keys that the table forgets in the meantime are left out.
 * @param keyCount number of lines with a key in the file
 * @throws the error of a system call; an older sidecar might still exist then
 */
export async function writeSidecar(disk: Disk, file: ClosedFile, keys: KeyTable, keyCount: number): Promise<void> {
  const name = sidecarName(file.firstSeq);
  const unfinished = `${name}${UNFINISHED}`;
  await clearName(disk, unfinished).catch(unlessAbsent(undefined)); // left by an interrupted write
  await writeFile(disk, unfinished, encode(file, keys, keyCount));
  await renameOver(disk, unfinished, name);
}

/**
 * Rewrites the sidecar of a closed file, if it has one, after the lines of the file have changed.
 * @param endSeq first seq of the next file
 * @throws the error of a system call
 */
export async function renewSidecar(disk: Disk, segment: SegmentName, endSeq: number, limits: Limits): Promise<void> {
  if (!(await disk.list()).includes(sidecarName(segment.firstSeq))) return;
  const collector = new KeyCollector(hashKey, limits.idempotencyKeysMax);
  const all = { ...limits, bytesMax: Number.POSITIVE_INFINITY };
  const { file } = await scanKeys(disk, segment, endSeq, collector, all);
  if (file !== undefined) await writeSidecar(disk, file, collector.keys, collector.count);
  await disk.syncFolder();
}

/** Memory that is reused for the bytes of one sidecar after the other: V8 would otherwise collect tens of MiB. */
export interface SidecarMemory {
  buffer: Buffer;
}

/**
 * Reads the sidecar of a closed file and checks that it describes the file as it is now.
 * @returns undefined if it is missing, is damaged or describes another file
 * @throws the error of a system call
 */
export async function readSidecar(
  disk: Disk,
  firstSeq: number,
  limits: Limits,
  memory: SidecarMemory = { buffer: Buffer.alloc(0) },
): Promise<Sidecar | undefined> {
  const name = segmentName(firstSeq);
  const fileBytes = await disk.size(name);
  const sidecar = sidecarName(firstSeq);
  // A row is smaller than a line, so assetlog never writes a sidecar that is larger than its file.
  const sidecarBytes = await disk.size(sidecar).catch(unlessAbsent(0));
  if (sidecarBytes === 0 || sidecarBytes > fileBytes) return undefined;
  const decoded = decode(await readTo(memory, disk, sidecar, sidecarBytes), firstSeq);
  if (decoded === undefined || decoded.file.bytes !== fileBytes) return undefined;
  const { file, ...rows } = decoded;
  const last = await lastLine(disk, name, fileBytes, limits);
  const isSame = last?.seq === file.chain.seq - 1 && last.crc === file.chain.crc;
  return isSame ? rows : undefined;
}

async function readTo(memory: SidecarMemory, disk: Disk, name: string, bytes: number): Promise<Buffer> {
  if (memory.buffer.length < bytes) memory.buffer = Buffer.allocUnsafeSlow(bytes);
  let end = 0;
  for await (const chunk of disk.read(name, 0, bytes)) end += chunk.copy(memory.buffer, end);
  return memory.buffer.subarray(0, end);
}

/** @returns the number of keys in the sidecar of a closed file, computed from its size; 0 if the size cannot be read */
export async function countKeys(disk: Disk, firstSeq: number): Promise<number> {
  const bytes = await disk.size(sidecarName(firstSeq)).catch(() => 0);
  return Math.max(0, Math.floor((bytes - HEAD_BYTES - TAIL_BYTES) / ROW_BYTES));
}

/** Suffix of a sidecar that is still being written. */
const UNFINISHED = '.new';
const MAGIC = 'assetlog keys 1\n';
const HEAD_BYTES = MAGIC.length + 3 * 8 + 4;
const ROW_BYTES = 5 * 4;
const TAIL_BYTES = 3 * 4;
/** Rows for each write: 64 KiB. */
const CHUNK_ROWS = 3_276;

function* encode(file: ClosedFile, keys: KeyTable, keyCount: number): Generator<Buffer> {
  const head = encodeHead(file);
  let crc = crc32(head);
  let count = 0;
  yield head;
  for (let seq = file.firstSeq; ; ) {
    // Looked up again for each chunk: the table might have forgotten keys since the last chunk.
    const from = keys.countBefore(seq);
    const end = Math.min(keys.countBefore(file.chain.seq), from + CHUNK_ROWS);
    if (from >= end) break;
    const rows = Buffer.alloc((end - from) * ROW_BYTES);
    for (let index = from; index < end; index += 1) {
      const entry = keys.at(index);
      putRow(rows, (index - from) * ROW_BYTES, entry, file.firstSeq);
      seq = entry.seq + 1;
    }
    crc = crc32(rows, crc);
    count += end - from;
    yield rows;
  }
  const tail = Buffer.alloc(TAIL_BYTES);
  tail.writeUInt32LE(count, 0);
  tail.writeUInt32LE(Number(count === keyCount), 4);
  tail.writeUInt32LE(crc32(tail.subarray(0, 8), crc), 8);
  yield tail;
}

function encodeHead({ firstSeq, bytes, chain }: ClosedFile): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  let at = head.write(MAGIC, 'latin1');
  for (const number of [firstSeq, bytes, chain.seq]) at = head.writeBigUInt64LE(BigInt(number), at);
  head.writeUInt32LE(chain.crc, at);
  return head;
}

function putRow(rows: Buffer, at: number, { high, low, seq, offset, seconds }: Entry, firstSeq: number): void {
  rows.writeInt32LE(high, at);
  rows.writeInt32LE(low, at + 4);
  rows.writeUInt32LE(seq - firstSeq, at + 8);
  rows.writeUInt32LE(offset, at + 12);
  rows.writeUInt32LE(seconds, at + 16);
}

/** @returns undefined if the bytes are not a complete sidecar of the file with this first seq */
function decode(bytes: Buffer, firstSeq: number): (Sidecar & { readonly file: ClosedFile }) | undefined {
  const tail = bytes.length - TAIL_BYTES;
  const rowsBytes = tail - HEAD_BYTES;
  if (rowsBytes < 0 || rowsBytes % ROW_BYTES !== 0) return undefined;
  if (bytes.readUInt32LE(tail + 8) !== crc32(bytes.subarray(0, tail + 8))) return undefined;
  if (bytes.toString('latin1', 0, MAGIC.length) !== MAGIC) return undefined;
  const number = (index: number) => Number(bytes.readBigUInt64LE(MAGIC.length + 8 * index));
  const chain = { seq: number(2), crc: bytes.readUInt32LE(HEAD_BYTES - 4) };
  const size = bytes.readUInt32LE(tail);
  if (number(0) !== firstSeq || size !== rowsBytes / ROW_BYTES) return undefined;
  const entry = { high: 0, low: 0, seq: 0, offset: 0, seconds: 0 };
  return {
    file: { firstSeq, bytes: number(1), chain },
    isComplete: bytes.readUInt32LE(tail + 4) === 1,
    size,
    at: (index) => {
      const row = HEAD_BYTES + index * ROW_BYTES;
      entry.high = bytes.readInt32LE(row);
      entry.low = bytes.readInt32LE(row + 4);
      entry.seq = firstSeq + bytes.readUInt32LE(row + 8);
      entry.offset = bytes.readUInt32LE(row + 12);
      entry.seconds = bytes.readUInt32LE(row + 16);
      return entry;
    },
  };
}

/** Collects the newest keys of one file, whose lines are added in order. */
export class KeyCollector {
  readonly #hash: HashKey;
  readonly #keysMax: number;
  /** Oldest line first. */
  readonly keys = new KeyTable();
  /** Number of lines with a key so far; `keys` has the last `keysMax`. */
  count = 0;

  /** @param keysMax the most keys to collect; beyond it the oldest is dropped */
  constructor(hash: HashKey, keysMax: number) {
    this.#hash = hash;
    this.#keysMax = keysMax;
  }

  /**
   * Adds the key of one verified line, if it has one.
   * @param end index of the line's newline
   * @param offset of the line in its file, in bytes; a line beyond `OFFSET_MAX` is ignored
   */
  addLine(bytes: Buffer, start: number, end: number, seq: number, offset: number): void {
    const key = idempotencyKeyOf(bytes, start, end);
    if (key === undefined || offset > OFFSET_MAX) return;
    this.count += 1;
    this.keys.add(this.#hash(key), { seq, offset }, secondsOf(timeOf(bytes, start, seq)));
    if (this.keys.size > this.#keysMax) this.keys.removeOldest();
  }
}

/** Result of `scanKeys`. */
export interface KeyScan {
  readonly collector: KeyCollector;
  /** Whether the file was read from its start, not only its last `bytes`. */
  readonly isFromStart: boolean;
  readonly bytes: number;
  /** Seq of the first line that was read. */
  readonly firstSeq: number;
  /** Used for the sidecar of the file; undefined if the file was not read from its start or is damaged. */
  readonly file: ClosedFile | undefined;
}

/**
 * Collects the keys in the last `bytesMax` bytes of a closed file. A bad line does not end the scan: `verify` reports damage.
 * @param endSeq first seq of the next file
 * @throws the error of a system call
 */
export async function scanKeys(
  disk: Disk,
  { name, firstSeq }: SegmentName,
  endSeq: number,
  collector: KeyCollector,
  { bytesMax, ...limits }: Limits & { readonly bytesMax: number },
): Promise<KeyScan> {
  const size = await disk.size(name);
  const from = Math.max(0, size - bytesMax);
  const isFromStart = from === 0;
  let isGood = isFromStart;
  let firstReadSeq = endSeq;
  let chain: ChainPosition = { seq: firstSeq, crc: 0 };
  const take: OnWalkedLine = (bytes, start, end, after, offset) => {
    chain = after;
    const seq = chain.seq - 1;
    firstReadSeq = Math.min(firstReadSeq, seq);
    collector.addLine(bytes, start, end, seq, offset);
  };
  await walkSegment(disk, name, { bytes: from, lines: 0, chain }, limits, take, () => {
    isGood = false;
  });
  const file = isGood ? { firstSeq, bytes: size, chain } : undefined;
  return { collector, isFromStart, bytes: size - from, firstSeq: firstReadSeq, file };
}

/** @param time such as `2026-11-20T15:19:45.266Z`. @returns seconds since 1970; 0 for a time outside of 1970 to 2106 */
function secondsOf(time: string): number {
  const seconds = Math.floor(Date.parse(time) / 1000);
  return seconds >= 0 && seconds < 2 ** 32 ? seconds : 0;
}
