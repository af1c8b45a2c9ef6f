/** Whether a limit asks for what retention removes, by the sizes of the files and the wall clock when the removal is noted. */

import type { MachineJournal } from '../machine.ts';
import { durableCursor } from './cursor.ts';

const DAY_MS = 86_400_000;
/** What was decided before has been noted by then. */
const DECIDED_MS = 60_000;
const FILE = /^events-(\d{20})\.jsonl$/;
/** Of retention itself; a backup has markers of gaps too. */
const MARKER = /^events-0{19}1-(\d{20})\.removed$/;
const LOST = /^events-(\d{20})-(\d{20})\.lost$/;

interface File {
  readonly name: string;
  readonly firstSeq: number;
  /** Without what a repair has lost after it. Undefined for the newest one. */
  readonly lastSeq: number | undefined;
}

/** The removals of one journal. */
export class Removals {
  readonly #journal: MachineJournal;
  /** The last seq of the markers that were checked: up to here events may be gone. */
  markedSeq = 0;

  /** What the files had before the last failed write was cut off, of which retention may have counted the bytes. */
  #before = { bytes: 0, atMs: Number.NEGATIVE_INFINITY };
  readonly #nowMs: () => number;

  /** @param nowMs virtual time */
  constructor(journal: MachineJournal, nowMs: () => number) {
    this.#journal = journal;
    this.#nowMs = nowMs;
    // What its folder marks already was checked where the folder was copied from.
    this.markedSeq = Math.max(0, ...journal.disk.durableNames().map((name) => markedBy(name) ?? 0));
  }

  /** A file is about to be truncated. */
  truncating(): void {
    this.#before = { bytes: this.#bytes(), atMs: this.#nowMs() };
  }

  #bytes(): number {
    const { disk } = this.#journal;
    return filesOf(disk.names()).reduce((sum, { name }) => sum + (disk.bytes(name)?.length ?? 0), 0);
  }

  /** A file is about to be created. @returns what is wrong if it marks files that no limit asks for */
  creating(name: string): string | undefined {
    const last = markedBy(name);
    if (last === undefined) return undefined;
    this.markedSeq = last;
    return this.#problemOf(last);
  }

  /**
   * A journal file is about to be removed.
   * @param sendsTo the destinations whose cursors no restore took back
   * @returns what is wrong if no durable marker has it, or a destination has to have it before
   */
  removing(name: string, sendsTo: readonly { readonly name: string }[]): string | undefined {
    const { disk, machine } = this.#journal;
    const lastSeq = filesOf(disk.names()).find((file) => file.name === name)?.lastSeq;
    const marked = Math.max(0, ...disk.durableNames().map((one) => markedBy(one) ?? 0));
    if (lastSeq === undefined) return `removes ${name}, its newest file`;
    if (lastSeq > marked) return `removes ${name} before that is noted durably`;
    // "A file with events that a destination has not received yet stays."
    const isHeld = machine.config.whenBehind === 'refuse';
    // The cursor of a hub is synced before what it passes goes. What was marked before a cursor was lost may go.
    const seqOf = (name: string) => durableCursor(disk, name)?.seq ?? (this.markedSeq >= lastSeq ? lastSeq : 0);
    const lacking = sendsTo.find(({ name }) => isHeld && seqOf(name) < lastSeq);
    if (lacking !== undefined) return `removes ${name}, which ${lacking.name} has not received`;
    if (marked === this.markedSeq) return undefined;
    this.markedSeq = marked; // on a full disk an older marker was renamed
    return this.#problemOf(marked);
  }

  /** @returns the first file up to a seq that no limit asks for; what an earlier run has marked may go */
  #problemOf(last: number): string | undefined {
    const { disk, machine } = this.#journal;
    const { retainBytes = Number.POSITIVE_INFINITY, retainDays = Number.POSITIVE_INFINITY } = machine.config;
    const names = disk.names();
    const before = Math.max(0, ...names.map((name) => markedBy(name) ?? 0).filter((marked) => marked !== last));
    const files = filesOf(names);
    const sizeOf = ({ name }: File) => disk.bytes(name)?.length ?? 0;
    const isRecent = this.#nowMs() - this.#before.atMs < DECIDED_MS;
    let left = Math.max(this.#bytes(), isRecent ? this.#before.bytes : 0);
    const latestMs = machine.clock.latestMs();
    for (const file of files) {
      if (file.firstSeq > last) return undefined;
      if (file.lastSeq === undefined || file.lastSeq > last)
        return `is to remove events up to ${last}, a part of ${file.name}`;
      const bytes = disk.bytes(file.name)!;
      const isTooOld = () => latestMs - timeOfLast(bytes) > retainDays * DAY_MS;
      if (file.firstSeq > before && left <= retainBytes && !isTooOld())
        return `is to remove ${file.name}, which no limit asks for: ${left} bytes are there`;
      left -= sizeOf(file);
    }
    return undefined;
  }
}

export function markedBy(name: string): number | undefined {
  const [, last] = MARKER.exec(name) ?? [];
  return last === undefined ? undefined : Number(last);
}

export function filesOf(names: readonly string[]): File[] {
  const firsts = names.flatMap((name) => FILE.exec(name)?.slice(1).map(Number) ?? []).sort((a, b) => a - b);
  const lost = names.map((name) => LOST.exec(name)?.slice(1).map(Number) ?? []).sort(([a = 0], [b = 0]) => b - a);
  return firsts.map((firstSeq, index) => {
    const next = firsts[index + 1];
    const name = `events-${String(firstSeq).padStart(20, '0')}.jsonl`;
    if (next === undefined) return { name, firstSeq, lastSeq: undefined };
    let lastSeq = next - 1;
    for (const [first = 0, last = 0] of lost) if (first <= lastSeq && lastSeq <= last) lastSeq = first - 1;
    return { name, firstSeq, lastSeq };
  });
}

/** @returns when the last event of a file was recorded, in milliseconds since 1970 */
function timeOfLast(bytes: Buffer): number {
  const text = bytes.toString('latin1', bytes.lastIndexOf(10, bytes.length - 2) + 1);
  return Date.parse(JSON.parse(text).time);
}
