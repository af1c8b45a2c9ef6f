/** Where events are forwarded to, as an operator describes it. */

import type { Filter } from '../event/search.ts';

/** Undefined in a service without deployments. */
export type Deployment = string | undefined;

/** The value of a header, or the file that has it and nothing else. Each value might be a secret. */
export type OwnHeaders = Readonly<Record<string, string | { readonly file: string }>>;

/** When a hook with `on` is called: a check begins to fail, or ends to; an asset becomes stale, or has an event again. */
export const alarmKinds = ['failed', 'recovered', 'stale', 'fresh'] as const;

export type AlarmKind = (typeof alarmKinds)[number];

/** For each deployment that it applies to there is one pipe. */
export interface DestinationSettings {
  /** Names its files and metrics: lower-case letters, digits and hyphens. `upstream` for `--forward-to`. */
  readonly name: string;
  /**
   * Base URL: `https://hub.example/{deployment}`, with the name of the deployment at `{deployment}`. Of a hook only what may be shown:
   * `hook+https://hooks.example/…`.
   */
  readonly to: string;
  /** Path and query of a hook, which are a secret: who has them may post. */
  readonly hookPath?: string | undefined;
  /** Which events a hook gets; all if it is absent. */
  readonly only?: Filter | undefined;
  /** What begins and ends, and a hook is to hear of; without it the hook gets every event. */
  readonly on?: readonly AlarmKind[] | undefined;
  /** After which time without an event an asset is stale: `26h`. */
  readonly staleAfter?: string | undefined;
  /** The deployments that are forwarded; all if it is absent. */
  readonly deployments?: readonly string[] | undefined;
  /** File with the token. Without it no token is sent. */
  readonly tokenFile?: string | undefined;
  /** Header that the token is sent in. */
  readonly tokenHeader: string;
  /** Further headers of each request. */
  readonly headers?: OwnHeaders | undefined;
  /** Name of a user, and file with the password, at an engine. */
  readonly user?: string | undefined;
  readonly passwordFile?: string | undefined;
  /** URL of the proxy that requests go through, or the file that has it: it might have a password. */
  readonly proxy?: string | { readonly file: string } | undefined;
  /** File with certificates (PEM) of authorities, which are trusted instead of the ones that Node knows. */
  readonly caFile?: string | undefined;
  /** Most requests a second; if it is absent, as many as the kind allows. A plain upstream gets an event in each. */
  readonly ratePerSecond?: number | undefined;
  /** For how long events gather after a request to a hub; if it is absent, `limits.forwardLingerMs`, or 0 if replies wait. */
  readonly lingerMs?: number | undefined;
  /** Whether `assetlog/id`, `assetlog/recorded` and `assetlog/event_time` are added to the metadata at a plain upstream. */
  readonly stamp: boolean;
  /** What happens to an event that a plain upstream might have recorded: it is sent again, or given up. */
  readonly inDoubt: 'again' | 'once';
  /** Whether a new destination gets the first event there is, or the next one. */
  readonly begin: 'first' | 'now';
  /** Whether retention waits for this destination. */
  readonly hold: boolean;
}
