/** The query of `GET /events`: the filters of `assetlog events`, and how much is sent in which form. */

import type { Limits } from '../config/limits.ts';
import type { JsonLimits } from '../event/json-bytes.ts';
import { lineTimeFrom, type Moment, timeAt } from '../event/moment.ts';
import { integerFrom, listSchema, namedSchema, objectSchema, TEXT } from '../event/schema.ts';
import { allSearches, type Filter, type QueryName, type SearchKind } from '../event/search.ts';
import { type HandlerRequest, quotingRefusal, Refusal, shown } from '../http/message.ts';
import type { RouteDescription } from '../http/router.ts';
import { acceptedType, linesType } from './accept.ts';
import {
  booleanParameter,
  containedParameter,
  described,
  idParameter,
  keyParameter,
  keyStartParameter,
  numberParameter,
  parametersReader,
  type QueryParameter,
  severityParameter,
  sourceParameter,
  textParameter,
  timeParameter,
  typeParameter,
} from './query.ts';

type SearchParameters = {
  readonly [Name in QueryName]: QueryParameter<Name extends 'after_seq' | 'until_seq' ? number | undefined : unknown>;
};

function parameterOf(kind: SearchKind, charactersMax: number): QueryParameter<unknown> {
  if (kind === 'key' || kind === 'key prefix') return keyParameter;
  if (kind === 'key start') return keyStartParameter;
  if (kind === 'type') return typeParameter;
  if (kind === 'boolean') return booleanParameter(undefined);
  if (kind === 'severity') return severityParameter;
  if (kind === 'id') return idParameter;
  if (kind === 'moment') return timeParameter;
  if (kind === 'source') return sourceParameter;
  if (kind === 'contained text') return containedParameter(charactersMax);
  return kind === 'seq' ? numberParameter(undefined, 0, Number.MAX_SAFE_INTEGER) : textParameter;
}

function searchParameters({ searchCharactersMax }: Limits): SearchParameters {
  const searches = allSearches.flatMap(({ query, kind, what = '' }) =>
    query === undefined ? [] : [[query, described(what, parameterOf(kind, searchCharactersMax))]],
  );
  return Object.fromEntries(searches);
}

/** @returns the parameters of the query of `GET /events` */
function eventsParameters(limits: Limits) {
  const events = numberParameter(undefined, 1, limits.readEventsMax);
  return {
    ...searchParameters(limits),
    last: described('only this many of the newest', events),
    limit: described('at most so many, 100 by default; the oldest first', events),
    wait: described('seconds to wait for an event if there is none yet', numberParameter(undefined, 0, 60)),
  };
}

/** @returns the description of `GET /events` */
export function describeEvents(limits: Limits): RouteDescription {
  const page = objectSchema({ events: listSchema(namedSchema('Event')), next_after_seq: integerFrom(0) });
  return {
    summary: 'Read events',
    description:
      'With after_seq and wait the reply waits for the next event. As text/event-stream it has no end, and takes ' +
      `Last-Event-ID; ${limits.streamsMax} streams may be open. These exclude each other: limit or wait and last, limit or ` +
      'wait and a stream, check, passed or severity and another type than check.',
    query: eventsParameters(limits),
    content: { [linesType]: TEXT, 'application/json': page, 'text/event-stream': TEXT },
    also: [410],
  };
}

export type Form = 'lines' | 'json' | 'stream';

export interface EventsQuestion {
  readonly form: Form;
  /** The seq after which the events start; undefined if the request does not contain it. */
  readonly afterSeq: number | undefined;
  /** Only this many of the newest events. */
  readonly last: number | undefined;
  readonly limit: number;
  readonly waitMs: number;
  /**
   * @param nowMs the clock, from which durations such as `since=7d` count back
   * @returns the filter without `afterSeq`
   * @throws Refusal 400 if no time can match
   */
  readonly filter: (nowMs: number) => Filter;
}

/** @returns a function that reads the question of a request. It throws Refusal 400 for a wrong query or a wrong `Last-Event-ID` */
export function questionReader(
  limits: Limits & JsonLimits,
): (request: Pick<HandlerRequest, 'body' | 'query' | 'head'>) => EventsQuestion {
  const readValues = parametersReader(eventsParameters(limits), limits);
  return (request) => {
    const { head } = request;
    const values: Values = readValues(request);
    const form = forms[acceptedType(head.fields.accept, [linesType, 'application/json', 'text/event-stream'])];
    checkTogether(values, form);
    const resumed = form === 'stream' ? readLastEventId(head.fields.lastEventId) : undefined;
    return {
      form,
      afterSeq: resumed ?? values.after_seq,
      last: resumed === undefined ? values.last : undefined,
      limit: values.last ?? values.limit ?? 100,
      waitMs: 1000 * (values.wait ?? 0),
      filter: (nowMs) => filterOf(values, nowMs),
    };
  };
}

