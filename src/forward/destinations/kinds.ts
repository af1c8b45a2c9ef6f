/**
 * The differences between the kinds of destinations. Pipes and commands use these properties, and never check for a kind by name.
 */

import { hasLogin, parseBaseUrl } from '../../client/base-url.ts';
import type { Limits } from '../../config/limits.ts';
import type { Recorded } from '../../event/event.ts';
import type { DestinationSettings } from '../settings.ts';
import { openClickhouse } from './clickhouse/clickhouse.ts';
import type { Destination, Opening } from './destination.ts';
import { readEngineUrl } from './engine-url.ts';
import { openHub } from './hub.ts';
import { openNats } from './nats/nats.ts';
import { hooksPassed, openHook, openPlainApi, readHookUrl } from './plain.ts';

export interface KindTraits {
  /** Schemes of the URLs of these destinations. */
  readonly schemes: readonly string[];
  /** @returns the problem of a URL that has one of the schemes, as a clause that follows its name; undefined if there is none */
  readonly urlProblem: (to: string) => string | undefined;
  /** Members of the file of destinations that have no meaning for the kind. */
  readonly withoutMembers: readonly (keyof DestinationSettings)[];
  /** @returns a destination that is not connected yet. @throws TypeError if `to` is not a URL */
  readonly open: (opening: Opening) => Destination;
  /**
   * Like `open`, for events that were already sent, in any order. Accepting them does not change the position that `ask` returns. Absent
   * if `open` can do that too.
   */
  readonly openForRetry?: (opening: Opening) => Destination;
  /**
   * What is authoritative about how far the destination is: its own answer, or the cursor, which is then the only
   * record.
   */
  readonly truth: 'destination' | 'cursor';
  /**
   * Whether the destination is another assetlog. It never forgets an event of a journal, learns of lost events from the next request,
   * and lists its journals by their last requests. Events are collected for `lingerMs`, to send one request instead of many.
   */
  readonly isHub: boolean;
  /**
   * Whether the destination is a database or a broker. It removes old events, so it might have no events of a journal of which it once
   * had some. Few pipes use it, so each one retries often after a failure, and immediately after an outage.
   */
  readonly isEngine: boolean;
  /** Whether the destination separates the events of deployments, even at one URL. */
  readonly keepsDeploymentsApart: boolean;
  /** Whether a request that might have arrived is sent again with the same lines, even after a crash. */
  readonly repeatsBatches: boolean;
  /**
   * Whether an event that the destination does not accept holds up no other event: it gets a dead letter at once, or after
   * `hookFailingMs`.
   */
  readonly passesFailed: boolean;
  /** Whether an event is sent at all. If absent, all events are. */
  readonly sends?: (event: Recorded, limits: Limits) => boolean;
  /** @returns the bytes of lines that fit a request; 0 for one line in each request */
  readonly requestBytesMax: (limits: Limits) => number;
  /** What `ask`, or `test` where `ask` is absent, proves, and what it does not. */
  readonly tried: string;
  /** Requests a second unless `ratePerSecond` says otherwise. */
  readonly ratePerSecond: number;
}

/** The properties of a kind, unless its row overrides them. */
const usual = {
  truth: 'destination',
  isHub: false,
  isEngine: false,
  keepsDeploymentsApart: false,
  repeatsBatches: false,
  passesFailed: false,
  ratePerSecond: Number.POSITIVE_INFINITY,
} as const;

const http = {
  ...usual,
  schemes: ['http', 'https'],
  urlProblem: httpUrlProblem,
  withoutMembers: ['user', 'passwordFile', 'only', 'on', 'staleAfter'],
} as const;

const plain = {
  ...http,
  truth: 'cursor',
  requestBytesMax: () => 0,
} as const;

const engine = {
  ...usual,
  isEngine: true,
  keepsDeploymentsApart: true,
} as const;

