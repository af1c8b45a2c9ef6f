/** Small files beside a journal that show whether they are complete: JSON objects with their CRC-32 as the last member. */

import { crc32 } from 'node:zlib';
import { LINE_FEED } from '../event/json-bytes.ts';
import { hex } from './line/record.ts';

/**
 * @param text an object without its end: `{"seq":7`
 * @param before the CRC-32 of the bytes before it
 * @returns the complete object: `{"seq":7,"crc":"9ae0daaf"}`
 */
export function sealed(text: string, before = 0): string {
  return `${text}${CRC_MEMBER}${hex(crc32(text, before))}"}`;
}

/** Whether `sealed` created a text. */
export function isSealed(text: string, before = 0): boolean {
  const end = text.lastIndexOf(CRC_MEMBER);
  return end !== -1 && sealed(text.slice(0, end), before) === text;
}

/** @returns the content of a file with a single sealed object */
export function sealedFile(text: string): Buffer {
  return Buffer.from(`${sealed(text)}\n`);
}

/** @returns the object that `sealedFile` wrote; undefined if the file is incomplete */
export function unsealedFile(bytes: Buffer): string | undefined {
  const text = bytes.toString('utf8', 0, bytes.length - 1);
  return bytes.at(-1) === LINE_FEED && isSealed(text) ? text : undefined;
}

const CRC_MEMBER = ',"crc":"';
