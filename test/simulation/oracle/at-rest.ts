/** What is right in the folder of a service that has nothing left to do: its limits, what it knows of its journal, and a backup of it. */

import { crc32 } from 'node:zlib';
import { limits } from '../../../src/config/limits.ts';
import { readSidecar } from '../../../src/journal/keys/sidecar.ts';
import { backUp } from '../../../src/journal/look/backup.ts';
import { verify } from '../../../src/journal/look/verify.ts';
import { SimulatedDisk } from '../../support/simulated-disk.ts';
import { CHANGED } from '../operator/damage.ts';
import { durableCursor } from './cursor.ts';
import type { JournalView } from './journal-view.ts';
import { filesOf, markedBy } from './removals.ts';

export interface Folder {
  readonly disk: SimulatedDisk;
  readonly view: JournalView;
  /** The names of the destinations. */
  readonly sendsTo: readonly string[];
  readonly retainBytes: number | undefined;
  /** Whether retention has looked since all was settled: a journal of a hosted service is closed then. */
  readonly isLookedAt: boolean;
}

export const SNAPSHOT = 'forward-sources.json';
const SEGMENT = /^events-(\d{20})\.jsonl$/;
const DEAD_LETTER_BYTES = 64 * 1024 * 1024;
/** An operator who gives letters up adds one beyond the limit; the next letter of the service makes space again. */
const GIVEN_UP_BYTES = 512;

/** @returns what is wrong, if anything is */
export async function wrongAtRest(folder: Folder): Promise<string | undefined> {
  const { disk, view } = folder;
  const names = disk.names().sort();
  const segments = names.filter((name) => SEGMENT.test(name));
  return (
    aboveLimits(folder, segments) ??
    leftOver(folder, names) ??
    wrongSnapshot(disk, view) ??
    folder.sendsTo.map((name) => wrongDestination(folder, name)).find((problem) => problem !== undefined) ??
    (await wrongSidecars(disk.afterCrash(), view, segments.slice(0, -1))) ??
    (await wrongBackup(disk.afterCrash(), view))
  );
}

/** The newest file is not counted, since one large request may fill it. */
function aboveLimits({ disk, sendsTo, retainBytes }: Folder, segments: readonly string[]): string | undefined {
  const closedBytes = segments.slice(0, -1).reduce((sum, name) => sum + disk.bytes(name)!.length, 0);
  if (retainBytes !== undefined && closedBytes > retainBytes)
    return `its files have ${closedBytes} bytes, and --retain-bytes is ${retainBytes}`;
  return sendsTo.map((name) => tooManyLetters(disk, `dead-${name}.jsonl`, retainBytes)).find(Boolean);
}

/** @param file of dead letters @returns what is wrong with its size, if anything is */
export function tooManyLetters(disk: SimulatedDisk, file: string, retainBytes: number | undefined): string | undefined {
  const bytes = disk.bytes(file)?.length ?? 0;
  const most = Math.min(DEAD_LETTER_BYTES, (retainBytes ?? Number.POSITIVE_INFINITY) / 4) + GIVEN_UP_BYTES;
  return bytes > most ? `${file} has ${bytes} bytes, more than ${most}` : undefined;
}

/** What a removal leaves, since a call failed or the service ended, the next one takes. */
function leftOver({ isLookedAt }: Folder, names: readonly string[]): string | undefined {
  const marked = names.map((name) => markedBy(name) ?? 0).sort((a, b) => b - a);
  const files = filesOf(names).filter(({ lastSeq = Number.POSITIVE_INFINITY }) => lastSeq <= marked[0]!);
  const keys = names.filter((name) => Number(/^keys-(\d{20})\.idx$/.exec(name)?.[1] ?? Number.NaN) <= marked[0]!);
  const [left] = [...files.map(({ name }) => name), ...keys];
  return isLookedAt && left !== undefined ? `${left} is still there, and retention has removed its events` : undefined;
}

