/** What `GET /events` can be asked for: the filters of `assetlog events`, and how much is sent in which form. */

import { type Limits, limits } from '../config/limits.ts';
import { type Moment, timeAt } from '../event/moment.ts';
import { type HandlerRequest, Refusal, shown } from '../http/message.ts';
import type { Filter } from '../journal/filter.ts';
import { acceptedType, linesType } from './accept.ts';
import {
  booleanParameter,
  described,
  keyParameter,
  keyStartParameter,
  numberParameter,
  readParameters,
  textParameter,
  timeParameter,
  typeParameter,
} from './query.ts';

/** The parameters of the query of `GET /events`. */
export const eventsParameters = {
  key: described('only events of this asset', keyParameter),
  key_prefix: described('only events of assets whose key begins with these parts', keyParameter),
  key_begins_with: described('the same, of which the last part may be incomplete', keyStartParameter),
  type: described('only events of this type', typeParameter),
  check: described('only results of the check of this name', textParameter),
  passed: described('only results of checks that passed, or that failed', booleanParameter(undefined)),
  partition: described('only events of this partition', textParameter),
  since: described('only events recorded at this time or later; 7d is seven days ago', timeParameter),
  until: described('only events recorded before this time', timeParameter),
  after_seq: described('only events after this one', numberParameter(undefined, 0, Number.MAX_SAFE_INTEGER)),
  last: described('only the newest so many', numberParameter(undefined, 1, limits.readEventsMax)),
  limit: described(
    'at most so many, 100 by default; the oldest first',
    numberParameter(undefined, 1, limits.readEventsMax),
  ),
  wait: described('seconds to wait for an event if there is none yet', numberParameter(undefined, 0, 60)),
};

/** The forms of the reply, by the media type that `Accept` names. */
export type Form = 'lines' | 'json' | 'stream';

/** What a request asks for: `{ form: 'lines', values: { key: ['orders'] }, afterSeq: 17, last: undefined, … }`. */
export interface EventsQuestion {
  readonly form: Form;
  /** The seq that the events come after; undefined if the request does not say. */
  readonly afterSeq: number | undefined;
  /** Only the newest so many. */
  readonly last: number | undefined;
  readonly limit: number;
  readonly waitMs: number;
  /**
   * @param nowMs the clock, which durations such as `since=7d` count back from
   * @returns the filter without `afterSeq`
   * @throws Refusal 400 if no time can match
   */
  readonly filter: (nowMs: number) => Filter;
}

/** @throws Refusal 400 for a wrong query or a wrong `Last-Event-ID` */
export function readEventsQuestion(
  request: Pick<HandlerRequest, 'body' | 'query' | 'head'>,
  limits: Pick<Limits, 'jsonDepthMax' | 'bodyMembersMax'>,
): EventsQuestion {
  const { head } = request;
  const values: Values = readParameters(request, eventsParameters, limits);
  const form = forms[acceptedType(head.accept, [linesType, 'application/json', 'text/event-stream'])];
  checkTogether(values, form);
  const resumed = form === 'stream' ? readLastEventId(head.lastEventId) : undefined;
  return {
    form,
    afterSeq: resumed ?? values.after_seq,
    last: resumed === undefined ? values.last : undefined,
    limit: values.last ?? values.limit ?? 100,
    waitMs: 1000 * (values.wait ?? 0),
    filter: (nowMs) => filterOf(values, nowMs),
  };
}

type Values = {
  readonly [Name in keyof typeof eventsParameters]: (typeof eventsParameters)[Name]['initial'];
};

/** @throws Refusal 400 for parameters that contradict each other */
function checkTogether({ type, check, passed, last, limit, wait, after_seq }: Values, form: Form): void {
  if (last !== undefined && limit !== undefined) throw new Refusal(400, 'use one of last and limit');
  if (type !== undefined && type !== 'AssetCheckEvaluation' && (check ?? passed) !== undefined) {
    throw new Refusal(400, 'only checks have check and passed; leave out type, or use type=check');
  }
  if (form === 'stream' && (limit ?? wait) !== undefined) {
    throw new Refusal(400, 'a stream has no end, so it takes neither limit nor wait; leave them out');
  }
  if (wait === undefined) return;
  if (after_seq === undefined) throw new Refusal(400, 'wait needs after_seq: the last seq that is known');
  if (last !== undefined) throw new Refusal(400, 'use one of last and wait');
}

function filterOf(values: Values, nowMs: number): Filter {
  const { key, key_prefix, key_begins_with, type, check, passed, partition, since, until } = values;
  const from = since && timeOf('since', since, nowMs);
  const before = until && timeOf('until', until, nowMs);
  if (from !== undefined && before !== undefined && from >= before) {
    throw new Refusal(400, `since is ${from} and until ${before}: no event is between them`);
  }
  return {
    type,
    assetKey: key,
    keyPrefix: key_prefix,
    keyStart: key_begins_with,
    partition,
    checkName: check,
    passed,
    since: from,
    until: before,
  };
}

function timeOf(name: string, moment: Moment, nowMs: number): string {
  try {
    return timeAt(moment, nowMs);
  } catch (error) {
    throw new Refusal(400, `${name}: it ${(error as Error).message}`);
  }
}

/** An EventSource sends it when it connects again (HTML standard, section 9.2): the id of the last event that it got. */
function readLastEventId(id: string | undefined): number | undefined {
  if (id === undefined || id === '') return undefined;
  const seq = /^[0-9]{1,16}$/.test(id) ? Number(id) : Number.NaN;
  if (Number.isSafeInteger(seq)) return seq;
  throw new Refusal(400, `Last-Event-ID is ${shown(id)}; send the seq of an event, or leave it out`);
}

const forms = { [linesType]: 'lines', 'application/json': 'json', 'text/event-stream': 'stream' } as const;
