/** Holds calls until a test lets them continue. */

import type { Call, SimulatedDisk } from './simulated-disk.ts';

export interface Gate {
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

/** Holds these calls of a disk. @returns a function that lets held calls, and all later ones, through */
export function hold(disk: SimulatedDisk, ...held: readonly Call[]): () => void {
  const { opened, open } = gate();
  disk.fault = (call) => (held.includes(call) ? opened : undefined);
  return open;
}
