/** `verify` and `repair` as a person meets them: what they print, and what they end with. */

import { limits, options } from '../config/config.ts';
import type { Option } from '../config/options.ts';
import { type Disk, openDisk } from '../journal/disk.ts';
import { InUseError, lockFolder } from '../journal/lock.ts';
import type { GoneRange } from '../journal/record.ts';
import type { Finding } from '../journal/recovery.ts';
import { carryOut, type DamagedFile, type Plan, planRepair, sideName } from '../journal/repair.ts';
import { type Verdict, verify } from '../journal/verify.ts';
import { defineCommand, type ExitCode, exitCodes, type Output } from './command.ts';
import { absenceOf } from './listing.ts';

const json: Option<boolean> = {
  argument: '',
  help: 'print one JSON object instead of text',
  initial: false,
  parse: () => true,
};

export const verifyCommand = defineCommand(
  {
    summary: 'read the whole journal and say what is in it and what is wrong',
    about:
      'Checks every line of every file: crc, seq, and that file joins up with file. Says how many files and events there\n' +
      'are, the first and last seq and time, and the first thing wrong. Changes nothing, and may run beside a service.\n' +
      'Ends with 0 when a start would go well, with 3 when the journal is damaged.',
    options: { data: options.data, json },
    notes: [
      'Examples:',
      '  assetlog verify --data /var/lib/assetlog',
      '  assetlog verify --json | jq .findings',
      '',
      'Exit codes:',
      '  0 good, 2 flags or no journal there, 3 the journal is damaged, 5 it can not be read',
    ],
  },
  verifyJournal,
);

export const repairCommand = defineCommand(
  {
    summary: 'make a damaged journal startable, without losing a good line',
    about:
      'Shows what it would do; does it with --yes. Good lines stay, with their seq, id and time. Each damaged file is kept\n' +
      'whole in a folder damaged-… beside the journal, and an empty file events-….lost stands for events that are gone.\n' +
      'The service must not be running. Ends with 0 when the journal is good, with 3 when --yes would have something to do.',
    options: {
      data: options.data,
      json,
      yes: { argument: '', help: 'do it; without this nothing is changed', initial: false, parse: () => true },
    },
    notes: [
      'Examples:',
      '  assetlog repair --data /var/lib/assetlog          shows what it would do',
      '  assetlog repair --data /var/lib/assetlog --yes    does it',
      '',
      'Exit codes:',
      '  0 good, 2 flags or no journal there, 3 the journal is damaged, 4 the data folder is in use,',
      '  5 it can not be read or written',
    ],
  },
  repairJournal,
);

interface VerifyOptions {
  readonly data: string;
  readonly json: boolean;
}

interface RepairOptions extends VerifyOptions {
  readonly yes: boolean;
}

/** @returns 0 where a start would go well, else what is wrong as an exit code */
async function verifyJournal({ data, json }: VerifyOptions, output: Output): Promise<ExitCode> {
  return onJournal(data, output, async (disk) => {
    const verdict = await verifyWithProgress(disk, output);
    const damage = damageOf(verdict);
    output.say(json ? JSON.stringify(verdictAsJson(disk, verdict)) : verdictAsText(disk, verdict));
    return damage.length === 0 ? exitCodes.done : exitCodes.damaged;
  });
}

/** @returns 0 where the journal is good, before or by what was done; 3 where something is left to do */
async function repairJournal({ data, json, yes }: RepairOptions, output: Output): Promise<ExitCode> {
  return onJournal(data, output, async (disk) => {
    const lock = await lockFolder(disk.folder);
    try {
      const verdict = await verifyWithProgress(disk, output);
      const plan = await planRepair(disk, verdict, limits);
      const needed = damageOf(verdict).length > 0;
      const side = sideName(await disk.list(), new Date());
      if (needed && yes) await carryOut(disk, plan, side, `${JSON.stringify(planAsJson(plan, side), undefined, 2)}\n`);
      const after = needed && yes ? await verify(disk) : verdict;
      output.say(
        json
          ? JSON.stringify({ ...planAsJson(plan, side), done: needed && yes, after: verdictAsJson(disk, after) })
          : [...planAsText(plan, side, needed, yes), verdictAsText(disk, after)].join('\n'),
      );
      return damageOf(after).length === 0 ? exitCodes.done : exitCodes.damaged;
    } finally {
      await lock.release();
    }
  });
}

async function onJournal(data: string, output: Output, act: (disk: Disk) => Promise<ExitCode>): Promise<ExitCode> {
  const disk = openDisk(data);
  try {
    const absence = await absenceOf(disk);
    if (absence !== undefined) {
      output.complain(absence);
      return exitCodes.configuration;
    }
    return await act(disk);
  } catch (error) {
    output.progress('');
    const { message } = error as Error;
    if (error instanceof InUseError) {
      output.complain(message);
      return exitCodes.inUse;
    }
    output.complain(`the journal in ${disk.folder} could not be worked on: ${message}`);
    return exitCodes.diskFailed;
  }
}

const PROGRESS_MS = 100;

