/** `GET /refusals`: the last refused requests. */

import type { Handler } from '../http/message.ts';
import type { Refused } from '../telemetry/refusals.ts';
import { acceptedType, linesType } from './accept.ts';
import type { ReadingParts } from './journals.ts';
import { readParameters } from './query.ts';
import { inPieces } from './texts.ts';

/** @returns the handler of `GET /refusals`; it throws Refusal 400 for a query with parameters */
export function readRefusals({ refusals, journals, limits, metrics }: ReadingParts): Handler {
  return (request) => {
    readParameters(request, {}, limits);
    journals.shared.checkMemory();
    metrics.read('refusals');
    const found = refusals.of(request.deployment);
    const type = acceptedType(request.head.accept, ['application/json', linesType]);
    const texts = type === linesType ? linesOf : documentOf;
    const pieces = (signal: AbortSignal) => inPieces(texts(found), journals.shared, limits, signal);
    return { kind: 'answer', reply: { kind: 'stream', status: 200, contentType: type, pieces } };
  };
}

function* linesOf(found: readonly Refused[]): Generator<string> {
  for (const refused of found) yield `${JSON.stringify(refused)}\n`;
}

function* documentOf(found: readonly Refused[]): Generator<string> {
  yield '{"refusals":[';
  for (const [at, refused] of found.entries()) yield `${at === 0 ? '' : ','}${JSON.stringify(refused)}`;
  yield ']}';
}
