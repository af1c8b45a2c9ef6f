/** The routes that read journals. Each needs the right `read`. */

import type { Handler } from '../http/message.ts';
import type { Route } from '../http/router.ts';
import { readAssets } from './assets.ts';
import { readEvents } from './events.ts';
import type { ReadingParts } from './journals.ts';
import { readRefusals } from './refusals.ts';

/** @returns the routes, such as that of `GET /events`, for `AppParts.readings` */
export function readingRoutes(parts: ReadingParts): readonly Route<Handler>[] {
  return [
    readingRoute('/events', readEvents(parts)),
    readingRoute('/assets', readAssets(parts)),
    readingRoute('/refusals', readRefusals(parts)),
  ];
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
