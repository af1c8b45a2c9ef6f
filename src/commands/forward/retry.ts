/** `assetlog forward retry`: asks the service to send dead letters again, and waits until it has. */

import { setTimeout as sleep } from 'node:timers/promises';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { readLetterStates } from '../../forward/dead-letters/file.ts';
import { isWanted, readRetry, writeRetry } from '../../forward/retry.ts';
import { readStatus } from '../../forward/status.ts';
import { holderOf } from '../../journal/lock.ts';
import type { ForwardAction } from './action.ts';
import { isServed } from './status.ts';

/** @returns 0 if all were taken, 1 if some were not, 75 if no service takes it up @throws the error of a system call */
export async function retryDeadLetters({ disk, name, values: { seq }, output }: ForwardAction): Promise<ExitCode> {
  const { say, complain } = output;
  const wanted = [...(await readLetterStates(disk, name, limits)).values()].filter((state) => isWanted(state, seq));
  const statuses = await readStatus(disk, null, await holderOf(disk.folder, limits), limits);
  const status = statuses.find((one) => one.name === name);
  if (wanted.length > 0) {
    if (status === undefined || !isServed(status)) {
      complain(`nothing was sent, since only a service has the token: ${status?.reason}`);
      return exitCodes.tryLater;
    }
    if ((await readRetry(disk, name)) !== undefined) {
      complain('another retry is under way; wait for it');
      return exitCodes.tryLater;
    }
    await writeRetry(disk, name, { seqs: seq });
    while ((await readRetry(disk, name)) !== undefined && (await holderOf(disk.folder, limits)) !== undefined) {
      await sleep(limits.followMs);
    }
  }
  const after = await readLetterStates(disk, name, limits);
  // A letter that is closed may be gone from a file that was full.
  const sent = wanted.filter(({ first }) => (after.get(first)?.outcome ?? 'sent again') === 'sent again').length;
  say(`${sent} of ${wanted.length} were taken`);
  if (sent === wanted.length) return exitCodes.done;
  complain(`assetlog forward dead ${name} says why the others were not`);
  return exitCodes.refused;
}
