/**
 * What an observer knows of a journal from its durable bytes, with a parser of its own. It reads only what is new, and remembers every
 * line that was ever durable, also after its file was removed.
 */

import { crc32 } from 'node:zlib';
import type { SimulatedDisk } from '../support/simulated-disk.ts';

/** A line of a journal, as far as the oracle compares it. */
export interface SeenLine {
  readonly seq: number;
  readonly id: string;
  /** What the client wrote into the event so that it can be recognised. */
  readonly mark: string;
  /** The journal and the seq that a hub got the event from. */
  readonly from: readonly [source: string, seq: number] | undefined;
}

interface SeenFile {
  bytes: Buffer;
  /** Up to here it has been read. */
  end: number;
  crc: number;
  nextSeq: number;
  readonly firstSeq: number;
}

export class JournalView {
  /** By seq. */
  readonly lines = new Map<number, SeenLine>();
  readonly byMark = new Map<string, readonly SeenLine[]>();
  /** The seqs of events that were answered with 200, and of those whose file retention removed. */
  readonly acknowledged = new Set<number>();
  readonly removed = new Set<number>();
  readonly #files = new Map<string, SeenFile>();

  /** @returns what is wrong with the durable lines that are new, if anything is */
  refresh(disk: SimulatedDisk): string | undefined {
    for (const name of disk.durableNames()) {
      const bytes = disk.durableBytes(name);
      const [, first] = /^events-(\d{20})\.jsonl$/.exec(name) ?? [];
      if (bytes === undefined || first === undefined) continue;
      let file = this.#files.get(name);
      if (file !== undefined && file.bytes === bytes) continue;
      // A start may rewrite the last file: what was read of it has to be there again.
      if (
        file === undefined ||
        bytes.length < file.end ||
        !bytes.subarray(0, file.end).equals(file.bytes.subarray(0, file.end))
      ) {
        file = { bytes, end: 0, crc: 0, nextSeq: Number(first), firstSeq: Number(first) };
        this.#files.set(name, file);
      }
      file.bytes = bytes;
      const problem = this.#readOn(name, file);
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  /** @returns an event that was answered with 200, was not removed, and is in no file; undefined if there is none */
  lost(disk: SimulatedDisk): number | undefined {
    const there = new Set<number>();
    for (const name of disk.durableNames()) for (const { seq } of this.linesOf(name)) there.add(seq);
    for (const seq of this.acknowledged) if (!there.has(seq) && !this.removed.has(seq)) return seq;
    return undefined;
  }

  /** The lines that a file has, as last read. */
  linesOf(name: string): SeenLine[] {
    const file = this.#files.get(name);
    if (file === undefined) return [];
    return Array.from({ length: file.nextSeq - file.firstSeq }, (_, at) => this.lines.get(file.firstSeq + at)!);
  }

  #readOn(name: string, file: SeenFile): string | undefined {
    for (;;) {
      const end = file.bytes.indexOf(10, file.end);
      if (end === -1) return undefined;
      const text = file.bytes.toString('utf8', file.end, end);
      const at = text.lastIndexOf(',"crc":"');
      const crc = crc32(text.slice(0, at), file.crc);
      // What a power cut left of a write. A start cuts it off; a bad line anywhere else hides what is acknowledged later.
      if (!text.endsWith(`"${crc.toString(16).padStart(8, '0')}"}`)) return undefined;
      const line = JSON.parse(text);
      if (line.seq !== file.nextSeq) return `${name} has seq ${line.seq} in place of ${file.nextSeq}`;
      file.end = end + 1;
      file.crc = crc;
      file.nextSeq += 1;
      const problem = this.#see({
        seq: line.seq,
        id: line.id,
        mark: line.partition,
        from: line.from,
      });
      if (problem !== undefined) return problem;
    }
  }

  #see(line: SeenLine): string | undefined {
    const known = this.lines.get(line.seq);
    if (known?.id === line.id) return undefined;
    if (known !== undefined) {
      // The part of a failed write that was durable for a moment is cut off again, and its seq is given to another event.
      if (this.acknowledged.has(line.seq)) return `event ${line.seq} was ${known.id} and is ${line.id}`;
      this.byMark.set(
        known.mark,
        this.byMark.get(known.mark)!.filter(({ id }) => id !== known.id),
      );
    }
    this.lines.set(line.seq, line);
    const same = this.byMark.get(line.mark) ?? [];
    this.byMark.set(line.mark, [...same, line]);
    const before = same.find(({ from, seq }) => from?.[1] === line.from?.[1] && !this.removed.has(seq));
    return before && `${line.mark} is event ${before.seq} and event ${line.seq}`;
  }
}
