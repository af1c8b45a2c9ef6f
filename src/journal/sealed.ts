/** Small files beside a journal that show themselves whether they are whole: JSON objects with their CRC-32 as the last member. */

import { crc32 } from 'node:zlib';
import { hex } from './line/record.ts';

/** @param text of an object without its end: `{"seq":7` @returns the whole object: `{"seq":7,"crc":"9ae0daaf"}` */
export function sealed(text: string): string {
  return `${text}${CRC_MEMBER}${hex(crc32(text))}"}`;
}

/** Whether a text is one that `sealed` made. */
export function isSealed(text: string): boolean {
  const end = text.lastIndexOf(CRC_MEMBER);
  return end !== -1 && sealed(text.slice(0, end)) === text;
}

const CRC_MEMBER = ',"crc":"';
