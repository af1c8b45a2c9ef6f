/** `assetlog verify`: reads a whole journal and reports its contents and its damage. */

import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import type { Option } from '../config/options.ts';
import type { Disk } from '../journal/disk.ts';
import { InUseError } from '../journal/lock.ts';
import type { Finding } from '../journal/recovery.ts';
import type { GoneRange } from '../journal/segments.ts';
import { type OnProgress, type Verdict, verify } from '../journal/verify.ts';
import { shellWord } from '../telemetry/printable.ts';
import { defineCommand, type Output } from './command.ts';
import { type FolderContent, folderOperand, folderOption, type NoJournal, surveyFolder } from './data-folder.ts';

/** The switch `--json` of `verify` and `repair`: `true` if it was given. */
export const json: Option<boolean> = {
  argument: '',
  help: 'print a JSON object instead of text, and for each deployment one in a line of its own',
  initial: false,
  parse: () => true,
};

/** The command `assetlog verify`, as in `assetlog verify /var/lib/assetlog`. */
export const verifyCommand = defineCommand(
  {
    summary: 'read the whole journal and print what is in it and what is wrong',
    about:
      'Checks every line of every file: its crc, its seq, and that each file continues the one before it. Prints how many\n' +
      'files and events there are, the first and last seq and time, and the first thing wrong. Changes nothing, and may run\n' +
      'beside a service. The exit code is 0 if a service would start on the journal, and 3 if the journal is damaged.\n' +
      'Of a folder with deployments it verifies the journal of each, and the exit code is the greatest one.',
    notes: [
      'Examples:',
      '  assetlog verify /var/lib/assetlog',
      '  assetlog verify --json | jq .findings',
      '',
      'Exit codes:',
      '  0 good, 2 flags or no journal there, 3 the journal is damaged, 5 it cannot be read',
    ],
    operands: folderOperand,
    options: { data: folderOption, json },
  },
  verifyFolder,
);

/** The values of the options, such as `{ data: '/var/lib/assetlog', json: false }`. */
export interface VerifyOptions {
  /** Path of the folder. */
  readonly data: string;
  readonly json: boolean;
}

/** @returns 0 if a service would start on each journal of the folder, else the greatest exit code of a journal */
async function verifyFolder({ data, json }: VerifyOptions, output: Output): Promise<ExitCode> {
  return withFolder(data, output, async (found) => {
    if (found.kind === 'journal') return verifyJournal(found.disk, json, output, undefined);
    const codes: ExitCode[] = [];
    for (const { name, disk } of found.deployments) {
      codes.push(await reportErrors(disk.folder, output, () => verifyJournal(disk, json, output, name)));
    }
    const bad = found.deployments.filter((_, at) => codes[at] !== exitCodes.done).map(({ name }) => name);
    const count = `${codes.length} deployments: ${codes.length - bad.length} good`;
    if (!json) output.say(bad.length === 0 ? count : `${count}; damaged or not read: ${bad.join(', ')}`);
    return Math.max(...codes) as ExitCode;
  });
}

/** @param deployment its name in hosted mode, which the JSON has as a member. @returns 0, or 3 if the journal is damaged */
async function verifyJournal(
  disk: Disk,
  json: boolean,
  output: Output,
  deployment: string | undefined,
): Promise<ExitCode> {
  const verdict = await verifyWithProgress(disk, output);
  const name = deployment === undefined ? {} : { deployment };
  if (json) output.say(JSON.stringify({ ...name, ...verdictAsJson(disk, verdict) }));
  else output.say(`${verdictAsText(disk, verdict)}${deployment === undefined ? '' : '\n'}`);
  return damageOf(verdict).length === 0 ? exitCodes.done : exitCodes.damaged;
}

/**
 * Runs `act` on what a folder holds, such as `/var/lib/assetlog`, and reports its errors on standard error.
 * @param beforeJournal called if no service has begun a journal there yet; without it that is a mistake
 * @returns the exit code of `act`; 2 if the folder has no journal, 4 if a service uses it, 5 if a system call failed
 */
export function withFolder(
  data: string,
  output: Output,
  act: (found: Exclude<FolderContent, NoJournal>) => Promise<ExitCode>,
  beforeJournal?: (folder: string) => ExitCode,
): Promise<ExitCode> {
  return reportErrors(data, output, async () => {
    const found = await surveyFolder(data);
    if (found.kind !== 'none') return act(found);
    if (found.mayBegin && beforeJournal !== undefined) return beforeJournal(found.folder);
    output.complain(found.problem);
    return exitCodes.configuration;
  });
}

