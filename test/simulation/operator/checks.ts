/** What backups and repairs promise, checked with the parser of the oracle. */

import type { GoneRange } from '../../../src/journal/segments.ts';
import type { SimulatedDisk } from '../../world/simulated-disk.ts';
import type { MachineJournal } from '../machine.ts';
import type { JournalView, SeenLine } from '../oracle/journal-view.ts';
import { lettersOf } from '../oracle/letters-view.ts';
import type { Oracle } from '../oracle/oracle.ts';

/** @returns every line that the journal of a machine ever had, also of files that retention removed */
export function linesOf(oracle: Oracle, journal: MachineJournal): SeenLine[] {
  oracle.look(journal);
  return [...oracle.viewOf(journal).lines.values()];
}

/** @returns the lines that are in its files now */
export function linesThere(oracle: Oracle, journal: MachineJournal): SeenLine[] {
  oracle.look(journal);
  const view = oracle.viewOf(journal);
  return journal.disk.durableNames().flatMap((name) => view.linesOf(name));
}

/**
 * "The backup holds every event that was acknowledged before the run began, and no line that the service may still take back."
 * @param isStale whether the journal was restored or repaired since the backup began
 * @returns whether the backup goes with the journal: not if retention has removed what would have shown that it does not
 */
export function checkBackup(
  oracle: Oracle,
  journal: MachineJournal,
  { disk, view, isStale }: { readonly disk: SimulatedDisk; readonly view: JournalView; readonly isStale: boolean },
  acknowledged: readonly SeenLine[],
): boolean {
  oracle.look(journal);
  const { lines, removed } = oracle.viewOf(journal);
  const problem = view.refresh(disk);
  if (problem !== undefined) oracle.breaks(`the backup of ${journal.name}: ${problem}`);
  const wrong = [...view.lines.values()].filter(({ seq, id }) => lines.get(seq)?.id !== id);
  if (isStale && wrong.length > 0 && wrong.every(({ seq }) => removed.has(seq))) return false;
  if (wrong.length > 0) oracle.breaks(`event ${wrong[0]!.seq} of the backup of ${journal.name} is not in its journal`);
  for (const { seq, id } of acknowledged) {
    if (view.lines.get(seq)?.id !== id && !removed.has(seq))
      oracle.breaks(`event ${seq} of ${journal.name} was answered with 200 before a backup that lacks it`);
  }
  const gap = view.lacks(disk);
  if (gap !== undefined) oracle.breaks(`the backup of ${journal.name}: ${gap}`);
  return true;
}

/** @returns by destination, the seqs of the dead letters that are open, as a process reads them */
export function openLetters(oracle: Oracle, journal: MachineJournal): Map<string, readonly number[]> {
  return new Map([...oracle.destinationsOf(journal).keys()].map((name) => [name, lettersOf(journal.disk, name).open]));
}

/**
 * A backup has the dead letters that were open before it began and are open after it.
 * @param before by destination, the seqs of the letters that were open before
 */
export function checkLetters(
  oracle: Oracle,
  journal: MachineJournal,
  disk: SimulatedDisk,
  before: ReadonlyMap<string, readonly number[]>,
): void {
  const after = openLetters(oracle, journal);
  for (const [name, seqs] of before) {
    const copied = lettersOf(disk, name);
    const lacking = seqs.find((seq) => after.get(name)!.includes(seq) && !copied.isOpen(seq));
    if (lacking !== undefined) oracle.breaks(`the backup of ${journal.name} lacks the dead letter of event ${lacking}`);
  }
}

/**
 * "Good lines stay, with their seq, id and time", and "an empty file `events-<first>-<last>.lost` marks events that are gone".
 * @param mayBeLost the events that were broken on purpose
 */
export function checkRepaired(
  oracle: Oracle,
  journal: MachineJournal,
  mayBeLost: ReadonlySet<number>,
  lost: readonly GoneRange[],
): void {
  const there = new Map(linesThere(oracle, journal).map((line) => [line.seq, line.id]));
  const view = oracle.viewOf(journal);
  // A file that retention removed comes back if the power goes, and its marker names it still.
  const markers = journal.disk.durableNames().flatMap((name) => {
    const [, first, last] = /^events-(\d+)-(\d+)\.removed$/.exec(name) ?? [];
    return first === undefined ? [] : [{ first: Number(first), last: Number(last) }];
  });
  const isNamed = (seq: number) => [...lost, ...markers].some(({ first, last }) => first <= seq && seq <= last);
  for (const { seq, id } of view.lines.values()) {
    if (there.get(seq) === id || (view.removed.has(seq) && !mayBeLost.has(seq))) continue;
    // A part of a failed write that was durable for a moment, and was cut off before.
    if (!view.isPromised(seq)) continue;
    if (!mayBeLost.has(seq)) oracle.breaks(`event ${seq} of ${journal.name} was good, and a repair lost it`);
    else if (!isNamed(seq)) oracle.breaks(`event ${seq} of ${journal.name} is gone, and no file names it as lost`);
  }
}
