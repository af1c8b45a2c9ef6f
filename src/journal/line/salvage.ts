/**
 * Finds every valid line of a damaged file of any size, with little memory.
 *
 * A line and its crc determine the crc of the previous line (see `crc.ts`). So one pass over the file splits it into pieces of
 * consecutive lines. Then, for the first line of each piece, it searches for the piece, anywhere in the file, that ends with the
 * seq and the crc that this line needs before it.
 */

import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../disk.ts';
import { FileWindow } from '../file-io.ts';
import type { SegmentName } from '../segments.ts';
import { crcOf, findForms, type LineForm, linkOf, readForm, seedFor } from './chain.ts';
import { LineCutter } from './lines.ts';
import { Flag, Pieces, TooManyPieces } from './pieces.ts';

/** Consecutive valid lines that are adjacent in a file. */
export interface Stretch {
  readonly file: string;
  /** The first byte of the first line, and the byte after the last line: its newline's, or where that should be. */
  readonly start: number;
  readonly end: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** It is one line, and the previous line, whose crc seeds its own, is lost: its crc can be neither verified nor refuted. */
  readonly unproved: boolean;
  /** Its lines end in CR LF. */
  readonly carriageReturns: boolean;
  /** The crc before its first line and that of its last line; undefined if unknown. */
  readonly crcs: { readonly before: number; readonly last: number } | undefined;
}

/** What a salvage found in one file. */
export interface Salvaged {
  /** A line may be in several of them; the first is the one to take. */
  readonly stretches: readonly Stretch[];
  /** Number of bad lines after the last valid line, also without the form of a line: each may have been an event. */
  readonly badAfter: number;
}

/** Bytes of a line, pieces of a file, and lines that are tried between two newlines. */
export type SalvageLimits = Pick<Limits, 'lineBytesMax' | 'salvagePiecesMax' | 'hiddenLinesMax'>;

/**
 * Finds the valid lines of one file.
 * @param nextSeq the first seq of the next file, undefined for the last file
 * @throws Error for a file with too many damaged ranges, or the error of a system call
 */
export async function salvage(
  disk: Disk,
  segment: SegmentName,
  nextSeq: number | undefined,
  limits: SalvageLimits,
): Promise<Salvaged> {
  const pieces = new Pieces(limits.salvagePiecesMax);
  try {
    await findPieces(disk, segment.name, pieces, limits);
    prove(pieces, segment.firstSeq);
    if (await findHidden(disk, segment.name, pieces, limits)) prove(pieces, segment.firstSeq);
  } catch (error) {
    if (!(error instanceof TooManyPieces)) throw error;
    throw new Error(
      `${segment.name} has over ${limits.salvagePiecesMax} damaged ranges; move it out of the folder and run the repair again`,
    );
  }
  const stretches = [...provedIn(pieces, segment.name), ...unprovedIn(pieces, segment, nextSeq)];
  const lastEnd = stretches.reduce((last, { end }) => Math.max(last, end), 0);
  return { stretches, badAfter: await countBadLines(disk, segment.name, lastEnd, limits) };
}

const CARRIAGE_RETURN = 0x0d;
/** For each piece: the limit of lines with a damaged crc that are tried as its predecessor, and of such lines in a row. */
const TRIES_MAX = 256;
const DAMAGED_CRCS_MAX = 3;
/** How many copies of equal lines are examined. */
const EQUAL_MAX = 64;

