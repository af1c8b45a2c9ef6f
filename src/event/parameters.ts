/**
 * The one table of what can be reported: each endpoint, the event that it records, and the parameters that it takes. The
 * handlers, the OpenAPI document, `assetlog report` with its completion, the types that `assetlog events` filters by and the
 * paths in errors are read from it. A new parameter is one row in `parameters`, and a member of `Event` with its place in
 * the line: without that the row does not compile.
 */

import { type Event, severities } from './event.ts';

/** What each endpoint records. Errors and the OpenAPI document name the endpoints in this order. */
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
 * Each parameter of the API. A request is checked row by row, so their order decides which of two mistakes a client is told:
 * for each endpoint it is the order of its table in the specification (section 4), which is part of the contract.
 */
export const parameters = [
  {
    name: 'asset_key',
    member: 'assetKey',
    takenBy: all,
    kind: 'key',
    required: true,
    example: ['warehouse', 'orders'],
  },
  {
    name: 'passed',
    member: 'passed',
    takenBy: checks,
    kind: 'boolean',
    required: true,
    example: true,
    what: 'the check passed',
    opposite: { option: 'failed', what: 'it did not' },
  },
  {
    name: 'check_name',
    member: 'checkName',
    takenBy: checks,
    kind: 'non-empty string',
    required: true,
    example: 'no_nulls',
    what: 'name of the check',
    argument: 'NAME',
  },
  { name: 'metadata', member: 'metadata', takenBy: all, kind: 'metadata', required: false, example: { rows: 10 } },
  {
    name: 'severity',
    member: 'severity',
    takenBy: checks,
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
    takenBy: assets,
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
    takenBy: assets,
    kind: 'string',
    required: false,
    example: 'nightly load',
    what: 'for people',
    argument: 'TEXT',
  },
  // The specification's table of checks does not name it; the reference takes it since 1.13.
  {
    name: 'partition',
    member: 'partition',
    takenBy: all,
    kind: 'string',
    required: false,
    example: '2026-11-20',
    what: 'partition of the asset',
    argument: 'NAME',
  },
] as const satisfies readonly Parameter<EventMember>[];

export interface Endpoint<Name extends string = EndpointName> {
  /** In commands, and as the `type` of a line that is to be reported: `check`. */
  readonly name: Name;
  /** Without the slash at its end: `/report_asset_check`. */
  readonly path: string;
  /** Of the event that it records. */
  readonly type: Event['type'];
  /** In the order in which they are checked. */
  readonly parameters: readonly Parameter[];
}

export type Parameter<Member extends string = string> =
  | KeyParameter<Member>
  | TextParameter<Member>
  | ChoiceParameter<Member>
  | BooleanParameter<Member>
  | MetadataParameter<Member>;

interface Row<Member extends string> {
  /** In a body, a query and a line of the journal: `data_version`. */
  readonly name: string;
  /** Of the event, and the option of `assetlog report`: `dataVersion`. */
  readonly member: Member;
  readonly takenBy: readonly EndpointName[];
  readonly example: unknown;
}

/** A string, or an array of strings; the only parameter that the path may hold. */
export interface KeyParameter<Member extends string = string> extends Row<Member> {
  readonly kind: 'key';
  readonly required: true;
}

/** A parameter that one option of `assetlog report` gives. */
interface TextRow<Member extends string> extends Row<Member> {
  /** Completes "send the …" and stands in the help: `name of the check`. */
  readonly what: string;
  /** What stands for its value in the help: `NAME`. */
  readonly argument: string;
}

export interface TextParameter<Member extends string = string> extends TextRow<Member> {
  readonly kind: 'string' | 'non-empty string';
  readonly required: boolean;
  /** Recorded as the tag of its name instead of as a member of the line. */
  readonly tag?: true;
}

export interface ChoiceParameter<Member extends string = string> extends TextRow<Member> {
  readonly kind: 'one of';
  readonly choices: readonly string[];
  /** What is recorded for a report without it. */
  readonly standard: string;
  readonly required: false;
}

export interface BooleanParameter<Member extends string = string> extends Row<Member> {
  readonly kind: 'boolean';
  readonly required: boolean;
  /** For the help: what true means. */
  readonly what: string;
  /** The option that gives false. */
  readonly opposite: { readonly option: string; readonly what: string };
}

/** A JSON object, recorded as it was sent. */
export interface MetadataParameter<Member extends string = string> extends Row<Member> {
  readonly kind: 'metadata';
  readonly required: false;
}

/** @returns the endpoints with their parameters; a test hands in a table of its own */
export function endpointsOf(rows: readonly Parameter[]): readonly Endpoint[] {
  return reports.map((report) => ({
    ...report,
    parameters: rows.filter(({ takenBy }) => takenBy.includes(report.name)),
  }));
}

export const endpoints: readonly Endpoint[] = endpointsOf(parameters);

/** @param type `check`, or as it stands in the journal, `AssetCheckEvaluation` */
export function findEndpoint(endpoints: readonly Endpoint[], type: string): Endpoint | undefined {
  return endpoints.find((endpoint) => endpoint.name === type || endpoint.type === type);
}

/** @returns every parameter once, those of the first endpoint first */
export function allParameters(endpoints: readonly Endpoint[]): readonly Parameter[] {
  return [...new Set(endpoints.flatMap(({ parameters }) => parameters))];
}

type EventMember = Event extends infer One ? (One extends Event ? Exclude<keyof One, 'type'> : never) : never;

/** The event that the rows of its endpoint make. Where it is no `Event`, the handlers do not compile. */
export type Reported = (typeof reports)[number] extends infer Report
  ? Report extends { name: infer Name; type: infer Type }
    ? { readonly type: Type } & { readonly [One in RowOf<Name> as One['member']]: Given<One> }
    : never
  : never;

type AnyRow = (typeof parameters)[number];
type RowOf<Name, One = AnyRow> = One extends AnyRow ? (Name extends One['takenBy'][number] ? One : never) : never;
type Given<One> = One extends { required: true } | { standard: string } ? ValueOf<One> : ValueOf<One> | undefined;
type ValueOf<One> = One extends { kind: 'key' }
  ? readonly string[]
  : One extends { kind: 'boolean' }
    ? boolean
    : One extends { choices: readonly (infer Choice)[] }
      ? Choice
      : string;
