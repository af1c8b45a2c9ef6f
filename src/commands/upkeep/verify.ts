/** `assetlog verify`: reads a whole journal and reports its contents and its damage. */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { switchOption, type ValuesOf } from '../../config/options.ts';
import type { Disk } from '../../journal/disk.ts';
import { type Verdict, verify } from '../../journal/look/verify.ts';
import type { Finding } from '../../journal/open/recovery.ts';
import type { GoneRange } from '../../journal/segments.ts';
import { numbered, shellWord } from '../../telemetry/printable.ts';
import { defineCommand, type Output } from '../cli/command.ts';
import { folderOperand, folderOption, reportErrors, withFolder } from '../cli/data-folder.ts';
import { createByteProgress, megabytes } from '../cli/progress.ts';

const verifyOptions = {
  data: folderOption,
  json: switchOption('print a JSON object instead of text; for deployments one line with an object for each'),
};

type VerifyOptions = ValuesOf<typeof verifyOptions>;

export const verifyCommand = defineCommand(
  {
    summary: 'read the whole journal and print what is in it and what is wrong',
    about:
      'Checks every line of every file: its crc, its seq, and that each file continues the previous one. Prints the numbers\n' +
      'of files and events, the first and last seq and time, and the first problem. Changes nothing, and can run while a\n' +
      'service runs. In a folder with deployments it verifies each journal, and exits with the greatest exit code.',
    notes: [
      'Examples:',
      '  assetlog verify /var/lib/assetlog',
      '  assetlog verify --json | jq .findings',
      '',
      'Exit codes:',
      '  0 good: a service would start on it, 2 flags or no journal there, 3 the journal is damaged, 5 it cannot be read',
    ],
    operands: folderOperand,
    options: verifyOptions,
  },
  verifyFolder,
);

/** @returns 0 if a service would start on each journal of the folder, otherwise the greatest exit code of a journal */
async function verifyFolder({ data, json }: VerifyOptions, output: Output): Promise<ExitCode> {
  return withFolder(data, output, async (found) => {
    if (found.kind === 'journal') return verifyJournal(found.disk, json, output, undefined);
    const codes: ExitCode[] = [];
    for (const { name, disk } of found.deployments) {
      codes.push(await reportErrors(disk.folder, output, () => verifyJournal(disk, json, output, name)));
    }
    const bad = found.deployments.filter((_, at) => codes[at] !== exitCodes.done).map(({ name }) => name);
    const count = `${numbered(codes.length, 'deployment')}: ${codes.length - bad.length} good`;
    if (!json) output.print(bad.length === 0 ? count : `${count}; damaged or not read: ${bad.join(', ')}`);
    return Math.max(...codes) as ExitCode;
  });
}

/** @returns 0, or 3 if the journal is damaged */
async function verifyJournal(
  disk: Disk,
  json: boolean,
  output: Output,
  deployment: string | undefined,
): Promise<ExitCode> {
  const verdict = await verifyWithProgress(disk, output);
  const name = deployment === undefined ? {} : { deployment };
  if (json) output.print(JSON.stringify({ ...name, ...verdictAsJson(disk, verdict) }));
  else output.print(`${verdictAsText(disk, verdict)}${deployment === undefined ? '' : '\n'}`);
  return damageOf(verdict).length === 0 ? exitCodes.done : exitCodes.damaged;
}

/** Verifies a journal, with its progress on a terminal. @throws the error of a system call */
export async function verifyWithProgress(disk: Disk, { progress }: Output): Promise<Verdict> {
  const verdict = await verify(disk, limits, createByteProgress(progress));
  progress('');
  return verdict;
}

/** @returns the findings on which a start would refuse the journal. A torn end is not among them: the start truncates it. */
export function damageOf({ findings }: Verdict): Finding[] {
  return findings.filter(({ decision }) => decision === 'refuse');
}

/** @returns lines of text without the last newline; the first line is for example `/var/lib/assetlog is good` */
export function verdictAsText(disk: Disk, verdict: Verdict): string {
  const { segments, bytes, events, first, last, lost, removedLast, findings } = verdict;
  const damage = damageOf(verdict);
  const { goodLines, badLines, badRanges, badRangesCount, erasedLines } = verdict;
  const isGood = damage.length === 0;
  const lines = [
    `${disk.folder} is ${isGood ? 'good' : 'damaged'}`,
    ...(isGood ? [] : [`  lines   ${goodLines} good, ${badLines} bad`]),
    `  files   ${segments.length}, ${megabytes(bytes)}`,
    `  events  ${events}${isGood ? '' : ' before the first bad line of each file'}`,
    `  seq     ${first === undefined ? 'none' : `${first.seq} to ${last?.seq}`}`,
    `  time    ${first === undefined ? 'none' : `${first.time} to ${last?.time}`}`,
  ];
  if (erasedLines > 0) lines.push(`  erased  ${numbered(erasedLines, 'event')}, by erase`);
  if (removedLast > 0) lines.push(`  removed up to seq ${removedLast}, by retention`);
  if (lost.length > 0) lines.push(`  lost    ${lost.map(rangeAsText).join(', ')}: a repair could not find them`);
  for (const finding of findings.filter(({ decision }) => decision === 'truncate')) {
    lines.push(
      `  end     ${findingAsText(finding)}: the next start truncates the file there and keeps the bytes; a running service might be writing it`,
    );
  }
  if (damage[0] !== undefined) {
    lines.push(`first problem: ${findingAsText(damage[0])}`);
    if (damage.length > 1) lines.push(`and ${numbered(damage.length - 1, 'more finding')}`);
    for (const range of badRangesCount > 1 ? badRanges : []) {
      lines.push(`  bad     ${findingAsText(range)}; ${numbered(range.lines, 'line')}`);
    }
    const more = badRangesCount - badRanges.length;
    if (more > 0) lines.push(`  bad     and ${numbered(more, 'more place')}`);
    lines.push(`assetlog repair ${shellWord(disk.folder)} shows how it can be repaired`);
  }
  return lines.join('\n');
}

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
    erased_lines: verdict.erasedLines,
    bad_places: verdict.badRanges,
    bad_places_count: verdict.badRangesCount,
  };
}

/** @returns a text such as `events-00000000000000000001.jsonl, line 4, byte 812: its crc is 1c…, computed 9a…` */
export function findingAsText({
  file,
  line,
  byte,
  problem,
}: Pick<Finding, 'file' | 'line' | 'byte' | 'problem'>): string {
  return `${file}, line ${line}, byte ${byte}: ${problem}`;
}

/** @returns `seq 4 to 7`, or `seq 4` for a single seq */
export function rangeAsText({ first, last }: GoneRange): string {
  return first === last ? `seq ${first}` : `seq ${first} to ${last}`;
}
