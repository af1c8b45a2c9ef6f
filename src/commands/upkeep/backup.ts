/** `assetlog backup`: brings a copy of a journal, or of the journals of all deployments, up to date. */

import { type ExitCode, exitCodeOf, exitCodes } from '../../config/exit-codes.ts';
import { isWithin } from '../../config/files.ts';
import { limits } from '../../config/limits.ts';
import { journalFolder } from '../../config/names.ts';
import { text, type ValuesOf } from '../../config/options.ts';
import { type Disk, describe, isFull, openDisk } from '../../journal/disk.ts';
import { LinkError } from '../../journal/entry.ts';
import { InUseError, type Lock, lockFolder, UnlockableError } from '../../journal/lock/lock.ts';
import { type Backup, backUp, OtherJournalError } from '../../journal/look/backup.ts';
import { DamagedError } from '../../journal/open/recovery.ts';
import { pollProgress } from '../../journal/progress.ts';
import { defineCommand, type Output, refuse } from '../cli/command.ts';
import { deploymentsIn, folderOperand, folderOption, surveyFolder } from '../cli/data-folder.ts';
import { createByteProgress, megabytes } from '../cli/progress.ts';

const to = text('FOLDER', 'folder of the backup, which is created if it is missing (0700, files 0600)');

const backupOptions = {
  data: { ...folderOption, help: 'as FOLDER; with deployments all of them' },
  to,
};

type BackupValues = ValuesOf<typeof backupOptions>;

export const backup = defineCommand(
  {
    summary: 'copy a journal into another folder while a service runs; each run adds the new events',
    about:
      'Copies the events that are recorded when it starts, checks the crc and seq of each line, and keeps the\n' +
      'events that retention removes at the source. A closed segment is copied once; the newest one again when it has grown.\n' +
      'You can interrupt it at any moment and run it again. Each deployment gets a folder with its name.',
    notes: [
      'The backup is a journal: verify, events, assets and serve work on it. To restore, start a service on a copy of it.',
      '',
      'Examples:',
      '  assetlog backup --data /var/lib/assetlog --to /mnt/backup/assetlog',
      '  assetlog verify --data /mnt/backup/assetlog',
      '  17 * * * * assetlog backup --data /var/lib/assetlog --to /mnt/backup/assetlog >/dev/null     in a crontab',
      '',
      'Exit codes:',
      '  0 copied, 2 flags, no journal there, or --to holds another journal or cannot be used, 3 the journal is damaged:',
      '  the events before the damage are copied, 4 --to is in use, 5 it cannot be read or written, 75 the service does not',
      '  answer: its newest file was left out, try again',
    ],
    operands: folderOperand,
    options: backupOptions,
  },
  backUpFolder,
);

async function backUpFolder({ data, to }: BackupValues, output: Output): Promise<ExitCode> {
  const source = openDisk(data);
  if (to === undefined) return refuse(output, 'no folder for the backup; give one with --to');
  const target = openDisk(to);
  try {
    if (await isWithin(source.folder, target.folder)) {
      return refuse(
        output,
        `--to ${target.folder} is ${source.folder}, or inside it; give a folder elsewhere, best on another disk`,
      );
    }
    const found = await surveyFolder(data);
    if (found.kind === 'none') return refuse(output, found.problem);
    const deployments = found.kind === 'hosted' ? found.deployments : await deploymentsIn(found.disk);
    const names = deployments.map(({ name }) => name);
    return await backUpAll(found.kind === 'journal' ? ['', ...names] : names, { source, target }, output);
  } catch (error) {
    output.progress('');
    output.complain(failureOf(error as Error, target).problem);
    return exitCodes.diskFailed;
  }
}

/**
 * Copies each journal, and continues after a damaged one.
 * @param names the names of their folders in both places; the empty name is the folder itself
 */
async function backUpAll(
  names: readonly string[],
  { source, target }: { readonly source: Disk; readonly target: Disk },
  output: Output,
): Promise<ExitCode> {
  const done: Backup[] = [];
  let code: ExitCode = exitCodes.done;
  for (const name of names) {
    const diskIn = ({ folder }: Disk) => openDisk(journalFolder(folder, name || undefined));
    const [from, to] = [diskIn(source), diskIn(target)];
    try {
      const result = await backUpOne(from, to, output);
      done.push(result);
      for (const remark of result.remarks) output.complain(name === '' ? remark : `${name}: ${remark}`);
      if (result.isComplete) continue;
      output.complain(
        `the service that writes ${from.folder} does not answer: its newest file was left out; try again`,
      );
      code ||= exitCodes.tryLater;
    } catch (error) {
      output.progress('');
      const failure = failureOf(error as Error, to);
      if (failure.code === undefined) throw error;
      output.complain(failure.problem);
      code = failure.code;
    }
  }
  if (done.length > 0) output.print(summaryOf(done, source, target));
  return code;
}

async function backUpOne(source: Disk, target: Disk, { progress }: Output): Promise<Backup> {
  const lock = await prepareAndLock(target);
  try {
    const result = await backUp({
      source,
      target,
      progress: pollProgress(source.folder, limits),
      limits,
      onProgress: createByteProgress(progress),
    });
    progress('');
    return result;
  } finally {
    await lock.release();
  }
}

/** The folder of the backup cannot be created or written to. */
class UnusableFolderError extends Error {}

/** @throws UnusableFolderError, InUseError, or the error of a full disk */
async function prepareAndLock(target: Disk): Promise<Lock> {
  try {
    await target.prepare();
    return await lockFolder(target.folder, limits);
  } catch (error) {
    if (error instanceof InUseError || isFull(error as NodeJS.ErrnoException)) throw error;
    const { message } = error as Error;
    const advice = error instanceof UnlockableError ? 'move it' : 'make it writable';
    throw new UnusableFolderError(
      `the folder ${target.folder} cannot be used: ${message}; ${advice} or give another with --to`,
      { cause: error },
    );
  }
}

/** @returns a sentence for the operator, and an exit code if the error concerns one journal: the others can be copied */
function failureOf(error: Error, { folder }: Disk): { readonly problem: string; readonly code?: ExitCode } {
  const { message } = error;
  if (error instanceof DamagedError) {
    return { code: exitCodes.damaged, problem: `${message}; ${folder} has the events before the damage` };
  }
  if (error instanceof UnusableFolderError) return { code: exitCodeOf(error), problem: message };
  if (error instanceof OtherJournalError) return { code: exitCodes.configuration, problem: message };
  if (error instanceof LinkError) return { code: exitCodes.diskFailed, problem: message };
  if (error instanceof InUseError) {
    const problem = `a service or another backup uses ${folder}; stop it, or give another folder with --to`;
    return { code: exitCodes.inUse, problem };
  }
  const problem = isFull(error)
    ? `${folder} could not be completed: ${describe(error)}; free space there and run it again to continue, or give another folder with --to`
    : `the backup in ${folder} could not be made: ${message}; run it again to continue`;
  return { problem };
}

function summaryOf(done: readonly Backup[], source: Disk, target: Disk): string {
  const events = done.reduce((sum, one) => sum + one.events, 0);
  const bytes = done.reduce((sum, one) => sum + one.bytes, 0);
  const [only] = done;
  const { first, last } = only?.seqs ?? {};
  const holds =
    done.length > 1 ? `${done.length} journals` : first === undefined ? 'no event yet' : `seq ${first} to ${last}`;
  return `backed up ${source.folder} to ${target.folder}: ${events} new ${events === 1 ? 'event' : 'events'}, ${megabytes(bytes)}; it holds ${holds}`;
}
