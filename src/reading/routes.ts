/** The routes that read journals. Each requires the right `read`. */

import { objectSchema, TEXT, TIME } from '../event/schema.ts';
import type { Handler } from '../http/message.ts';
import type { Route, RouteDescription } from '../http/router.ts';
import { describeAssets, readAssets } from './assets.ts';
import { readEvents } from './events.ts';
import { describeEvents } from './events-query.ts';
import type { ReadingParts } from './journals.ts';
import { parametersReader } from './query.ts';
import { describeSources, readSources } from './sources.ts';
import { listContent, listReply } from './texts.ts';

/** @returns the routes, for `AppParts.readings` */
export function readingRoutes(parts: ReadingParts): readonly Route<Handler>[] {
  const { limits } = parts;
  return [
    readingRoute('/events', readEvents(parts), () => describeEvents(limits)),
    readingRoute('/assets', readAssets(parts), () => describeAssets(limits)),
    readingRoute('/sources', readSources(parts), () => describeSources(limits)),
    readingRoute('/refusals', readRefusals(parts), describeRefusals),
  ];
}

/**
 * @returns the handler of `GET /refusals`, which returns the last refused requests; it throws Refusal 400 for a query with
 * parameters
 */
function readRefusals({ refusals, journals, limits, metrics }: ReadingParts): Handler {
  const readQuery = parametersReader({}, limits);
  return (request) => {
    readQuery(request);
    journals.shared.checkMemory();
    metrics.read('refusals');
    const found = () => refusals.of(request.deployment);
    return {
      kind: 'answer',
      reply: listReply('refusals', found, request.head.fields.accept, journals.shared, limits),
    };
  };
}

function describeRefusals(): RouteDescription {
  const refused = objectSchema(
    { time: TIME, request_id: TEXT, status: { type: 'integer' }, error: TEXT, address: TEXT },
    { method: TEXT, path: TEXT, reason: TEXT, token_name: TEXT, traceparent: TEXT },
  );
  return { summary: 'Read the last refused requests', content: listContent('refusals', refused) };
}

function readingRoute(path: string, handler: Handler, describe: () => RouteDescription): Route<Handler> {
  return {
    needs: 'read',
    methods: ['GET', 'HEAD'],
    path,
    followedBy: 'nothing',
    bodyTypes: ['application/json'],
    handler,
    describe,
  };
}
