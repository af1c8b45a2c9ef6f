/**
 * Finds every valid line of a damaged file of any size, with little memory.
 *
 * A line and its crc determine the crc of the previous line (see `crc.ts`). So one pass over the file splits it into pieces of
 * consecutive lines. Then, for the first line of each piece, it searches for the piece, anywhere in the file, that ends with the
 * seq and the crc that this line needs before it.
 */

import { readObject } from '../../config/json-file.ts';
import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../disk.ts';
import { FileWindow } from '../file-io.ts';
import { firstIndex } from '../first-index.ts';
import type { SegmentName } from '../segments.ts';
import { crcOf, findForms, type LineForm, readForm, type SeedParts, seedFor, seedPartsOf } from './chain.ts';
import { takeLines } from './lines.ts';

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
  const pieces = new Pieces(segment.name, limits.salvagePiecesMax);
  await findPieces(disk, segment.name, pieces, limits);
  prove(pieces, segment.firstSeq);
  if (await findHidden(disk, segment.name, pieces, limits)) prove(pieces, segment.firstSeq);
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

/** Lines of one file with consecutive seqs, the crc of each seeded with the stored crc of the previous line. */
interface Piece extends SeedParts {
  /** The first byte of the first line, and the byte after the last line: its newline's, or where that should be. */
  readonly start: number;
  end: number;
  readonly firstSeq: number;
  lastSeq: number;
  /** The crc that the line before it must have, and that of its last line, as stored. */
  readonly seed: number;
  lastCrc: number;
  /** The previous piece in the file. */
  readonly before: Piece | undefined;
  /** Its lines are delimited by newlines, instead of found inside bytes that are no line. */
  readonly isWhole: boolean;
  /** Its lines end in CR LF. */
  readonly carriageReturns: boolean;
  /** Its first line is JSON. */
  readonly isJson: boolean;
  /** Its first line is proved by its crc and the previous line; the others always are. */
  isGood: boolean;
  /** The crc of a line with the next seq is seeded with that of its last line. */
  isConfirmed: boolean;
}

/** The pieces of one file, in the order in which they were found. Most damaged files have a few long ones. */
class Pieces {
  readonly all: Piece[] = [];
  readonly #file: string;
  readonly #countMax: number;
  #byEnd: readonly Piece[] = [];

  constructor(file: string, countMax: number) {
    this.#file = file;
    this.#countMax = countMax;
  }

  /** @throws Error if there are too many */
  add(piece: Piece): Piece {
    if (this.all.length === this.#countMax) {
      throw new Error(
        `${this.#file} has over ${this.#countMax} damaged ranges; move it out of the folder and run the repair again`,
      );
    }
    this.all.push(piece);
    return piece;
  }

  /** For `endingWith`, which does not find pieces that are added later. */
  sortByEnd(): void {
    this.#byEnd = [...this.all].sort((a, b) => a.lastSeq - b.lastSeq || a.lastCrc - b.lastCrc);
  }

