/** Opens a destination of any kind. */

import type { Target, TargetKind } from '../target.ts';
import { openApi } from './api.ts';
import { openHub } from './hub.ts';
import type { TargetOptions } from './requests.ts';

/**
 * @param kind what the destination is; as long as that is not known, `hub`: its `ask` finds out
 * @returns a target that is not connected yet
 * @throws TypeError if `options.to` is no URL
 */
export function openTarget(kind: TargetKind, options: TargetOptions): Target {
  return openers[kind](options);
}

const openers: Readonly<Record<TargetKind, (options: TargetOptions) => Target>> = { hub: openHub, api: openApi };
