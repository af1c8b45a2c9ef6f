/**
 * The table of searches: the values that events can be searched by. The parameters of `GET /events`, the options of
 * `assetlog events`, the query that `assetlog events --url` sends, the filter of an embedded service and the comparisons of a
 * reader are derived from it. A new value needs a row in `searches` and a member of `Filter`; without the member the row does not
 * compile. `EventFilter` in `embed.ts`, which refers to no other file, needs the member too.
 */

import { hasPrefix, startsWith } from './asset-key.ts';
import type { Event, Recorded, Severity } from './event.ts';
import { sortKeyOf } from './event-time.ts';
import { endpoints, findEndpoint } from './parameters.ts';
import type { TextFilter } from './text-filter.ts';

/** The values that an event has to match. A member that is omitted or undefined matches anything. */
export interface Filter extends Bounds {
  /** All parts of the key. */
  readonly assetKey?: readonly string[] | undefined;
  /** The first parts of the key, each complete: `['warehouse']` matches `['warehouse', 'orders']`. */
  readonly keyPrefix?: readonly string[] | undefined;
  /** The first parts of the key; the last part can be incomplete: see `readKeyStart`. */
  readonly keyStart?: readonly string[] | undefined;
  readonly type?: Event['type'] | undefined;
  readonly checkName?: string | undefined;
  readonly passed?: boolean | undefined;
  readonly severity?: Severity | undefined;
  readonly partition?: string | undefined;
  readonly dataVersion?: string | undefined;
  readonly description?: string | undefined;
  /** The sort key of its `event_time`, from `sortKeyOf`: `2026-11-20T15:04:05.25`. */
  readonly eventTime?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  /** The id of its line, which is the same in each journal that it is forwarded to. */
  readonly id?: string | undefined;
  /** The name of the token of its report. */
  readonly reportedBy?: string | undefined;
  readonly source?: SourceFilter | undefined;
  /** A text in the reported members: see `text-filter.ts`. */
  readonly contains?: TextFilter | undefined;
}

/** An event, and the members of its line that come from the report. */
export interface Searched {
  readonly event: Recorded;
  /** The bytes of the members that come from the report, each as one character (latin1). */
  readonly members: string;
}

/** Selects journals that forward events, by id or name. */
export interface SourceFilter {
  /** The id or the name to search for. */
  readonly text: string;
  /** Whether the journal with this id is selected. */
  readonly has: (id: string) => boolean;
  /** @returns the id of the journal that has the name now; undefined if no journal or several journals have it */
  readonly onlyId?: () => string | undefined;
}

/** Bounds of seq and time. Files outside these bounds need not be read. */
export interface Bounds {
  /** Only events recorded at this time or later: in the form of a line, `2026-11-20T15:19:45.266Z`. */
  readonly since?: string | undefined;
  /** Only events recorded before this time. */
  readonly until?: string | undefined;
  /** Only events with a larger seq. */
  readonly afterSeq?: number | undefined;
  /** Only events with this seq or an earlier one. */
  readonly untilSeq?: number | undefined;
}

/** The kind of a value determines how its text is read, and how it is found in a line. */
export type SearchKind =
  | 'key'
  | 'key prefix'
  | 'key start'
  | 'type'
  | 'text'
  | 'token name'
  | 'source'
  | 'contained text'
  | 'boolean'
  | 'severity'
  | 'event time'
  | 'id'
  | 'moment'
  | 'seq';

interface Row<Value> {
  readonly kind: SearchKind;
  /** The member of a line that contains the value: `data_version`. A bound has none. */
  readonly line?: string;
  /** The parameter of `GET /events`: `key_prefix`. */
  readonly query?: string;
  /**
   * The option of `assetlog events`, if it only sets this member: `keyPrefix`. (`--since` and `--until` can also refer to
   * `event_time`.)
   */
  readonly option?: string;
  /** The filter of an embedded service also has the member. */
  readonly embedded?: true;
  /** The description of the parameter, and of the option if `help` has none. */
  readonly what?: string;
  readonly help?: string;
  /** The option that sets false. */
  readonly opposite?: { readonly option: string; readonly help: string };
  readonly matches: (event: Recorded, value: Value, line: Searched) => boolean;
}

type Member = keyof Filter;
type Rows = { readonly [Name in Member]-?: Row<NonNullable<Filter[Name]>> };

const types = endpoints.map(({ name }) => name);

/**
 * The rows, in the order of the help and of the OpenAPI document. If a filter has several members, a reader looks for the bytes
 * of the last one (see `traceOf`), so values that many events share come before values that few events share.
 */
