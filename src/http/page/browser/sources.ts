/** The view of the journals that forward to a hub, sorted by how long they have been silent. */

import { addressOf, hashOf } from './address.ts';
import { element } from './dom.ts';
import { type PolledOptions, PolledView } from './polled.ts';
import type { Service } from './service.ts';
import { badge, cell, counted, renderAge, renderTime, shortTime, table } from './view.ts';

/** A journal in the reply of `/sources`. */
interface Source {
  readonly id: string;
  readonly name: string | null;
  readonly token_name: string | null;
  readonly deployment: string | null;
  readonly last_seq: number;
  readonly last_event: string | null;
  readonly last_seen: string | null;
  readonly through: string | null;
  readonly state: string | null;
  readonly reason: string | null;
  readonly lost_events: number;
  readonly missing_events: number | null;
  readonly lag_events: number | null;
}

type Shared = Pick<PolledOptions<Source>, 'service' | 'onChange' | 'open'>;

export function sourcesView(shared: Shared): PolledView<Source> {
  return new PolledView<Source>({
    ...shared,
    columns: {
      time: 'last seen',
      key: 'source',
      seq: 'last seq',
      what: 'lost',
      partition: 'lag',
      says: 'last event (UTC), id',
    },
    label: 'Sources, longest silent first',
    noun: 'source',
    pathFor: () => 'sources',
    itemsIn: ({ sources = [] }) => sources,
    idOf: ({ id }) => id,
    cells: ({ id, name, last_seq, last_event, last_seen, lost_events, lag_events, state, reason }) => [
      cell('time', last_seen === null ? 'not yet' : renderAge(last_seen)),
      cell('key', name ?? id),
      cell('seq', counted(last_seq)),
      cell('what', lost_events === 0 ? '' : badge('bad', counted(lost_events))),
      cell('partition', lag_events === null ? '' : counted(lag_events)),
      cell(
        'says',
        state === null ? '' : badge('bad', `${state} ${reason ?? ''}`),
        last_event === null ? '' : shortTime(last_event),
        ' ',
        id,
      ),
    ],
    detail: ({ id, name, token_name, deployment, last_seq, last_event, last_seen, ...more }) => ({
      title: element('bdi', {}, name ?? id),
      content: [
        table([
          ['id', id],
          ['name', name ?? 'not reported'],
          ['token', token_name ?? undefined],
          ['deployment', deployment ?? undefined],
          ['last seq', counted(last_seq)],
          ['last event', last_event === null ? undefined : renderTime(last_event)],
          ['last seen', last_seen === null ? 'not recorded yet' : renderTime(last_seen)],
          ['through', more.through ?? undefined],
          ['state', more.state === null ? undefined : `${more.state} ${more.reason ?? ''}`],
          ['lost', counted(more.lost_events, 'event')],
          ['missing', more.missing_events === null ? undefined : counted(more.missing_events, 'event')],
          ['lag', more.lag_events === null ? 'not reported' : counted(more.lag_events, 'event')],
        ]),
        element('p', {}, element('a', { href: hashOf(addressOf('events', { source: id })) }, 'Events of this source')),
      ],
    }),
  });
}

/** @returns the names of up to 500 journals that forward to the service, by id. Never rejects */
export async function sourceNames(service: Service, signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
  try {
    const reply = await service.ask('sources?limit=500', { Accept: 'application/json' }, signal);
    const { sources }: { readonly sources: readonly Source[] } = await reply.json();
    return new Map(sources.map(({ id, name }) => [id, name ?? id]));
  } catch {
    return new Map(); // the connection shows that the service does not answer
  }
}
