/** What the folder of a simulated disk says, for the oracle and for operators, with readers of their own. */

import type { SimulatedDisk } from '../../world/simulated-disk.ts';

/** What `forward status` shows of a destination. */
export interface ShownState {
  readonly name: string;
  readonly state: string;
  readonly why: string | null;
  readonly reason: string | null;
}

/** @returns the states of all destinations, as a process last wrote them */
export function shownStates(disk: SimulatedDisk): ShownState[] {
  return disk.names().flatMap((file) => {
    const [, name] = /^forward-(.+)\.state$/.exec(file) ?? [];
    const text = disk.text(file);
    return name === undefined || !text.endsWith('}\n') ? [] : [{ name, ...JSON.parse(text) }];
  });
}

/** @returns all files, in the order of their names */
export function filesOf(disk: SimulatedDisk): Map<string, Buffer> {
  return new Map(
    disk
      .names()
      .sort()
      .map((name) => [name, disk.bytes(name)!]),
  );
}
