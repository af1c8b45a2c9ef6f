/** Finds the idempotency keys in the lines of a journal file: of the last one, and of closed ones that no sidecar describes. */

import type { Disk } from './disk.ts';
import type { ClosedFile } from './idempotency-sidecar.ts';
import { type HashKey, KeyTable, OFFSET_MAX } from './idempotency-table.ts';
import { LineCutter } from './lines.ts';
import { type ChainPosition, checkLine, idempotencyKeyOf, readForm, timeOf } from './record.ts';
import type { SegmentName } from './segments.ts';

/** Collects the newest keys of the lines of one file, which it gets in order. Example: `new KeyCollector(hashKey, 1_000_000)`. */
export class KeyCollector {
  readonly #hash: HashKey;
  readonly #keysMax: number;
  /** The keys that were found, the oldest line first: `keys.at(0)` is `{ seq: 7, offset: 1210, … }`. */
  readonly keys = new KeyTable();
  /** Number of lines with a key so far: `120`. `keys` has the last `keysMax` of them. */
  count = 0;

  /**
   * @param hash such as `hashKey`
   * @param keysMax the most keys that are collected; older ones are forgotten
   */
  constructor(hash: HashKey, keysMax: number) {
    this.#hash = hash;
    this.#keysMax = keysMax;
  }

  /**
   * Takes one verified line; if its member `idempotency_key` is `run-7/12`, adds the hash of that.
   * @param end of a line: the index of its newline
   * @param offset of the line in its file, in bytes; a line beyond `OFFSET_MAX` is passed over
   */
  take(bytes: Buffer, start: number, end: number, seq: number, offset: number): void {
    const key = idempotencyKeyOf(bytes, start, end);
    if (key === undefined || offset > OFFSET_MAX) return;
    this.count += 1;
    this.keys.add(this.#hash(key), { seq, offset }, secondsOf(timeOf(bytes, start, seq)));
    if (this.keys.size > this.#keysMax) this.keys.removeOldest();
  }
}

/** What was found in a closed file. Example: `{ found, isFromStart: true, bytes: 1210, firstSeq: 1, file }`. */
export interface KeyScan {
  /** The keys. */
  readonly found: KeyCollector;
  /** Whether the file was read from its beginning, and not only its last bytes. */
  readonly isFromStart: boolean;
  /** How many bytes were read. */
  readonly bytes: number;
  /** Seq of the first line that was read. */
  readonly firstSeq: number;
  /** How the file ends, for its sidecar; undefined if it was not read from its beginning, or if it is damaged. */
  readonly file: ClosedFile | undefined;
}

/**
 * Reads the last bytes of a closed file. The lines after a bad one are read as well: `verify` reports the damage. Example: with
 * `bytesMax: 1000`, the last 1,000 bytes of a file of 1,210.
 * @param endSeq first seq of the next file
 * @param bytesMax the most bytes that are read
 * @throws the error of a system call
 */
export async function scanKeys(
  disk: Disk,
  { name, firstSeq }: SegmentName,
  endSeq: number,
  found: KeyCollector,
  { bytesMax, lineBytesMax }: { readonly bytesMax: number; readonly lineBytesMax: number },
): Promise<KeyScan> {
  const size = await disk.size(name);
  const from = Math.max(0, size - bytesMax);
  const isFromStart = from === 0;
  // Unknown in the middle of a file: there the first whole line is not verified, and the chain begins with it.
  let chain: ChainPosition | undefined = isFromStart ? { seq: firstSeq, crc: 0 } : undefined;
  let isGood = isFromStart;
  let lines = 0;
  let foundFirst = endSeq;
  let lastSeq = 0;
  const cutter = new LineCutter((bytes, start, end, lineEnd) => {
    lines += 1;
    if (lines === 1 && !isFromStart) return; // most likely a part of a line
    const check = chain === undefined ? undefined : checkLine(bytes, start, end, chain);
    const form = readForm(bytes, start, end);
    isGood &&= check?.kind === 'good';
    chain = check?.kind === 'good' ? check.chain : undefined;
    if (form === undefined) return;
    const isNext = chain !== undefined || (form.seq >= firstSeq && form.seq > lastSeq && form.seq < endSeq);
    if (!isNext) return;
    chain ??= { seq: form.seq + 1, crc: form.crc };
    lastSeq = form.seq;
    foundFirst = Math.min(foundFirst, form.seq);
    found.take(bytes, start, end, form.seq, from + lineEnd - (end - start));
  }, lineBytesMax);
  for await (const chunk of disk.read(name, from, size)) cutter.push(chunk);
  const file =
    isGood && cutter.carriedBytes === 0 && chain !== undefined ? { firstSeq, bytes: size, chain } : undefined;
  return { found, isFromStart, bytes: size - from, firstSeq: foundFirst, file };
}

/** @param time such as `2026-11-20T15:19:45.266Z`. @returns seconds since 1970, 0 for a time outside of 1970 to 2106 */
function secondsOf(time: string): number {
  const seconds = Math.floor(Date.parse(time) / 1000);
  return seconds >= 0 && seconds < 2 ** 32 ? seconds : 0;
}
