/**
 * The age limit of journals that are closed, since no report arrives for their deployments: each is opened when a file of it is to be
 * closed or removed, which a start of `Retention` then does.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import type { Disk } from '../journal/disk.ts';
import { type Retain, Retention } from '../journal/retention.ts';
import type { Notices } from '../telemetry/log.ts';
import type { DeploymentJournals } from './journals.ts';

export interface ClosedJournalsOptions {
  /** The deployments of now, by name. */
  readonly deployments: () => ReadonlyMap<string, unknown>;
  readonly hosted: Pick<DeploymentJournals, 'journalOf'>;
  readonly openDisk: (name: string) => Disk;
  readonly retain: Retain;
  readonly limits: Limits;
  readonly notices: Notices;
}

/** Looks at all closed journals at once, and every `limits.retainCheckMs`. @returns a function that ends that */
export function retainClosed(options: ClosedJournalsOptions): () => void {
  const { deployments, hosted, openDisk, limits, notices } = options;
  const { retainDays } = options.retain;
  const ending = new AbortController();
  const openedMs = new Map<string, number>();
  let isLooking = false;
  if (retainDays === undefined) return () => {};

  const isDue = async (name: string): Promise<boolean> => {
    const nowMs = performance.now();
    if (nowMs - (openedMs.get(name) ?? Number.NEGATIVE_INFINITY) < limits.retainClosedMs) return false;
    const retention = new Retention({ disk: openDisk(name), retain: { retainDays }, limits, notices }, { files: 0 });
    const found = await retention.isDue().catch(() => false); // such as a folder that no report has made yet
    if (found) openedMs.set(name, nowMs);
    return found;
  };
  // One after the other, so that a report whose journal is closed does not wait for all of them.
  const look = async () => {
    for (const name of [...deployments().keys()]) {
      if (ending.signal.aborted) return;
      if (!deployments().has(name) || !hosted.journalOf(name).isIdle || !(await isDue(name))) continue;
      if (ending.signal.aborted || !deployments().has(name)) continue;
      const journal = hosted.journalOf(name);
      journal.wake();
      while (journal.isBusy && !ending.signal.aborted) await sleep(limits.probeMs, undefined, { ref: false });
    }
  };
  const lookIfIdle = async () => {
    if (isLooking) return;
    isLooking = true;
    await look();
    isLooking = false;
  };
  const timer = setInterval(() => void lookIfIdle(), limits.retainCheckMs).unref();
  void lookIfIdle();
  return () => {
    clearInterval(timer);
    ending.abort();
  };
}
