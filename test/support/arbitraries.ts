/** Generators of fast-check that several tests share. */

import fc from 'fast-check';

/** Any character, as the unit of a string: `binary` of fast-check makes a table of all characters first, which takes a second. */
export const character = fc.nat({ max: 0x10ffff }).map((code) => String.fromCodePoint(code));
