/** Ways in which a person breaks a journal whose service is down, and what a start and a repair owe after that. */

import { contentsOf } from '../../../src/journal/segments.ts';
import type { Chance } from '../../world/chance.ts';
import { SimulatedDisk } from '../../world/simulated-disk.ts';
import { markedIn } from '../oracle/journal-view.ts';
import { filesOf } from './folder.ts';

export interface Damage {
  /** All files of the folder, with the damage. */
  readonly files: ReadonlyMap<string, Buffer>;
  /** The events that a repair may lose. It keeps all others. */
  readonly seqs: ReadonlySet<number>;
  /** Whether a start has to refuse: it reads the last file, and where each file before it ends. `verify` reads all. */
  readonly isSeen: boolean;
  /** A file that is removed as a whole. */
  readonly missing?: MissingFile;
}

export interface MissingFile {
  readonly name: string;
  readonly bytes: Buffer;
}

/** Lines that are cut out besides one. */
const CUT_MAX = 6;

/** A line in its file, with its newline. */
interface Place {
  readonly start: number;
  readonly end: number;
  readonly seq: number;
}

/** @returns one damage that no crash explains; undefined if the journal is too short for it */
export function breakJournal(disk: SimulatedDisk, chance: Chance): Damage | undefined {
  const { files, names, all, wasClean } = journalIn(disk);
  const last = all.at(-1);
  if (last === undefined || all.length < 2) return undefined;
  const { name, lines } = chance.happens(0.7) ? last : chance.oneOf(all.slice(0, -1));
  const isLast = name === last.name && name === names.at(-1);
  const bytes = files.get(name)!;
  const kind = chance.oneOf(['change', 'cut', 'remove'] as const);
  if (kind === 'remove' && !isLast) {
    files.delete(name);
    return { files, seqs: new Set(lines.map(({ seq }) => seq)), isSeen: true, missing: { name, bytes } };
  }
  // After a crash a bad end is what a crash leaves, and is cut off; a single line after a lost one has no proof.
  const end = isLast && !wasClean ? lines.length - 3 : lines.length - 1;
  if (end < 0) return undefined;
  const at = chance.integer(0, end);
  const line = lines[at]!;
  // Of a hub, several in a row are more than a request of a device has.
  const to = kind === 'cut' && chance.happens(0.5) ? chance.integer(at, Math.min(end, at + CUT_MAX)) : at;
  if (kind === 'cut') files.set(name, Buffer.concat([bytes.subarray(0, line.start), bytes.subarray(lines[to]!.end)]));
  else {
    const changed = Buffer.from(bytes);
    changed[chance.integer(line.start, line.end - 2)]! ^= 1;
    files.set(name, changed);
  }
  const isSeen = isLast || (kind === 'cut' && to === lines.length - 1);
  const seqs = new Set(lines.slice(at, to + 1).map(({ seq }) => seq));
  // A line whose predecessor is cut out has no proof.
  const unproved = kind === 'cut' ? lines[to + 1] : undefined;
  if (unproved !== undefined) seqs.add(unproved.seq);
  return { files, seqs, isSeen };
}

/**
 * Damage that is tried on a copy of the folder: lines or files that are missing at the end, which a start may not take for an end.
 * @returns the copy, which each start has to refuse; undefined if the journal is too short for it
 */
export function refusedCopy(disk: SimulatedDisk, chance: Chance): SimulatedDisk | undefined {
  const { files, names, all, wasClean, isMarked } = journalIn(disk);
  const { name, lines } = all.at(-1) ?? { name: '', lines: [] };
  const bytes = files.get(name) ?? Buffer.alloc(0);
  const isLast = name === names.at(-1);
  const kind = chance.oneOf(['any', 'all files', 'last file', 'a file', 'end', 'last but one'] as const);
  const at = chance.integer(0, Math.max(0, lines.length - 1));
  if (kind === 'any') {
    const damage = breakJournal(disk, chance);
    if (!damage?.isSeen) return undefined;
    for (const one of files.keys()) files.delete(one);
    for (const [one, rest] of damage.files) files.set(one, rest);
  } else if (kind === 'all files' && (isMarked || (wasClean && lines.length > 0))) {
    for (const one of names) files.delete(one);
  } else if (kind === 'last file' && wasClean && isLast && lines.length > 0) {
    files.delete(name);
  } else if (kind === 'a file' && all.length > 1) {
    files.delete(chance.oneOf(all.slice(0, -1)).name);
  } else if (kind === 'end' && wasClean && isLast && lines.length > 0) {
    const { start, end } = lines[at]!;
    files.set(name, bytes.subarray(0, chance.oneOf([start, chance.integer(start, end - 1)])));
  } else if (kind === 'last but one' && isLast && lines.length > 2 && lines.at(-1)!.end === bytes.length) {
    const { start, end } = lines.at(-2)!;
    files.set(name, Buffer.concat([bytes.subarray(0, start), bytes.subarray(end)]));
  } else return undefined;
  const copy = new SimulatedDisk(disk.folder);
  for (const [one, rest] of files) copy.put(one, rest);
  return copy;
}

