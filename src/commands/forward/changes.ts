/** The actions of `assetlog forward` that need the service stopped: `skip`, `from` and `identity`. */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { continueFrom, NotPossibleError, newIdentity, skip } from '../../forward/by-hand.ts';
import { lockFolder } from '../../journal/lock.ts';
import type { ForwardAction } from './action.ts';

/** The actions by name. They throw InUseError beside a service. */
export const changes = {
  skip: (action: ForwardAction) =>
    stopped(action, '--seq N', action.values.seq, (seqs) => skip(action.disk, action.name, seqs, limits)),
  from: (action: ForwardAction) =>
    stopped(action, '--seq N', action.values.seq, ({ first }) => continueFrom(action.disk, action.name, first, limits)),
  identity: (action: ForwardAction) =>
    stopped(action, '--new', action.values.new || undefined, () =>
      newIdentity(action.disk, action.values.seq?.first, limits),
    ),
};

/** Runs a change under the lock, which a service has as long as it forwards the journal. */
async function stopped<Given>(
  { disk, output }: ForwardAction,
  option: string,
  given: Given | undefined,
  change: (given: Given) => Promise<string>,
): Promise<ExitCode> {
  if (given === undefined) {
    output.complain(`add ${option}`);
    return exitCodes.configuration;
  }
  const lock = await lockFolder(disk.folder, limits);
  try {
    output.say(await change(given));
    return exitCodes.done;
  } catch (error) {
    if (!(error instanceof NotPossibleError)) throw error;
    output.complain(error.message);
    return exitCodes.configuration;
  } finally {
    await lock.release();
  }
}
