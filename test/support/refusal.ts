/** What a step of a request throws to refuse it. */

import assert from 'node:assert/strict';
import { type ErrorReply, Refusal } from '../../src/http/message.ts';

/** @returns the reply that a client gets */
export function refusalOf(act: () => unknown): ErrorReply {
  try {
    act();
  } catch (error) {
    if (error instanceof Refusal) return error.reply;
    throw error;
  }
  return assert.fail('it was not refused');
}
