/** The names of a journal's files, and the content of the journal as far as the names reveal it. */

/** @returns the name of the file whose first line has this seq: `events-00000000000000000007.jsonl`; names sort in seq order */
export function segmentName(firstSeq: number): string {
  return `events-${String(firstSeq).padStart(20, '0')}.jsonl`;
}

/** @returns the seq in a segment's name (`7` for `events-00000000000000000007.jsonl`), or undefined for other names */
export function segmentFirstSeq(name: string): number | undefined {
  return parseSeq(name, SEGMENT_NAME);
}

/** @param pattern matches a name; its first group is the digits of the seq */
function parseSeq(name: string, pattern: RegExp): number | undefined {
  const seq = Number(pattern.exec(name)?.[1]);
  return Number.isSafeInteger(seq) && seq >= 1 ? seq : undefined;
}

const SEGMENT_NAME = /^events-([0-9]{20})\.jsonl$/;
/** Excludes the suffixes that assetlog itself adds to copies and to ends of files. */
const RENAMED = /^events-([0-9]{20})\.jsonl\.(?!(?:torn(?:-\d+)?|rewrite|repair|partial|erasing)$)/;
/** Why events are gone: `lost` by damage, `removed` by retention. */
export type Gone = 'lost' | 'removed';

/** The first and the last seq, both inclusive, of events that are known to be gone from the journal. */
export interface GoneRange {
  readonly first: number;
  readonly last: number;
}

/**
 * @returns the name of the marker for events that are gone, such as
 *   `events-00000000000000000001-00000000000000000053.removed`; it sorts at the position of the file that had these events
 */
export function goneName({ first, last }: GoneRange, why: Gone): string {
  return `events-${String(first).padStart(20, '0')}-${String(last).padStart(20, '0')}.${why}`;
}

/** @returns the range in the name of a marker, or undefined for other names */
export function goneRange(name: string, why: Gone): GoneRange | undefined {
  const [, from, to, suffix] = GONE_NAME.exec(name) ?? [];
  const [first, last] = [Number(from), Number(to)];
  return suffix === why && Number.isSafeInteger(last) && first >= 1 && first <= last ? { first, last } : undefined;
}

const GONE_NAME = /^events-([0-9]{20})-([0-9]{20})\.(lost|removed)$/;
export interface SegmentName {
  readonly name: string;
  readonly firstSeq: number;
}

/** The journal files of a folder, and the events known to be gone before and between them, each in order. */
export interface Contents {
  readonly segments: readonly SegmentName[];
  /** Renamed files, such as `events-….jsonl.gz`, whose original is missing; `firstSeq` is from the original name. */
  readonly renamed: readonly SegmentName[];
  /** Events that repairs did not find. A file with such events can have been restored since then. */
  readonly lost: readonly GoneRange[];
  /** Events that retention removed, according to its markers. */
  readonly removed: readonly GoneRange[];
  /** The last seq that retention removed; 0 if it removed nothing. */
  readonly removedLast: number;
  /**
   * The last seq up to which retention removed all events; 0 if the first event still exists. A restored backup can have files before
   * other files that were removed.
   */
  readonly clearedSeq: number;
  /** The lost and the removed ranges together. */
  readonly gone: readonly GoneRange[];
}

/** @param names the names of all entries of the folder; files that do not belong to a journal are ignored */
export function contentsOf(names: readonly string[]): Contents {
  const firstSeqs = names.map(segmentFirstSeq).filter((seq) => seq !== undefined);
  const lost = parseRanges(names, 'lost');
  const removed = parseRanges(names, 'removed');
  const last = Math.max(0, ...removed.map((range) => range.last));
  const present = new Set(firstSeqs);
  const renamed = names
    .map((name) => ({ name, firstSeq: parseSeq(name, RENAMED) ?? 0 }))
    .filter(({ firstSeq }) => firstSeq > 0 && !present.has(firstSeq));
  return {
    segments: firstSeqs.sort((a, b) => a - b).map((firstSeq) => ({ name: segmentName(firstSeq), firstSeq })),
    renamed: renamed.sort((a, b) => a.firstSeq - b.firstSeq),
    lost,
    removed,
    removedLast: last,
    clearedSeq: removed.findLast(({ first }) => first === 1)?.last ?? 0,
    gone: [...removed, ...lost].sort((a, b) => a.first - b.first || a.last - b.last),
  };
}

function parseRanges(names: readonly string[], why: Gone): GoneRange[] {
  const ranges = names.map((name) => goneRange(name, why)).filter((range) => range !== undefined);
  return ranges.sort((a, b) => a.first - b.first || a.last - b.last);
}

/** @returns the first seq, from `seq` on, that is not known to be gone */
export function afterGone(seq: number, gone: readonly GoneRange[]): number {
  let next = seq;
  for (const { first, last } of gone) if (first <= next && next <= last) next = last + 1;
  return next;
}

/** @returns the parts of the ranges between two seqs, both inclusive; no seq is in two of them */
export function goneBetween(first: number, last: number, gone: readonly GoneRange[]): GoneRange[] {
  const parts: GoneRange[] = [];
  for (const range of gone) {
    const part = {
      first: Math.max(range.first, (parts.at(-1)?.last ?? 0) + 1, first),
      last: Math.min(range.last, last),
    };
    if (part.first <= part.last) parts.push(part);
  }
  return parts;
}

/** @param gone in order @returns the last seq up to `seq` that is not known to be gone */
export function beforeGone(seq: number, gone: readonly GoneRange[]): number {
  let last = seq;
  for (const range of gone.toReversed()) if (range.first <= last && last <= range.last) last = range.first - 1;
  return last;
}

/**
 * @returns the name of the file with the idempotency keys of the closed file whose first line has this seq:
 *   `keys-00000000000000000007.idx`
 */
export function sidecarName(firstSeq: number): string {
  return `keys-${String(firstSeq).padStart(20, '0')}.idx`;
}

/**
 * @returns the seq in the name of a sidecar, even if it is incomplete: `7` for `keys-00000000000000000007.idx.new`; undefined for
 *   a name of another kind
 */
export function sidecarFirstSeq(name: string): number | undefined {
  return parseSeq(name, SIDECAR_NAME);
}

const SIDECAR_NAME = /^keys-([0-9]{20})\.idx(?:\.new)?$/;

/** The state of the assets of a journal. */
export const STATE_FILE = 'assets.state';

/** Whether the service can recreate the file of this name, from the events or from the name alone. */
export function isMadeAgain(name: string): boolean {
  return MADE_AGAIN.test(name) || GONE_NAME.test(name);
}

const MADE_AGAIN = /^(\.stopped-cleanly|(keys-[0-9]{20}\.idx|assets\.state|forward-sources\.json)(\.new)?)$/;

/** Whether assetlog uses this name for a file or folder of a journal. */
export function isOwnName(name: string): boolean {
  return OWN_NAME.test(name);
}

const OWN_NAME =
  /^(\.(un)?lock(ed)?-.*|\.ask-.*|\.gone-.*|\.journal-.*|\.erase(\.new)?|erased\.json(\.new)?|\.?forward(ed)?-.*|dead-.*\.jsonl(\..*)?|\.stopped-cleanly|\.made-for-tests|events-[0-9]{20}\.jsonl(\..*)?|events-[0-9-]{41}\.(lost|removed)|keys-[0-9]{20}\.idx(\.new)?|assets\.(state(\.new)?|forget)|damaged-.*)$/;
