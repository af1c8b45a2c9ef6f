/** The id of a line: a UUID of version 7. */

import { randomUUID } from 'node:crypto';

/** Pattern of an id of a journal or of an event, a UUID in lower case. */
export const ID_FORM = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
export const ID = new RegExp(`^${ID_FORM}$`);

/**
 * Version 7 UUIDs of one moment (RFC 9562 section 5.7): 48 bits of milliseconds, the version, 74 random bits with the variant
 * between them. The UUIDs of a batch count up from a random start (section 6.2, method 2), so they sort in order.
 * @returns a function that returns the next UUID: `01a1fb95-ce62-7e59-9364-610bf5613940`, then the same with `…941`
 */
export function createUuids(now: Date): () => string {
  const milliseconds = now.getTime().toString(16).padStart(12, '0');
  // A version 4 UUID has its random and variant bits at the positions of version 7.
  const random = randomUUID();
  const prefix = `${milliseconds.slice(0, 8)}-${milliseconds.slice(8)}-7${random.slice(15, 29)}`;
  // The last 28 bits are the counter. It starts in their lower half, so it never overflows into the digit before them.
  let count = Number.parseInt(random.slice(29), 16) >>> 1;
  return () => {
    count += 1;
    return prefix + count.toString(16).padStart(7, '0');
  };
}

/** @returns the time of a UUID of version 7, in milliseconds since 1970; undefined for any other text */
export function idTimeMs(id: string | null): number | undefined {
  const [, high = '', low] = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-/.exec(id ?? '') ?? [];
  return low === undefined ? undefined : Number.parseInt(high + low, 16);
}
