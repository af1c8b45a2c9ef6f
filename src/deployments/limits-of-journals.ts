/** Hosted mode: the limits of a deployment's journal, which replace the options of the service. */

import type { Limits } from '../config/limits.ts';
import { type Config, segmentBytesOf } from '../config/options-of-service.ts';
import type { Disk } from '../journal/disk.ts';
import { type Retain, Retention } from '../journal/retention.ts';
import type { Notices } from '../telemetry/log.ts';

/** Limits in the entry of a deployment; undefined where the options apply. */
export interface JournalLimits {
  readonly retainBytes: number | undefined;
  readonly retainDays: number | undefined;
  /** Above this size its reports are refused. */
  readonly maxBytes: number | undefined;
}

/** @returns a function that combines the limits of a deployment with the options: always the same object for equal limits */
export function retainWith(config: Config): (own: JournalLimits | undefined) => Retain {
  const combined = new WeakMap<JournalLimits, Retain>();
  const combine = ({ retainBytes = config.retainBytes, retainDays = config.retainDays, maxBytes }: JournalLimits) => {
    const { keepFree, segmentBytes = Number.POSITIVE_INFINITY } = config;
    const share = segmentBytesOf({ segmentBytes: undefined, retainBytes, keepFree });
    return { retainBytes, retainDays, keepFree, maxBytes, segmentBytesMax: Math.min(segmentBytes, share) };
  };
  return (own) => {
    if (own === undefined) return config;
    const retain = combined.get(own) ?? combine(own);
    combined.set(own, retain);
    return retain;
  };
}

interface Changed {
  readonly name: string;
  readonly disk: Disk;
  readonly before: Retain;
  readonly retain: Retain;
}

/**
 * Logs how many events the next run of retention will remove, for each deployment that keeps less than before. Never rejects.
 */
export async function announceSmaller(
  deployments: readonly Changed[],
  { limits, notices }: { readonly limits: Limits; readonly notices: Notices },
): Promise<void> {
  for (const { name: deployment, disk, before, retain } of deployments) {
    if (!isLess(retain.retainBytes, before.retainBytes) && !isLess(retain.retainDays, before.retainDays)) continue;
    const { retainBytes: retain_bytes, retainDays: retain_days } = retain;
    // If there is no folder, there are no events.
    const { events } = await new Retention({ disk, retain, limits, notices }, { files: 0 }).due().catch(() => NOTHING);
    const message = 'a smaller limit of a deployment removes events at the next run of retention';
    notices.warn(message, { deployment, events, retain_bytes, retain_days });
  }
}

function isLess(one = Number.POSITIVE_INFINITY, other = Number.POSITIVE_INFINITY): boolean {
  return one < other;
}

const NOTHING = { events: 0 };
