/** `GET /refusals`: the last refused requests. */

import type { Handler } from '../http/message.ts';
import type { ReadingParts } from './journals.ts';
import { readParameters } from './query.ts';
import { listReply } from './texts.ts';

/** @returns the handler of `GET /refusals`; it throws Refusal 400 for a query with parameters */
export function readRefusals({ refusals, journals, limits, metrics }: ReadingParts): Handler {
  return (request) => {
    readParameters(request, {}, limits);
    journals.shared.checkMemory();
    metrics.read('refusals');
    const found = refusals.of(request.deployment);
    const reply = listReply('refusals', () => found, request.head.fields.accept, journals.shared, limits);
    return { kind: 'answer', reply };
  };
}
