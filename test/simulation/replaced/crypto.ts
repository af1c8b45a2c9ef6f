/** `node:crypto` whose chance is that of the process that runs. */

import { theWorld } from './globals.ts';

const real = process.getBuiltinModule('node:crypto');

export const { createHash, hash, timingSafeEqual, X509Certificate } = real;

function chance() {
  const { current } = theWorld();
  if (current === undefined) throw new Error('chance is drawn outside of any process');
  return current.chance;
}

export const randomUUID = () => chance().uuid();

/** As that of Node: `randomInt(max)`, or `randomInt(min, max)`, without `max`. */
export function randomInt(min: number, max?: number): number {
  return max === undefined ? chance().integer(0, min - 1) : chance().integer(min, max - 1);
}

export function randomBytes(size: number): Buffer {
  return Buffer.from(Array.from({ length: size }, () => chance().integer(0, 255)));
}
