/** What differs between the kinds of destinations. Senders, links and commands ask for these properties, never for the kind. */

import type { Limits } from '../../config/limits.ts';
import type { Target, TargetKind } from '../target.ts';
import { openApi } from '../targets/api.ts';
import { openHub } from '../targets/hub.ts';
import type { TargetOptions } from '../targets/requests.ts';

export interface KindTraits {
  /** @returns a target that is not connected yet. @throws TypeError if `to` is no URL */
  readonly open: (options: TargetOptions) => Target;
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

export const traitsOf: Readonly<Record<TargetKind, KindTraits>> = {
  hub: {
    open: openHub,
    canBeAsked: true,
    saysVia: true,
    namesLost: true,
    savesEndFirst: false,
    requestBytesMax: ({ forwardBatchBytes }) => forwardBatchBytes,
  },
  api: {
    open: openApi,
    canBeAsked: false,
    saysVia: false,
    namesLost: false,
    savesEndFirst: true,
    requestBytesMax: () => 0,
  },
};
