/** `assetlog verify`: reads a whole journal and reports its contents and its damage. */

import { options } from '../config/config.ts';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import type { Option } from '../config/options.ts';
import { type Disk, openDisk } from '../journal/disk.ts';
import { InUseError } from '../journal/lock.ts';
import type { Finding } from '../journal/recovery.ts';
import type { GoneRange } from '../journal/segments.ts';
import { type Verdict, verify } from '../journal/verify.ts';
import { defineCommand, type Output } from './command.ts';
import { absenceOf } from './listing.ts';

export const json: Option<boolean> = {
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

export interface VerifyOptions {
  readonly data: string;
  readonly json: boolean;
}

/** @returns 0 if a service would start on the journal, 3 if it is damaged */
async function verifyJournal({ data, json }: VerifyOptions, output: Output): Promise<ExitCode> {
  return onJournal(data, output, async (disk) => {
    const verdict = await verifyWithProgress(disk, output);
    const damage = damageOf(verdict);
    output.say(json ? JSON.stringify(verdictAsJson(disk, verdict)) : verdictAsText(disk, verdict));
    return damage.length === 0 ? exitCodes.done : exitCodes.damaged;
  });
}

export async function onJournal(
  data: string,
  output: Output,
  act: (disk: Disk) => Promise<ExitCode>,
): Promise<ExitCode> {
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

export async function verifyWithProgress(disk: Disk, { progress }: Output): Promise<Verdict> {
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

/** @returns the findings on which a start would refuse the journal. A torn end is not one of them: the start truncates it. */
export function damageOf({ findings }: Verdict): Finding[] {
  return findings.filter(({ decision }) => decision === 'refuse');
}

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
    bad_places: verdict.badPlaces,
    bad_places_count: verdict.badPlacesCount,
  };
}

export function placeOf({ file, line, byte, problem }: Pick<Finding, 'file' | 'line' | 'byte' | 'problem'>): string {
  return `${file}, line ${line}, byte ${byte}: ${problem}`;
}

export function rangeAsText({ first, last }: GoneRange): string {
  return first === last ? `seq ${first}` : `seq ${first} to ${last}`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
