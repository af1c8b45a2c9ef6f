/**
 * The limits of journals that are closed, since no report arrives for their deployments: each is opened when a file of it is to be
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
  readonly retainOf: (name: string) => Retain;
  readonly limits: Limits;
  readonly notices: Notices;
}

/** Looks at all closed journals at once, and every `limits.retainCheckMs`. @returns a function that ends that */
export function retainClosed(options: ClosedJournalsOptions): () => void {
  const { deployments, hosted, openDisk, retainOf, limits, notices } = options;
  const ending = new AbortController();
  const openedMs = new Map<string, number>();
  let isLooking = false;

  const isDue = async (name: string): Promise<boolean> => {
    const nowMs = performance.now();
    const { retainBytes, retainDays } = retainOf(name);
    const limit = `${name} ${retainBytes} ${retainDays}`;
    if ((retainBytes ?? retainDays) === undefined) return false;
    if (nowMs - (openedMs.get(limit) ?? Number.NEGATIVE_INFINITY) < limits.retainClosedMs) return false;
    const retain = { retainBytes, retainDays };
    const retention = new Retention({ disk: openDisk(name), retain, limits, notices }, { files: 0 });
    const { isDue } = await retention.due().catch(() => ({ isDue: false })); // such as a folder that no report has made yet
    if (isDue) openedMs.set(limit, nowMs);
    return isDue;
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
