/**
 * What an observer knows of a journal from its durable bytes. It reads only what is new, and remembers every line that was ever
 * durable, also after its file was removed.
 */

import { upTo } from '../../support/tools.ts';
import { type JournalLine, readNext } from '../../world/journal-line.ts';
import type { SimulatedDisk } from '../../world/simulated-disk.ts';
import { History } from './history.ts';

/** A line of a journal, as far as the oracle compares it. */
export interface SeenLine extends JournalLine {
  /** The parts of its key, joined. */
  readonly asset: string;
  /** What the client wrote into the event so that it can be recognised. */
  readonly mark: string;
  /** Undefined for an event that was forwarded: its key belongs to the journal that recorded it first. */
  readonly key: string | undefined;
}

interface SeenFile {
  readonly bytes: Buffer;
  readonly firstSeq: number;
  nextSeq: number;
}

const SEGMENT = /^events-(\d{20})\.jsonl$/;
/** When retention removed what may be there all the same. */
const EVER = Number.POSITIVE_INFINITY;
const GONE = /^events-(\d{20})-(\d{20})\.(?:removed|lost)$/;
/** Of retention itself; a backup has markers of gaps too. */
const MARKER = /^events-0{19}1-(\d{20})\.removed$/;

/** @returns the last event that the markers of retention among these files say is removed; 0 if there is none */
export function markedIn(names: readonly string[]): number {
  return Math.max(0, ...names.map((name) => Number(MARKER.exec(name)?.[1] ?? 0)));
}

/** @returns the seq of the first line that a journal file has by its name; 0 for another file */
export function firstSeqOf(name: string): number {
  return Number(SEGMENT.exec(name)?.[1] ?? 0);
}

export function isJournalFile(name: string): boolean {
  return SEGMENT.test(name);
}

/** Lines by a text that they have, in the order of their seqs. */
class LinesBy {
  readonly #lines = new Map<string, readonly SeenLine[]>();

  of(text: string): readonly SeenLine[] {
    return this.#lines.get(text) ?? [];
  }

  add(text: string, line: SeenLine): void {
    const others = this.of(text).filter(({ seq }) => seq !== line.seq);
    this.#lines.set(
      text,
      [...others, line].sort((a, b) => a.seq - b.seq),
    );
  }

  drop(text: string, { seq }: SeenLine): void {
    this.#lines.set(
      text,
      this.of(text).filter((one) => one.seq !== seq),
    );
  }
}

export class JournalView {
  /** By seq. */
  readonly lines = new Map<number, SeenLine>();
  readonly byMark = new LinesBy();
  readonly byKey = new LinesBy();
  /** The seqs of events that were answered with 200. */
  readonly acknowledged = new Set<number>();
  /** The seqs of events that a reader was shown. */
  readonly shown = new Set<number>();
  /** By seq of an event whose file retention removed: when. */
  readonly removed = new Map<number, number>();
  /** By source and seq there: `<source>,<seq>`. */
  readonly byOrigin = new Map<string, SeenLine>();
  /** By the line that was reported: the same. */
  readonly byName = new Map<string, SeenLine>();
  /** By the id of another journal: its first event that a hub knows since its file of sources was deleted. */
  readonly firstKnown = new Map<string, number>();
  /** Whether that file was deleted after retention had removed lines: a journal without a line here comes again from its first event. */
  hasForgotten = false;
  /** The service knows the idempotency keys of events from this one on: a start could not read the files before. */
  knowsFrom = 1;
  /** The events that an operator erases, until that is finished: the line of each has either form. */
  readonly erasing = new Set<number>();
  /** The texts of erased events that no client reports again. */
  readonly erasedTexts: string[] = [];
  /** By seq of an event that is being erased: its line before. */
  readonly #before = new Map<number, SeenLine>();
  /** Whether an operator broke a line at any time. */
  wasBroken = false;
  /** Whether that was not repaired yet: then nothing is read. */
  #isBroken = false;
  readonly #history: History;
  #mayRepeat: boolean;
  readonly #files = new Map<string, SeenFile>();
  /** Of the durable files. */
  #names: readonly string[] = [];
  /** The last seq that a marker of retention ever had: up to here events may be gone. */
  #markedSeq = 0;

