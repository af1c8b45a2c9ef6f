/** What a hook with `on` wants to hear of, by its settings. */

import { keptText, keyOf } from '../../assets/asset-state.ts';
import type { Slot } from '../../assets/check-state.ts';
import { durationMs } from '../../event/moment.ts';
import { isMatch, type Searched } from '../../event/search.ts';
import type { AlarmKind, DestinationSettings } from '../settings.ts';
import { type Beginning, endOf } from './alarm.ts';

export interface AlarmRules {
  /** What is posted. */
  readonly on: ReadonlySet<AlarmKind>;
  /** Whether a new hook gets all that holds, or what begins from now on. */
  readonly begin: 'first' | 'now';
  /** After which time an asset is silent; infinite if silence does not count. */
  readonly staleMs: number;
  /** The first parts of the keys of all its assets; undefined if any asset can be wanted. */
  readonly keyPrefix: readonly string[] | undefined;
  /** Whether the settings name the asset with this name. */
  readonly covers: (asset: string) => boolean;
  /** Whether the settings name the check with this name. */
  readonly coversCheck: (check: string) => boolean;
  /** Whether a failure of a check that they name is wanted. */
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

/** Whether a kind of alarms counts: its beginning or its end is posted. */
export function hears({ on }: AlarmRules, kind: Beginning): boolean {
  return on.has(kind) || on.has(endOf[kind]);
}
