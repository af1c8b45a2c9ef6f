/** Finds a line of a journal file by its seq, without reading all of the file. */

import type { Limits } from '../../config/limits.ts';
import type { ReadableDisk } from '../disk.ts';
import { readForm } from '../line/chain.ts';
import type { ChainPosition } from '../line/record.ts';
import { LineSearch } from './line-search.ts';

/** Where a line of a file ends, and the chain position after it. */
export interface LineEnd {
  readonly bytes: number;
  readonly chain: ChainPosition;
}

/**
 * Finds the line with a seq by bisection of byte offsets. It verifies only the form of that line; the crc of the next line shows
 * whether it is the right one.
 * @param endBytes the size of the file, where the search ends
 * @returns where the line ends; undefined if there is no such line, or the lines are not in order
 * @throws the error of a system call
 */
export async function seekLine(
  disk: ReadableDisk,
  name: string,
  endBytes: number,
  seq: number,
  { lineBytesMax }: Limits,
): Promise<LineEnd | undefined> {
  let low = 0; // a line with a smaller or the same seq starts here
  for (let high = endBytes; high - low > NEAR_BYTES; ) {
    const middle = Math.floor((low + high) / 2);
    const { firstByte, firstSeq } = await probe(disk, name, middle, high, lineBytesMax);
    if (firstSeq === undefined || firstSeq > seq) high = middle;
    else low = firstByte!;
  }
  let found: LineEnd | undefined;
  const search = new LineSearch(
    EACH_LINE,
    { byte: low, seed: 0 },
    (bytes, start, end, byte) => {
      const form = readForm(bytes, start, end);
      if (form?.seq === seq) found ??= { bytes: byte + end + 1 - start, chain: { seq: seq + 1, crc: form.crc } };
    },
    lineBytesMax,
  );
  for await (const chunk of disk.read(name, low, endBytes)) {
    search.push(chunk);
    const { firstByte, last } = search;
    if (found !== undefined || (firstByte !== undefined && (last === undefined || last.seq > seq))) break;
  }
  return found;
}

/**
 * Reads from a position until a line starts, at first only few bytes. @returns a search with the first line, if one starts before
 * `end`
 */
async function probe(
  disk: ReadableDisk,
  name: string,
  byte: number,
  end: number,
  lineBytesMax: number,
): Promise<LineSearch> {
  const search = new LineSearch(EACH_LINE, { byte, seed: undefined }, () => {}, lineBytesMax);
  for (const to of [Math.min(end, byte + PROBE_BYTES), end]) {
    for await (const chunk of disk.read(name, search.position, to)) {
      search.push(chunk);
      if (search.firstByte !== undefined) return search;
    }
  }
  return search;
}

const EACH_LINE = { trace: undefined, mayMatch: () => true };
/** The range at which the bisection ends and lines are read one after the other, and the size of each read. */
const NEAR_BYTES = 64 * 1024;
const PROBE_BYTES = 4 * 1024;
