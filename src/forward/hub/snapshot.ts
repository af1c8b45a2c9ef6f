/**
 * The file with the watermarks of a hub, `forward-sources.json`. It lets a start read only the last lines of the journal.
 *
 *     {"seq":1210,"sources":[["0193e0c2-…",7,"01a1fb95-…"],["…",7,"…",[[10,12,"…"]],[[2,3]]],…],"tokens":[["0193e0c2-…","edge"],…],"crc":"9ae0daaf"}
 *
 * `seq` belongs to the hub's own journal: the file covers all of its lines up to there. The last two members of a journal are `ahead` and `lost` of
 * its watermark, unless they are empty; an empty `ahead` before `lost` is `null`. `tokens` is present if a journal used a token. The file is
 * replaced atomically.
 */

import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../../journal/disk.ts';
import { readSmall, replaceDurably } from '../../journal/file-io.ts';
import { sealedFile, unsealedFile } from '../../journal/sealed.ts';
import type { SeqRange } from '../position.ts';
import type { Watermark } from './watermark.ts';

export const SNAPSHOT_FILE = 'forward-sources.json';

/**
 * What is known about the journals of which one journal of a hub has events, whether they sent these themselves or not.
 */
export interface Snapshot {
  /** The hub's own seq up to which the lines are covered. */
  readonly seq: number;
  /** The watermark of each journal. */
  readonly sources: Map<string, Watermark>;
  /** The name of the token that a journal used. No other name may replace it. */
  readonly tokens: Map<string, string>;
  /**
   * For journals whose lines were read after the file and are not in it: when the last line arrived, and which journal
   * delivered it.
   */
  readonly newest: Map<string, { readonly time: string; readonly through: string | undefined }>;
}

/** @returns the snapshot of a journal without lines */
export function createSnapshot(): Snapshot {
  return { seq: 0, sources: new Map(), tokens: new Map(), newest: new Map() };
}

/**
 * @returns `absent` if there is no file, `bad` if it is incomplete
 * @throws the error of a system call
 */
export async function readSnapshot(
  disk: Disk,
  { forwardSourcesMax, forwardPartsMax }: Limits,
): Promise<Snapshot | 'absent' | 'bad'> {
  const sourceBytesMax = SOURCE_BYTES_MAX + TOKEN_BYTES_MAX + 2 * forwardPartsMax * PART_BYTES_MAX;
  const bytes = await readSmall(disk, SNAPSHOT_FILE, (forwardSourcesMax + 1) * sourceBytesMax);
  if (bytes === undefined) return 'absent';
  const text = unsealedFile(bytes);
  if (text === undefined) return 'bad';
  const { seq, sources, tokens = [] } = JSON.parse(text); // the crc shows that assetlog wrote it
  const marks = sources.map(([source, seq, id, parts, ranges]: StoredMark): [string, Watermark] => {
    const ahead = parts?.map(([first, last, id]) => ({ first, last, id })) ?? NONE;
    const lost = ranges?.map(([first, last]): SeqRange => ({ first, last })) ?? NONE;
    return [source, { seq, id, lost, ahead }];
  });
  return { ...createSnapshot(), seq, sources: new Map(marks), tokens: new Map(tokens) };
}

/**
 * Replaces the file, durably.
 * @returns its bytes
 * @throws the error of a system call; the folder then has the old file or the new one
 */
export async function writeSnapshot(disk: Disk, { seq, sources, tokens }: Omit<Snapshot, 'newest'>): Promise<number> {
  const marks = Array.from(sources, ([source, { seq, id, lost, ahead }]) => {
    const stored: unknown[] = [source, seq, id];
    // Version 0.3 would read an empty list as a journal with missing events.
    if (ahead.length + lost.length > 0)
      stored.push(ahead.length === 0 ? null : ahead.map(({ first, last, id }) => [first, last, id]));
    if (lost.length > 0) stored.push(lost.map(({ first, last }) => [first, last]));
    return JSON.stringify(stored);
  });
  const bound = tokens.size === 0 ? '' : `,"tokens":${JSON.stringify([...tokens])}`;
  const bytes = sealedFile(`{"seq":${seq},"sources":[${marks}]${bound}`);
  await replaceDurably(disk, SNAPSHOT_FILE, [bytes]);
  return bytes.length;
}

type StoredMark = [
  source: string,
  seq: number,
  id: string | null,
  ahead?: readonly (readonly [first: number, last: number, id: string | null])[] | null,
  lost?: readonly (readonly [first: number, last: number])[],
];

const NONE: readonly never[] = [];

/** `["0193e0c2-…",9007199254740991,"01a1fb95-…",[],[]],` has 104 bytes, and the rest of the file has fewer. */
const SOURCE_BYTES_MAX = 104;
/** An operator chose the name of a token, so the name can have any length. */
const TOKEN_BYTES_MAX = 4_096;
/** `[9007199254740991,9007199254740991,"01a1fb95-…"],` */
const PART_BYTES_MAX = 75;
