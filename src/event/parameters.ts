/**
 * The table of the API: each endpoint, its event, and its parameters. The handlers, the OpenAPI document, `assetlog report` with
 * its shell completion, the types that `assetlog events` filters by and the paths in errors are derived from it. A new parameter
 * needs one row in `parameters`, and a position in a line (`prefixes` in `encoded.ts`); the compiler reports a missing position.
 */

import { type Event, severities } from './event.ts';

/** The event type of each endpoint. Errors and the OpenAPI document list the endpoints in this order. */
const reports = [
  { name: 'materialization', path: '/report_asset_materialization', type: 'AssetMaterialization' },
  { name: 'check', path: '/report_asset_check', type: 'AssetCheckEvaluation' },
  { name: 'observation', path: '/report_asset_observation', type: 'AssetObservation' },
] as const satisfies readonly Omit<Endpoint<string>, 'parameters'>[];

export type EndpointName = (typeof reports)[number]['name'];

const all = ['materialization', 'check', 'observation'] as const satisfies readonly EndpointName[];
const assets = ['materialization', 'observation'] as const satisfies readonly EndpointName[];
const checks = ['check'] as const satisfies readonly EndpointName[];

/**
 * Each parameter of the API. A request is checked row by row, so the order decides which of two mistakes is reported. The order
 * of each endpoint's table in the specification (section 4) is part of the contract. For the endpoint `check` it is `asset_key`,
 * `passed`, `check_name`, `metadata`, `severity`, `partition`, `event_time`.
 */
export const parameters = [
  {
    name: 'asset_key',
    member: 'assetKey',
    acceptedBy: all,
    kind: 'key',
    required: true,
    example: ['warehouse', 'orders'],
  },
  {
    name: 'passed',
    member: 'passed',
    acceptedBy: checks,
    kind: 'boolean',
    required: true,
    example: true,
    what: 'the check passed',
    opposite: { option: 'failed', what: 'it did not' },
  },
  {
    name: 'check_name',
    member: 'checkName',
    acceptedBy: checks,
    kind: 'non-empty string',
    required: true,
    example: 'no_nulls',
    what: 'name of the check',
    argument: 'NAME',
  },
  { name: 'metadata', member: 'metadata', acceptedBy: all, kind: 'metadata', required: false, example: { rows: 10 } },
  {
    name: 'severity',
    member: 'severity',
    acceptedBy: checks,
    kind: 'one of',
    choices: severities,
    standard: 'ERROR',
    required: false,
    example: 'WARN',
    what: 'WARN or ERROR: how bad it is that a check failed',
    argument: 'LEVEL',
  },
  {
    name: 'data_version',
    member: 'dataVersion',
    acceptedBy: assets,
    kind: 'string',
    required: false,
    tag: true,
    example: 'v1',
    what: 'version of the data',
    argument: 'TEXT',
  },
  {
    name: 'description',
    member: 'description',
    acceptedBy: assets,
    kind: 'string',
    required: false,
    example: 'nightly load',
    what: 'for people',
    argument: 'TEXT',
  },
  // The table of checks in the specification has no partition; the reference implementation accepts it since 1.13.
  {
    name: 'partition',
    member: 'partition',
    acceptedBy: all,
    kind: 'string',
    required: false,
    example: '2026-11-20',
    what: 'partition of the asset',
    argument: 'NAME',
  },
  // The specification has no such parameter, so it is checked after all parameters of the specification.
  {
    name: 'event_time',
    member: 'eventTime',
    acceptedBy: all,
    kind: 'time',
    required: false,
    example: '2026-11-20T15:19:45.25Z',
    what: 'when it happened, RFC 3339 with a zone',
    argument: 'TIME',
  },
] as const satisfies readonly Parameter[];

/** An endpoint for reports. */
export interface Endpoint<Name extends string = EndpointName> {
  /** The name in commands, and the `type` of an item in a batch. */
  readonly name: Name;
  /** The path without a trailing slash. */
  readonly path: string;
  /** The type of the event that the endpoint records. */
  readonly type: Event['type'];
  /** The parameters in the order in which they are checked. */
  readonly parameters: readonly Parameter[];
}

/** A row of the table of parameters. */
export type Parameter<Member extends string = string> =
  | KeyParameter<Member>
  | TextParameter<Member>
  | ChoiceParameter<Member>
  | BooleanParameter<Member>
  | TimeParameter<Member>
  | MetadataParameter<Member>;

interface Row<Member extends string> {
  /** The name in a body, a query and a line of the journal. */
  readonly name: string;
  /** The member of the event, and the option of `assetlog report`. */
  readonly member: Member;
  readonly acceptedBy: readonly EndpointName[];
  /** A valid value for the OpenAPI document. */
  readonly example: unknown;
}

/** The asset key: a string, or an array of strings. The only parameter that can be in the path. */
export interface KeyParameter<Member extends string = string> extends Row<Member> {
  readonly kind: 'key';
  readonly required: true;
}

/** A parameter that an option of `assetlog report` sets. */
interface TextRow<Member extends string> extends Row<Member> {
  /** A description that completes "send the …" in an error and is shown in the help. */
  readonly what: string;
  /** Placeholder of the value in the help. */
  readonly argument: string;
}

export interface TextParameter<Member extends string = string> extends TextRow<Member> {
  readonly kind: 'string' | 'non-empty string';
  readonly required: boolean;
  /** Recorded as a tag of this name instead of as a member of the line. */
  readonly tag?: true;
}

export interface ChoiceParameter<Member extends string = string> extends TextRow<Member> {
  readonly kind: 'one of';
  readonly choices: readonly string[];
  /** The default value, which is recorded for a report without the parameter. */
  readonly standard: string;
  readonly required: false;
}

/** True or false, in a query the words `true` and `false`. */
export interface BooleanParameter<Member extends string = string> extends Row<Member> {
  readonly kind: 'boolean';
  readonly required: boolean;
  /** The meaning of true, for the help. */
  readonly what: string;
  /** The option that sets false. */
  readonly opposite: { readonly option: string; readonly what: string };
}

/** A time, RFC 3339 with a zone, recorded in UTC (see `readEventTime`). */
export interface TimeParameter<Member extends string = string> extends TextRow<Member> {
  readonly kind: 'time';
  readonly required: boolean;
}

/** A JSON object, recorded as sent. */
export interface MetadataParameter<Member extends string = string> extends Row<Member> {
  readonly kind: 'metadata';
  readonly required: false;
}

/** @param rows `parameters`, or a table of a test */
export function endpointsOf(rows: readonly Parameter[]): readonly Endpoint[] {
  return reports.map((report) => ({
    ...report,
    parameters: rows.filter(({ acceptedBy }) => acceptedBy.includes(report.name)),
  }));
}

export const endpoints: readonly Endpoint[] = endpointsOf(parameters);

/** @param type the name of an endpoint (`check`), or the type of its event in the journal (`AssetCheckEvaluation`) */
export function findEndpoint(endpoints: readonly Endpoint[], type: string): Endpoint | undefined {
  return endpoints.find((endpoint) => endpoint.name === type || endpoint.type === type);
}

/** @returns the parameters of all endpoints without duplicates, starting with the first endpoint */
export function allParameters(endpoints: readonly Endpoint[]): readonly Parameter[] {
  return [...new Set(endpoints.flatMap(({ parameters }) => parameters))];
}
