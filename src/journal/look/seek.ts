/** Finds a line of a journal file by its seq, without reading all of the file. */

import type { Limits } from '../../config/limits.ts';
import { LINE_FEED } from '../../event/json-bytes.ts';
import type { ReadableDisk } from '../disk.ts';
import { readForm, readSeq } from '../line/chain.ts';
import { LineCutter } from '../line/lines.ts';
import type { ChainPosition } from '../line/record.ts';

/** Where a line of a file ends, and the chain position after it. */
export interface LineEnd {
  readonly bytes: number;
  readonly chain: ChainPosition;
}

/**
 * Finds the line with a seq by bisection of byte offsets. It verifies nothing but the form of that line: the crc of the next line
 * shows whether it is the right one.
 * @param endBytes up to which the file is searched: its size
 * @returns where the line ends; undefined if there is no such line, or the lines are not in order
 * @throws the error of a system call
 */
export async function seekLine(
  disk: ReadableDisk,
  name: string,
  endBytes: number,
  seq: number,
  { lineBytesMax }: Pick<Limits, 'lineBytesMax'>,
): Promise<LineEnd | undefined> {
  let low = 0; // a line with a smaller seq, or this one, begins here
  let high = endBytes;
  while (high - low > NEAR_BYTES) {
    const middle = Math.floor((low + high) / 2);
    const line = await nextLine(disk, name, middle, high);
    if (line === undefined || line.seq > seq) high = middle;
    else low = line.start;
  }
  return lineEnd(disk, name, low, endBytes, seq, lineBytesMax);
}

/** @returns the first line that begins after `from`; undefined if none does before `end` */
async function nextLine(
  disk: ReadableDisk,
  name: string,
  from: number,
  end: number,
): Promise<{ start: number; seq: number } | undefined> {
  let position = from;
  let start: number | undefined;
  let head: Buffer = Buffer.alloc(0);
  for (let bytes = PROBE_BYTES; position < end; bytes *= 8) {
    for await (const chunk of disk.read(name, position, Math.min(end, position + bytes))) {
      const newline = start === undefined ? chunk.indexOf(LINE_FEED) : -1;
      if (newline !== -1) start = position + newline + 1;
      position += chunk.length;
      if (start === undefined) continue;
      head = Buffer.concat([head, chunk.subarray(newline + 1)]);
      const seq = readSeq(head, 0);
      if (seq !== undefined) return { start, seq };
      if (head.length > PROBE_BYTES) return undefined; // no line begins like this
    }
  }
  return undefined;
}

async function lineEnd(
  disk: ReadableDisk,
  name: string,
  from: number,
  end: number,
  seq: number,
  lineBytesMax: number,
): Promise<LineEnd | undefined> {
  let found: LineEnd | undefined;
  let isPast = false;
  const cutter = new LineCutter((bytes, start, lineEnd, position) => {
    if (found !== undefined || isPast) return;
    const form = readForm(bytes, start, lineEnd);
    if (form?.seq === seq) found = { bytes: from + position + 1, chain: { seq: seq + 1, crc: form.crc } };
    else isPast = form === undefined || form.seq > seq;
  }, lineBytesMax);
  for await (const chunk of disk.read(name, from, end)) {
    cutter.push(chunk);
    if (found !== undefined || isPast) break;
  }
  return found;
}

/** How near the bisection comes before lines are read one after the other, and what it reads at each step. */
const NEAR_BYTES = 64 * 1024;
const PROBE_BYTES = 4 * 1024;
