/** The lines of a file or of standard input, in groups. Memory use does not depend on the length of the input. */

import { LineCutter } from '../../journal/line/lines.ts';

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
 */
export async function* splitLines(
  chunks: AsyncIterable<Buffer>,
  lineBytesMax: number,
): AsyncGenerator<readonly InputLine[]> {
  let lines: InputLine[] = [];
  let lineStart = 0;
  const take = (bytes: Buffer, start: number, end: number, lineEnd: number) => {
    const isTooLong = lineEnd - lineStart > lineBytesMax;
    lineStart = lineEnd + 1;
    lines.push({ line: isTooLong ? undefined : trim(bytes.subarray(start, end)), bytes: lineEnd });
  };
  const cutter = new LineCutter(take, lineBytesMax);
  for await (const chunk of chunks) {
    cutter.push(chunk);
    yield lines;
    lines = [];
  }
  const { carriedBytes } = cutter;
  if (carriedBytes === 0) return;
  yield [{ line: carriedBytes > lineBytesMax ? undefined : trim(cutter.carried()), bytes: lineStart + carriedBytes }];
}

/** Removes surrounding spaces, the CR of a CR LF, and a byte order mark, which Windows may write. A blank line becomes empty. */
function trim(line: Buffer): Buffer {
  let [start, end] = [line.indexOf(BYTE_ORDER_MARK) === 0 ? BYTE_ORDER_MARK.length : 0, line.length];
  while (end > start && SPACES.includes(line[end - 1]!)) end -= 1;
  while (start < end && SPACES.includes(line[start]!)) start += 1;
  return line.subarray(start, end);
}

/** An entry of a group. */
export interface Sized {
  /** Bytes that count against the limit of the group. */
  readonly sizeBytes: number;
}

/** Groups that are filled while earlier groups are being used. */
export interface InputGroups<Entry> {
  /** @returns what has arrived since the last call, after waiting for at least one entry; undefined at the end. @throws what the input throws */
  take(): Promise<readonly Entry[] | undefined>;
}

/**
 * Reads the input ahead, up to one group. An input that pauses, such as `tail -f`, does not hold back what arrived: a group is as
 * large as what arrived while the one before it was being sent.
 * @param read turns a line into an entry, in order; undefined to skip it
 * @param limits of one group; an entry that is larger is alone
 */
export function groupLines<Entry extends Sized>(
  lines: AsyncIterable<readonly InputLine[]>,
  read: (line: InputLine) => Entry | undefined,
  { entriesMax, bytesMax }: { readonly entriesMax: number; readonly bytesMax: number },
): InputGroups<Entry> {
  let group: Entry[] = [];
  let bytes = 0;
  let state: { readonly kind: 'open' | 'ended' } | { readonly kind: 'failed'; readonly error: unknown } = {
    kind: 'open',
  };
  const [arrived, taken] = [createSignal(), createSignal()];

  async function fill(): Promise<void> {
    for await (const some of lines) {
      for (const line of some) {
        const entry = read(line);
        if (entry === undefined) continue;
        while (group.length >= entriesMax || (group.length > 0 && bytes + entry.sizeBytes > bytesMax))
          await taken.wait();
        group.push(entry);
        bytes += entry.sizeBytes;
        arrived.give();
      }
    }
  }
  void fill().then(
    () => {
      state = { kind: 'ended' };
      arrived.give();
    },
    (error: unknown) => {
      state = { kind: 'failed', error };
      arrived.give();
    },
  );

  return {
    async take() {
      while (group.length === 0 && state.kind === 'open') await arrived.wait();
      if (group.length > 0) {
        const full = group;
        group = [];
        bytes = 0;
        taken.give();
        return full;
      }
      if (state.kind === 'failed') throw state.error;
      return undefined;
    },
  };
}

/** A signal that one caller waits for. */
function createSignal(): { wait(): Promise<void>; give(): void } {
  let wake: (() => void) | undefined;
  return {
    wait: () =>
      new Promise((resolve) => {
        wake = resolve;
      }),
    give: () => {
      wake?.();
      wake = undefined;
    },
  };
}

const SPACES = Buffer.from(' \t\r');
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
