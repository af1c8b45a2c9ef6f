/** The header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07), and the replies to a repeated key. */

import type { KeyConflict } from '../event/record-result.ts';
import { type BodyReply, type ErrorReply, quotingRefusal, shown } from './message.ts';

/**
 * The accepted forms of the header: bare (`order-17/1`), which most clients send, or a string of RFC 8941 section 3.3.3
 * (`"order-17/1"`). At most 255 visible ASCII characters.
 */
export const idempotencyKeyPattern = /^(?:[!#-+\--~]{1,255}|"(?:[!#-[\]-~]|\\["\\]){1,255}")$/;

/**
 * @param value the value of the header, repeated headers joined with a comma
 * @returns the key, without quotes; undefined if the header is missing
 * @throws Refusal 400 for any other form, and for two keys
 */
export function readIdempotencyKey(value: string | undefined): string | undefined {
  if (value === undefined) return undefined;
  if (!idempotencyKeyPattern.test(value)) {
    const wanted = 'one key of 1 to 255 visible ASCII characters, in quotes, or bare without " and ,';
    const problem = (sent: string) => `Idempotency-Key is ${sent}; send ${wanted}`;
    throw quotingRefusal(400, shown(value), 'logged', problem);
  }
  return value.startsWith('"') ? value.slice(1, -1).replace(/\\(["\\])/g, '$1') : value;
}

/** The reply to a report whose key and event were recorded earlier. */
export const replayedReply: BodyReply = {
  kind: 'body',
  status: 200,
  body: '{}',
  headers: ['Idempotent-Replayed', 'true'],
};

/**
 * @returns the reply to a report whose key belongs to another event: 422 (section 2.7 of
 *   draft-ietf-httpapi-idempotency-key-header-07)
 */
export function keyConflict([conflict]: readonly KeyConflict[]): ErrorReply {
  const { key = '', member = '' } = conflict ?? {};
  const problem = (sent: string) =>
    `the Idempotency-Key ${sent} was used before, for an event with another ${member}; nothing was recorded. Send a new key, or the event as it was`;
  return quotingRefusal(422, shown(key), 'logged', problem).reply;
}
