/** Lines of a journal for a test of a sender. */

import { encodeBatch } from '../../src/journal/line/record.ts';
import { Line } from '../../src/journal/look/reading.ts';
import { encodeMembers, type PlainEvent } from './plain-event.ts';

/** @returns these events as journal lines, in one chunk of the file */
export function linesOf(
  events: readonly PlainEvent[],
  firstSeq = 1,
  crc = 0,
  time = '2026-11-20T15:19:45.266Z',
): Line[] {
  const members = events.map(encodeMembers);
  const { bytes } = encodeBatch(members, { seq: firstSeq, crc }, new Date(time));
  const lines: Line[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(0x0a, start);
    lines.push(new Line(bytes, start, end, firstSeq + lines.length));
    start = end + 1;
  }
  return lines;
}
