/**
 * Turns CRC-32 around. The crc of a line depends on its bytes and on the crc of the line before it (the seed). For given bytes
 * each seed leads to another crc, so a line and its crc determine the seed: each line names the crc of its predecessor.
 *
 * In terms of polynomials over GF(2): `crc32(bytes, seed) = crc32(bytes, 0) + seed * x^(8 * bytes.length)`, modulo the
 * polynomial of CRC-32. It is primitive, so `x^(2^32 - 1)` is 1, and every power of x has an inverse.
 */

/** Bit 31 is the coefficient of x^0, bit 0 that of x^31. */
const POLYNOMIAL = 0xedb88320;
const ONE = 0x80000000;
const X = 0x40000000;
/** Of x: `x^ORDER` is 1. */
const ORDER = 2 ** 32 - 1;

/**
 * @param crcOfBytes `crc32(bytes, 0)`
 * @param length of the bytes
 * @returns the only seed with `crc32(bytes, seed) === crc`
 */
export function seedOf(crcOfBytes: number, length: number, crc: number): number {
  return multiply(powerOfX(ORDER - ((8 * length) % ORDER)), crc ^ crcOfBytes);
}

/** `x^(2^n)` for each n that an exponent below 2^32 needs. */
const squares: readonly number[] = Array.from({ length: 31 }).reduce<number[]>(
  (powers) => {
    const last = powers.at(-1) as number;
    return [...powers, multiply(last, last)];
  },
  [X],
);

function powerOfX(exponent: number): number {
  let power = ONE;
  for (const [bit, square] of squares.entries()) if ((exponent >>> bit) & 1) power = multiply(power, square);
  return power;
}

function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let bit = 31; bit >= 0; bit -= 1) {
    if ((a >>> bit) & 1) product ^= shifted;
    shifted = shifted & 1 ? (shifted >>> 1) ^ POLYNOMIAL : shifted >>> 1;
  }
  return product >>> 0;
}
