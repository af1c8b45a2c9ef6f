/** Sends the lines of a file as reports, in order and one at a time. Memory use does not depend on the length of the file. */

import { isUtf8 } from 'node:buffer';
import type { Delivery } from '../client/delivery.ts';
import type { Submission } from '../client/submission.ts';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { LineCutter } from '../journal/lines.ts';
import type { Output } from './command.ts';

/** A run over the lines of a file or of standard input. */
export interface LineRun {
  /** The bytes of the input, cut anywhere. */
  readonly chunks: AsyncIterable<Buffer>;
  /** Total length of all chunks; undefined if it is unknown, as for standard input. */
  readonly bytes: number | undefined;
  /** Lines before this number are skipped. The first line is 1. */
  readonly fromLine: number;
  /** A line of more bytes is refused, and not sent. */
  readonly lineBytesMax: number;
  /** Parses a line into a report. @throws Error whose message is a clause about the line: `it is not a JSON object` */
  readonly read: (line: string) => Submission;
  /** Sends a report, with retries; called for one line at a time. */
  readonly send: (submission: Submission) => Promise<Delivery>;
  /** Ends the run after the line that is being sent. */
  readonly stopped: AbortSignal;
}

/**
 * Sends the lines in order. Prints on standard error each line that was not recorded, as `line 7: answers 400: …`, and continues
 * with the next one; stops at a line if the service is unavailable or would refuse every line, and prints where to continue.
 * @returns 0 if all are recorded; 1 if a line was refused, or the URL or the token is wrong; else 75
 * @throws what `chunks` throws
 */
export async function reportLines(run: LineRun, output: Output): Promise<ExitCode> {
  const { fromLine, stopped } = run;
  const progress = createProgress(run.bytes, output);
  const counts = { recorded: 0, refused: 0, doubtful: 0 };
  let number = 0;
  let next = fromLine;
  let stop: ExitCode | undefined;
  for await (const { line, bytes } of splitLines(run.chunks, run.lineBytesMax)) {
    number += 1;
    progress(bytes, counts.recorded, counts.refused + counts.doubtful);
    if (number < fromLine || line?.length === 0) continue;
    if (stopped.aborted) break;
    next = number;
    const found = await sendLine(line, run);
    if (found.kind === 'recorded') {
      counts.recorded += 1;
    } else {
      output.progress('');
      const doubt = found.kind === 'in doubt' ? '; it may have been recorded' : '';
      output.complain(`line ${number}: ${found.reason}${doubt}`);
      if (found.kind === 'refused') counts.refused += 1;
      else if (found.kind === 'in doubt') counts.doubtful += 1;
      else stop = found.kind === 'unavailable' ? exitCodes.tryLater : exitCodes.refused;
    }
    if (stop !== undefined) break;
    next = number + 1;
  }
  if (stopped.aborted) stop ??= exitCodes.tryLater;
  output.progress('');
  const { recorded, refused, doubtful } = counts;
  output.say(`${recorded} recorded, ${refused} refused${doubtful > 0 ? `, ${doubtful} perhaps recorded` : ''}`);
  if (stop !== undefined) output.complain(`stopped before line ${next}; continue with --from-line ${next}`);
  return refused > 0 ? exitCodes.refused : (stop ?? (doubtful > 0 ? exitCodes.tryLater : exitCodes.done));
}

async function sendLine(line: Buffer | undefined, { lineBytesMax, read, send }: LineRun): Promise<Delivery> {
  let submission: Submission;
  try {
    if (line === undefined) throw new Error(`it has more than ${lineBytesMax} bytes`);
    if (!isUtf8(line)) throw new Error('it is not UTF-8');
    submission = read(line.toString());
  } catch (error) {
    return { kind: 'refused', reason: (error as Error).message };
  }
  return send(submission);
}

interface InputLine {
  /** The line without its line ending and surrounding spaces; undefined if it is too long. */
  readonly line: Buffer | undefined;
  /** Length of the input up to the end of this line, for the progress. */
  readonly bytes: number;
}

/** Splits chunks into lines, in the memory of one chunk and one line. */
async function* splitLines(chunks: AsyncIterable<Buffer>, lineBytesMax: number): AsyncIterable<InputLine> {
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
    yield* lines;
    lines = [];
  }
  const { carriedBytes } = cutter;
  if (carriedBytes === 0) return;
  yield { line: carriedBytes > lineBytesMax ? undefined : trim(cutter.carried()), bytes: lineStart + carriedBytes };
}

/** Removes surrounding spaces, the CR of a CR LF, and a byte order mark, which Windows may write. A blank line becomes empty. */
function trim(line: Buffer): Buffer {
  let [start, end] = [line.indexOf(BYTE_ORDER_MARK) === 0 ? BYTE_ORDER_MARK.length : 0, line.length];
  while (end > start && SPACES.includes(line[end - 1]!)) end -= 1;
  while (start < end && SPACES.includes(line[start]!)) start += 1;
  return line.subarray(start, end);
}

function createProgress(total: number | undefined, { progress }: Output) {
  const startedMs = performance.now();
  let shownMs = startedMs;
  return (bytes: number, recorded: number, failed: number) => {
    const nowMs = performance.now();
    if (nowMs - shownMs < PROGRESS_MS) return;
    shownMs = nowMs;
    const seconds = (nowMs - startedMs) / 1000;
    const part = total === undefined ? 0 : Math.min(1, bytes / Math.max(1, total));
    const done = Math.round(part * BAR_CHARACTERS);
    const bar = `[${'#'.repeat(done)}${'.'.repeat(BAR_CHARACTERS - done)}] ${Math.floor(100 * part)} %  `;
    const left = part === 0 ? '' : `, ${Math.ceil((seconds * (1 - part)) / part)} s left`;
    const rate = `${recorded} recorded, ${failed} not, ${Math.round((recorded + failed) / seconds)}/s${left}`;
    progress(`${total === undefined ? '' : bar}${rate}`);
  };
}

const SPACES = Buffer.from(' \t\r');
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
const PROGRESS_MS = 100;
const BAR_CHARACTERS = 30;
