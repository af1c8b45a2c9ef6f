import assert from 'node:assert/strict';
import { type ErrorReply, Refusal } from '../../src/http/message.ts';

/** Runs a step of a request that has to refuse. @returns the reply that the client gets */
export function refusalOf(act: () => unknown): ErrorReply {
  try {
    act();
  } catch (error) {
    if (error instanceof Refusal) return error.reply;
    throw error;
  }
  return assert.fail('the request was not refused');
}
