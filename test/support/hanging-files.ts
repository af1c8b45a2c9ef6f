/** Files that do not answer, as on a mount that is gone, in the process of the test. */

import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { type Gate, gate } from '../world/gate.ts';
import type { Scope } from './program.ts';

export interface HangingFiles extends Gate {
  /** The paths that wait in `open` or `stat`. */
  readonly waiting: readonly string[];
}

/**
 * Lets the results of `open` and `stat` of `node:fs/promises` for these paths wait until the gate is opened, at the latest when the test
 * ends. One at a time in a process.
 */
export function hangFiles(t: Scope, isHanging: (path: string) => boolean): HangingFiles {
  const { open: realOpen, stat: realStat } = fs;
  const held = gate();
  let waiting: string[] = [];
  const afterWait = async <Found>(path: unknown, found: Promise<Found>): Promise<Found> => {
    if (isHanging(`${path}`)) {
      waiting.push(`${path}`);
      await held.opened;
    }
    return found;
  };
  fs.open = (...args) => afterWait(args[0], realOpen(...args));
  fs.stat = ((...args: Parameters<typeof realStat>) => afterWait(args[0], realStat(...args))) as typeof realStat;
  syncBuiltinESMExports();
  const open = () => {
    Object.assign(fs, { open: realOpen, stat: realStat });
    syncBuiltinESMExports();
    waiting = [];
    held.open();
  };
  t.after(open);
  return {
    get waiting() {
      return waiting;
    },
    opened: held.opened,
    open,
  };
}
