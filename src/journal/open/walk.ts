/**
 * Reads a file past its bad lines, like a reader does, for `verify`, `repair` and idempotency keys, so that all of them agree on
 * which lines are good.
 */

import type { Limits } from '../../config/limits.ts';
import type { ReadableDisk } from '../disk.ts';
import { ChainFollower } from '../line/chain.ts';
import { forEachLine } from '../line/lines.ts';
import type { ChainPosition } from '../line/record.ts';
import type { Scan } from './scan.ts';

/** A range of adjacent bad lines. */
export interface BadRange {
  readonly file: string;
  /** The number of the first bad line, counted from 1, and its first byte, counted from 0. */
  readonly line: number;
  readonly byte: number;
  /** What is wrong with the first bad line. */
  readonly problem: string;
  /** Number of bad lines; 0 if the only problem is an unexpected seq. */
  readonly lines: number;
}

/**
 * Called with a good line, like `OnGoodLine` of `scan.ts`.
 * @param chain the position after the line
 */
export type OnWalkedLine = (bytes: Buffer, start: number, end: number, chain: ChainPosition, offset: number) => void;

/**
 * Reads a file from `from` on. A line after bad lines is good if its crc is seeded with the crc of an earlier line.
 * @param from the position, and the chain position there, if the lines before it are good; without these lines, the first
 * line read in the
 *   middle of a file is bad
 * @param onBad called with each range of bad lines, after its last line
 * @returns the number of bad lines after the last good one, without empty lines; each of them might have been an event
 * @throws the error of a system call
 */
export async function walkSegment(
  disk: ReadableDisk,
  file: string,
  from: Pick<Scan, 'bytes' | 'lines' | 'chain'>,
  { lineBytesMax }: Limits,
  onGood: OnWalkedLine,
  onBad: (range: BadRange) => void,
): Promise<number> {
  const follower = new ChainFollower(from.chain, from.lines === 0);
  let [line, byte] = [from.lines + 1, from.bytes];
  let bad: BadRange | undefined;
  let badAfter = 0;
  const rangeHere = (problem = ''): BadRange => bad ?? { file, line, byte, problem, lines: 0 };
  const addBad = (bytes: Buffer, problem: string | undefined) => {
    const range = rangeHere(problem);
    bad = { ...range, lines: range.lines + 1 };
    badAfter += Number(!isBlank(bytes));
  };
  const rest = await forEachLine(disk.read(file, from.bytes), lineBytesMax, (bytes, start, end, lineEnd) => {
    const found = follower.take(bytes, start, end);
    const next = from.bytes + lineEnd + 1;
    if (found.kind === 'bad') addBad(bytes.subarray(start, end), found.problem);
    else {
      if (found.kind === 'resumed') onBad(rangeHere(found.problem));
      bad = undefined;
      badAfter = 0;
      onGood(bytes, start, end, found.chain, byte);
    }
    byte = next;
    line += 1;
  });
  if (rest.carriedBytes > 0) addBad(rest.carried(), 'it ends without a newline');
  if (bad !== undefined) onBad(bad);
  return badAfter;
}

/** Whether a line is empty. In a file whose line ends were converted an empty line is a carriage return. */
function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === CARRIAGE_RETURN);
}

const CARRIAGE_RETURN = 0x0d;
