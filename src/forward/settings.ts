/** Where events are forwarded, as described by an operator. */

import type { Filter } from '../event/search.ts';

/** Undefined in a service without deployments. */
export type Deployment = string | undefined;

/** The value of a header, or the file that contains only the value. Each value might be a secret. */
export type OwnHeaders = Readonly<Record<string, string | { readonly file: string }>>;

/** When a hook with `on` is called: a check starts or stops failing; an asset becomes stale, or has an event again. */
export const alarmKinds = ['failed', 'recovered', 'stale', 'fresh'] as const;

export type AlarmKind = (typeof alarmKinds)[number];

/** There is one pipe for each deployment to which the settings apply. */
export interface DestinationSettings {
  /** Names its files and metrics: lower-case letters, digits and hyphens. `upstream` for `--forward-to`. */
  readonly name: string;
  /**
   * Base URL: `https://hub.example/{deployment}`, with the name of the deployment at `{deployment}`. For a hook only the part that can
   * be shown: `hook+https://hooks.example/…`.
   */
  readonly to: string;
  /** Path and query of a hook, which are a secret: anyone who knows them may post. */
  readonly hookPath?: string | undefined;
  /** Which events a hook gets. If absent, it gets all. */
  readonly only?: Filter | undefined;
  /** The kinds of alarms that a hook is sent. Without this member the hook gets every event. */
  readonly on?: readonly AlarmKind[] | undefined;
  /** The time without an event after which an asset is stale: `26h`. */
  readonly staleAfter?: string | undefined;
  /** The deployments that are forwarded. If absent, all are. */
  readonly deployments?: readonly string[] | undefined;
  /** File with the token. If absent, no token is sent. */
  readonly tokenFile?: string | undefined;
  /** Header in which the token is sent. */
  readonly tokenHeader: string;
  /** Further headers of each request. */
  readonly headers?: OwnHeaders | undefined;
  /** Name of a user of an engine, and file with the password. */
  readonly user?: string | undefined;
  readonly passwordFile?: string | undefined;
  /** URL of the proxy for the requests, or the file that contains it, since it might include a password. */
  readonly proxy?: string | { readonly file: string } | undefined;
  /** File with certificates (PEM) of authorities, which are trusted instead of those that Node knows. */
  readonly caFile?: string | undefined;
  /** The most requests a second. If absent, the limit of the kind applies. A plain upstream gets an event in each. */
  readonly ratePerSecond?: number | undefined;
  /** How long events are collected after a request to a hub. If absent, `limits.forwardLingerMs`, or 0 if replies wait. */
  readonly lingerMs?: number | undefined;
  /**
   * Whether `assetlog/id`, `assetlog/recorded` and `assetlog/event_time` are added to the metadata for a plain upstream.
   */
  readonly stamp: boolean;
  /** What happens to an event that a plain upstream might have recorded: it is sent again, or given up. */
  readonly inDoubt: 'again' | 'once';
  /** Whether a new destination starts with the first event of the journal or with the next one. */
  readonly begin: 'first' | 'now';
  /** Whether retention waits for this destination. */
  readonly hold: boolean;
}
