/** What is left of a disk after a power cut. */

import type { SimulatedDisk } from '../support/simulated-disk.ts';

/** @returns the disk as a start may find it, in each way */
export function everyRemains(disk: SimulatedDisk): SimulatedDisk[] {
  const disks: SimulatedDisk[] = [];
  for (const entries of ['none', 'half', 'all'] as const) {
    for (const share of [0, 0.2, 0.5, 0.9, 1]) {
      for (const behind of ['nothing', 'zeros', 'garbage'] as const)
        disks.push(disk.afterPowerCut({ entries, share, behind }));
    }
  }
  return disks;
}

/** Resolves when everything that can still happen has: the simulated disk takes no time. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Tries up to three times, as a forwarder does later. */
export async function thrice(act: () => Promise<void>): Promise<void> {
  await act().catch(act).catch(act);
}