async function reportErrors(folder: string, output: Output, act: () => Promise<ExitCode>): Promise<ExitCode> {
  try {
    return await act();
  } catch (error) {
    output.progress('');
    const { message } = error as Error;
    const isInUse = error instanceof InUseError;
    output.complain(isInUse ? message : `the journal in ${folder} could not be read or repaired: ${message}`);
    return isInUse ? exitCodes.inUse : exitCodes.diskFailed;
  }
}

const PROGRESS_MS = 100;

/**
 * Verifies a journal and shows the progress on a terminal, such as `42 %  123.4 MB of 293.8 MB, 512 MB/s`.
 * @throws the error of a system call
 */
export async function verifyWithProgress(disk: Disk, { progress }: Output): Promise<Verdict> {
  const verdict = await verify(disk, showingProgress(progress));
  progress('');
  return verdict;
}

/**
 * Shows how far a long command has come, such as `40 %  81.2 MB of 203.0 MB, 310 MB/s`, ten times a second at most.
 * @param progress replaces the progress line
 */
export function showingProgress(progress: Output['progress']): OnProgress {
  const startedMs = performance.now();
  let shownMs = startedMs;
  return (read, total) => {
    const nowMs = performance.now();
    if (nowMs - shownMs < PROGRESS_MS) return;
    shownMs = nowMs;
    const speed = read / 1e6 / ((nowMs - startedMs) / 1000);
    const percent = Math.floor((100 * read) / Math.max(1, total));
    progress(`${percent} %  ${megabytes(read)} of ${megabytes(total)}, ${speed.toFixed(0)} MB/s`);
  };
}

/**
 * @returns the findings on which a start would refuse the journal: `[]` if it is good. A torn end is not one of them: the start
 *   truncates it.
 */
export function damageOf({ findings }: Verdict): Finding[] {
  return findings.filter(({ decision }) => decision === 'refuse');
}

/** @returns the verdict as lines of text without the last newline; the first one is such as `/var/lib/assetlog is good` */
export function verdictAsText(disk: Disk, verdict: Verdict): string {
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
  for (const finding of findings.filter(({ decision }) => decision === 'truncate')) {
    lines.push(
      `  end     ${findingAsText(finding)}: the next start truncates the file there and keeps the bytes; a running service may be writing it`,
    );
  }
  if (damage[0] !== undefined) {
    lines.push(`first thing wrong: ${findingAsText(damage[0])}`);
    if (damage.length > 1) lines.push(`and ${damage.length - 1} more findings`);
    const { goodLines, badLines, badRanges, badRangesCount } = verdict;
    lines.push(`  lines   ${goodLines} good, ${badLines} bad, with those after the first bad one of each file`);
    for (const range of badRangesCount > 1 ? badRanges : []) {
      lines.push(`  bad     ${findingAsText(range)}; ${range.lines} ${range.lines === 1 ? 'line' : 'lines'}`);
    }
    const more = badRangesCount - badRanges.length;
    if (more > 0) lines.push(`  bad     and ${more} more places`);
    lines.push(`assetlog repair ${shellWord(disk.folder)} shows how it can be repaired`);
  }
  return lines.join('\n');
}

/** @returns the object that `--json` prints, such as `{ good: true, folder: '/var/lib/assetlog', files: 2, … }` */
export function verdictAsJson({ folder }: Disk, verdict: Verdict): object {
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
    bad_places: verdict.badRanges,
    bad_places_count: verdict.badRangesCount,
  };
}

/** @returns a finding as text, such as `events-00000000000000000001.jsonl, line 4, byte 812: its crc is 1c…, computed 9a…` */
export function findingAsText({
  file,
  line,
  byte,
  problem,
}: Pick<Finding, 'file' | 'line' | 'byte' | 'problem'>): string {
  return `${file}, line ${line}, byte ${byte}: ${problem}`;
}

/** @returns a range of seqs as text: `'seq 4 to 7'`, or `'seq 4'` for a single one */
export function rangeAsText({ first, last }: GoneRange): string {
  return first === last ? `seq ${first}` : `seq ${first} to ${last}`;
}

/** @returns bytes in units of 1,000,000: `megabytes(1_500_000)` is `'1.5 MB'` */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
