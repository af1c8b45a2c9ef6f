/** `assetlog repair`: repairs a damaged journal, so that a service can start on it. */

import { loadingOf, rebound } from '../../assets/kept.ts';
import { writeState } from '../../assets/state-file.ts';
import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { switchOption, type ValuesOf } from '../../config/options.ts';
import type { Disk } from '../../journal/disk.ts';
import { carryOut, type DamagedFile, type Plan, planRepair, sideName } from '../../journal/look/repair.ts';
import { verify } from '../../journal/look/verify.ts';
import { CLEAN_STOP } from '../../journal/open/clean-stop.ts';
import { segmentName } from '../../journal/segments.ts';
import { numbered } from '../../telemetry/printable.ts';
import { defineCommand, type Output } from '../cli/command.ts';
import { folderOperand, folderOption, withLock, withOneJournal } from '../cli/data-folder.ts';
import { damageOf, findingAsText, rangeAsText, verdictAsJson, verdictAsText, verifyWithProgress } from './verify.ts';

const repairOptions = {
  data: {
    ...folderOption,
    help: 'as FOLDER; with deployments the folder of one, FOLDER/NAME',
  },
  json: switchOption('print one JSON object instead of text'),
  yes: switchOption('repair the journal; without this nothing is changed'),
};

type RepairOptions = ValuesOf<typeof repairOptions>;

export const repairCommand = defineCommand(
  {
    summary: 'make a damaged journal startable, without losing a good line',
    about:
      'Prints what it would do, and does it with --yes. Good lines stay, with their seq, id and time. Each damaged file is kept\n' +
      'whole in a folder damaged-… beside the journal, and an empty file events-….lost marks events that are gone. The service\n' +
      'must not be running.',
    notes: [
      'Examples:',
      '  assetlog repair /var/lib/assetlog          prints what it would do',
      '  assetlog repair /var/lib/assetlog --yes    repairs it',
      '',
      'Exit codes:',
      '  0 good, or with --yes no journal yet, 2 flags or no journal there, 3 damaged and not repaired: see --yes,',
      '  4 the data folder is in use, 5 it cannot be read or written',
    ],
    operands: folderOperand,
    options: repairOptions,
  },
  repairFolder,
);

async function repairFolder(values: RepairOptions, output: Output): Promise<ExitCode> {
  const repair = (disk: Disk) => withLock(disk, () => repairJournal(disk, values, output));
  // Unattended devices run `repair --yes` before each start, including the first one.
  const beforeJournal = (folder: string) => {
    const nothing = { damaged: [], written: [], newly_lost: [], done: false };
    output.print(values.json ? JSON.stringify(nothing) : `nothing to repair: there is no journal in ${folder} yet`);
    return exitCodes.done;
  };
  return withOneJournal(values.data, output, repair, values.yes ? beforeJournal : undefined);
}

/**
 * @returns 0 if the journal is undamaged, before or after the repair; 3 if damage is left, for example without `--yes`
 */
async function repairJournal(disk: Disk, { json, yes }: RepairOptions, output: Output): Promise<ExitCode> {
  const verdict = await verifyWithProgress(disk, output);
  const plan = await planRepair(disk, verdict, limits);
  const needed = damageOf(verdict).length > 0;
  const side = sideName(await disk.list(), new Date());
  const [renamed] = plan.renamed;
  const done = needed && yes && renamed === undefined;
  if (done) await carryOut(disk, plan, side, `${JSON.stringify(planAsJson(plan, side), undefined, 2)}\n`, limits);
  const kept = yes && renamed === undefined ? await rebound(loadingOf(disk, limits)) : undefined;
  if (kept !== undefined) await writeState(disk, kept, async () => {});
  const after = done ? await verify(disk, limits) : verdict;
  output.print(
    json
      ? JSON.stringify({ ...planAsJson(plan, side), done, after: verdictAsJson(disk, after) })
      : [...planAsText(plan, side, needed, done), verdictAsText(disk, after)].join('\n'),
  );
  if (renamed !== undefined) {
    const name = segmentName(renamed.firstSeq);
    output.complain(
      `${renamed.name} might have events that this repair would mark as lost, so --yes repairs nothing; restore it as ${name}, such as with gunzip, or move it to another folder`,
    );
  }
  return damageOf(after).length === 0 ? exitCodes.done : exitCodes.damaged;
}

function planAsText(plan: Plan, side: string, needed: boolean, done: boolean): string[] {
  if (!needed) return ['nothing to repair'];
  const { files, runs, lost, renamed, forgetsStop } = plan;
  const way = renamed.length > 0 ? '' : ', add --yes to do it';
  const names =
    runs.length === 0 ? [] : [`  write   ${numbered(runs.length, 'file')} with the good lines of the damaged ones`];
  return [
    done ? 'this was done:' : `this is to be done; nothing was changed${way}:`,
    ...files.flatMap((file) => fileAsText(file, side)),
    ...names,
    ...lost.map((range) => `  note    ${rangeAsText(range)} as lost`),
    ...(forgetsStop ? [`  remove  ${CLEAN_STOP}, which describes the end of the journal before this repair`] : []),
    '',
  ];
}

function fileAsText(file: DamagedFile, side: string): string[] {
  const { name, finding, bytes, kept, removedBytes, removedRanges } = file;
  return [
    `  ${findingAsText(finding)}`,
    `  move    ${name} whole to ${side}; keep ${numbered(kept, 'good line')}, leave out ${removedBytes} of ${bytes} bytes in ${numbered(removedRanges, 'place')}`,
  ];
}

function planAsJson({ files, runs, lost, renamed }: Plan, side: string): object {
  return {
    side,
    damaged: files.map(fileAsJson),
    written: runs.map(({ firstSeq, lines }) => ({ first_seq: firstSeq, lines })),
    newly_lost: lost,
    renamed: renamed.map(({ name }) => name),
  };
}

function fileAsJson({ removedRanges, removedBytes, ...file }: DamagedFile): object {
  return { ...file, removed_places: removedRanges, removed_bytes: removedBytes };
}
