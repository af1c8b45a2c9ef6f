/** What a test holds until it lets it continue. */

import type { Call, SimulatedDisk } from './simulated-disk.ts';

export interface Gate {
  /** Resolves when the test calls `open`. */
  readonly opened: Promise<void>;
  open(): void;
}

export function gate(): Gate {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** Lets these calls of a disk wait. @returns what lets the calls that wait, and all later ones, through */
export function hold(disk: SimulatedDisk, ...held: readonly Call[]): () => void {
  const { opened, open } = gate();
  disk.fault = (call) => (held.includes(call) ? opened : undefined);
  return open;
}
