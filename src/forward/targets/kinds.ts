/** What differs between the kinds of destinations. Senders, links and commands ask for these properties, never for the kind. */

import type { Limits } from '../../config/limits.ts';
import type { Target } from '../target.ts';
import { openApi } from './api.ts';
import { openHub } from './hub.ts';
import type { TargetOptions } from './requests.ts';

export interface KindTraits {
  /** Schemes of the URLs of such destinations. */
  readonly schemes: readonly string[];
  /** @returns a target that is not connected yet. @throws TypeError if `to` is no URL */
  readonly open: (options: TargetOptions) => Target;
  /** As `open`: a target that takes events that were sent before, in any order. What it takes does not move what is asked. */
  readonly openForRetry: (options: TargetOptions) => Target;
  /** Whether the destination says how far it is. Otherwise the cursor is the only record. */
  readonly canBeAsked: boolean;
  /** Whether the destination forwards as well, and says which journals its events reach. */
  readonly saysVia: boolean;
  /** Whether the next request names the events that are lost. Otherwise the cursor passes lost events by itself. */
  readonly namesLost: boolean;
  /** Whether the end of a request is in the cursor before the request is sent, since its lines may be there after a crash. */
  readonly savesEndFirst: boolean;
  /** @returns the bytes of lines that fit a request; 0 for one line in each request */
  readonly requestBytesMax: (limits: Pick<Limits, 'forwardBatchBytes'>) => number;
}

export const traitsOf = {
  hub: {
    schemes: ['http', 'https'],
    open: openHub,
    openForRetry: openApi, // as reports of its own
    canBeAsked: true,
    saysVia: true,
    namesLost: true,
    savesEndFirst: false,
    requestBytesMax: ({ forwardBatchBytes }) => forwardBatchBytes,
  },
  api: {
    schemes: ['http', 'https'],
    open: openApi,
    openForRetry: openApi,
    canBeAsked: false,
    saysVia: false,
    namesLost: false,
    savesEndFirst: true,
    requestBytesMax: () => 0,
  },
} satisfies Readonly<Record<string, KindTraits>>;

export type TargetKind = keyof typeof traitsOf;

const kinds = Object.entries(traitsOf) as readonly [TargetKind, KindTraits][];

/** Those of all kinds. */
export const schemes: ReadonlySet<string> = new Set(kinds.flatMap(([, traits]) => traits.schemes));

/**
 * @param to a URL with one of `schemes`
 * @param canBeAsked as the destination answered; until then it is asked
 */
export function kindOf(to: string, canBeAsked: boolean): TargetKind {
  const scheme = to.slice(0, to.indexOf(':')).toLowerCase();
  return kinds.find(([, traits]) => traits.schemes.includes(scheme) && traits.canBeAsked === canBeAsked)![0];
}
