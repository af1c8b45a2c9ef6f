/** Rewrites a file of lines: erased lines replace some of them, and the crcs are computed again from the first of these on. */

import type { Limits } from '../../config/limits.ts';
import { type Disk, unlessAbsent } from '../disk.ts';
import { clearName, writeFile } from '../file-io.ts';
import { ChainFollower, rechain } from '../line/chain.ts';
import { erasedLine } from '../line/erased.ts';
import { rewriteLines } from '../line/lines.ts';
import { DamagedError } from '../open/recovery.ts';
import type { EraseOrder } from './order.ts';

/** Suffix of a file that is not complete yet. */
export const UNFINISHED = '.erasing';

/** What is done about lines that do not verify: a segment is not touched then; in a copy of damage they go, since they may say anything. */
export type BadLines = 'refused' | 'left out';

/**
 * Replaces a file, durably and atomically: a reader that has the old one open reads on in it.
 * @param firstSeq in its name
 * @throws DamagedError, or the error of a system call, after which the folder has the old file or the new one
 */
export async function eraseInFile(
  disk: Disk,
  name: string,
  firstSeq: number,
  order: EraseOrder,
  limits: Limits,
  badLines: BadLines,
): Promise<void> {
  const fresh = `${name}${UNFINISHED}`;
  await clearName(disk, fresh).catch(unlessAbsent(undefined)); // left by an interrupted erase
  const rewriting = new Rewriting(disk, name, firstSeq, order, badLines);
  await writeFile(disk, fresh, rewriting.chunks(limits));
  if (!rewriting.isChanged) return disk.remove(fresh);
  await disk.rename(fresh, name);
  await disk.syncFolder();
}

class Rewriting {
  isChanged = false;
  readonly #disk: Disk;
  readonly #name: string;
  readonly #order: EraseOrder;
  readonly #badLines: BadLines;
  readonly #follower: ChainFollower;
  /** The crc of the last line in the new file. */
  #crc = 0;
  #line = 0;
  #byte = 0;

  constructor(disk: Disk, name: string, firstSeq: number, order: EraseOrder, badLines: BadLines) {
    this.#disk = disk;
    this.#name = name;
    this.#order = order;
    this.#badLines = badLines;
    this.#follower = new ChainFollower({ seq: firstSeq, crc: 0 }, true);
  }

  /** Yields the new file. @throws DamagedError */
  async *chunks({ lineBytesMax }: Limits): AsyncGenerator<Buffer> {
    const cutter = yield* rewriteLines(this.#disk.read(this.#name), lineBytesMax, (bytes, start, end, lineEnd) => {
      const line = this.#take(bytes, start, end);
      this.#byte = lineEnd + 1;
      return line;
    });
    if (cutter.carriedBytes > 0) this.#passBad('it ends without a newline');
  }

  /** @returns the line in the new file; undefined if it is left out */
  #take(bytes: Buffer, start: number, end: number): Buffer | undefined {
    this.#line += 1;
    const found = this.#follower.take(bytes, start, end);
    if (found.kind !== 'good' && found.problem !== undefined) this.#passBad(found.problem);
    if (found.kind === 'bad') return undefined;
    const { seq, crc } = found.chain;
    const erased = this.#order.seqs.has(seq - 1) ? erasedLine(bytes, start, end, this.#order) : undefined;
    this.isChanged ||= erased !== undefined;
    const line = erased ?? Buffer.concat([bytes.subarray(start, end), NEWLINE]);
    this.#crc = this.isChanged ? rechain(line, 0, line.length - 1, this.#crc) : crc;
    return line;
  }

  #passBad(problem: string): void {
    this.isChanged = true;
    if (this.#badLines === 'left out') return;
    const at = { file: this.#name, line: this.#line, byte: this.#byte };
    throw new DamagedError(this.#disk.folder, { kind: 'bad line inside', decision: 'refuse', ...at, problem });
  }
}

const NEWLINE = Buffer.from('\n');
