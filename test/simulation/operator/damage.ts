/** Ways in which a person breaks a journal whose service is down, and what a start and a repair owe after that. */

import type { SimulatedDisk } from '../../support/simulated-disk.ts';
import type { Chance } from '../chance.ts';
import { filesOf } from './folder.ts';

export interface Damage {
  /** All files of the folder, with the damage. */
  readonly files: ReadonlyMap<string, Buffer>;
  /** The events that a repair may lose. It keeps all others. */
  readonly seqs: ReadonlySet<number>;
  /** Whether a start has to refuse: it reads the last file, and where each file before it ends. `verify` reads all. */
  readonly isSeen: boolean;
}

/** A line in its file, with its newline. */
interface Place {
  readonly start: number;
  readonly end: number;
  readonly seq: number;
}

/** @returns one damage that no crash explains; undefined if the journal is too short for it */
export function breakJournal(disk: SimulatedDisk, chance: Chance): Damage | undefined {
  const files = filesOf(disk);
  const names = [...files.keys()].filter((name) => /^events-\d{20}\.jsonl$/.test(name));
  const all = names.map((name) => ({ name, lines: linesIn(files.get(name)!) })).filter(({ lines }) => lines.length > 0);
  const last = all.at(-1);
  if (last === undefined || all.length < 2) return undefined;
  const wasClean = files.get('.stopped-cleanly')?.toString().endsWith('}\n') ?? false; // "one that was written in part counts for none"
  const { name, lines } = chance.happens(0.5) ? last : chance.oneOf(all.slice(0, -1));
  const isLast = name === last.name && name === names.at(-1);
  const bytes = files.get(name)!;
  const kind = chance.oneOf(['change', 'cut', 'remove'] as const);
  if (kind === 'remove' && !isLast) {
    files.delete(name);
    return { files, seqs: new Set(lines.map(({ seq }) => seq)), isSeen: true };
  }
  // After a crash a bad end is what a crash leaves, and is cut off; a single line after a lost one has no proof.
  const end = isLast && !wasClean ? lines.length - 3 : lines.length - 1;
  if (end < 0) return undefined;
  const at = chance.integer(0, end);
  const line = lines[at]!;
  if (kind === 'cut') files.set(name, Buffer.concat([bytes.subarray(0, line.start), bytes.subarray(line.end)]));
  else {
    const changed = Buffer.from(bytes);
    changed[chance.integer(line.start, line.end - 2)]! ^= 1;
    files.set(name, changed);
  }
  const isSeen = isLast || (kind === 'cut' && at === lines.length - 1);
  const seqs = new Set([line.seq]);
  // A line is proved by those after it as well: a last line whose predecessor is lost has none.
  if (isLast && at === lines.length - 2) seqs.add(line.seq + 1);
  return { files, seqs, isSeen };
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
