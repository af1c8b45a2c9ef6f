/**
 * Lets the service that writes a journal do what only its writer may do. Without a service the command does it itself.
 */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import type { Served } from '../../forward/pipe/status.ts';
import type { Disk } from '../../journal/disk.ts';
import { InUseError } from '../../journal/lock/lock.ts';
import { type Told, tell } from '../../journal/lock/tell.ts';
import type { DoorAnswers, DoorRequest } from '../../service/door.ts';
import { NotDoneError } from './command.ts';
import { withLock } from './data-folder.ts';

/**
 * @param alone does the same without a service; called while the command holds the lock
 * @returns the result
 * @throws NotDoneError, InUseError, the error of a system call or of `alone`
 */
export async function throughService<What extends keyof DoorAnswers, Alone = DoorAnswers[What]>(
  disk: Disk,
  request: DoorRequest & { readonly do: What },
  alone: () => Promise<Alone>,
): Promise<DoorAnswers[What] | Alone> {
  const told = await askService(disk, request);
  if (told.kind !== 'nobody') return doneOf(told, disk);
  return withLock(disk, alone).catch(async (error: Error) => {
    if (!(error instanceof InUseError)) throw error;
    const again = await askService(disk, request); // a service has started in between
    if (again.kind === 'nobody') throw error;
    return doneOf(again, disk);
  });
}

/** @returns the current state of its destinations, as reported by the service that uses a folder */
export async function askServed(disk: Disk): Promise<Served> {
  const told = await tell(disk, { do: 'forward status' } satisfies DoorRequest, limits).catch(() => undefined);
  if (told?.kind === 'nobody') return undefined;
  return (told?.kind === 'answered' && JSON.parse(told.answer).done) || 'unsaid';
}

async function askService(disk: Disk, request: DoorRequest): Promise<Told> {
  return tell(disk, request, limits).catch(({ code, message }: NodeJS.ErrnoException) => {
    if (code === 'EACCES' || code === 'EPERM') return { kind: 'denied' };
    throw new NotDoneError(
      exitCodes.diskFailed,
      `the service cannot be asked without a file in its folder: ${message}`,
    );
  });
}

/** @throws NotDoneError */
function doneOf<Done>(told: Told, { folder }: Disk): Done {
  if (told.kind !== 'answered') throw new NotDoneError(...problemOf(told, folder));
  const { done, error } = JSON.parse(told.answer) as { readonly done?: Done; readonly error?: string };
  if (error !== undefined) throw new NotDoneError(exitCodes.tryLater, `nothing was done: ${error}`);
  return done as Done;
}

function problemOf({ kind }: Told, folder: string): [ExitCode, string] {
  const { tryLater, diskFailed } = exitCodes;
  switch (kind) {
    case 'denied':
      return [diskFailed, `${folder} belongs to another user; run this as that user or as root`];
    case 'older':
      return [tryLater, `the service of ${folder} is of an earlier version; restart it, then run this again`];
    case 'starting':
      return [tryLater, `a service is starting in ${folder}; run this again when it has started`];
    case 'ended':
      return [tryLater, `the service of ${folder} ended before it answered; check what was done, and run this again`];
    default:
      return [tryLater, `the service of ${folder} does not answer; run this again when it does`];
  }
}