/** Splits the file into pieces. */
async function findPieces(disk: Disk, name: string, pieces: Pieces, { lineBytesMax }: SalvageLimits): Promise<void> {
  let lineStart = 0;
  /** The last piece, and whether the next line can extend it: only if no bytes that are no line are between them. */
  let last = -1;
  let isOpen = false;
  const cutter = new LineCutter((bytes, start, end, lineEnd) => {
    const from = lineStart;
    lineStart = lineEnd + 1;
    const cr = bytes[end - 1] === CARRIAGE_RETURN ? 1 : 0;
    const isCut = lineEnd - from !== end - start;
    const form = isCut ? undefined : readForm(bytes, start, end - cr);
    if (form === undefined) {
      isOpen = false;
      return;
    }
    const isNext =
      isOpen &&
      pieces.lastSeq(last) + 1 === form.seq &&
      pieces.is(last, Flag.carriageReturns) === (cr === 1) &&
      crcOf(bytes, form, pieces.lastCrc(last)) === form.crc;
    if (isNext) {
      pieces.extend(last, lineEnd - cr, form.crc);
      return;
    }
    const json = isJson(bytes, form) ? Flag.json : 0;
    const flags = Flag.whole | json | (cr === 1 ? Flag.carriageReturns : 0);
    last = pieces.add(pieceOf(bytes, form, from, last, flags));
    isOpen = true;
  }, lineBytesMax);
  for await (const chunk of disk.read(name)) cutter.push(chunk);
}

function pieceOf(bytes: Buffer, form: LineForm, start: number, before: number, flags: number) {
  const end = start + form.end - form.start;
  return { start, end, firstSeq: form.seq, lines: 1, lastCrc: form.crc, before, flags, ...linkOf(bytes, form) };
}

function isJson(bytes: Buffer, { start, end }: LineForm): boolean {
  try {
    JSON.parse(bytes.toString('utf8', start, end));
    return true;
  } catch {
    return false;
  }
}

/** Searches for the previous line of the first line of each piece. */
function prove(pieces: Pieces, firstSeq: number): void {
  pieces.sortByEnd();
  for (let index = 0; index < pieces.count; index += 1) {
    if (pieces.is(index, Flag.good)) continue;
    const tries = { left: TRIES_MAX };
    for (let row = 0; row <= DAMAGED_CRCS_MAX && !pieces.is(index, Flag.good); row += 1) {
      if (follows(pieces, index, pieces.seed(index), firstSeq, tries, row)) pieces.mark(index, Flag.good);
    }
  }
}

/**
 * @param tries how many lines may be tried whose own crc is damaged
 * @param row how many such lines may be adjacent
 * @returns whether the line before a piece may have had the crc `crc`
 */
function follows(
  pieces: Pieces,
  index: number,
  crc: number,
  firstSeq: number,
  tries: { left: number },
  row: number,
): boolean {
  const { start, firstSeq: seq, before } = pieces.at(index);
  if (crc === 0 && (start === 0 || seq === firstSeq)) return true;
  let found = before !== -1 && pieces.lastCrc(before) === crc;
  for (const earlier of upTo(EQUAL_MAX, pieces.endingWith(seq - 1, crc))) {
    found = true;
    pieces.mark(earlier, Flag.confirmed);
  }
  if (found) return true;
  if (row === 0) return false;
  for (const earlier of pieces.endingWith(seq - 1)) {
    const piece = pieces.at(earlier);
    if (tries.left === 0) return false;
    tries.left -= 1;
    if (piece.lines > 1 || !follows(pieces, earlier, seedFor(piece, crc), firstSeq, tries, row - 1)) continue;
    pieces.mark(earlier, Flag.good); // only the digits of its crc are damaged, and the next line determines them
    return true;
  }
  return false;
}

function* upTo(countMax: number, indexes: Iterable<number>): Generator<number> {
  let count = 0;
  for (const index of indexes) {
    if (count === countMax) return;
    count += 1;
    yield index;
  }
}

/**
 * Searches the bytes between the valid lines for lines whose newline is damaged, or that follow foreign bytes.
 * @returns whether there are any
 */
