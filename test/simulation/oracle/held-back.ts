/**
 * "When a limit asks for a file with events that a destination has not received yet, new reports get 503"; one that nothing holds back
 * is removed.
 */

import type { MachineJournal } from '../machine.ts';
import { cursorSeq } from './cursor.ts';
import type { JournalView, SeenLine } from './journal-view.ts';
import { filesOf, markedBy } from './removals.ts';

/** What was taken before is written by then, and retention has looked. */
const LOOKED_MS = 5_000;

/** For the replies of `--ack`: a report that came before the late reply is written by then. */
const WRITTEN_MS = 1_000;
/** The same on a slow disk, which may be as fast as ever when it has written it. */
const SLOW_MS = 20_000;

/** Files that were begun since a limit asked for one: by then retention has removed it. */
const BEGUN_MAX = 4;

/** Whether a journal refuses what it has to refuse, and removes what it has to remove. */
export class HeldBack {
  readonly #journal: MachineJournal;
  /** Virtual time. */
  readonly #nowMs: () => number;
  /** Since when a file is held back. */
  #sinceMs: number | undefined;
  #count = 0;
  /** Since when files are larger than the limit, and the files that were the newest one since then. */
  #over: { readonly process: unknown; readonly sinceMs: number; readonly newest: Set<string> } | undefined;

  constructor(journal: MachineJournal, nowMs: () => number) {
    this.#journal = journal;
    this.#nowMs = nowMs;
  }

  /**
   * @param sendsTo its destinations
   * @param count of the lines that it ever had
   * @param isAppended whether those that are new were recorded now, and not before the last crash
   * @returns what is wrong, if anything is
   */
  look(sendsTo: readonly { readonly name: string }[], count: number, isAppended: boolean): string | undefined {
    const { machine } = this.#journal;
    const isNew = isAppended && count > this.#count;
    this.#count = count;
    const sinceMs = this.#sinceMs;
    const name = sendsTo.length > 0 && machine.config.whenBehind === 'refuse' ? this.#heldFile(sendsTo) : undefined;
    this.#sinceMs = name === undefined ? undefined : (sinceMs ?? this.#nowMs());
    if (name === undefined || !isNew || sinceMs === undefined) return undefined;
    const heldMs = this.#nowMs() - sinceMs;
    // Retention looks later at a disk that fails, and at a slow one.
    if (heldMs < LOOKED_MS || machine.disk.troubledMs >= sinceMs) return undefined;
    return `records events although ${name} is held back for ${heldMs} ms`;
  }

  /** @returns what is wrong if the files are above the limit in bytes for too long */
  overdue(): string | undefined {
    const { disk, machine } = this.#journal;
    const files = filesOf(disk.names());
    const bytes = files.slice(0, -1).reduce((sum, { name }) => sum + disk.bytes(name)!.length, 0);
    const before = this.#over;
    if (bytes <= (machine.config.retainBytes ?? Number.POSITIVE_INFINITY)) this.#over = undefined;
    else if (before?.process !== machine.process || machine.disk.troubledMs >= before!.sinceMs)
      this.#over = { process: machine.process, sinceMs: this.#nowMs(), newest: new Set() };
    this.#over?.newest.add(files.at(-1)!.name);
    const { newest, sinceMs } = this.#over ?? { newest: new Set(), sinceMs: 0 };
    const isLate = newest.size > BEGUN_MAX && this.#nowMs() - sinceMs > LOOKED_MS;
    return isLate ? `has closed files of ${bytes} bytes, and nothing is removed` : undefined;
  }

  /** @returns the first file that the limit in bytes has asked for since the newest one was begun, and that a destination needs */
  #heldFile(sendsTo: readonly { readonly name: string }[]): string | undefined {
    const { disk, machine } = this.#journal;
    const names = disk.names();
    const marked = Math.max(0, ...names.map((name) => markedBy(name) ?? 0));
    const closed = filesOf(names).slice(0, -1);
    const sizes = closed.map(({ name }) => disk.bytes(name)!.length);
    let left = sizes.reduce((sum, size) => sum + size, 0) - (machine.config.retainBytes ?? Number.POSITIVE_INFINITY);
    const cursor = Math.min(...sendsTo.map(({ name }) => cursorSeq(disk, name)));
    for (const [at, { name, firstSeq, lastSeq = 0 }] of closed.entries()) {
      if (left <= 0) return undefined;
      if (firstSeq > marked && lastSeq > cursor) return name;
      left -= sizes[at]!;
    }
    return undefined;
  }
}

/**
 * "From such a reply on, after each start, […] a report gets 503 with `not recorded: …` at once. This ends when NAME has every event of
 * that moment."
 */
export class AckGate {
  readonly #journal: MachineJournal;
  readonly #nowMs: () => number;
  /** What the destination of `--ack` needs before anything is recorded, from when on that is so, and how many events there are then. */
  #closed: { readonly needed: readonly SeenLine[]; readonly fromMs: number; readonly count: number } | undefined;

  constructor(journal: MachineJournal, nowMs: () => number) {
    this.#journal = journal;
    this.#nowMs = nowMs;
  }

  starts(view: JournalView): void {
    const { disk } = this.#journal;
    const newest = filesOf(disk.names()).at(-1)?.name ?? '';
    const lines = disk.text(newest).split('\n').length - 1; // a start makes those durable that only the cache has
    const unsynced = Math.max(0, lines - view.linesOf(newest).length);
    this.#closed = { needed: [...view.lines.values()], fromMs: this.#nowMs(), count: view.lines.size + unsynced };
  }

  /** A reply said that there was no acknowledgement in time. What was taken before it is still recorded. */
  isLate(view: JournalView): void {
    // The replies after the first one say nothing new.
    if (this.#nowMs() < (this.#closed?.fromMs ?? 0)) return;
    const fromMs = this.#nowMs() + WRITTEN_MS;
    this.#closed = { needed: [...view.lines.values()], fromMs, count: view.lines.size };
  }

  /** @param lacks whether the destination lacks a line @returns what is wrong with lines that were recorded just now */
  appended(view: JournalView, lacks: (line: SeenLine) => boolean): string | undefined {
    const { disk, machine } = this.#journal;
    const { ack } = machine.config;
    const { needed, fromMs, count } = this.#closed ?? { needed: [], fromMs: 0, count: 0 };
    const isSlow = machine.disk.slowMs >= fromMs - SLOW_MS;
    if (ack === '' || isSlow || this.#nowMs() < fromMs || view.lines.size <= count) return undefined;
    this.#closed = undefined;
    // "Events before the one with which `forward from` or `forward identity` lets it begin count as there." A start cuts some off.
    const seq = cursorSeq(disk, ack);
    const isNeeded = (line: SeenLine) => line.seq > seq && view.lines.get(line.seq)?.id === line.id;
    const lacking = needed.find((line) => isNeeded(line) && !view.removed.has(line.seq) && lacks(line));
    return lacking && `records events although ${ack} lacks event ${lacking.seq}`;
  }
}
