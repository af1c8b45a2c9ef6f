/**
 * The inverse of CRC-32. The crc of a line depends on its bytes and on the crc of the previous line (the seed). For given bytes
 * each seed results in a different crc, so a line and its crc determine the seed, which is the crc of the previous line.
 *
 * In terms of polynomials over GF(2): `crc32(bytes, seed) = crc32(bytes, 0) + seed * x^(8 * bytes.length)`, modulo the
 * polynomial of CRC-32. That polynomial has a constant term, so x has an inverse, and the factor of the seed can be divided out.
 */

/** Bit 31 is the coefficient of x^0, bit 0 the coefficient of x^31. */
const POLYNOMIAL = 0xedb88320;
/** `x^-1`, since `x * 0xdb710641` is 1. */
const INVERSE_OF_X = 0xdb710641;

/**
 * @param crcOfBytes `crc32(bytes, 0)`
 * @param length number of the bytes
 * @returns the only seed with `crc32(bytes, seed) === crc`
 */
export function seedOf(crcOfBytes: number, length: number, crc: number): number {
  let seed = crc ^ crcOfBytes;
  for (let bit = 0; length >>> bit > 0; bit += 1) {
    if ((length >>> bit) & 1) seed = multiply(seed, inverses[bit] as number);
  }
  return seed >>> 0;
}

/** `x^(-8 * 2^n)`: the factor that cancels the effect of 2^n bytes. */
const inverses: readonly number[] = inversePowers();

function inversePowers(): number[] {
  let power = INVERSE_OF_X;
  for (let doubling = 0; doubling < 3; doubling += 1) power = multiply(power, power);
  return Array.from({ length: 31 }, () => {
    const current = power;
    power = multiply(power, power);
    return current;
  });
}

function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let rest = a | 0; rest !== 0; rest <<= 1) {
    if (rest < 0) product ^= shifted;
    shifted = shifted & 1 ? (shifted >>> 1) ^ POLYNOMIAL : shifted >>> 1;
  }
  return product;
}
