/**
 * Appends a batch to the journal file: all of it durably, or none of it. The error says what a failure means: after NotEncoded and
 * NotWritten the file is as before; after any other error, such as that of a failed sync, the content of the disk is unknown.
 */

import { describe, SyncError } from './disk.ts';
import { type ChainPosition, type EncodeBuffer, encodeBatch, type LineMembers } from './line/record.ts';
import type { Segment } from './open/recovery.ts';

/** A write failed and left no bytes in the file: the only disk failure after which the journal continues. */
export class NotWritten extends Error {}

/**
 * A batch could not be encoded, since the memory for its bytes could not be allocated. Its message and `cause` are those of the
 * error.
 */
export class NotEncoded extends Error {}

/** What one write takes. */
export interface LinesToAppend {
  readonly lines: readonly LineMembers[];
  /** As in a `QueueEntry`. */
  readonly ids: readonly (string | undefined)[] | undefined;
}

/**
 * Appends one batch to the segment, durably.
 * @returns the segment after it, whose `chain` is that of the next line
 * @throws NotEncoded, NotWritten, or another error after which the content of the disk is unknown
 */
export async function appendBatch(
  segment: Segment,
  batch: LinesToAppend,
  now: Date,
  scratch: EncodeBuffer,
): Promise<Segment> {
  const { bytes, chain } = encodeOrGiveUp(batch, segment.chain, now, scratch);
  const after = { file: segment.file, bytes: segment.bytes + bytes.length, chain };
  // Before the write, since it would hide that the file was truncated. After it, since no event may get 200 if its file is gone.
  checkUntouched(segment);
  await appendWhole(segment, bytes);
  checkUntouched(after);
  return after;
}

/**
 * Makes a test write of 4,096 bytes and removes it again, to find out whether the disk takes writes.
 * @returns the unchanged segment
 * @throws NotWritten, or another error: see `appendBatch`
 */
export async function tryWrite(segment: Segment): Promise<Segment> {
  await appendWhole(segment, PROBE);
  await segment.file.truncate(segment.bytes);
  return segment;
}

/**
 * Checks that the file has the length that it had after the last write. Only the recovery of a restart can find out what else
 * another program changed.
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

/** @throws NotEncoded */
function encodeOrGiveUp({ lines, ids }: LinesToAppend, chain: ChainPosition, now: Date, scratch: EncodeBuffer) {
  try {
    return encodeBatch(lines, chain, now, scratch, ids);
  } catch (error) {
    throw new NotEncoded((error as Error).message, { cause: error });
  }
}

/**
 * Appends all of the bytes, durably, or none: after a failed or short write the file is truncated to its previous length.
 * @param end of the file, its length in bytes
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

/** The bytes of the test write. Zeros contain no newline, so after a crash they are only a torn end. */
const PROBE = Buffer.alloc(4096);
