/**
 * Appends a batch to the journal file, either completely and durably or not at all. After NotEncoded and NotWritten the file is
 * unchanged; after any other error, such as a failed sync, the content of the disk is unknown.
 */

import { Defect } from '../config/defect.ts';
import { LINE_FEED } from '../event/json-bytes.ts';
import { describe, SyncError } from './disk.ts';
import type { FreshLines } from './follower.ts';
import { readSeq } from './line/chain.ts';
import { type ChainPosition, type EncodeBuffer, encodeBatch, type LineMembers } from './line/record.ts';
import type { Segment } from './open/recovery.ts';

/** A write failed and left no bytes in the file: the only disk failure after which the journal continues. */
export class NotWritten extends Error {}

/** The memory for the bytes of a batch could not be allocated. `message` and `cause` are from the original error. */
export class NotEncoded extends Error {}

/** The lines of one write. */
export interface LinesToAppend {
  readonly lines: readonly LineMembers[];
  /** See `QueueEntry.ids`. */
  readonly ids: readonly (string | undefined)[] | undefined;
}

/**
 * Appends one batch to the segment, durably.
 * @returns the segment after the write, with the `chain` of the next line and the id of the last one
 * @throws NotEncoded, NotWritten, or another error after which the content of the disk is unknown; Defect if nothing was written,
 *   because the lines do not continue the journal
 */
export async function appendBatch(
  segment: Segment,
  batch: LinesToAppend,
  now: Date,
  scratch: EncodeBuffer,
): Promise<Segment> {
  const { bytes, chain, lastId } = encode(batch, segment.chain, now, scratch);
  const after = { file: segment.file, bytes: segment.bytes + bytes.length, chain, lastId };
  checkContinuation(bytes, segment.chain.seq + batch.lines.length, chain);
  // Checked before the write, which would hide that the file was truncated, and after it, since no event may get 200 if its file
  // is gone.
  checkUntouched(segment);
  await appendWhole(segment, bytes);
  checkUntouched(after);
  return after;
}

/**
 * @param scratch the buffer of the last batch
 * @param segment the segment after the batch
 * @param batchByte where the batch starts; the end of the segment if nothing was appended
 * @returns the lines of the batch; undefined if there is none, or it is large
 */
export function freshLines(
  { batch }: EncodeBuffer,
  { file, bytes }: Segment,
  batchByte: number,
): FreshLines | undefined {
  return batch === undefined || batchByte === bytes ? undefined : { file: file.name, byte: batchByte, bytes: batch };
}

/**
 * Tests whether a write succeeds: appends 4,096 bytes and truncates them again.
 * @returns the unchanged segment
 * @throws NotWritten, or another error: see `appendBatch`
 */
export async function tryWrite(segment: Segment): Promise<Segment> {
  await appendWhole(segment, PROBE);
  await segment.file.truncate(segment.bytes);
  return segment;
}

/**
 * Checks that the file has the same length as after the last write. Other changes by another program are found only by the
 * recovery of the next start.
 * @throws Error if the length differs, or the file is gone
 */
export function checkUntouched({ file, bytes }: Segment): void {
  const size = file.sizeInFolder();
  if (size === bytes) return;
  throw new Error(
    size === undefined
      ? `${file.name} was removed or replaced by another program`
      : `${file.name} has ${size} bytes instead of ${bytes}: another program changed it`,
  );
}

/**
 * Checks that a batch has a line for each event, and that the last line has the seq before the next one.
 * @param nextSeq the seq of the next line, according to the number of events
 * @param chain the position after the encoded lines
 * @throws Defect
 */
function checkContinuation(bytes: Buffer, nextSeq: number, { seq }: ChainPosition): void {
  const lastSeq = readSeq(bytes, bytes.lastIndexOf(LINE_FEED, -2) + 1);
  if (seq === nextSeq && lastSeq === nextSeq - 1) return;
  throw new Defect(`the lines of a batch end with seq ${lastSeq} instead of ${nextSeq - 1}; nothing was written`);
}

/** @throws NotEncoded */
function encode({ lines, ids }: LinesToAppend, chain: ChainPosition, now: Date, scratch: EncodeBuffer) {
  try {
    return encodeBatch(lines, chain, now, scratch, ids);
  } catch (error) {
    throw new NotEncoded((error as Error).message, { cause: error });
  }
}

/**
 * Appends all bytes durably, or none of them: after a failed or short write the file is truncated to its previous length.
 * @param end length of the file in bytes
 * @throws NotWritten, or another error after which the content of the file is unknown
 */
export async function appendWhole({ file, bytes: end }: Pick<Segment, 'file' | 'bytes'>, bytes: Buffer): Promise<void> {
  let problem: string;
  try {
    const written = await file.append(bytes, end);
    if (written === bytes.length) return;
    problem = `only ${written} of ${bytes.length} bytes were written`;
  } catch (error) {
    if (error instanceof SyncError) throw error;
    problem = describe(error as Error);
  }
  await file.truncate(end);
  throw new NotWritten(problem);
}

/** @returns why a failed journal records nothing, as a sentence for the client */
export function explainFailure(error: Error): string {
  const what = error instanceof Defect ? 'the service found a defect of its own' : 'the disk failed';
  return `${what}; send the report again when the service is back`;
}

/** The bytes of the test write. Zeros contain no newline, so after a crash they count as a torn end. */
const PROBE = Buffer.alloc(4096);