async function findHidden(disk: Disk, name: string, pieces: Pieces, limits: SalvageLimits): Promise<boolean> {
  const { hiddenLinesMax, lineBytesMax } = limits;
  const file = new FileWindow(disk, name);
  const wholeCount = pieces.count;
  let from = 0;
  let before = -1;
  for (let index = 0; index <= wholeCount; index += 1) {
    const isEnd = index === wholeCount;
    const good = isEnd ? undefined : goodPartOf(pieces, index);
    if (good === undefined && !isEnd) continue;
    const to = good?.start ?? (await disk.size(name));
    for (let at = from; at < to; at += lineBytesMax) {
      const bytes = await file.read(at, Math.min(to, at + 2 * lineBytesMax));
      for (const form of findForms(bytes, lineBytesMax, hiddenLinesMax, lineBytesMax)) {
        pieces.add(pieceOf(bytes, form, at + form.start, before, 0));
      }
    }
    from = (good?.end ?? to) + 1;
    before = index;
  }
  return pieces.count > wholeCount;
}

/** @returns the proved lines of a piece: all of them, all but the first, or undefined if none is proved */
function goodPartOf(pieces: Pieces, index: number) {
  const { start, end, firstSeq, lines, lineBytes, lastCrc } = pieces.at(index);
  const lastSeq = firstSeq + lines - 1;
  if (pieces.is(index, Flag.good)) {
    return { start, end, firstSeq, lastSeq, crcs: { before: pieces.seed(index), last: lastCrc } };
  }
  if (lines === 1) return undefined;
  const newline = pieces.is(index, Flag.carriageReturns) ? 2 : 1;
  return { start: start + lineBytes + newline, end, firstSeq: firstSeq + 1, lastSeq, crcs: undefined };
}

function* provedIn(pieces: Pieces, file: string): Generator<Stretch> {
  for (let index = 0; index < pieces.count; index += 1) {
    const part = goodPartOf(pieces, index);
    const carriageReturns = pieces.is(index, Flag.carriageReturns);
    if (part !== undefined) yield { file, ...part, unproved: false, carriageReturns };
  }
}

/** First lines of pieces that are neither proved nor refuted. The seqs of the lines after them must continue theirs. */
function* unprovedIn(
  pieces: Pieces,
  { name, firstSeq: first }: SegmentName,
  nextSeq: number | undefined,
): Generator<Stretch> {
  for (let index = 0; index < pieces.count; index += 1) {
    if (pieces.is(index, Flag.good) || !pieces.is(index, Flag.whole) || !pieces.is(index, Flag.json)) continue;
    const { start, firstSeq, lines, lineBytes, before } = pieces.at(index);
    const counted = lines > 1 || pieces.is(index, Flag.confirmed) || nextSeq === firstSeq + 1;
    const refuted =
      firstSeq === first ||
      hasWhole(pieces, firstSeq - 1) ||
      // The previous line exists, and its crc is not the seed that this line needs.
      (before !== -1 && pieces.at(before).lines === 1 && !pieces.is(before, Flag.good));
    if (!counted || refuted) continue;
    const carriageReturns = pieces.is(index, Flag.carriageReturns);
    const end = start + lineBytes;
    yield { file: name, start, end, firstSeq, lastSeq: firstSeq, unproved: true, carriageReturns, crcs: undefined };
  }
}

function hasWhole(pieces: Pieces, lastSeq: number): boolean {
  for (const index of upTo(EQUAL_MAX, pieces.endingWith(lastSeq))) if (pieces.is(index, Flag.whole)) return true;
  return false;
}

/**
 * Counts the lines after the last valid one, without empty lines.
 * @param goodEnd the byte after the last valid line: its newline's, or where that should be; 0 if there is no valid line
 */
async function countBadLines(
  disk: Disk,
  name: string,
  goodEnd: number,
  { lineBytesMax }: SalvageLimits,
): Promise<number> {
  let count = 0;
  const cutter = new LineCutter((bytes, start, end) => {
    if (!isBlank(bytes.subarray(start, end))) count += 1;
  }, lineBytesMax);
  for await (const chunk of disk.read(name, goodEnd === 0 ? 0 : goodEnd + 1)) cutter.push(chunk);
  const isLineLeft = cutter.carriedBytes > 0 && !isBlank(cutter.carried());
  return isLineLeft ? count + 1 : count;
}

/** Whether a line is empty. In a file whose line ends were converted an empty line is a carriage return. */
function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === CARRIAGE_RETURN);
}
