/**
 * Retention for journals that are closed because no report arrives for their deployments. If a file of such a journal must be
 * closed or removed, the journal is opened, and the start of its `Retention` does that.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import type { Disk } from '../journal/disk.ts';
import { type Retain, Retention } from '../journal/retention.ts';
import type { Notices } from '../telemetry/log.ts';
import type { DeploymentJournals } from './journals.ts';

export interface ClosedJournalsOptions {
  /** The current deployments by name. */
  readonly deployments: () => ReadonlyMap<string, unknown>;
  readonly hosted: Pick<DeploymentJournals, 'journalOf'>;
  readonly openDisk: (name: string) => Disk;
  readonly retainOf: (name: string) => Retain;
  readonly limits: Limits;
  readonly notices: Notices;
}

/** Looks at all closed journals now, and every `limits.retainCheckMs`. @returns a function that ends this */
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
    const { isDue } = await retention.due().catch(() => ({ isDue: false })); // for example, no report has created the folder yet
    if (isDue) openedMs.set(limit, nowMs);
    return isDue;
  };
  // One after the other, so that a report to a closed journal does not wait for all of them.
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
