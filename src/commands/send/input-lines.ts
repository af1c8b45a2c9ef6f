/** The lines of a file or of standard input, in groups. Memory use does not depend on the length of the input. */

import { adviceFor } from '../../event/item.ts';
import { isUtf16 } from '../../event/json-mistakes.ts';
import { LineCutter } from '../../journal/line/lines.ts';
import { Waiters } from '../../waiting/waiters.ts';

export interface InputLine {
  /** The line without its line ending and surrounding spaces; undefined if it is too long. */
  readonly line: Buffer | undefined;
  /** Length of the input up to the end of this line, for the progress. */
  readonly bytes: number;
}

/**
 * Splits chunks into lines, in the memory of one chunk and one line.
 * @param lineBytesMax a longer line is yielded as undefined
 * @returns the lines that end in each chunk
 * @throws Error if the input is UTF-16, or JSON that is spread over several lines
 */
export async function* splitLines(
  chunks: AsyncIterable<Buffer>,
  lineBytesMax: number,
): AsyncGenerator<readonly InputLine[]> {
  let lines: InputLine[] = [];
  let lineStart = 0;
  const add = (bytes: Buffer, lineEnd: number) => {
    const isTooLong = lineEnd - lineStart > lineBytesMax;
    if (lineStart === 0 && !isTooLong) checkFirst(bytes);
    lineStart = lineEnd + 1;
    lines.push({ line: isTooLong ? undefined : trim(bytes), bytes: lineEnd });
  };
  const onLine = (bytes: Buffer, start: number, end: number, lineEnd: number) =>
    add(bytes.subarray(start, end), lineEnd);
  const cutter = new LineCutter(onLine, lineBytesMax);
  for await (const chunk of chunks) {
    cutter.push(chunk);
    yield lines;
    lines = [];
  }
  if (cutter.carriedBytes === 0) return;
  add(cutter.carried(), lineStart + cutter.carriedBytes);
  yield lines;
}

/** @throws Error for an input in another format, in which every line would be wrong */
function checkFirst(line: Buffer): void {
  if (isUtf16(line)) throw new Error('the input is UTF-16; convert it: iconv -f UTF-16 -t UTF-8');
  const text = trim(line).toString();
  if (text === '{' || text === '[') throw new Error(`the input has JSON over several lines${adviceFor(text)}`);
}

/** Removes surrounding spaces, the CR of a CR LF, and a byte order mark, which programs on Windows write. A blank line becomes empty. */
function trim(line: Buffer): Buffer {
  let [start, end] = [hasMark(line) ? MARK_BYTES : 0, line.length];
  while (end > start && isSpace(line[end - 1])) end -= 1;
  while (start < end && isSpace(line[start])) start += 1;
  return end - start === line.length ? line : line.subarray(start, end);
}

/**
 * Reads the input ahead, up to one group. An input that pauses, such as `tail -f`, does not hold back its last lines: a group has
 * the lines that arrived while the previous group was being sent.
 * @param read turns a line into an entry, in order; undefined to skip it
 * @param limits of one group; a larger entry gets its own group
 * @returns a function to be called for each group: it waits for at least one entry, resolves to undefined at the end, and throws
 *   the error of the input
 */
export function groupLines<Entry extends { readonly sizeBytes: number }>(
  lines: AsyncIterable<readonly InputLine[]>,
  read: (line: InputLine) => Entry | undefined,
  { entriesMax, bytesMax }: { readonly entriesMax: number; readonly bytesMax: number },
): () => Promise<readonly Entry[] | undefined> {
  let group: Entry[] = [];
  let bytes = 0;
  let isOpen = true;
  const [arrived, taken] = [new Waiters(), new Waiters()];

  async function fill(): Promise<void> {
    for await (const some of lines) {
      for (const line of some) {
        const entry = read(line);
        if (entry === undefined) continue;
        while (group.length >= entriesMax || (group.length > 0 && bytes + entry.sizeBytes > bytesMax))
          await taken.wait();
        group.push(entry);
        bytes += entry.sizeBytes;
        if (group.length === 1) arrived.wake();
      }
    }
  }
  const filled = fill().finally(() => {
    isOpen = false;
    arrived.wake();
  });
  filled.catch(() => {}); // thrown after the last group

  return async () => {
    while (group.length === 0 && isOpen) await arrived.wait();
    if (group.length === 0) {
      await filled;
      return undefined;
    }
    const full = group;
    group = [];
    bytes = 0;
    taken.wake();
    return full;
  };
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d;
}

/** Whether a line starts with U+FEFF. */
function hasMark(line: Buffer): boolean {
  return line[0] === 0xef && line[1] === 0xbb && line[2] === 0xbf;
}

const MARK_BYTES = 3;