/** @returns the parameters of the query of `POST /erase` */
function eraseParameters(limits: Limits) {
  const what = 'also the asset key and the name of the check';
  return { ...searchParameters(limits), all: described(what, booleanParameter(false)) };
}

/** @returns the description of `POST /erase` */
export function describeErase(limits: Limits): RouteDescription {
  return {
    summary: 'Take out what events said',
    description:
      'At least one parameter besides all must be given. An erased event keeps its seq, id, times, type, key and the result of ' +
      'a check. Reports wait meanwhile. The reply says how many events were erased by it.',
    query: eraseParameters(limits),
    content: { 'application/json': objectSchema({ erased: integerFrom(0) }) },
  };
}

/** Which events must be erased. */
export interface EraseQuestion {
  /** See `Erasure.all`. */
  readonly all: boolean;
  /** Like `EventsQuestion.filter`, but with `afterSeq`. */
  readonly filter: (nowMs: number) => Filter;
}

/** @returns a function that reads the question of a request. It throws Refusal 400 for a wrong query, and for one that names no events */
export function erasedReader(
  limits: Limits & JsonLimits,
): (request: Pick<HandlerRequest, 'body' | 'query'>) => EraseQuestion {
  const readValues = parametersReader(eraseParameters(limits), limits);
  return (request) => {
    const { all, ...values } = readValues(request);
    checkTogether(values);
    if (Object.values(values).every((value) => value === undefined))
      throw new Refusal(400, 'say which events to erase: give id, or other parameters of GET /events');
    return { all, filter: (nowMs) => ({ ...filterOf(values, nowMs), afterSeq: values.after_seq }) };
  };
}

type Parameters = ReturnType<typeof eventsParameters>;
type SearchValues = { readonly [Name in keyof SearchParameters]: SearchParameters[Name]['initial'] };
type Values = { readonly [Name in keyof Parameters]: Parameters[Name]['initial'] };

/** @throws Refusal 400 for parameters that contradict each other */
function checkTogether(
  { type, check, passed, severity, last, limit, wait, after_seq }: SearchValues & Partial<Values>,
  form?: Form,
): void {
  if (last !== undefined && limit !== undefined) throw new Refusal(400, 'use one of last and limit');
  if (type !== undefined && type !== 'AssetCheckEvaluation' && (check ?? passed ?? severity) !== undefined) {
    throw new Refusal(400, 'only checks have check, passed and severity; leave out type, or use type=check');
  }
  if (form === 'stream' && (limit ?? wait) !== undefined) {
    throw new Refusal(400, 'a stream has no end, so it takes neither limit nor wait; leave them out');
  }
  if (wait === undefined) return;
  if (after_seq === undefined) throw new Refusal(400, 'wait needs after_seq: the last seq that is known');
  if (last !== undefined) throw new Refusal(400, 'use one of last and wait');
}

function filterOf(values: SearchValues, nowMs: number): Filter {
  const given: Readonly<Record<string, unknown>> = values;
  const members = allSearches.flatMap(({ member, kind, query = '' }) => {
    const value = given[query];
    if (value === undefined || member === 'afterSeq') return [];
    return [[member, kind === 'moment' ? timeOf(query, value as Moment, nowMs) : value]];
  });
  const filter: Filter = Object.fromEntries(members);
  const { since, until } = filter;
  if (since !== undefined && until !== undefined && since >= until) {
    throw new Refusal(400, `since is ${since} and until ${until}: no event is between them`);
  }
  return filter;
}

function timeOf(name: string, moment: Moment, nowMs: number): string {
  try {
    return lineTimeFrom(timeAt(moment, nowMs));
  } catch (error) {
    throw new Refusal(400, `${name}: it ${(error as Error).message}`);
  }
}

/**
 * An EventSource sends it when it reconnects (HTML standard, section 9.2): the id of the last event that it received.
 */
function readLastEventId(id: string | undefined): number | undefined {
  if (id === undefined || id === '') return undefined;
  const seq = /^[0-9]{1,16}$/.test(id) ? Number(id) : Number.NaN;
  if (Number.isSafeInteger(seq)) return seq;
  const problem = (sent: string) => `Last-Event-ID is ${sent}; send the seq of an event, or leave it out`;
  throw quotingRefusal(400, shown(id), 'logged', problem);
}

const forms = { [linesType]: 'lines', 'application/json': 'json', 'text/event-stream': 'stream' } as const;
