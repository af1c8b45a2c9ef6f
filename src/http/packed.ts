/** Documents that the built program serves, such as the page: compressed by Brotli (RFC 7932), as text in Base85. */

import { brotliDecompressSync } from 'node:zlib';

/**
 * @param packed from `packed` of `page/build.ts`, in Base85, which is a sixteenth shorter than Base64: each five characters are the
 *   digits of four bytes, from `#` on, with `!` in place of the backslash
 * @returns the text that was packed, such as `<!doctype html>…`
 */
export function unpack(packed: string): string {
  const bytes = Buffer.alloc((packed.length / 5) * 4);
  let value = 0;
  for (let at = 0; at < packed.length; at += 1) {
    value = value * 85 + (packed[at] === '!' ? 57 : packed.charCodeAt(at) - 35);
    if (at % 5 < 4) continue;
    bytes.writeUInt32BE(value, ((at - 4) / 5) * 4);
    value = 0;
  }
  return brotliDecompressSync(bytes).toString();
}
