/**
 * The sidecar of a closed journal file: `keys-<its first seq>.idx` with the idempotency keys of its lines, so that a start need
 * not read the file. It holds nothing that is not in the journal, and a start that finds it missing or bad reads the file.
 *
 *     sidecar = head row… tail                      (little endian)
 *     head    = 'assetlog keys 1\n', first seq (8), bytes of the file (8), seq after its last line (8), crc of its last line (4)
 *     row     = hash (4 + 4), seq - first seq (4), offset of the line (4), seconds since 1970 (4)
 *     tail    = number of rows (4), 1 if they are all keys of the file (4), CRC-32 of everything before it (4)
 *
 * The crc of a file's last line depends on all its lines (the checksum chain). A sidecar with the crc and the length of the file
 * beside it describes exactly that file. One of another journal, or of a file that `repair` wrote again, is not used.
 *
 * It is written to another name, synced and renamed. So it is whole after a crash, or not there.
 */

import { crc32 } from 'node:zlib';
import { type Disk, unlessAbsent, writeFile } from './disk.ts';
import type { Entry, KeyTable } from './idempotency-table.ts';
import type { ChainPosition } from './record.ts';
import { lastLine } from './scan.ts';
import { segmentName, sidecarName } from './segments.ts';

/** A closed journal file as its sidecar describes it: `{ firstSeq: 1, bytes: 1210, chain: { seq: 5, crc: 0x9ae0daaf } }`. */
export interface ClosedFile {
  readonly firstSeq: number;
  readonly bytes: number;
  /** The chain position after its last line. */
  readonly chain: ChainPosition;
}

/** The keys of a sidecar, in the order of their lines. Example: `{ size: 3, at }`. */
export interface KeyRows {
  /** Number of keys. */
  readonly size: number;
  /** @param index from 0 to `size - 1`: `at(0)` is the key of the first line */
  at(index: number): Entry;
}

/** A sidecar that was read. Example: `{ isComplete: true, size: 3, at }`. */
export interface Sidecar extends KeyRows {
  /** Whether it has all keys of the file. One that was written when fewer keys were remembered has the newest ones only. */
  readonly isComplete: boolean;
}

/**
 * Writes the sidecar of a file and replaces an older one. Its bytes are synced, its name is with the next file of the journal: a
 * failed sync of the folder must only be seen where a new journal file needs it. A power cut may take the name of the last
 * sidecar, and then the next start reads its file. The keys are read from the table in parts, so that other work
 * is not delayed. Keys that the table forgets meanwhile are left out. Example: `keys-00000000000000000001.idx` for
 * `{ firstSeq: 1, … }`.
 * @param keyCount number of lines with a key that the file has
 * @throws the error of a system call, after which an older sidecar may still be there
 */
export async function writeSidecar(disk: Disk, file: ClosedFile, keys: KeyTable, keyCount: number): Promise<void> {
  const name = sidecarName(file.firstSeq);
  const unfinished = `${name}${UNFINISHED}`;
  await disk.remove(unfinished).catch(unlessAbsent(undefined)); // left by an interrupted write
  await writeFile(disk, unfinished, encode(file, keys, keyCount));
  await disk.rename(unfinished, name);
}

/**
 * Reads the sidecar of a closed file and checks that it describes the file as it is now. Example: `readSidecar(disk, 1)` reads
 * `keys-00000000000000000001.idx`.
 * @returns undefined if there is none, if it is damaged, or if it describes another file
 * @throws the error of a system call
 */
export async function readSidecar(disk: Disk, firstSeq: number): Promise<Sidecar | undefined> {
  const name = segmentName(firstSeq);
  const fileBytes = await disk.size(name);
  // A row is smaller than a line, so a sidecar that is larger than its file is none of ours.
  const bytes = await readAtMost(disk, sidecarName(firstSeq), fileBytes);
  const found = bytes === undefined ? undefined : decode(bytes, firstSeq);
  if (found === undefined || found.file.bytes !== fileBytes) return undefined;
  const { file, ...sidecar } = found;
  const last = await lastLine(disk, name, fileBytes);
  const same = last?.seq === file.chain.seq - 1 && last.crc === file.chain.crc;
  return same ? sidecar : undefined;
}

/** What the name of a sidecar ends in until it is complete. */
const UNFINISHED = '.new';
const MAGIC = 'assetlog keys 1\n';
const HEAD_BYTES = MAGIC.length + 3 * 8 + 4;
const ROW_BYTES = 5 * 4;
const TAIL_BYTES = 3 * 4;
/** Rows that are encoded at a time: 64 KiB. */
const CHUNK_ROWS = 3_276;

function* encode(file: ClosedFile, keys: KeyTable, keyCount: number): Generator<Buffer> {
  const head = encodeHead(file);
  let crc = crc32(head);
  let count = 0;
  yield head;
  for (let seq = file.firstSeq; ; ) {
    // Looked up again for each part: the table may have forgotten keys since the last one.
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

/** @returns undefined if the bytes are not a whole sidecar of the file with this first seq */
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
  return {
    file: { firstSeq, bytes: number(1), chain },
    isComplete: bytes.readUInt32LE(tail + 4) === 1,
    size,
    at: (index) => {
      const row = HEAD_BYTES + index * ROW_BYTES;
      const word = (index: number) => bytes.readUInt32LE(row + 4 * index);
      const [high, low] = [bytes.readInt32LE(row), bytes.readInt32LE(row + 4)];
      return { high, low, seq: firstSeq + word(2), offset: word(3), seconds: word(4) };
    },
  };
}

/** @returns undefined if there is no such file, or if it has more bytes */
async function readAtMost(disk: Disk, name: string, bytesMax: number): Promise<Buffer | undefined> {
  try {
    if ((await disk.size(name)) > bytesMax) return undefined;
    const chunks: Buffer[] = [];
    for await (const chunk of disk.read(name, 0, bytesMax)) chunks.push(chunk);
    return Buffer.concat(chunks);
  } catch (error) {
    return unlessAbsent(undefined)(error as NodeJS.ErrnoException);
  }
}