export const traitsOf = {
  hub: {
    ...http,
    open: openHub,
    openForRetry: openPlainApi, // as separate reports
    isHub: true,
    requestBytesMax: ({ forwardBatchBytes }) => forwardBatchBytes,
    tried: 'it is a hub, and reports how many events of the journal it has',
  },
  api: {
    ...plain,
    open: openPlainApi,
    tried: 'it is not a hub but accepts reports, as its refusal of a report without a key shows',
  },
  hook: {
    ...plain,
    schemes: ['hook+http', 'hook+https'],
    urlProblem: hookUrlProblem,
    withoutMembers: ['user', 'passwordFile', 'stamp', 'inDoubt', 'lingerMs'],
    open: openHook,
    keepsDeploymentsApart: true,
    passesFailed: true,
    sends: (event, { hooksPassedMax }) => hooksPassed(event) < hooksPassedMax,
    tried: 'it answers; whether it accepts a failed check was not tried',
  },
  nats: {
    ...engine,
    schemes: ['nats', 'nats+tls'],
    urlProblem: (to) => engineUrlProblem(to, STREAM, 'nats://n1.example,n2.example/ASSETLOG'),
    withoutMembers: ['tokenHeader', 'headers', 'proxy', 'stamp', 'inDoubt', 'only', 'on', 'staleAfter', 'lingerMs'],
    open: openNats,
    openForRetry: (opening) => openNats({ ...opening, source: `${opening.source}.again` }), // a separate subject
    requestBytesMax: ({ forwardBatchBytes }) => forwardBatchBytes,
    tried: 'its stream is set up and can be read; whether the login may publish was not tried',
  },
  clickhouse: {
    ...engine,
    schemes: ['clickhouse+http', 'clickhouse+https'],
    urlProblem: (to) => engineUrlProblem(to, TABLE, 'clickhouse+https://ch.example/assets.events'),
    withoutMembers: ['tokenFile', 'tokenHeader', 'stamp', 'inDoubt', 'only', 'on', 'staleAfter', 'lingerMs'],
    open: openClickhouse,
    repeatsBatches: true,
    requestBytesMax: ({ insertBytes }) => insertBytes,
    tried: 'its table can be read; whether the login may insert was not tried',
    ratePerSecond: 1,
  },
} satisfies Readonly<Record<string, KindTraits>>;

export type DestinationKind = keyof typeof traitsOf;

const kinds = Object.entries(traitsOf) as [DestinationKind, KindTraits][];

/** The schemes of all kinds. */
export const schemes: ReadonlySet<string> = new Set(kinds.flatMap(([, traits]) => traits.schemes));

/**
 * @param to a URL with one of `schemes`
 * @param truth according to the destination's answer; until it answers it is asked, unless its scheme shows that it
 * cannot be
 */
export function kindOf(to: string, truth: KindTraits['truth']): DestinationKind {
  return onlyKindOf(to) ?? kindsWith(to).find((kind) => traitsOf[kind].truth === truth)!;
}

/** @returns the kind, if the scheme of the URL implies it; undefined if the destination has to answer first */
export function onlyKindOf(to: string): DestinationKind | undefined {
  const [kind, ...others] = kindsWith(to);
  return others.length === 0 ? kind : undefined;
}

/** @returns the possible kinds of a destination with this URL; none if its scheme is not one of `schemes` */
export function kindsWith(to: string): DestinationKind[] {
  const scheme = to.slice(0, to.indexOf(':')).toLowerCase();
  return kinds.filter(([, traits]) => traits.schemes.includes(scheme)).map(([kind]) => kind);
}

function httpUrlProblem(to: string): string | undefined {
  if (hasLogin(to)) return LOGIN_IN_HEADERS;
  if (!URL.canParse(to)) return 'must be a URL such as https://hub.example/prod';
  const { base, endpoint, hasQuery } = parseBaseUrl(to);
  if (hasQuery) return 'has a query or a fragment; leave it out: a token goes into a token file';
  if (endpoint !== undefined) return `names the endpoint ${endpoint}; give the URL of the service, as ${base}`;
  return undefined;
}

function hookUrlProblem(to: string): string | undefined {
  if (readHookUrl(to) !== undefined) return undefined;
  if (hasLogin(to)) return LOGIN_IN_HEADERS;
  return 'must be a URL such as hook+https://hooks.example/path';
}

function engineUrlProblem(to: string, path: RegExp, example: string): string | undefined {
  if (hasLogin(to))
    return 'has a login before its host; leave it out, and name user and passwordFile in the file of --forward';
  const url = readEngineUrl(to);
  return url !== undefined && path.test(url.path) ? undefined : `must be a URL such as ${example}`;
}

const LOGIN_IN_HEADERS =
  'has a login before its host; leave it out, and give headers with "Authorization" to the destination, in the file of --forward';

/** Names of a NATS stream, and of a table with its database. These names are not escaped. */
const STREAM = /^[A-Za-z0-9_-]{1,200}$/;
const TABLE = /^[A-Za-z0-9_-]{1,100}\.[A-Za-z0-9_-]{1,100}$/;
