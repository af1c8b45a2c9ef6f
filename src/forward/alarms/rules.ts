/** Which alarms a hook with `on` wants, according to its settings. */

import { keptText, keyOf } from '../../assets/asset-state.ts';
import type { Slot } from '../../assets/check-state.ts';
import { durationMs } from '../../event/moment.ts';
import { isMatch, type Searched } from '../../event/search.ts';
import type { AlarmKind, DestinationSettings } from '../settings.ts';
import { type Beginning, endOf } from './alarm.ts';

export interface AlarmRules {
  /** The kinds of alarms that are posted. */
  readonly on: ReadonlySet<AlarmKind>;
  /** Whether a new hook gets all alarms that hold, or only those that start from now on. */
  readonly begin: 'first' | 'now';
  /** After how long an asset is silent; infinite if silence does not count. */
  readonly staleMs: number;
  /** The first parts of the keys of all wanted assets; undefined if any asset can be wanted. */
  readonly keyPrefix: readonly string[] | undefined;
  /** Whether the settings include the asset with this name. */
  readonly covers: (asset: string) => boolean;
  /** Whether the settings include the check with this name. */
  readonly coversCheck: (check: string) => boolean;
  /** Whether a failure of an included check is wanted. */
  readonly wants: (partition: string | undefined, slot: Slot) => boolean;
}

export function rulesOf({ on = [], begin, staleAfter, only = {} }: DestinationSettings): AlarmRules {
  const { assetKey, keyPrefix, keyStart, severity } = only;
  const [checkName, partition] = [only.checkName, only.partition].map((text) => text && keptText(text));
  const keys = { assetKey, keyPrefix, keyStart };
  const isAny = Object.values(keys).every((key) => key === undefined);
  return {
    on: new Set(on as readonly AlarmKind[]),
    begin,
    staleMs: staleAfter === undefined ? Number.POSITIVE_INFINITY : durationMs(staleAfter)!,
    keyPrefix: assetKey ?? keyPrefix,
    covers: (name) => isAny || isMatch({ event: { asset_key: keyOf({ name }) } } as Searched, keys),
    coversCheck: (check) => checkName === undefined || check === checkName,
    wants: (of, slot) =>
      (severity === undefined || slot.severity === severity) && (partition === undefined || of === partition),
  };
}

/** Whether alarms of a kind matter, because their start or end is posted. */
export function hears({ on }: AlarmRules, kind: Beginning): boolean {
  return on.has(kind) || on.has(endOf[kind]);
}
