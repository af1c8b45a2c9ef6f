/** `GET /sources`: the journals that forward their events here, first the one that was not heard of for the longest time. */

import type { Handler } from '../http/message.ts';
import type { ReadingParts } from './journals.ts';
import { described, durationParameter, type QueryTable, readParameters } from './query.ts';
import { listReply } from './texts.ts';

interface SourcesQuery {
  readonly silent: number | undefined;
}

export const sourcesParameters: QueryTable<SourcesQuery> = {
  silent: described('only sources without a request for so long', durationParameter),
};

/** @returns the handler of `GET /sources`; it throws Refusal 400 for a wrong query */
export function readSources({ sourcesOf, journals, limits, metrics }: ReadingParts): Handler {
  return (request) => {
    const { silent } = readParameters(request, sourcesParameters, limits);
    return {
      kind: 'later',
      reply: async (ending) => {
        journals.shared.checkMemory();
        metrics.read('sources');
        const journal = await journals.whenReadable(request.deployment, ending);
        const { last } = await journal.range();
        const found = await sourcesOf(request.deployment, last, { silentMs: silent });
        return listReply('sources', () => found, request.head.fields.accept, journals.shared, limits);
      },
    };
  };
}
