/** Documents and code that the built program has compressed, such as the page: by Brotli (RFC 7932), as text in the manner of basE91. */

import { compileFunction } from 'node:vm';
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

const modules: Record<string, object> = {};

/**
 * What `import()` is in the built program: the modules that it names are one compressed script, which is compiled and run when
 * the first of them is needed.
 * @param path of a module, such as `./all-commands.js`
 * @returns its exports
 */
export async function loadLater(path: string): Promise<object | undefined> {
  if (modules[path] === undefined) {
    const run = compileFunction(unpack(ASSETLOG_LATER), ['shared', 'loaded'], { filename: 'assetlog-later' });
    run(ASSETLOG_SHARED, (loaded: typeof modules) => Object.assign(modules, loaded));
  }
  return modules[path];
}

/** Put here by the build: a script that calls `loaded` with the exports of each module by its path, see `unpack`. */
declare const ASSETLOG_LATER: string;
/** Put here by the build: what that script imports of the rest of the program, by module. */
declare const ASSETLOG_SHARED: object;
