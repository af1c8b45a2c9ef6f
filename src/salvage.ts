/**
 * Finds every good line in the bytes of a damaged file. A line proves itself by its crc, which builds on the line before it;
 * so a line is tried behind every line that may have been the one before it, wherever that stands now.
 */

import { limits } from './config.ts';
import { crcOf, findForms, type LineForm, readForm } from './event.ts';

/** A good line. */
export interface Salvaged extends LineForm {
  /** The line that its crc builds on is gone: nothing speaks against it, but nothing proves it. */
  readonly unproved: boolean;
}

interface Candidate extends LineForm {
  /** It stands between two newlines, rather than somewhere in bytes that make no line. */
  readonly whole: boolean;
  /** The one that stands before it. */
  readonly before: Candidate | undefined;
  /** What its crc would be behind those that may have come before it. */
  readonly computed: Set<number>;
  /** A line with the next seq builds on its crc as it stands. */
  confirmed: boolean;
  /** The line before it is there, whole or not, and speaks against it. */
  refuted: boolean;
  good: boolean;
}

/**
 * @param bytes the whole file
 * @param firstSeq what its name says
 * @param nextSeq with which the file after it begins, undefined for the last file
 * @returns every good line once, in the order of their seqs, and how many bad lines stand behind the last of them
 */
export function salvage(
  bytes: Buffer,
  firstSeq: number,
  nextSeq: number | undefined,
): { lines: Salvaged[]; badBehind: number } {
  const whole = wholeCandidates(bytes);
  prove(bytes, whole, firstSeq);
  const hidden = hiddenCandidates(bytes, whole);
  const all = hidden.length === 0 ? whole : [...whole, ...hidden];
  if (hidden.length > 0) prove(bytes, all, firstSeq);

  const lines = new Map<number, Salvaged>();
  for (const { seq, crc, start, end } of all.filter(({ good }) => good)) {
    if (!lines.has(seq)) lines.set(seq, { seq, crc, start, end, unproved: false });
  }
  for (const candidate of whole) {
    const { seq, crc, start, end } = candidate;
    if (!candidate.good && !lines.has(seq) && mayBeGood(bytes, candidate, nextSeq)) {
      lines.set(seq, { seq, crc, start, end, unproved: true });
    }
  }
  const sorted = [...lines.values()].sort((a, b) => a.seq - b.seq);
  const lastEnd = sorted.reduce((last, { end }) => Math.max(last, end), 0);
  return { lines: sorted, badBehind: whole.filter(({ start }) => start >= lastEnd).length };
}

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** Beginnings and ends of lines that are tried in one stretch of bad bytes. */
const HIDDEN_MAX = 50;

function wholeCandidates(bytes: Buffer): Candidate[] {
  const found: Candidate[] = [];
  for (const { start, end } of linesIn(bytes)) {
    const form = readForm(bytes, start, end);
    if (form !== undefined) found.push(candidate(form, true, found.at(-1)));
  }
  return found;
}

/**
 * Cuts at each line feed and at each carriage return: no line holds one, since JSON escapes it, so one that is there is a line
 * end that a program converted.
 */
function linesIn(bytes: Buffer): { start: number; end: number }[] {
  const lines: { start: number; end: number }[] = [];
  const next = (byte: number, from: number) => {
    const at = bytes.indexOf(byte, from);
    return at === -1 ? Number.POSITIVE_INFINITY : at;
  };
  let lineFeed = next(LINE_FEED, 0);
  let carriageReturn = next(CARRIAGE_RETURN, 0);
  for (let start = 0; ; ) {
    const end = Math.min(lineFeed, carriageReturn);
    if (end === Number.POSITIVE_INFINITY) return lines;
    lines.push({ start, end });
    start = end + 1;
    if (end === lineFeed) lineFeed = next(LINE_FEED, start);
    else carriageReturn = next(CARRIAGE_RETURN, start);
  }
}

/** Between the good lines: what a damaged newline joined, or what stands behind bytes that do not belong there. */
function hiddenCandidates(bytes: Buffer, whole: readonly Candidate[]): Candidate[] {
  const found: Candidate[] = [];
  let from = 0;
  let before: Candidate | undefined;
  for (const next of [...whole.filter(({ good }) => good), undefined]) {
    const to = next?.start ?? bytes.length;
    if (to > from) {
      for (const form of findForms(bytes, from, to, HIDDEN_MAX, limits.lineBytesMax))
        found.push(candidate(form, false, before));
    }
    from = next === undefined ? to : next.end + 1;
    before = next;
  }
  return found;
}

function candidate(form: LineForm, whole: boolean, before: Candidate | undefined): Candidate {
  return { ...form, whole, before, computed: new Set(), confirmed: false, refuted: false, good: false };
}

/** Tries each behind those that may have come before it, in the order of their seqs. */
function prove(bytes: Buffer, candidates: readonly Candidate[], firstSeq: number): void {
  const bySeq = new Map<number, Candidate[]>();
  for (const one of candidates) {
    const same = bySeq.get(one.seq);
    if (same === undefined) bySeq.set(one.seq, [one]);
    else same.push(one);
  }
  for (const seq of [...bySeq.keys()].sort((a, b) => a - b)) {
    const earlier = bySeq.get(seq - 1) ?? [];
    for (const one of bySeq.get(seq) ?? []) {
      if (one.good) continue;
      if ((one.start === 0 || seq === firstSeq) && fits(bytes, one, 0)) continue;
      if (earlier.some((other) => fitsBehind(bytes, one, other))) continue;
      if (one.before !== undefined && fits(bytes, one, one.before.crc)) continue;
      one.refuted = seq === firstSeq || earlier.some(({ whole }) => whole) || one.before?.good === false;
    }
  }
}

function fitsBehind(bytes: Buffer, one: Candidate, other: Candidate): boolean {
  if (fits(bytes, one, other.crc)) {
    other.confirmed = true;
    return true;
  }
  for (const crc of other.computed) {
    if (!fits(bytes, one, crc)) continue;
    other.good = true; // only the digits of its crc are damaged: the line behind it knows them
    return true;
  }
  return false;
}

function fits(bytes: Buffer, one: Candidate, seed: number): boolean {
  const crc = crcOf(bytes, one, seed);
  one.computed.add(crc);
  one.good = crc === one.crc;
  return one.good;
}

/** Nothing is left to prove it by: it has to be JSON, and what follows has to count on from it. */
function mayBeGood(bytes: Buffer, one: Candidate, nextSeq: number | undefined): boolean {
  const { start, end, seq, confirmed, refuted } = one;
  if (refuted || (!confirmed && nextSeq !== seq + 1)) return false;
  try {
    JSON.parse(bytes.toString('utf8', start, end));
    return true;
  } catch {
    return false;
  }
}
