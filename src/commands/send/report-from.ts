/** Sends the lines of a file as reports, in order. Memory use does not depend on the length of the file. */

import { isUtf8 } from 'node:buffer';
import { type BatchItem, withKey } from '../../client/batch.ts';
import type { Delivery, DeliveryFailure } from '../../client/delivery.ts';
import type { Features } from '../../client/features.ts';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import type { Limits } from '../../config/limits.ts';
import { shellWord } from '../../telemetry/printable.ts';
import type { Output } from '../cli/command.ts';
import { createProgress } from '../cli/progress.ts';
import { groupLines, type InputLine, splitLines } from './input-lines.ts';

/** A run over the lines of a file or of standard input. */
export interface LineRun {
  /** The bytes of the input, cut anywhere. */
  readonly chunks: AsyncIterable<Buffer>;
  /** Total length of all chunks; undefined if it is unknown, as it is for standard input. */
  readonly bytes: number | undefined;
  /** Lines before this number are skipped. The first line is 1. */
  readonly fromLine: number;
  /** Line 7 gets the idempotency key `<run id>/7` if the service knows keys, so that a rerun records no line twice. */
  readonly runId: string;
  /** A line of more than `lineBytesMax` is refused, and not sent. */
  readonly limits: Limits;
  /** Reads a line in UTF-8. @throws Error whose message is a clause about the line: `it is not a JSON object` */
  readonly read: (line: Buffer) => BatchItem;
  /** Finds the features of the service, with retries; called once, before the first report is sent. */
  readonly find: () => Promise<{ readonly kind: 'found'; readonly features: Features } | DeliveryFailure>;
  /** Sends reports in order, with retries, and yields their outcomes; called for one group at a time. */
  readonly send: (items: readonly BatchItem[]) => AsyncIterable<readonly Delivery[]>;
  /** Ends the run after the lines that are being sent. */
  readonly stopped: AbortSignal;
}

/** A line that is not blank: its report, or why it cannot be sent. */
interface InputEntry {
  readonly number: number;
  readonly content: { readonly kind: 'report'; readonly item: BatchItem } | DeliveryFailure;
  /** Length of the input up to the end of the line. */
  readonly bytes: number;
  readonly sizeBytes: number;
}

/**
 * Sends the lines in order. Prints on standard error each line that was not recorded, as `line 7: answers 400: …`, and continues
 * with the next line. Stops at a line if the service is unavailable or would refuse every line, and prints where to continue.
 * Also stops if it is in doubt whether a line was recorded and the service knows idempotency keys, since a rerun then resolves
 * the doubt.
 * @returns 0 if all are recorded; 1 if a line was refused, or the URL or the token is wrong; otherwise 75
 */
export async function reportLines(run: LineRun, output: Output): Promise<ExitCode> {
  const { stopped, limits } = run;
  const lines = new LineReport(run, output);
  let number = 0;
  const read = ({ line, bytes }: InputLine): InputEntry | undefined => {
    number += 1;
    if (number >= run.fromLine && line?.length !== 0) {
      return { number, bytes, sizeBytes: line?.length ?? 0, content: readContent(line, run) };
    }
    lines.progress(bytes);
    return undefined;
  };
  const nextGroup = groupLines(splitLines(run.chunks, limits.lineBytesMax), read, {
    entriesMax: limits.groupLinesMax,
    bytesMax: limits.bodyBytesMax,
  });
  for (let group = await nextGroup(); group !== undefined; group = await nextGroup()) {
    if (stopped.aborted) break;
    await sendGroup(group, run, lines);
    if (lines.isStopped) break;
  }
  return lines.end(stopped.aborted);
}

function readContent(line: Buffer | undefined, { limits, read }: LineRun): InputEntry['content'] {
  try {
    if (line === undefined) throw new Error(`it has more than ${limits.lineBytesMax} bytes`);
    if (!isUtf8(line)) throw new Error('it is not UTF-8');
    return { kind: 'report', item: read(line) };
  } catch (error) {
    return { kind: 'refused', reason: (error as Error).message };
  }
}

/** Sends the reports of a group, and settles its lines in order. */
async function sendGroup(group: readonly InputEntry[], run: LineRun, lines: LineReport): Promise<void> {
  let next = 0;
  const settleUnsent = () => {
    for (let entry = group[next]; entry !== undefined && entry.content.kind !== 'report'; entry = group[next]) {
      lines.settle(entry, entry.content, `line ${entry.number}`);
      next += 1;
    }
  };
  settleUnsent();
  const [first] = group.slice(next);
  if (first === undefined) return;
  lines.progress(first.bytes);
  if (lines.features === undefined) {
    const found = await run.find();
    if (found.kind !== 'found') return lines.settle(first, found, `line ${first.number}`);
    lines.features = found.features;
  }
  const sent = group.flatMap((entry) => {
    const { content } = entry;
    return content.kind === 'report' ? [{ entry, item: lines.withKey(content.item, entry.number) }] : [];
  });
  let count = 0;
  for await (const deliveries of run.send(sent.map(({ item }) => item))) {
    const numberAt = (index: number) => sent[count + index]!.entry.number;
    for (let index = 0; index < deliveries.length; index += 1) {
      settleUnsent();
      const delivery = deliveries[index] as Delivery;
      const name = delivery.kind === 'recorded' ? undefined : nameOf(deliveries, index, numberAt);
      lines.settle(group[next] as InputEntry, delivery, name);
      if (lines.isStopped) return;
      next += 1;
    }
    lines.progress(group[next - 1]!.bytes);
    count += deliveries.length;
    if (run.stopped.aborted) return;
  }
  settleUnsent();
}

