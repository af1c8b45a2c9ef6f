/** Documents and code that the built program has compressed, such as the page: by Brotli (RFC 7932), as text in the manner of basE91. */

import { brotliDecompressSync } from 'node:zlib';

/**
 * @param packed from `packed` of `page/build.ts`. Each two characters are the digits, the lower one first, of a number below
 *   92 * 92, from `#` on, with `!` in place of the backslash. The number is 13 bits, or 14 if its lower 13 bits are below 272: such
 *   a number may have 8,192 more. It is 2 % shorter than Base85
 * @returns the text that was packed, such as `<!doctype html>…`
 */
export function unpack(packed: string): string {
  const bytes = Buffer.from(packed.replaceAll('!', '\\')); // each is read before its position is written
  let [length, bits, count] = [0, 0, 0];
  for (let at = 0; at < packed.length; at += 2) {
    const value = bytes[at]! - 35 + (bytes[at + 1]! - 35) * 92;
    bits |= value << count;
    count += (value & 8191) < 272 ? 14 : 13;
    for (; count >= 8; count -= 8) {
      bytes[length] = bits;
      length += 1;
      bits >>>= 8;
    }
  }
  return brotliDecompressSync(bytes).toString();
}

const texts: string[] = [];

/**
 * @param index of a text that the build took out of a function of the source: see `build-texts.ts`
 * @returns the text. The first one that is needed unpacks all of them
 */
export function packedText(index: number): string {
  if (texts.length === 0) texts.push(...unpack(ASSETLOG_TEXTS).split('\0'));
  return texts[index] ?? '';
}

/** Put here by the build: the texts with U+0000 between them, see `unpack`. */
declare const ASSETLOG_TEXTS: string;
