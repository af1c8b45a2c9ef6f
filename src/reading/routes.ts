/** The routes that read journals. Each needs the right `read`. */

import type { Handler } from '../http/message.ts';
import type { Route } from '../http/router.ts';
import { readAssets } from './assets.ts';
import { readEvents } from './events.ts';
import type { ReadingParts } from './journals.ts';
import { parametersReader } from './query.ts';
import { readSources } from './sources.ts';
import { listReply } from './texts.ts';

const handlers = { '/events': readEvents, '/assets': readAssets, '/sources': readSources, '/refusals': readRefusals };

/** @returns the routes, for `AppParts.readings` */
export function readingRoutes(parts: ReadingParts): readonly Route<Handler>[] {
  return Object.entries(handlers).map(([path, handlerFor]) => readingRoute(path, handlerFor(parts)));
}

/** @returns the handler of `GET /refusals`, the last refused requests; it throws Refusal 400 for a query with parameters */
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

function readingRoute(path: string, handler: Handler): Route<Handler> {
  return {
    needs: 'read',
    methods: ['GET', 'HEAD'],
    path,
    followedBy: 'nothing',
    bodyTypes: ['application/json'],
    handler,
  };
}