/**
 * @returns the name of a line in a message: `line 7`, or `lines 7 to 506` if sent together; undefined if an earlier message has named
 * it
 */
function nameOf(
  deliveries: readonly Delivery[],
  index: number,
  numberAt: (index: number) => number,
): string | undefined {
  const delivery = deliveries[index] as Delivery;
  if (delivery.kind !== 'in doubt') return `line ${numberAt(index)}`;
  if (deliveries.indexOf(delivery) < index) return undefined;
  const last = deliveries.lastIndexOf(delivery);
  return last === index ? `line ${numberAt(index)}` : `lines ${numberAt(index)} to ${numberAt(last)}`;
}

/** The outcome of the lines: messages, counts, progress, and where to continue. */
class LineReport {
  features: Features | undefined;
  readonly #run: LineRun;
  readonly #output: Output;
  readonly #showProgress: ReturnType<typeof createProgress>;
  #recorded = 0;
  #refused = 0;
  #doubtful = 0;
  #withoutTime = 0;
  #next: number;
  #stop: ExitCode | undefined;

  constructor(run: LineRun, output: Output) {
    this.#run = run;
    this.#output = output;
    this.#next = run.fromLine;
    this.#showProgress = createProgress(output.progress);
  }

  get isStopped(): boolean {
    return this.#stop !== undefined;
  }

  /** @param bytes number of bytes of the input that were read */
  progress(bytes: number): void {
    const total = this.#run.bytes;
    const part = total === undefined ? undefined : Math.min(1, bytes / Math.max(1, total));
    this.#showProgress((seconds) => progressText(part, seconds, this.#recorded, this.#refused + this.#doubtful));
  }

  /** @returns the item of a line, with a key that identifies it if the service knows keys and the line has none */
  withKey(item: BatchItem, number: number): BatchItem {
    if (this.features?.keys !== true || item.hasKey) return item;
    return withKey(item, `${this.#run.runId}/${number}`);
  }

  /**
   * Counts a line, or stops the run at it.
   * @param name the name of the line in a message: `line 7`; undefined if it is recorded, or an earlier message has
   * named it
   */
  settle({ number, content }: InputEntry, found: Delivery, name: string | undefined): void {
    const isRepeatable = this.features?.keys === true;
    if (found.kind === 'recorded') {
      this.#recorded += 1;
      if (content.kind === 'report' && content.item.isWithoutTime) this.#withoutTime += 1;
    } else {
      this.#complain(found, isRepeatable && name !== undefined ? `line ${number}` : name);
      if (found.kind === 'refused') this.#refused += 1;
      else if (found.kind === 'in doubt' && !isRepeatable) this.#doubtful += 1;
      else this.#stop = found.kind === 'misconfigured' ? exitCodes.refused : exitCodes.tryLater;
    }
    if (this.#stop !== undefined) return;
    this.#next = number + 1;
  }

  /**
   * @param name the name of the line, or of lines that were sent together; undefined if an earlier message has named it
   */
  #complain({ kind, reason }: DeliveryFailure, name: string | undefined): void {
    this.#output.progress('');
    if (name === undefined) return;
    const subject = name.startsWith('lines') ? 'they' : 'it';
    const doubt = kind === 'in doubt' ? `; ${subject} might have been recorded` : '';
    this.#output.complain(`${name}: ${reason}${doubt}`);
  }

  /** Prints the counts and where to continue. @returns the exit code */
  end(isAborted: boolean): ExitCode {
    const [recorded, refused, doubtful] = [this.#recorded, this.#refused, this.#doubtful];
    const stop = this.#stop ?? (isAborted ? exitCodes.tryLater : undefined);
    this.#output.progress('');
    if (this.#withoutTime > 0) this.#output.complain(withoutTime(this.#withoutTime));
    this.#output.print(
      `${recorded} recorded, ${refused} refused${doubtful > 0 ? `, ${doubtful} perhaps recorded` : ''}`,
    );
    if (stop !== undefined) {
      const runId = this.features?.keys === true ? ` --run-id ${shellWord(this.#run.runId)}` : '';
      this.#output.complain(`stopped before line ${this.#next}; continue with --from-line ${this.#next}${runId}`);
    }
    return refused > 0 ? exitCodes.refused : (stop ?? (doubtful > 0 ? exitCodes.tryLater : exitCodes.done));
  }
}

function withoutTime(count: number): string {
  const hint = 'for a service that does not have them yet give --keep-times';
  return `sent without their time, since they have a key: ${count} of the recorded lines; ${hint}`;
}

/**
 * @returns a text such as `[###.......] 33 %  10 recorded, 0 not, 5/s, 4 s left`; the bar only if the length of the input is
 * known
 */
function progressText(part: number | undefined, seconds: number, recorded: number, failed: number): string {
  const rate = `${recorded} recorded, ${failed} not, ${Math.round((recorded + failed) / seconds)}/s`;
  if (part === undefined) return rate;
  const done = Math.round(part * BAR_CHARACTERS);
  const bar = `[${'#'.repeat(done)}${'.'.repeat(BAR_CHARACTERS - done)}] ${Math.floor(100 * part)} %`;
  const left = part === 0 ? '' : `, ${Math.ceil((seconds * (1 - part)) / part)} s left`;
  return `${bar}  ${rate}${left}`;
}

const BAR_CHARACTERS = 30;