async function verifyWithProgress(disk: Disk, { progress }: Output): Promise<Verdict> {
  const startedMs = performance.now();
  let shownMs = startedMs;
  const verdict = await verify(disk, (read, total) => {
    const nowMs = performance.now();
    if (nowMs - shownMs < PROGRESS_MS) return;
    shownMs = nowMs;
    const speed = read / 1e6 / ((nowMs - startedMs) / 1000);
    progress(
      `${Math.floor((100 * read) / total)} %  ${megabytes(read)} of ${megabytes(total)}, ${speed.toFixed(0)} MB/s`,
    );
  });
  progress('');
  return verdict;
}

/** What keeps a start from going well. A torn end does not: the start cuts it off. */
function damageOf({ findings }: Verdict): Finding[] {
  return findings.filter(({ decision }) => decision === 'refuse');
}

function verdictAsText(disk: Disk, verdict: Verdict): string {
  const { segments, bytes, events, first, last, lost, removedLast, findings } = verdict;
  const damage = damageOf(verdict);
  const lines = [
    `${disk.folder} is ${damage.length === 0 ? 'good' : 'damaged'}`,
    `  files   ${segments.length}, ${megabytes(bytes)}`,
    `  events  ${events}`,
    `  seq     ${first === undefined ? 'none' : `${first.seq} to ${last?.seq}`}`,
    `  time    ${first === undefined ? 'none' : `${first.time} to ${last?.time}`}`,
  ];
  if (removedLast > 0) lines.push(`  removed up to seq ${removedLast}, by retention`);
  if (lost.length > 0)
    lines.push(`  lost    ${lost.map(rangeAsText).join(', ')}: an earlier repair could not find them`);
  for (const finding of findings.filter(({ decision }) => decision === 'cut')) {
    lines.push(
      `  end     ${placeOf(finding)}: the next start cuts it off and keeps it; a running service may be writing it`,
    );
  }
  if (damage[0] !== undefined) {
    lines.push(`first thing wrong: ${placeOf(damage[0])}`);
    if (damage.length > 1) lines.push(`and something in ${damage.length - 1} more places`);
    const { goodLines, badLines, badPlaces, badPlacesCount } = verdict;
    lines.push(`  lines   ${goodLines} good, ${badLines} bad, those after the first bad one of each file among them`);
    for (const place of badPlacesCount > 1 ? badPlaces : []) {
      lines.push(`  bad     ${placeOf(place)}; ${place.lines} ${place.lines === 1 ? 'line' : 'lines'}`);
    }
    const more = badPlacesCount - badPlaces.length;
    if (more > 0) lines.push(`  bad     and ${more} more places`);
    lines.push('assetlog repair with the same --data shows how to mend it');
  }
  return lines.join('\n');
}

function verdictAsJson({ folder }: Disk, verdict: Verdict): object {
  const { segments, bytes, events, first, last, lost, removedLast, findings } = verdict;
  return {
    good: damageOf(verdict).length === 0,
    folder,
    files: segments.length,
    bytes,
    events,
    first_seq: first?.seq ?? null,
    last_seq: last?.seq ?? null,
    first_time: first?.time ?? null,
    last_time: last?.time ?? null,
    lost,
    removed_to_seq: removedLast,
    findings,
    good_lines: verdict.goodLines,
    bad_lines: verdict.badLines,
    bad_places: verdict.badPlaces,
    bad_places_count: verdict.badPlacesCount,
  };
}

function planAsText({ files, runs, lost }: Plan, side: string, needed: boolean, yes: boolean): string[] {
  if (!needed) return ['nothing to repair'];
  const names = runs.length === 0 ? [] : [`  write   ${runs.length} files with the good lines of the damaged ones`];
  return [
    yes ? 'this was done:' : 'this is to be done; nothing was changed, add --yes to do it:',
    ...files.flatMap((file) => fileAsText(file, side)),
    ...names,
    ...lost.map((range) => `  note    ${rangeAsText(range)} as lost`),
    '',
  ];
}

function fileAsText(file: DamagedFile, side: string): string[] {
  const { name, finding, bytes, kept, unproved, unprovedLines, carriageReturns, removedBytes, removedPlaces } = file;
  const lines = [
    `  ${placeOf(finding)}`,
    `  move    ${name} whole to ${side}; keep ${kept} good lines, leave out ${removedBytes} of ${bytes} bytes in ${removedPlaces} places`,
  ];
  if (unprovedLines > 0) {
    lines.push(`  trust   ${unprovedLines} lines whose crc builds on a lost one, from seq ${unproved[0]}`);
  }
  if (carriageReturns > 0)
    lines.push(`  write   ${carriageReturns} lines that end in CR LF with LF, as they were recorded`);
  return lines;
}

function planAsJson({ files, runs, lost }: Plan, side: string): object {
  return {
    side,
    damaged: files.map(fileAsJson),
    written: runs.map(({ firstSeq, lines }) => ({ first_seq: firstSeq, lines })),
    newly_lost: lost,
  };
}

function fileAsJson({ unprovedLines, carriageReturns, removedPlaces, removedBytes, ...file }: DamagedFile): object {
  return {
    ...file,
    unproved_lines: unprovedLines,
    carriage_returns: carriageReturns,
    removed_places: removedPlaces,
    removed_bytes: removedBytes,
  };
}

function placeOf({ file, line, byte, problem }: Pick<Finding, 'file' | 'line' | 'byte' | 'problem'>): string {
  return `${file}, line ${line}, byte ${byte}: ${problem}`;
}

function rangeAsText({ first, last }: GoneRange): string {
  return first === last ? `seq ${first}` : `seq ${first} to ${last}`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
