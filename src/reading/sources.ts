/**
 * `GET /sources`: the journals that forward their events to this service, starting with the one that has been silent
 * longest.
 */

import type { Limits } from '../config/limits.ts';
import { TIME_FORM } from '../event/schema.ts';
import type { Handler } from '../http/message.ts';
import type { RouteDescription } from '../http/router.ts';
import { ID_FORM } from '../journal/line/uuid.ts';
import { type SourceQuery, sourceSchema } from '../journal/look/source-state.ts';
import type { ReadingParts } from './journals.ts';
import {
  booleanParameter,
  described,
  durationParameter,
  numberParameter,
  parametersReader,
  type QueryParameter,
  type QueryTable,
} from './query.ts';
import { listContent, listReply } from './texts.ts';

interface SourcesParameters extends Pick<SourceQuery, 'after' | 'limit'> {
  readonly silent: number | undefined;
  readonly stopped: boolean;
}

const PLACE_PATTERN = `^(${TIME_FORM})?,${ID_FORM}$`;
const PLACE = new RegExp(PLACE_PATTERN);

/**
 * The position of a source as the last line of a page. A source moves when it makes a request, so the time of its last
 * request is part of the position.
 */
const placeParameter: QueryParameter<SourceQuery['after']> = {
  initial: undefined,
  schema: { type: 'string', pattern: PLACE_PATTERN },
  parse: (text) => {
    if (!PLACE.test(text)) throw new Error('send last_seen and id of a source with a comma between them');
    const [time = '', id = ''] = text.split(',');
    return { id, seenMs: time === '' ? 0 : Date.parse(time) };
  },
};

function sourcesParameters({ forwardSourcesMax }: Limits): QueryTable<SourcesParameters> {
  return {
    silent: described('only sources without a request for this time', durationParameter),
    stopped: described('only sources that reported that they cannot send', booleanParameter(false)),
    after: described(
      'of these, only those after this one: its last_seen and its id, with a comma between',
      placeParameter,
    ),
    limit: described('at most so many; all by default', numberParameter(undefined, 1, forwardSourcesMax)),
  };
}

/** @returns the description of `GET /sources` */
export function describeSources(limits: Limits): RouteDescription {
  return {
    summary: 'Read which devices forward their events here, the silent ones first',
    query: sourcesParameters(limits),
    content: listContent('sources', sourceSchema()),
  };
}

/** @returns the handler of `GET /sources`; it throws Refusal 400 for a wrong query */
export function readSources({ sourcesOf, journals, limits, metrics }: ReadingParts): Handler {
  const readQuery = parametersReader(sourcesParameters(limits), limits);
  return (request) => {
    const { silent: silentMs, stopped: isStopped, ...page } = readQuery(request);
    return {
      kind: 'later',
      reply: async (ending) => {
        journals.shared.checkMemory();
        metrics.read('sources');
        const journal = await journals.whenReadable(request.deployment, ending);
        const { last } = await journal.range();
        const found = await sourcesOf(request.deployment, last, { silentMs, isStopped, ...page });
        return listReply('sources', () => found, request.head.fields.accept, journals.shared, limits);
      },
    };
  };
}
