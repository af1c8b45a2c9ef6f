/** The view of the requests that the service refused recently, with the reasons. */

import { type PolledOptions, PolledView } from './polled.ts';
import { badge, cell, renderTime, shortTime, table } from './view.ts';

/** A request in the reply of `/refusals`. */
interface Refusal {
  readonly time: string;
  readonly method?: string;
  readonly path?: string;
  readonly status: number;
  readonly error: string;
  /** The reason, if it was not sent to the client. */
  readonly reason?: string;
  readonly [more: string]: unknown;
}

type Shared = Pick<PolledOptions<Refusal>, 'service' | 'onChange' | 'open'>;

export function refusalsView(shared: Shared): PolledView<Refusal> {
  return new PolledView<Refusal>({
    ...shared,
    columns: { time: 'time (UTC)', what: 'status', key: 'request', says: 'why' },
    label: 'Refused requests, newest first',
    noun: 'refused request',
    pathFor: () => 'refusals',
    itemsIn: ({ refusals = [] }) => refusals,
    idOf: (refusal) => String(refusal['request_id'] ?? JSON.stringify(refusal)),
    cells: ({ time, status, method = '', path = '', error, reason = error }) => [
      cell('time', shortTime(time)),
      cell('what', badge(status < 500 ? 'warn' : 'bad', String(status))),
      cell('key', `${method} ${path}`),
      cell('says', reason),
    ],
    detail: ({ time, status, method = '', path = '', error, ...more }) => ({
      title: `${status}: ${method} ${path}`,
      content: [
        table([
          ['why', error],
          ['time', renderTime(time)],
          ...Object.entries(more).map(([name, value]) => [name, String(value)] as const),
        ]),
      ],
    }),
  });
}