/** @returns a copy of the folder whose marker of a clean stop has another end and the old checksum: "One that was written in part counts for none" */
export function changedMarker(disk: SimulatedDisk): SimulatedDisk {
  const copy = disk.afterCrash();
  const text = copy.text('.stopped-cleanly').replace(/(?<="next_seq":)\d+/, (seq) => String(Number(seq) + 1));
  copy.put('.stopped-cleanly', Buffer.from(text));
  return copy;
}

/** Of a sidecar: where its rows begin, the bytes of each, which begin with the hash of its key, and those after them. */
const ROWS = { start: 44, bytes: 20, end: 12 };
/** What a changed sidecar ends with, in place of its checksum. */
export const CHANGED = Buffer.from('lost');

/** Changes the keys beside one of the last files: "If one is missing or damaged, it reads the file". */
export function changeKeys(disk: SimulatedDisk, chance: Chance): void {
  const names = disk
    .names()
    .filter((name) => /^keys-\d{20}\.idx$/.test(name) && disk.bytes(name)!.length > CHANGED.length);
  if (names.length === 0) return;
  const name = chance.oneOf(names.sort().slice(-3));
  const bytes = Buffer.from(disk.bytes(name)!);
  for (let at = ROWS.start; at < bytes.length - ROWS.end; at += ROWS.bytes) bytes[at]! ^= 1;
  CHANGED.copy(bytes, bytes.length - CHANGED.length);
  disk.put(name, bytes);
}

/** Damages a cursor of a destination that was sent to. @returns the name of the destination; undefined if there is none */
export function damageCursor(disk: SimulatedDisk, chance: Chance): string | undefined {
  const known = disk.durableNames().flatMap((name) => /^\.forwarded-(.*)$/.exec(name)?.[1] ?? []);
  const names = known.filter((name) => disk.bytes(`forward-${name}.cursor`) !== undefined).sort();
  if (names.length === 0) return undefined;
  const name = chance.oneOf(names);
  const file = `forward-${name}.cursor`;
  disk.put(file, Buffer.alloc(disk.bytes(file)!.length));
  return name;
}

function journalIn(disk: SimulatedDisk) {
  const files = filesOf(disk);
  const names = [...files.keys()].filter((name) => /^events-\d{20}\.jsonl$/.test(name));
  const marked = markedIn([...files.keys()]);
  const lost = contentsOf([...files.keys()]).lost;
  const isNamed = (seq: number) => seq <= marked || lost.some(({ first, last }) => first <= seq && seq <= last);
  // What a marker has may be gone in part.
  const all = names
    .map((name) => ({ name, lines: linesIn(files.get(name)!) }))
    .filter(({ lines }) => lines.length > 0 && !isNamed(lines.at(-1)!.seq));
  // "One that was written in part counts for none", and one that is older than the last line too.
  const [, next] = /"next_seq":(\d+),.*\}\n$/.exec(files.get('.stopped-cleanly')?.toString() ?? '') ?? [];
  const wasClean = next !== undefined && Number(next) === (all.at(-1)?.lines.at(-1)?.seq ?? 0) + 1;
  return { files, names, all, wasClean, isMarked: marked > 0 };
}

function linesIn(bytes: Buffer): Place[] {
  const places: Place[] = [];
  for (let start = 0, end = bytes.indexOf(10); end !== -1; start = end + 1, end = bytes.indexOf(10, start)) {
    const [, seq] = /^\{"seq":(\d+),/.exec(bytes.toString('latin1', start, Math.min(end, start + 30))) ?? [];
    if (seq === undefined) return places; // what a power cut left
    places.push({ start, end: end + 1, seq: Number(seq) });
  }
  return places;
}
