/**
 * The file with the watermarks of a hub, `forward-sources.json`, so that a start need not read the whole journal:
 *
 *     {"seq":1210,"sources":[["0193e0c2-…",7,"01a1fb95-…"],["…",7,"…",[[10,12,"…"]]],…],"crc":"9ae0daaf"}
 *
 * The last member of a source, its `ahead`, is there only after a repair that has lost events of it.
 * `seq` is one of the hub's own journal: the file covers all of its lines up to there. `crc` is the CRC-32 of the text before
 * `,"crc"`. The file is replaced atomically.
 */

import { crc32 } from 'node:zlib';
import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../../journal/disk.ts';
import { readSmall, replaceDurably } from '../../journal/file-io.ts';
import type { Watermark } from './watermark.ts';

const NAME = 'forward-sources.json';

/** The watermarks by source, and the own seq up to which they cover the journal. */
export interface Snapshot {
  readonly seq: number;
  readonly sources: Map<string, Watermark>;
}

/**
 * @returns what the file says; `absent` if there is none, `bad` if it is not whole
 * @throws the error of a system call
 */
export async function readSnapshot(
  disk: Disk,
  { forwardSourcesMax, forwardPartsMax }: Pick<Limits, 'forwardSourcesMax' | 'forwardPartsMax'>,
): Promise<Snapshot | 'absent' | 'bad'> {
  const bytes = await readSmall(
    disk,
    NAME,
    (forwardSourcesMax + 1) * (SOURCE_BYTES_MAX + forwardPartsMax * PART_BYTES_MAX),
  );
  if (bytes === undefined) return 'absent';
  const text = bytes.toString('latin1');
  const end = text.lastIndexOf(',"crc":"');
  if (end === -1 || text.slice(end) !== ending(text.slice(0, end))) return 'bad';
  const { seq, sources } = JSON.parse(text); // the crc shows that assetlog wrote it
  return { seq, sources: new Map(sources.map(([source, ...mark]: [string, ...StoredMark]) => [source, markOf(mark)])) };
}

/** Replaces the file, durably. @throws the error of a system call, after which the old file is there, or the new one */
export async function writeSnapshot(disk: Disk, { seq, sources }: Snapshot): Promise<void> {
  const listed = Array.from(sources, ([source, mark]) => JSON.stringify([source, ...storedOf(mark)]));
  const text = `{"seq":${seq},"sources":[${listed}]`;
  await replaceDurably(disk, NAME, Buffer.from(text + ending(text)));
}

type StoredMark = [seq: number, id: string | null, ahead?: readonly [first: number, last: number, id: string][]];

function storedOf({ seq, id, ahead }: Watermark): StoredMark {
  return ahead === undefined ? [seq, id] : [seq, id, ahead.map(({ first, last, id }) => [first, last, id])];
}

function markOf([seq, id, ahead]: StoredMark): Watermark {
  return ahead === undefined
    ? { seq, id }
    : { seq, id, ahead: ahead.map(([first, last, id]) => ({ first, last, id })) };
}

function ending(text: string): string {
  return `,"crc":"${crc32(text).toString(16).padStart(8, '0')}"}\n`;
}

/** `["0193e0c2-…",9007199254740991,"01a1fb95-…",[]],` has 101; the rest of the file has fewer. */
const SOURCE_BYTES_MAX = 101;
/** `[9007199254740991,9007199254740991,"01a1fb95-…"],` */
const PART_BYTES_MAX = 75;
