/** The header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07), and the replies to a key that was used before. */

import type { KeyConflict } from '../event/record-result.ts';
import { type BodyReply, type ErrorReply, Refusal, shown } from './message.ts';

/**
 * The header as it may be sent: bare (`order-17/1`), as most clients do, or as a string of RFC 8941 section 3.3.3
 * (`"order-17/1"`). At most 255 visible ASCII characters.
 */
export const idempotencyKeyPattern = /^(?:[!#-+\--~]{1,255}|"(?:[!#-[\]-~]|\\["\\]){1,255}")$/;

/**
 * @param value of the header, values of several joined with a comma: `"order-17/1"` in quotes or not
 * @returns the key: `order-17/1`; undefined if there is no such header
 * @throws Refusal 400 for any other form, such as `order-17/1, order-17/2`
 */
export function readIdempotencyKey(value: string | undefined): string | undefined {
  if (value === undefined) return undefined;
  if (!idempotencyKeyPattern.test(value)) {
    const wanted = 'one key of 1 to 255 visible ASCII characters, in quotes, or bare without " and ,';
    throw new Refusal(400, `Idempotency-Key is ${shown(value)}; send ${wanted}`);
  }
  return value.startsWith('"') ? value.slice(1, -1).replace(/\\(["\\])/g, '$1') : value;
}

/** The reply to a report that was recorded before, by an earlier report with its key: 200 with `Idempotent-Replayed: true`. */
export const replayedReply: BodyReply = {
  kind: 'body',
  status: 200,
  body: '{}',
  headers: ['Idempotent-Replayed', 'true'],
};

/**
 * @returns the reply to a report whose key belongs to another event: 422, as section 2.7 of
 *   draft-ietf-httpapi-idempotency-key-header-07 has it, with the error
 *   `the Idempotency-Key "order-17/1" was used before, for an event with another metadata; …`
 */
export function keyConflict([conflict]: readonly KeyConflict[]): ErrorReply {
  const { key = '', member = '' } = conflict ?? {};
  const error = `the Idempotency-Key ${shown(key)} was used before, for an event with another ${member}; nothing was recorded. Send a new key, or the event as it was`;
  return { kind: 'error', status: 422, error };
}