  /** @param mayRepeat whether its lines are those of another view, which looks for repeats: they may be of files that retention removed there */
  constructor(history = new History(), mayRepeat = false) {
    this.#history = history;
    this.#mayRepeat = mayRepeat;
  }

  /** @returns the view of a folder that was copied from this one: it has a beginning of this journal, perhaps without the last events */
  copiedTo(disk: SimulatedDisk): JournalView {
    const view = new JournalView(this.#history, true);
    view.wasBroken = this.wasBroken;
    for (const [source, seq] of this.firstKnown) view.firstKnown.set(source, seq);
    view.hasForgotten = this.hasForgotten;
    // A backup has files that retention removed from its journal, and so what a client sent again when its key was forgotten.
    for (const [seq, atMs] of this.removed) view.removed.set(seq, atMs);
    view.refresh(disk);
    view.#mayRepeat = false;
    const last = view.endIn(disk);
    for (const seq of view.removed.keys()) if (seq > last || view.lines.has(seq)) view.removed.delete(seq);
    // What is missing before its end was removed, before the copy was made or before the backup came to it.
    for (const [seq, line] of this.lines) {
      if (seq > last || view.lines.has(seq)) continue;
      view.lines.set(seq, line);
      view.removed.set(seq, this.removed.get(seq) ?? EVER);
      view.byMark.add(line.mark, line);
      if (line.from !== undefined) view.#noteOrigin(line);
    }
    for (const seq of this.acknowledged)
      if (view.lines.get(seq)?.id === this.lines.get(seq)?.id) view.acknowledged.add(seq);
    return view;
  }

  /** 0 if there is no event. */
  get lastSeq(): number {
    let last = 0;
    for (const seq of this.lines.keys()) last = Math.max(last, seq);
    return last;
  }

  /** @returns the seq before the next one: the last events may be lost, and the newest file empty */
  endIn(disk: SimulatedDisk): number {
    return Math.max(this.lastSeq, ...disk.durableNames().map((name) => firstSeqOf(name) - 1));
  }

  /** It was repaired. A repair may name more as lost than there was: what it cannot read may have been many events. */
  repaired(disk: SimulatedDisk): void {
    this.#isBroken = false;
    for (const name of disk.durableNames()) {
      const [, first, last] = (name.endsWith('.lost') && GONE.exec(name)) || [];
      for (let seq = Number(first); seq <= Number(last); seq += 1)
        if (!this.lines.has(seq)) this.removed.set(seq, EVER);
    }
  }

  /**
   * An operator broke these lines: they may be gone.
   * @param isAskedFor whether a hub asks again for an event that it had of another journal: then it has to get it
   */
  mayLose(seqs: Iterable<number>, isAskedFor: (from: NonNullable<SeenLine['from']>) => boolean): void {
    this.wasBroken = true;
    this.#isBroken = true;
    // A file that is found and put back has its lines again.
    for (const [name, file] of this.#files) this.#files.set(name, { ...file, bytes: Buffer.alloc(0) });
    for (const seq of seqs) {
      this.removed.set(seq, EVER);
      const line = this.lines.get(seq);
      if (line?.from !== undefined && isAskedFor(line.from)) this.byMark.drop(line.mark, line);
    }
  }

  /** Whether a repair may have lost these events, both included. */
  mayHaveLost(first: number, last: number): boolean {
    for (let seq = first; seq <= last; seq += 1) if (this.removed.get(seq) !== EVER) return false;
    return true;
  }

  /** An operator erases these events. */
  erases(seqs: readonly number[]): void {
    for (const seq of seqs) {
      const line = this.lines.get(seq)!;
      this.erasing.add(seq);
      this.#before.set(seq, line);
      if (line.key === undefined) this.erasedTexts.push(line.mark);
    }
  }

  /** The durable lines of these events have no texts any more. @returns what is wrong, if anything is */
  erased(disk: SimulatedDisk): string | undefined {
    const left = [...this.erasing].find((seq) => !isErased(this.lines.get(seq)!));
    if (left !== undefined) return `event ${left} was erased, and its line is as before`;
    const texts = [...this.#before.values()].flatMap(({ mark, key }) => (key === undefined ? mark : [mark, key]));
    this.erasesNothing();
    return this.saysStill(disk, texts);
  }

  /** @returns whether the line of an event that is to be erased is durable in its erased form */
  get hasErased(): boolean {
    return [...this.erasing].some((seq) => isErased(this.lines.get(seq)!));
  }

  /** What was to be erased is, or it stays: an erase ended before its order was durable. */
  erasesNothing(): void {
    for (const seq of this.erasing) {
      const { mark } = this.lines.get(seq)!;
      const at = this.erasedTexts.indexOf(mark);
      if (at !== -1) this.erasedTexts.splice(at, 1);
    }
    this.erasing.clear();
    this.#before.clear();
  }

  /** @returns which file has one of these texts, unless another event says it: a report that is sent again is recorded again */
  saysStill(disk: SimulatedDisk, texts: readonly string[]): string | undefined {
    const said = [...this.lines.values()].map(({ text }) => text).join('\n');
    const names = new Set([...disk.names(), ...disk.durableNames()]);
    const files = [...names].flatMap((name) =>
      [disk.bytes(name), disk.durableBytes(name)].map((bytes) => [name, bytes?.toString('latin1') ?? ''] as const),
    );
    for (const text of texts) {
      const pattern = new RegExp(`${text}(?!\\d)`);
      if (pattern.test(said)) continue;
      const [name] = files.find(([, content]) => pattern.test(content)) ?? [];
      if (name !== undefined) return `${name} still has ${text}, which was erased`;
    }
    return undefined;
  }

  /** A file is about to be created. */
  creating(name: string): void {
    this.#markedSeq = Math.max(this.#markedSeq, markedIn([name]));
  }

  /** Whether retention may have removed these events, both included. */
  mayBeGone(first: number, last: number): boolean {
    this.#markedSeq = Math.max(this.#markedSeq, markedIn(this.#names));
    for (let seq = Math.max(first, this.#markedSeq + 1); seq <= last; seq += 1)
      if (!this.removed.has(seq)) return false;
    return true;
  }

  /** Whether a client or a reader knows of an event: it has to stay. */
  isPromised(seq: number): boolean {
    return this.acknowledged.has(seq) || this.shown.has(seq);
  }

  /** Whether a dead letter has the line of an event, but for its checksum, or while the event is being erased the line before. */
  isLine(seq: number, text: string): boolean {
    return [this.lines.get(seq), this.#before.get(seq)].some((line) => line !== undefined && isSame(line, { text }));
  }

  /** Whether an event is in a durable file now. One that retention removed comes back if the power goes at once. */
  isThere(seq: number): boolean {
    const isIn = (file: SeenFile | undefined) => file !== undefined && file.firstSeq <= seq && seq < file.nextSeq;
    return this.#names.some((name) => isIn(this.#files.get(name)));
  }

  /** @returns what is wrong with the durable lines that are new, if anything is */
  refresh(disk: SimulatedDisk): string | undefined {
    if (this.#isBroken) return undefined;
    this.#names = disk.durableNames();
    for (const name of this.#names) {
      const bytes = disk.durableBytes(name);
      const before = this.#files.get(name);
      if (bytes === undefined || bytes === before?.bytes) continue;
      const firstSeq = firstSeqOf(name);
      if (firstSeq === 0) continue;
      const file = { bytes, firstSeq, nextSeq: firstSeq };
      this.#files.set(name, file);
      // The part of a failed write that was durable for a moment is cut off again.
      for (let seq = wholeLines(bytes, file.firstSeq); seq < (before?.nextSeq ?? 0); seq += 1)
        if (!this.isPromised(seq) && !this.removed.has(seq)) this.#forget(seq);
      const problem = this.#read(name, file);
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  #forget(seq: number): void {
    const line = this.lines.get(seq);
    if (line === undefined) return;
    this.lines.delete(seq);
    this.#drop(line);
  }

  #drop(line: SeenLine): void {
    this.byMark.drop(line.mark, line);
    if (line.key !== undefined) this.byKey.drop(line.key, line);
  }

  /** @returns what the durable files lack: an event that was answered with 200 and not removed, or one between two files */
  lacks(disk: SimulatedDisk): string | undefined {
    if (this.#isBroken) return undefined;
    const there = new Set<number>();
    /** Of files, and of markers that say what is gone. */
    const ranges: [first: number, last: number][] = [];
    for (const name of disk.durableNames()) {
      const [, first, last] = GONE.exec(name) ?? [];
      if (first !== undefined) ranges.push([Number(first), Number(last)]);
      const { firstSeq = 0, nextSeq = 0 } = this.#files.get(name) ?? {};
      if (firstSeq > 0) ranges.push([firstSeq, nextSeq - 1]);
      for (let seq = firstSeq; seq < nextSeq; seq += 1) there.add(seq);
    }
    for (const seq of [...this.acknowledged, ...this.shown])
      if (!there.has(seq) && !this.removed.has(seq))
        return `event ${seq} was ${this.acknowledged.has(seq) ? 'answered with 200' : 'shown to a reader'} and is lost`;
    let next = 1;
    for (const [first, last] of ranges.sort((a, b) => a[0] - b[0])) {
      if (first > next) return `events ${next} to ${first - 1} are in no file`;
      next = Math.max(next, last + 1);
    }
    return undefined;
  }

  /** The keys at both ends of its oldest and newest files, and the last one that retention removed: a mistake by one file shows there. */
  edgeKeys(): string[] {
    const names = this.#names.filter(isJournalFile).sort();
    const files = [...new Set([...names.slice(0, 2), ...names.slice(-3)])];
    const firstSeq = firstSeqOf(names[0] ?? '');
    const ends = files.flatMap((name) => {
      const keys = this.linesOf(name).flatMap(({ key }) => key ?? []);
      return [keys.at(0), keys.at(-1)];
    });
    let gone = firstSeq - 1;
    while (gone > 0 && this.lines.get(gone)?.key === undefined) gone -= 1;
    return [...ends, this.lines.get(gone)?.key].filter((key) => key !== undefined);
  }

  /** The lines that a file has, as last read. */
  linesOf(name: string): SeenLine[] {
    const file = this.#files.get(name);
    if (file === undefined) return [];
    return upTo(file.nextSeq - 1, file.firstSeq).map((seq) => this.lines.get(seq)!);
  }

  #read(name: string, file: SeenFile): string | undefined {
    const { bytes } = file;
    let crc = 0;
    let isKnown = !this.wasBroken;
    for (let start = 0, end = bytes.indexOf(10); end !== -1; start = end + 1, end = bytes.indexOf(10, start)) {
      const text = bytes.toString('utf8', start, end);
      const known = this.lines.get(file.nextSeq);
      isKnown &&= known?.text === text;
      const line = isKnown ? known : readNext(text, crc);
      // What a power cut left of a write. A start cuts it off; a bad line anywhere else hides what is acknowledged later.
      if (line === undefined) return undefined;
      if (line.seq !== file.nextSeq) return `${name} has seq ${line.seq} in place of ${file.nextSeq}`;
      crc = line.crc;
      file.nextSeq += 1;
      const problem = isKnown ? undefined : this.#see(seenLine(line));
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  #see(line: SeenLine): string | undefined {
    const { seq, id, mark, key } = line;
    const known = this.lines.get(seq);
    if (known?.id === id) {
      // A repair gives the lines after a lost one another crc. What a hub cut off with a failed write it records again, at another time.
      const isAgain = line.from !== undefined && !this.shown.has(seq);
      const mayDiffer = this.wasBroken || isAgain || this.#mayRepeat;
      if (!mayDiffer && !isSame(known, line) && !(this.erasing.has(seq) && isErasedFrom(known, line)))
        return `event ${seq} was ${known.text} and is ${line.text}`;
      if (isErased(line) && !isErased(known)) this.#history.erased.set(id, [known, line]);
      this.#drop(known);
      this.lines.set(seq, line);
      this.byMark.add(mark, line); // it was not lost after all
      if (key !== undefined) this.byKey.add(key, line);
      return undefined;
    }
    if (known !== undefined) {
      // A failed write was cut off, and its seq is given to another event.
      if (this.isPromised(seq)) return `event ${seq} was ${known.id} and is ${id}`;
      this.#forget(seq);
    }
    this.lines.set(seq, line);
    if (line.from !== undefined) this.#noteOrigin(line);
    if (line.from === undefined) this.#history.add(line);
    const isKnownThere = (one: SeenLine) =>
      !this.removed.has(one.seq) && one.seq >= this.knowsFrom && !this.erasing.has(one.seq);
    const isRepeat = (one: SeenLine) =>
      (isKnownThere(one) || this.#isKnownAway(one, line)) && this.#isRepeat(one, line);
    const before = this.byMark.of(mark).find(isRepeat);
    this.byMark.add(mark, line);
    if (before !== undefined && !this.#mayRepeat) return `${mark} is event ${before.seq} and event ${seq}`;
    if (key === undefined) return undefined;
    const other = this.byKey.of(key).find(isKnownThere);
    this.byKey.add(key, line);
    return other && !this.#mayRepeat ? `the key ${key} belongs to event ${other.seq} and to event ${seq}` : undefined;
  }

  /** Whether a hub knows that it had an event whose file retention has removed. */
  #isKnownAway(before: SeenLine, { id, from }: SeenLine): boolean {
    const isOnce = from !== undefined && before.from !== undefined && before.id === id && !this.hasForgotten;
    return isOnce && !this.wasBroken && this.removed.get(before.seq) !== EVER;
  }

  #noteOrigin(line: SeenLine): void {
    this.byOrigin.set(`${line.from}`, line);
    this.byName.set(`${nameOf(line)}`, line);
  }

  #isRepeat(before: SeenLine, line: SeenLine): boolean {
    const { id, from } = line;
    if (from === undefined && before.from === undefined) return true;
    if (from === undefined || before.from === undefined) return id === before.id;
    if (from[0] === before.from[0]) return from[1] === before.from[1];
    // "It continues after its own cursor": what its copy has sent for both comes again under the new id.
    // So it does under the former id, from a copy of before it was given up.
    const { renamed } = this.#history;
    const names = [from, before.from, nameOf(line)!, nameOf(before)!];
    return id === before.id && !names.some(([journal]) => renamed.has(journal));
  }
}

/** @returns the journal and the seq where a line of another journal was reported; undefined if it was here */
export function nameOf({ origin, from }: Pick<SeenLine, 'origin' | 'from'>): SeenLine['from'] {
  return origin ?? from;
}

function isErased({ slot }: JournalLine): boolean {
  return 'erased' in slot;
}

/** Whether two lines differ at most in their checksum, which goes with the line before. */
function isSame(one: Pick<JournalLine, 'text'>, other: Pick<JournalLine, 'text'>): boolean {
  return one.text.slice(0, -CRC_LENGTH) === other.text.slice(0, -CRC_LENGTH);
}

/** "The line keeps `seq`, `id`, `time`, `type`, `from`, `recorded`, `origin`, key, check name, `passed`, `severity` and `event_time`." */
function isErasedFrom(line: JournalLine, erased: JournalLine): boolean {
  const kept = ({ seq, id, time, from, recorded, origin, report }: JournalLine) => {
    const { type, asset_key, check_name, passed, severity, event_time } = report;
    const result = [type, asset_key, check_name, passed, severity, event_time];
    return JSON.stringify([seq, id, time, from, recorded, origin, ...result]);
  };
  const names = [...Object.keys(erased.report), ...Object.keys(erased.slot)];
  return kept(line) === kept(erased) && names.every((name) => KEPT.includes(name));
}

const KEPT = ['type', 'asset_key', 'check_name', 'passed', 'severity', 'event_time', 'erased'];
const CRC_LENGTH = ',"crc":"00000000"}'.length;

/** @returns the seq after the last line of a file that ends with a line feed */
export function wholeLines(bytes: Buffer, firstSeq: number): number {
  let seq = firstSeq;
  for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) seq += 1;
  return seq;
}

function seenLine(line: JournalLine): SeenLine {
  const { asset_key, partition = line.id, idempotency_key } = line.report;
  const key = line.from === undefined ? idempotency_key : undefined;
  return Object.assign(line, { asset: asset_key.join('/'), mark: partition, key });
}
