/** What the folder of a command holds: a journal, or in hosted mode a journal for each deployment in a subfolder. */

import { join } from 'node:path';
import { deploymentName, options } from '../config/config.ts';
import type { Operands, Option } from '../config/options.ts';
import { readLastStop } from '../journal/clean-stop.ts';
import { type Disk, namesNothing, openDisk } from '../journal/disk.ts';
import { contentsOf } from '../journal/segments.ts';
import { shellWord } from '../telemetry/printable.ts';

/** The journal of a deployment: `{ name: 'prod', disk }`. */
export interface DeploymentFolder {
  readonly name: string;
  readonly disk: Disk;
}

/**
 * What a folder holds: `{ kind: 'journal', disk }`. A folder with a journal of its own counts as that journal, whatever its
 * subfolders hold.
 */
export type FolderContent =
  | { readonly kind: 'journal'; readonly disk: Disk }
  /** At least one, in the order of their names. */
  | { readonly kind: 'hosted'; readonly folder: string; readonly deployments: readonly DeploymentFolder[] }
  | NoJournal;

/** A folder without a journal, or no folder. */
export interface NoJournal {
  readonly kind: 'none';
  /** Absolute path of the folder: `/data`. */
  readonly folder: string;
  /** What to do: `there is no journal in /data; give its folder with --data`. */
  readonly problem: string;
  /** Whether the path may become a folder with a journal: not if it is a file, or a path through a file. */
  readonly mayBegin: boolean;
}

/** The folder as an argument, as in `assetlog events ./assetlog-data`: it sets the option `data`. */
export const folderOperand: Operands = {
  max: 1,
  option: 'data',
  text: '[FOLDER]',
  paths: 'folders',
};

/** The option `--data` of the commands that read a journal, as in `assetlog events --data ./assetlog-data`. */
export const folderOption: Option<string> = {
  ...options.data,
  help: 'as FOLDER; in hosted mode all deployments, or FOLDER/NAME for one',
};

/**
 * Finds out what a folder holds, without reading a journal.
 * @param path such as `./assetlog-data`
 * @returns such as `{ kind: 'hosted', folder: '/data', deployments: [{ name: 'prod', disk }] }`
 * @throws the error of a system call, but not of a missing folder
 */
export async function surveyFolder(path: string): Promise<FolderContent> {
  const disk = openDisk(path);
  const { folder } = disk;
  let names: string[];
  try {
    names = await disk.list();
  } catch (error) {
    if (!namesNothing(error as NodeJS.ErrnoException)) throw error;
    const { message, code } = error as NodeJS.ErrnoException;
    const problem = `there is no journal in ${folder}: ${message}; give its folder with --data`;
    return { kind: 'none', folder, problem, mayBegin: code === 'ENOENT' };
  }
  if (await holdsJournal(disk, names)) return { kind: 'journal', disk };
  const deployments = await deploymentsIn(disk);
  if (deployments.length > 0) return { kind: 'hosted', folder, deployments };
  const problem = `there is no journal in ${folder}; give its folder with --data`;
  return { kind: 'none', folder, problem, mayBegin: true };
}

/**
 * @returns a sentence for a command that needs one journal, with the names of the first few deployments:
 *   `/data holds a journal for each deployment: prod, test; give one of them, such as --data /data/prod`
 */
export function askForOne(folder: string, deployments: readonly Pick<DeploymentFolder, 'name'>[]): string {
  const names = deployments.slice(0, NAMED_MAX).map(({ name }) => name);
  const more = deployments.length - names.length;
  const all = `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  const example = shellWord(join(folder, names[0] ?? ''));
  return `${folder} holds a journal for each deployment: ${all}; give one of them, such as --data ${example}`;
}

/** Files that account for missing events prove that there was a journal, so `verify` and `repair` have something to report. */
async function holdsJournal(disk: Disk, names: readonly string[]): Promise<boolean> {
  const { segments, lost, removedLast } = contentsOf(names);
  if (segments.length > 0 || lost.length > 0 || removedLast > 0) return true;
  return ((await readLastStop(disk, names))?.end?.chain.seq ?? 1) > 1;
}

/**
 * Finds the journals of deployments in the subfolders of a folder.
 * @returns such as `[{ name: 'prod', disk }]`, in the order of their names
 * @throws the error of a system call on the folder itself
 */
export async function deploymentsIn({ folder, list }: Pick<Disk, 'folder' | 'list'>): Promise<DeploymentFolder[]> {
  const found: DeploymentFolder[] = [];
  for (const name of (await list()).filter((name) => deploymentName.test(name) && !SIDE_FOLDER.test(name)).sort()) {
    const disk = openDisk(join(folder, name));
    try {
      if (await holdsJournal(disk, await disk.list())) found.push({ name, disk });
    } catch (error) {
      // A folder that cannot be read is kept: the command that reads it reports the error.
      if (!namesNothing(error as NodeJS.ErrnoException)) found.push({ name, disk });
    }
  }
  return found;
}

const NAMED_MAX = 5;
/** Made by a repair: the damaged files, under the names of journal files. */
const SIDE_FOLDER = /^damaged-\d{8}T\d{6}Z(-\d+)?$/;
