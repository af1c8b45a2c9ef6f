/** `GET /refusals`: the last refused requests. */

import type { Handler } from '../http/message.ts';
import { acceptedType, linesType } from './accept.ts';
import type { ReadingParts } from './journals.ts';
import { readParameters } from './query.ts';

/** @returns the handler of `GET /refusals`; it throws Refusal 400 for a query with parameters */
export function readRefusals({ refusals, limits, metrics }: ReadingParts): Handler {
  return (request) => {
    readParameters(request, {}, limits);
    metrics.read('refusals');
    const found = refusals.of(request.deployment);
    const type = acceptedType(request.head.accept, ['application/json', linesType]);
    const body =
      type === linesType
        ? found.map((refused) => `${JSON.stringify(refused)}\n`).join('')
        : JSON.stringify({ refusals: found });
    return { kind: 'answer', reply: { kind: 'body', status: 200, body, contentType: type } };
  };
}