/** What a hub says it has of each source is what its lines say. */
export function wrongSnapshot(disk: SimulatedDisk, view: JournalView): string | undefined {
  const text = disk.durableBytes(SNAPSHOT)?.toString();
  if (text === undefined) return undefined;
  const [ending, crc] = /,"crc":"([\da-f]{8})"\}\n$/.exec(text) ?? [];
  const begin = text.slice(0, text.length - (ending?.length ?? 0));
  if (crc === undefined || crc32(begin) !== Number.parseInt(crc, 16)) return 'forward-sources.json is damaged';
  const { seq: until, sources } = JSON.parse(`${begin}}`);
  const end = view.endIn(disk);
  if (until > end) return `forward-sources.json is of event ${until}, and the last one is ${end}`;
  const last = new Map<string, number>();
  const ids = new Map<string, string>();
  for (const { seq, id, from } of [...view.lines.values()].sort((a, b) => a.seq - b.seq)) {
    if (from === undefined) continue;
    if (seq <= until) last.set(from[0], Math.max(from[1], last.get(from[0]) ?? 0));
    ids.set(`${from}`, id);
  }
  for (const [source, seq, id, ahead = []] of sources) {
    // "A hub that lost events […] asks their journals for them again", from the first that it may have lost: it has what is ahead of these.
    const [, end, endId] = (view.wasBroken && ahead.at(-1)) || [seq, seq, id];
    // It may be of a later line: events are recorded while it is written. It stays below what a repair has lost.
    const isBehind = end < (last.get(source) ?? 0) && !view.mayLack([source, seq + 1]);
    if (isBehind || ids.get(`${[source, end]}`) !== endId)
      return `forward-sources.json has ${endId} as ${end} of ${source}, and up to event ${until} it has ${last.get(source)}`;
    last.delete(source);
  }
  const [lacking] = last.keys();
  return lacking && `forward-sources.json lacks ${lacking}`;
}

/** @returns up to which event the durable snapshot has the watermarks; 0 without one */
export function snapshotSeq(disk: SimulatedDisk): number {
  const [, covered = 0] = /^\{"seq":(\d+),/.exec(disk.durableBytes(SNAPSHOT)?.toString() ?? '') ?? [];
  return Number(covered);
}

/** All is sent: the cursor is at the last event, and the state says that there is nothing to do. */
function wrongDestination({ disk, view }: Folder, name: string): string | undefined {
  const seq = durableCursor(disk, name)?.seq;
  if (seq !== view.lastSeq) return `the cursor for ${name} is at ${seq}, and there are ${view.lines.size} events`;
  const state = JSON.parse(disk.text(`forward-${name}.state`) || '{}');
  return state.state === 'idle' ? undefined : `forward-${name}.state says ${state.state}: ${state.reason}`;
}

/** @param closed names of files that are not appended to */
async function wrongSidecars(
  disk: SimulatedDisk,
  view: JournalView,
  closed: readonly string[],
): Promise<string | undefined> {
  for (const name of closed) {
    const firstSeq = Number(SEGMENT.exec(name)![1]);
    const sidecar = `keys-${name.slice('events-'.length, -'.jsonl'.length)}.idx`;
    const bytes = disk.bytes(sidecar);
    if (bytes === undefined || bytes.subarray(-CHANGED.length).equals(CHANGED)) continue; // a start reads the file
    const found = await readSidecar(disk, firstSeq, limits);
    // "If one is missing or damaged, it reads the file": one of before a repair comes back in a power cut, as no sync follows its rename.
    if (found === undefined && view.wasBroken) continue;
    if (found === undefined) return `a start does not take ${sidecar}`;
    const seqs = view.linesOf(name).flatMap(({ seq, key }) => (key === undefined ? [] : [seq]));
    const rows = Array.from({ length: found.size }, (_, index) => found.at(index).seq);
    if (found.isComplete && `${rows}` !== `${seqs}`) return `${sidecar} has the keys of events ${rows}, not ${seqs}`;
  }
  return undefined;
}

async function wrongBackup(source: SimulatedDisk, view: JournalView): Promise<string | undefined> {
  const last = view.lastSeq;
  const progress = { durable: async () => ({ kind: 'before', seq: last + 1 }) as const, more: async () => {} };
  const target = new SimulatedDisk('/backup');
  const { seqs, isComplete } = await backUp({ source, target, progress, limits });
  const { findings, last: moment } = await verify(target, limits);
  const damage = findings.find(({ decision }) => decision === 'refuse');
  if (damage !== undefined) return `its backup is damaged: ${damage.problem}`;
  if (isComplete && (seqs?.last ?? 0) === last && (moment?.seq ?? 0) === last) return undefined;
  return `its backup ends with event ${seqs?.last}, and the journal with ${last}`;
}
