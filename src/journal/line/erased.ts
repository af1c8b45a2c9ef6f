/**
 * The line of an erased event. The event is still counted, its asset and its place in the order of events are known, but none of its
 * texts remain.
 */

import { escaped, quote, quoteAll } from '../../event/encoded.ts';
import type { LineName } from '../../event/line-name.ts';
import { readRecorded } from './members.ts';
import { CRC_TEMPLATE, METADATA_MEMBER } from './record.ts';
import { ERASED_MEMBER } from './slot.ts';

/** How lines are erased. */
export interface Erasure {
  /** For the member `erased`: `2026-11-20T15:19:45.266Z`. */
  readonly time: string;
  /** Whether the asset key and the name of a check are erased too. */
  readonly all: boolean;
}

/** Replaces a key and the name of a check. */
const ERASED = 'erased';

/** Whether the event of a verified line was erased. */
export function isErased(bytes: Buffer, start: number, end: number): boolean {
  const line = bytes.subarray(start, end);
  const at = line.indexOf(ERASED_MEMBER);
  // Metadata can contain text that looks like this member, but an erased line has no metadata.
  return at !== -1 && line.indexOf(METADATA_MEMBER) === -1;
}

/**
 * @returns the erased form of a verified line, with its newline and a crc that `rechain` replaces; undefined if the line has this form
 * @throws SyntaxError only for a line that assetlog did not write
 */
export function erasedLine(bytes: Buffer, start: number, end: number, { time, all }: Erasure): Buffer | undefined {
  const line = readRecorded(bytes, start, end);
  const { check_name, passed, severity, origin, erased = time, event_time, from, recorded } = line;
  const result =
    check_name === undefined
      ? ''
      : `,"check_name":${quote(all ? ERASED : check_name)},"passed":${passed},"severity":"${severity}"`;
  const way = (name: string, value: LineName | undefined) => (value ? `,"${name}":${JSON.stringify(value)}` : '');
  const moment = (name: string, value: string | undefined) => (value ? `,"${name}":"${value}"` : '');
  const text =
    `{"seq":${line.seq},"id":"${line.id}","time":"${line.time}","type":"${line.type}"` +
    `,"asset_key":${quoteAll(all ? [ERASED] : line.asset_key)}${result}` +
    `${way('origin', origin)}${ERASED_MEMBER}"${erased}"${moment('event_time', event_time)}` +
    `${way('from', from)}${moment('recorded', recorded)}${CRC_TEMPLATE}`;
  const made = escaped(Buffer.from(text));
  const isSame = made.subarray(0, -TAIL_BYTES).equals(bytes.subarray(start, end + 1 - TAIL_BYTES));
  return isSame ? undefined : made;
}

/** Length of the end of a line, from its crc to its newline. */
const TAIL_BYTES = CRC_TEMPLATE.length;
