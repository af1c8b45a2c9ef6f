/**
 * Finds the journals in the folder of a command: a single journal, or in hosted mode one for each deployment in a
 * subfolder.
 */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { deploymentName, journalFolder } from '../../config/names.ts';
import type { Operands, Option } from '../../config/options.ts';
import { options } from '../../config/options-of-service.ts';
import { type Disk, isMissingPath, openDisk } from '../../journal/disk.ts';
import { InUseError, lockFolder, UnlockableError } from '../../journal/lock/lock.ts';
import { readLastStop } from '../../journal/open/clean-stop.ts';
import { contentsOf } from '../../journal/segments.ts';
import { shellWord } from '../../telemetry/printable.ts';
import { NotDoneError, type Output, refuse } from './command.ts';

export interface DeploymentFolder {
  readonly name: string;
  readonly disk: Disk;
}

/** A folder that has a journal itself counts as that journal, whatever its subfolders contain. */
export type FolderWithJournal =
  | { readonly kind: 'journal'; readonly disk: Disk }
  /** At least one deployment, sorted by name. */
  | { readonly kind: 'hosted'; readonly folder: string; readonly deployments: readonly DeploymentFolder[] };

/** A folder without a journal, or a missing folder. */
interface NoJournal {
  readonly kind: 'none';
  /** Absolute path of the folder. */
  readonly folder: string;
  /** The problem and what to do: `there is no journal in /data; give its folder with --data`. */
  readonly problem: string;
  /** Whether a service can create a journal here. False if the path is a file, or leads through a file. */
  readonly canHoldJournal: boolean;
}

/** The folder as an argument. It sets the option `data`. */
export const folderOperand: Operands = {
  max: 1,
  option: 'data',
  text: '[FOLDER]',
  paths: 'folders',
};

export const folderOption: Option<string> = {
  ...options.data,
  help: 'as FOLDER; with deployments all of them, or FOLDER/NAME for one',
};

/** Finds the journals in a folder without reading them. @throws the error of a system call, except for a missing folder */
export async function surveyFolder(path: string): Promise<FolderWithJournal | NoJournal> {
  const disk = openDisk(path);
  const { folder } = disk;
  let names: string[];
  try {
    names = await disk.list();
  } catch (error) {
    if (!isMissingPath(error as NodeJS.ErrnoException)) throw error;
    const { message, code } = error as NodeJS.ErrnoException;
    const problem = `there is no journal in ${folder}: ${message}; give its folder with --data`;
    return { kind: 'none', folder, problem, canHoldJournal: code === 'ENOENT' };
  }
  if (await holdsJournal(disk, names)) return { kind: 'journal', disk };
  const deployments = await deploymentsIn(disk);
  if (deployments.length > 0) return { kind: 'hosted', folder, deployments };
  const problem = `there is no journal in ${folder}; give its folder with --data`;
  return { kind: 'none', folder, problem, canHoldJournal: true };
}

/**
 * Runs `act` with the journals of a folder, and reports its errors on standard error.
 * @param beforeJournal called if no service has created a journal there yet; without it a missing journal is refused
 * @returns the exit code of `act`; 2 if the folder has no journal, 4 if a service uses it, 5 if a system call failed
 */
export function withFolder(
  data: string,
  output: Output,
  act: (found: FolderWithJournal) => Promise<ExitCode>,
  beforeJournal?: (folder: string) => ExitCode,
): Promise<ExitCode> {
  return reportErrors(data, output, async () => {
    const found = await surveyFolder(data);
    if (found.kind !== 'none') return act(found);
    if (found.canHoldJournal && beforeJournal !== undefined) return beforeJournal(found.folder);
    return refuse(output, found.problem);
  });
}

/** Like `withFolder`, for a command that needs one journal. @returns 2 also if the folder has journals of several deployments */
export function withOneJournal(
  data: string,
  output: Output,
  act: (disk: Disk) => Promise<ExitCode>,
  beforeJournal?: (folder: string) => ExitCode,
): Promise<ExitCode> {
  const actOnOne = async (found: FolderWithJournal) => {
    if (found.kind === 'journal') return act(found.disk);
    const [first, ...more] = found.deployments;
    return more.length === 0 ? act(first!.disk) : refuse(output, askForOne(found.folder, found.deployments));
  };
  return withFolder(data, output, actOnOne, beforeJournal);
}

/** Runs `act` with the lock of a service. @throws InUseError while a service runs, the error of a system call or of `act` */
export async function withLock<Result>({ folder }: Disk, act: () => Promise<Result>): Promise<Result> {
  const lock = await lockFolder(folder, limits);
  return act().finally(() => lock.release());
}

/** @returns the exit code of `act`; 2 if the folder cannot be locked, 4 if a service uses it, 5 if a system call failed */
export async function reportErrors(folder: string, output: Output, act: () => Promise<ExitCode>): Promise<ExitCode> {
  try {
    return await act();
  } catch (error) {
    output.progress('');
    const { message } = error as Error;
    if (error instanceof NotDoneError) {
      output.complain(message);
      return error.exitCode;
    }
    const isInUse = error instanceof InUseError;
    output.complain(isInUse ? message : `the journal in ${folder} could not be read or repaired: ${message}`);
    return isInUse
      ? exitCodes.inUse
      : error instanceof UnlockableError
        ? exitCodes.configuration
        : exitCodes.diskFailed;
  }
}

/**
 * @returns a sentence for a command that needs one journal, with the names of the first few deployments:
 *   `/data holds a journal for each deployment: prod, test; give one of them, such as --data /data/prod`
 */
export function askForOne(folder: string, deployments: readonly Pick<DeploymentFolder, 'name'>[]): string {
  const names = deployments.slice(0, NAMED_MAX).map(({ name }) => name);
  const more = deployments.length - names.length;
  const all = `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  const example = shellWord(journalFolder(folder, names[0]));
  return `${folder} holds a journal for each deployment: ${all}; give one of them, such as --data ${example}`;
}

/** Files that account for missing events prove that there was a journal, so `verify` and `repair` have something to report. */
async function holdsJournal(disk: Disk, names: readonly string[]): Promise<boolean> {
  const { segments, renamed, lost, removedLast } = contentsOf(names);
  if (segments.length + renamed.length + lost.length + removedLast > 0) return true;
  return ((await readLastStop(disk, names))?.end?.chain.seq ?? 1) > 1;
}

/** @returns the journals in the subfolders, sorted by name. @throws the error of a system call on the folder itself */
export async function deploymentsIn({ folder, list }: Pick<Disk, 'folder' | 'list'>): Promise<DeploymentFolder[]> {
  const found: DeploymentFolder[] = [];
  for (const name of (await list()).filter((name) => deploymentName.test(name) && !SIDE_FOLDER.test(name)).sort()) {
    const disk = openDisk(journalFolder(folder, name));
    try {
      if (await holdsJournal(disk, await disk.list())) found.push({ name, disk });
    } catch (error) {
      // A folder that cannot be read is kept: the command that reads it reports the error.
      if (!isMissingPath(error as NodeJS.ErrnoException)) found.push({ name, disk });
    }
  }
  return found;
}

const NAMED_MAX = 5;
/** Created by a repair: it contains the damaged files, under the names of journal files. */
const SIDE_FOLDER = /^damaged-\d{8}T\d{6}Z(-\d+)?$/;
