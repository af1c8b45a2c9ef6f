/** What is right in the folder of a service that has nothing left to do: its limits, what it knows of its journal, and a backup of it. */

import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { limits } from '../../../src/config/limits.ts';
import { backUp } from '../../../src/journal/look/backup.ts';
import { verify } from '../../../src/journal/look/verify.ts';
import { SimulatedDisk } from '../../support/simulated-disk.ts';
import { CHANGED } from '../operator/damage.ts';
import { durableCursor } from './cursor.ts';
import type { JournalView, SeenLine } from './journal-view.ts';
import { filesOf, markedBy } from './removals.ts';

export interface Folder {
  readonly disk: SimulatedDisk;
  readonly view: JournalView;
  /** The names of the destinations. */
  readonly sendsTo: readonly string[];
  readonly retainBytes: number | undefined;
  /** Whether retention has looked since all was settled: a journal of a hosted service is closed then. */
  readonly isLookedAt: boolean;
  /** Whether its clock ever jumped. */
  readonly hasJumped: boolean;
}

/** A disk may take as long for a write and its sync. */
const LATE_S_MAX = 60;
export const SNAPSHOT = 'forward-sources.json';
const SEGMENT = /^events-(\d{20})\.jsonl$/;
const DEAD_LETTER_BYTES = 64 * 1024 * 1024;
/** Letters without a line take as much again as the limit, and each of all these may have a shorter one that closes it. */
const WITH_NOTES = 4;

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
    wrongSidecars(disk, folder, segments.slice(0, -1)) ??
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
  const limit = Math.min(DEAD_LETTER_BYTES, (retainBytes ?? Number.POSITIVE_INFINITY) / 4);
  const most = WITH_NOTES * limit;
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
    // A source of which a repair has lost the first event is asked for all.
    if (seq <= until && (last.has(from[0]) || !view.mayLack(from)))
      last.set(from[0], Math.max(from[1], last.get(from[0]) ?? 0));
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

/**
 * @returns up to which event the snapshot has the watermarks; 0 without one. One that was renamed and whose bytes are durable is
 *   there once a marker is that is made after it
 */
export function snapshotSeq(disk: SimulatedDisk): number {
  const bytes = disk.unsyncedBytes(SNAPSHOT) === 0 ? disk.bytes(SNAPSHOT) : disk.durableBytes(SNAPSHOT);
  const [, covered = 0] = /^\{"seq":(\d+),/.exec(bytes?.toString() ?? '') ?? [];
  return Number(covered);
}

/** @returns whether the durable snapshot says that the hub has an event of another journal, which it may have recorded while it was written */
export function snapshotHas(disk: SimulatedDisk, [source, seq]: readonly [source: string, seq: number]): boolean {
  const { sources = [] } = JSON.parse(disk.durableBytes(SNAPSHOT)?.toString() ?? '{}');
  const [, last = 0, , ahead = []] = sources.find(([one]: [string]) => one === source) ?? [];
  return seq <= last || ahead.some(([first, last]: [number, number]) => first <= seq && seq <= last);
}

/** All is sent: the cursor is at the last event, and the state says that there is nothing to do. */
function wrongDestination({ disk, view }: Folder, name: string): string | undefined {
  const { seq, sending } = durableCursor(disk, name) ?? {};
  if (sending !== undefined) return `the cursor for ${name} says that event ${sending} is being sent`;
  if (seq !== view.lastSeq) return `the cursor for ${name} is at ${seq}, and there are ${view.lines.size} events`;
  const { state, reason, next_try } = JSON.parse(disk.text(`forward-${name}.state`) || '{}');
  const isIdle = state === 'idle' && reason === null && next_try === null;
  return isIdle ? undefined : `forward-${name}.state says ${state}: ${reason}, next try ${next_try}`;
}

/** @param closed names of files that are not appended to */
function wrongSidecars(
  disk: SimulatedDisk,
  { view, hasJumped }: Folder,
  closed: readonly string[],
): string | undefined {
  for (const name of closed) {
    const sidecar = `keys-${name.slice('events-'.length, -'.jsonl'.length)}.idx`;
    const bytes = disk.bytes(sidecar);
    if (bytes === undefined || bytes.subarray(-CHANGED.length).equals(CHANGED)) continue; // a start reads the file
    // "If one is missing or damaged, it reads the file": one of before a repair comes back in a power cut, as no sync follows its rename.
    if (!bytes.equals(sidecarOf(view.linesOf(name), bytes, hasJumped)) && !view.wasBroken)
      return `${sidecar} is not that of its file`;
  }
  return undefined;
}

/**
 * @param found has the seconds, which are those of the clock after the sync, and not those of the line
 * @param hasJumped whether that clock may have had any time then
 * @returns the sidecar of a file with these lines, byte by byte: see `journal/keys/sidecar.ts`
 */
function sidecarOf(lines: readonly SeenLine[], found: Buffer, hasJumped: boolean): Buffer {
  const firstSeq = lines[0]!.seq;
  let offset = 0;
  const rows: Buffer[] = [];
  for (const { seq, key, time, text } of lines) {
    const start = offset;
    offset += Buffer.byteLength(text) + 1;
    if (key === undefined) continue;
    const row = Buffer.alloc(20);
    createHash('sha256').update(key).digest().copy(row, 0, 0, 8);
    row.subarray(0, 8).swap32();
    const at = 44 + 20 * rows.length + 16;
    const seconds = at + 4 > found.length ? 0 : found.readUInt32LE(at);
    const lateS = seconds - Math.floor(Date.parse(time) / 1000);
    const isRight = hasJumped || (lateS >= 0 && lateS <= LATE_S_MAX);
    for (const [index, number] of [seq - firstSeq, start, isRight ? seconds : 0].entries())
      row.writeUInt32LE(number, 8 + 4 * index);
    rows.push(row);
  }
  const head = Buffer.alloc(44);
  head.write('assetlog keys 1\n');
  for (const [at, number] of [firstSeq, offset, firstSeq + lines.length].entries())
    head.writeBigUInt64LE(BigInt(number), 16 + 8 * at);
  head.writeUInt32LE(Number.parseInt(lines.at(-1)!.text.slice(-10, -2), 16), 40);
  const tail = Buffer.alloc(8);
  tail.writeUInt32LE(rows.length, 0);
  tail.writeUInt32LE(1, 4); // it has all keys of the file
  const all = Buffer.concat([head, ...rows, tail]);
  const crc = Buffer.alloc(4);
  crc.writeUInt32LE(crc32(all), 0);
  return Buffer.concat([all, crc]);
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