  /** @returns the first of the pieces whose last line has this seq, and this crc if one is given */
  endingWith(seq: number, countMax: number, crc?: number): Piece[] {
    const order = ({ lastSeq, lastCrc }: Piece) => lastSeq - seq || (crc === undefined ? 0 : lastCrc - crc);
    const from = firstIndex(this.#byEnd, (piece) => order(piece) >= 0);
    return this.#byEnd.slice(from, from + countMax).filter((piece) => order(piece) === 0);
  }
}

/** Splits the file into pieces. */
async function findPieces(disk: Disk, name: string, pieces: Pieces, { lineBytesMax }: SalvageLimits): Promise<void> {
  let lineStart = 0;
  let last: Piece | undefined;
  /** Whether the next line can extend the last piece: not if bytes that are no line are between them. */
  let isOpen = false;
  await takeLines(disk.read(name), lineBytesMax, (bytes, start, end, lineEnd) => {
    const from = lineStart;
    lineStart = lineEnd + 1;
    const carriageReturns = bytes[end - 1] === CARRIAGE_RETURN;
    const isCut = lineEnd - from !== end - start;
    const form = isCut ? undefined : readForm(bytes, start, carriageReturns ? end - 1 : end);
    if (form === undefined) {
      isOpen = false;
      return;
    }
    const isNext =
      last !== undefined &&
      isOpen &&
      last.lastSeq + 1 === form.seq &&
      last.carriageReturns === carriageReturns &&
      crcOf(bytes, form, last.lastCrc) === form.crc;
    if (last !== undefined && isNext) {
      last.end = from + form.end - form.start;
      last.lastSeq = form.seq;
      last.lastCrc = form.crc;
      return;
    }
    const isJson = readObject(bytes.toString('utf8', form.start, form.end)) !== undefined;
    last = pieces.add(pieceOf(bytes, form, from, last, { isWhole: true, carriageReturns, isJson }));
    isOpen = true;
  });
}

function pieceOf(
  bytes: Buffer,
  form: LineForm,
  start: number,
  before: Piece | undefined,
  { isWhole, carriageReturns, isJson }: Pick<Piece, 'isWhole' | 'carriageReturns' | 'isJson'>,
): Piece {
  const { unseededCrc, lineBytes } = seedPartsOf(bytes, form);
  return {
    start,
    end: start + lineBytes,
    firstSeq: form.seq,
    lastSeq: form.seq,
    seed: seedFor({ unseededCrc, lineBytes }, form.crc),
    lastCrc: form.crc,
    unseededCrc,
    lineBytes,
    before,
    isWhole,
    carriageReturns,
    isJson,
    isGood: false,
    isConfirmed: false,
  };
}

/** Searches for the previous line of the first line of each piece. */
function prove(pieces: Pieces, firstSeq: number): void {
  pieces.sortByEnd();
  for (const piece of pieces.all) {
    const tries = { left: TRIES_MAX };
    for (let row = 0; row <= DAMAGED_CRCS_MAX && !piece.isGood; row += 1) {
      piece.isGood = follows(pieces, piece, piece.seed, firstSeq, tries, row);
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
  { start, firstSeq: seq, before }: Piece,
  crc: number,
  firstSeq: number,
  tries: { left: number },
  row: number,
): boolean {
  if (crc === 0 && (start === 0 || seq === firstSeq)) return true;
  const earlier = pieces.endingWith(seq - 1, EQUAL_MAX, crc);
  for (const piece of earlier) piece.isConfirmed = true;
  if (earlier.length > 0 || before?.lastCrc === crc) return true;
  if (row === 0) return false;
  for (const piece of pieces.endingWith(seq - 1, TRIES_MAX)) {
    if (tries.left === 0) return false;
    tries.left -= 1;
    const isOneLine = piece.firstSeq === piece.lastSeq;
    if (!isOneLine || !follows(pieces, piece, seedFor(piece, crc), firstSeq, tries, row - 1)) continue;
    piece.isGood = true; // only the digits of its crc are damaged, and the next line determines them
    return true;
  }
  return false;
}

/**
 * Searches the bytes between the valid lines for lines whose newline is damaged, or that follow foreign bytes.
 * @returns whether there are any
 */
async function findHidden(disk: Disk, name: string, pieces: Pieces, limits: SalvageLimits): Promise<boolean> {
  const { hiddenLinesMax, lineBytesMax } = limits;
  const file = new FileWindow(disk, name);
  const whole = [...pieces.all];
  let from = 0;
  let before: Piece | undefined;
  const search = async (to: number) => {
    for (let at = from; at < to; at += lineBytesMax) {
      const bytes = await file.read(at, Math.min(to, at + 2 * lineBytesMax));
      for (const form of findForms(bytes, lineBytesMax, hiddenLinesMax, lineBytesMax)) {
        const found = { isWhole: false, carriageReturns: false, isJson: false };
        pieces.add(pieceOf(bytes, form, at + form.start, before, found));
      }
    }
  };
  for (const piece of whole) {
    const good = goodPartOf(piece);
    if (good === undefined) continue;
    await search(good.start);
    from = good.end + 1;
    before = piece;
  }
  await search(await disk.size(name));
  return pieces.all.length > whole.length;
}

/** @returns the proved lines of a piece: all of them, all but the first, or undefined if none is proved */
function goodPartOf({ start, end, firstSeq, lastSeq, lineBytes, seed, lastCrc, carriageReturns, isGood }: Piece) {
  if (isGood) return { start, end, firstSeq, lastSeq, crcs: { before: seed, last: lastCrc } };
  if (firstSeq === lastSeq) return undefined;
  const secondLine = start + lineBytes + (carriageReturns ? 2 : 1);
  return { start: secondLine, end, firstSeq: firstSeq + 1, lastSeq, crcs: undefined };
}

function* provedIn(pieces: Pieces, file: string): Generator<Stretch> {
  for (const piece of pieces.all) {
    const part = goodPartOf(piece);
    if (part !== undefined) yield { file, ...part, unproved: false, carriageReturns: piece.carriageReturns };
  }
}

/** First lines of pieces that are neither proved nor refuted. The seqs of the lines after them must continue theirs. */
function* unprovedIn(
  pieces: Pieces,
  { name: file, firstSeq: first }: SegmentName,
  nextSeq: number | undefined,
): Generator<Stretch> {
  for (const piece of pieces.all) {
    const { start, firstSeq, lastSeq, lineBytes, before, carriageReturns } = piece;
    if (piece.isGood || !piece.isWhole || !piece.isJson) continue;
    const counted = lastSeq > firstSeq || piece.isConfirmed || nextSeq === firstSeq + 1;
    const refuted =
      firstSeq === first ||
      pieces.endingWith(firstSeq - 1, EQUAL_MAX).some(({ isWhole }) => isWhole) ||
      // The previous line exists, and its crc is not the seed that this line needs.
      (before !== undefined && before.firstSeq === before.lastSeq && !before.isGood);
    if (!counted || refuted) continue;
    const end = start + lineBytes;
    yield { file, start, end, firstSeq, lastSeq: firstSeq, unproved: true, carriageReturns, crcs: undefined };
  }
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
  const chunks = disk.read(name, goodEnd === 0 ? 0 : goodEnd + 1);
  const rest = await takeLines(chunks, lineBytesMax, (bytes, start, end) => {
    if (!isBlank(bytes.subarray(start, end))) count += 1;
  });
  const isLineLeft = rest.carriedBytes > 0 && !isBlank(rest.carried());
  return isLineLeft ? count + 1 : count;
}

/** Whether a line is empty. In a file whose line ends were converted an empty line is a carriage return. */
function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === CARRIAGE_RETURN);
}