export const searches = {
  assetKey: {
    kind: 'key',
    line: 'asset_key',
    query: 'key',
    option: 'key',
    embedded: true,
    what: 'only events of this asset',
    matches: ({ asset_key }, value) => asset_key.length === value.length && hasPrefix(asset_key, value),
  },
  keyPrefix: {
    kind: 'key prefix',
    line: 'asset_key',
    query: 'key_prefix',
    option: 'keyPrefix',
    what: 'only events of assets whose key starts with these parts',
    matches: ({ asset_key }, value) => hasPrefix(asset_key, value),
  },
  keyStart: {
    kind: 'key start',
    line: 'asset_key',
    query: 'key_begins_with',
    option: 'keyBeginsWith',
    what: 'the same, but the last part can be incomplete',
    matches: ({ asset_key }, value) => startsWith(asset_key, value),
  },
  type: {
    kind: 'type',
    line: 'type',
    query: 'type',
    option: 'type',
    embedded: true,
    what: 'only events of this type',
    help: `only ${types.slice(0, -1).join(', ')} or ${types.at(-1)}`,
    matches: ({ type }, value) => type === value,
  },
  checkName: {
    kind: 'text',
    line: 'check_name',
    query: 'check',
    option: 'check',
    embedded: true,
    what: 'only results of the check of this name',
    matches: ({ check_name }, value) => check_name === value,
  },
  severity: {
    kind: 'severity',
    line: 'severity',
    query: 'severity',
    option: 'severity',
    embedded: true,
    what: 'only results of checks of this severity, WARN or ERROR',
    matches: ({ severity }, value) => severity === value,
  },
  passed: {
    kind: 'boolean',
    line: 'passed',
    query: 'passed',
    option: 'passed',
    embedded: true,
    what: 'only results of checks that passed, or that failed',
    help: 'only results of checks that passed',
    opposite: { option: 'failed', help: 'only results of checks that failed' },
    matches: ({ passed }, value) => passed === value,
  },
  partition: {
    kind: 'text',
    line: 'partition',
    query: 'partition',
    option: 'partition',
    embedded: true,
    what: 'only events of this partition',
    matches: ({ partition }, value) => partition === value,
  },
  dataVersion: {
    kind: 'text',
    line: 'data_version',
    embedded: true,
    matches: ({ tags }, value) => tags?.data_version === value,
  },
  description: {
    kind: 'text',
    line: 'description',
    embedded: true,
    matches: ({ description }, value) => description === value,
  },
  eventTime: {
    kind: 'event time',
    line: 'event_time',
    embedded: true,
    matches: ({ event_time }, value) => event_time !== undefined && sortKeyOf(event_time) === value,
  },
  idempotencyKey: {
    kind: 'text',
    line: 'idempotency_key',
    embedded: true,
    matches: ({ idempotency_key }, value) => idempotency_key === value,
  },
  id: {
    kind: 'id',
    line: 'id',
    query: 'id',
    option: 'id',
    what: 'only the event with this id',
    matches: ({ id }, value) => id === value,
  },
  reportedBy: {
    kind: 'token name',
    line: 'by',
    query: 'reported_by',
    option: 'reportedBy',
    what: 'only events reported with the token of this name',
    matches: ({ by }, value) => by === value,
  },
  source: {
    kind: 'source',
    line: 'from',
    query: 'source',
    option: 'source',
    what: 'only events of this device, or forwarded by it: its id or its name, from the list of sources',
    matches: ({ origin, from }, value) => [origin, from].some((line) => line !== undefined && value.has(line[0])),
  },
  contains: {
    kind: 'contained text',
    query: 'contains',
    option: 'contains',
    what: 'only events that contain this text, also in metadata; letter case does not matter',
    matches: (_, value, { members }) => value.find(members, 0) !== -1,
  },
  since: {
    kind: 'moment',
    query: 'since',
    what: 'only events recorded at this time or later; 7d is seven days ago',
    matches: ({ time }, value) => time >= value,
  },
  until: {
    kind: 'moment',
    query: 'until',
    what: 'only events recorded before this time',
    matches: ({ time }, value) => time < value,
  },
  afterSeq: {
    kind: 'seq',
    query: 'after_seq',
    option: 'afterSeq',
    embedded: true,
    what: 'only events after this one',
    matches: ({ seq }, value) => seq > value,
  },
  untilSeq: {
    kind: 'seq',
    query: 'until_seq',
    option: 'untilSeq',
    what: 'only events up to this one',
    matches: ({ seq }, value) => seq <= value,
  },
} as const satisfies Rows;

type Searches = typeof searches;
type Property<Name extends keyof Row<never>, One = Searches[Member]> = One extends { readonly [_ in Name]: infer Value }
  ? Value
  : never;

/** The names of the options of `assetlog events` that are in the table. */
export type OptionName = Property<'option'> | Property<'opposite'>['option'];
/** The names of the parameters of `GET /events` that are in the table. */
export type QueryName = Property<'query'>;

/** A row with its member of `Filter`. */
export interface Search extends Omit<Row<never>, 'matches'> {
  readonly member: Member;
}

export const allSearches: readonly Search[] = Object.entries(searches).map(([member, row]) => ({
  member: member as Member,
  ...row,
}));

/** @returns the event type for `check` or `AssetCheckEvaluation`; undefined for any other text */
export function readEventType(word: string): Event['type'] | undefined {
  return findEndpoint(endpoints, word)?.type;
}

/** Whether the event matches each member of the filter. */
export function isMatch(line: Searched, filter: Filter): boolean {
  for (const name in filter) if (!isMemberMatch(line, filter, name as Member)) return false;
  return true;
}

/** @returns the names of the members that the event does not match, in the order of the filter */
export function differences(line: Searched, filter: Filter): Member[] {
  return (Object.keys(filter) as Member[]).filter((name) => !isMemberMatch(line, filter, name));
}

/** @returns the query of `GET /events` for a filter, without `afterSeq`: `{ key: '["a"]', passed: false }` */
export function queryOf(filter: Filter): Readonly<Record<string, string | number | boolean>> {
  const query: Record<string, string | number | boolean> = {};
  for (const { member, query: name } of allSearches) {
    const value = filter[member];
    if (name === undefined || value === undefined || member === 'afterSeq') continue;
    query[name] = typeof value !== 'object' ? value : 'text' in value ? value.text : JSON.stringify(value);
  }
  return query;
}

function isMemberMatch<Name extends Member>(line: Searched, filter: Filter, name: Name): boolean {
  const value = filter[name];
  const row: Rows[Name] = searches[name];
  return value === undefined || row.matches(line.event, value as never, line);
}
