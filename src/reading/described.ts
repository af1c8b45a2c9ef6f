/** The routes that read journals, for the OpenAPI document. */

import type { Limits } from '../config/limits.ts';
import { orNull, type Schema } from '../event/schema.ts';
import type { DescribedRoute } from '../http/openapi.ts';
import { linesType } from './accept.ts';
import { assetsParameters } from './assets.ts';
import { eventsParameters, type QueryLimits } from './events-query.ts';
import { sourcesParameters } from './sources.ts';

/** @returns the descriptions of the routes, in the order of `readingRoutes` */
export function describedReadings(
  limits: Pick<Limits, 'forwardSourcesMax' | 'readAssetsMax' | 'streamsMax'> & QueryLimits,
): readonly DescribedRoute[] {
  const shared = { needs: 'read', methods: ['get', 'head'] } as const;
  return [
    {
      ...shared,
      path: '/events',
      summary: 'Read events',
      description:
        'With after_seq and wait the reply waits for the next event. As text/event-stream it has no end, and takes ' +
        `Last-Event-ID; ${limits.streamsMax} streams may be open. These exclude each other: limit or wait and last, limit or ` +
        'wait and a stream, check, passed or severity and another type than check.',
      query: eventsParameters(limits),
      content: {
        [linesType]: text,
        'application/json': object({ events: list(ref('Event')), next_after_seq: { ...count, minimum: 0 } }),
        'text/event-stream': text,
      },
      also: [410],
    },
    {
      ...shared,
      path: '/assets',
      summary: 'Read the state of each asset',
      query: assetsParameters(limits),
      content: { 'application/json': object({ assets: list(asset) }, lacking), [linesType]: text },
    },
    {
      ...shared,
      path: '/sources',
      summary: 'Read which devices forward their events here, the silent ones first',
      query: sourcesParameters(limits),
      content: { 'application/json': object({ sources: list(source) }), [linesType]: text },
    },
    {
      ...shared,
      path: '/refusals',
      summary: 'Read the last refused requests',
      content: { 'application/json': object({ refusals: list(refused) }), [linesType]: text },
    },
  ];
}

const text: Schema = { type: 'string' };
const count: Schema = { type: 'integer', minimum: 1 };
const truth: Schema = { type: 'boolean' };

const latest = { count, seq: count, time: text };
const latestMore = { partition: text, data_version: text, source: text, removed: truth };
const result = { check_name: text, passed: truth, severity: text, ...latest };
const inARow = { since_seq: count, since: text, in_a_row: count };
const asset = object(
  {
    asset_key: ref('KeyParts'),
    checks: list(object({ ...result, ...inARow }, latestMore)),
  },
  Object.fromEntries(['materialization', 'observation', 'check'].map((kind) => [kind, object(latest, latestMore)])),
);
/** What the state of the assets lacks. */
const lacking = { since_seq: count, unseen: list(object({ first: count, last: count })), refused: count };
const source = object({
  id: text,
  name: orNull(text),
  token_name: orNull(text),
  deployment: orNull(text),
  last_seq: { ...count, minimum: 0 },
  last_event: orNull(text),
  last_seen: orNull(text),
  lost_events: { ...count, minimum: 0 },
  lag_events: orNull({ ...count, minimum: 0 }),
});
const refused = object(
  { time: text, request_id: text, status: { type: 'integer' }, error: text, address: text },
  { method: text, path: text, reason: text, token_name: text },
);

/** @param required the schemas of the members that are always there, by their names. @param others of those that may be absent */
function object(required: Readonly<Record<string, Schema>>, others: Readonly<Record<string, Schema>> = {}): Schema {
  return { type: 'object', properties: { ...required, ...others }, required: Object.keys(required) };
}

function list(items: Schema): Schema {
  return { type: 'array', items };
}

function ref(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` };
}
