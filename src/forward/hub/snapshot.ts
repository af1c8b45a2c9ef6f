/**
 * The file with the watermarks of a hub, `forward-sources.json`, so that a start need not read the whole journal:
 *
 *     {"seq":1210,"sources":[["0193e0c2-…",7,"01a1fb95-…"],["…",7,"…",[[10,12,"…"]]],…],"through":[["0193e0c2-…",["…","…"]],…],"crc":"9ae0daaf"}
 *
 * The last member of a source, its `ahead`, is there only after a repair that has lost events of it, and `through` only if a source
 * has sent events of others. No line says what that has.
 * `seq` is one of the hub's own journal: the file covers all of its lines up to there. `crc` is the CRC-32 of the text before
 * `,"crc"`. The file is replaced atomically.
 */

import type { Limits } from '../../config/limits.ts';
import type { Disk } from '../../journal/disk.ts';
import { readSmall, replaceDurably } from '../../journal/file-io.ts';
import { sealedFile, unsealedFile } from '../../journal/sealed.ts';
import type { Through } from '../source.ts';
import type { Watermark } from './watermark.ts';

const NAME = 'forward-sources.json';

/** The watermarks by source, the own seq up to which they cover the journal, and what the sources said of their lines. */
export interface Snapshot {
  readonly seq: number;
  readonly sources: Map<string, Watermark>;
  readonly through: Through;
}

/**
 * @returns what the file says; `absent` if there is none, `bad` if it is not whole
 * @throws the error of a system call
 */
export async function readSnapshot(
  disk: Disk,
  limits: Pick<Limits, 'forwardSourcesMax' | 'forwardPartsMax' | 'forwardThroughMax'>,
): Promise<Snapshot | 'absent' | 'bad'> {
  const { forwardSourcesMax, forwardPartsMax, forwardThroughMax } = limits;
  const sourceBytesMax =
    SOURCE_BYTES_MAX + forwardPartsMax * PART_BYTES_MAX + (1 + forwardThroughMax) * THROUGH_BYTES_MAX;
  const bytes = await readSmall(disk, NAME, (forwardSourcesMax + 1) * sourceBytesMax);
  if (bytes === undefined) return 'absent';
  const text = unsealedFile(bytes);
  if (text === undefined) return 'bad';
  const { seq, sources, through = [] } = JSON.parse(text); // the crc shows that assetlog wrote it
  const marks = sources.map(([source, ...mark]: [string, ...StoredMark]) => [source, markOf(mark)]);
  return { seq, sources: new Map(marks), through: new Map(through) };
}

/** Replaces the file, durably. @throws the error of a system call, after which the old file is there, or the new one */
export async function writeSnapshot(disk: Disk, { seq, sources, through }: Snapshot): Promise<void> {
  const listed = Array.from(sources, ([source, mark]) => JSON.stringify([source, ...storedOf(mark)]));
  const named = through.size === 0 ? '' : `,"through":${JSON.stringify([...through])}`;
  await replaceDurably(disk, NAME, [sealedFile(`{"seq":${seq},"sources":[${listed}]${named}`)]);
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

/** `["0193e0c2-…",9007199254740991,"01a1fb95-…",[]],` has 101; the rest of the file has fewer. */
const SOURCE_BYTES_MAX = 101;
/** `[9007199254740991,9007199254740991,"01a1fb95-…"],` */
const PART_BYTES_MAX = 75;
/** `["0193e0c2-…",[]],`; a name in the list has fewer. */
const THROUGH_BYTES_MAX = 45;
