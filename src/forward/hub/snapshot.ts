/**
 * The file with the watermarks of a hub, `forward-sources.json`: with it a start reads only the last lines of the journal.
 *
 *     {"seq":1210,"sources":[["0193e0c2-…",7,"01a1fb95-…"],["…",7,"…",[[10,12,"…"]]],…],"through":[["0193e0c2-…",["…","…"]],…],"crc":"9ae0daaf"}
 *
 * `seq` belongs to the hub's own journal: the file covers all of its lines up to there. The last member of a source, `ahead`, is
 * present only after a repair that lost events of it. `through` is present only if a source has sent events of other journals: no
 * line of the hub names all journals that it came through. The file is replaced atomically.
 */

import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../../journal/disk.ts';
import { readSmall, replaceDurably } from '../../journal/file-io.ts';
import { sealedFile, unsealedFile } from '../../journal/sealed.ts';
import type { Watermark } from './watermark.ts';

export const SNAPSHOT_FILE = 'forward-sources.json';

/** What is known of the sources of one journal of a hub. */
export interface Snapshot {
  /** The own seq up to which the lines of the journal are covered. */
  readonly seq: number;
  /** The watermark of each source. */
  readonly sources: Map<string, Watermark>;
  /** See `Through`. */
  readonly through: Map<string, readonly string[]>;
  /** The time of the last line of each source whose lines were read after the file. It is not in the file. */
  readonly times: Map<string, string>;
}

/** @returns the snapshot of a journal without lines */
export function createSnapshot(through: Snapshot['through'] = new Map()): Snapshot {
  return { seq: 0, sources: new Map(), through, times: new Map() };
}

/**
 * @returns `absent` if there is no file, `bad` if it is not whole
 * @throws the error of a system call
 */
export async function readSnapshot(disk: Disk, limits: Limits): Promise<Snapshot | 'absent' | 'bad'> {
  const { forwardSourcesMax, forwardPartsMax, forwardThroughMax } = limits;
  const sourceBytesMax =
    SOURCE_BYTES_MAX + forwardPartsMax * PART_BYTES_MAX + (1 + forwardThroughMax) * THROUGH_BYTES_MAX;
  const bytes = await readSmall(disk, SNAPSHOT_FILE, (forwardSourcesMax + 1) * sourceBytesMax);
  if (bytes === undefined) return 'absent';
  const text = unsealedFile(bytes);
  if (text === undefined) return 'bad';
  const { seq, sources, through = [] } = JSON.parse(text); // the crc shows that assetlog wrote it
  const marks = sources.map(([source, seq, id, parts]: StoredMark): [string, Watermark] => {
    const ahead = parts?.map(([first, last, id]) => ({ first, last, id }));
    return [source, ahead === undefined ? { seq, id } : { seq, id, ahead }];
  });
  return { seq, sources: new Map(marks), through: new Map(through), times: new Map() };
}

/** Replaces the file, durably. @throws the error of a system call, after which the old file is there, or the new one */
export async function writeSnapshot(disk: Disk, { seq, sources, through }: Omit<Snapshot, 'times'>): Promise<void> {
  const marks = Array.from(sources, ([source, { seq, id, ahead }]) => {
    const parts = ahead?.map(({ first, last, id }) => [first, last, id]);
    return JSON.stringify(parts === undefined ? [source, seq, id] : [source, seq, id, parts]);
  });
  const named = through.size === 0 ? '' : `,"through":${JSON.stringify([...through])}`;
  await replaceDurably(disk, SNAPSHOT_FILE, [sealedFile(`{"seq":${seq},"sources":[${marks}]${named}`)]);
}

type StoredMark = [
  source: string,
  seq: number,
  id: string | null,
  ahead?: readonly (readonly [first: number, last: number, id: string | null])[],
];

/** `["0193e0c2-…",9007199254740991,"01a1fb95-…",[]],` has 101; the rest of the file has fewer. */
const SOURCE_BYTES_MAX = 101;
/** `[9007199254740991,9007199254740991,"01a1fb95-…"],` */
const PART_BYTES_MAX = 75;
/** `["0193e0c2-…",[]],`; a name in the list has fewer. */
const THROUGH_BYTES_MAX = 45;
