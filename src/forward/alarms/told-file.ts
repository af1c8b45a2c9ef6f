/**
 * The durable record of what a hook was sent: `forward-NAME.alarms` in the folder of the journal.
 *
 *     file  = head alarm… end                         (JSON lines)
 *     head  = {"format":1,"made":"…","open":null}
 *     alarm = {"on":"failed","asset_key":["a"],"check_name":"c","partition":"p","severity":"ERROR","since":"…","since_seq":7,"posted":"…"}
 *     end   = {"alarms":1,"crc":"…"}
 *
 * `open` is the post that is being sent, or was being sent when the service ended, so the hook might have it. `posted` is null for an
 * alarm that was noted and not posted. The file is replaced as a whole, and `crc` is the CRC-32 of all bytes before its member.
 */

import { keyOf } from '../../assets/asset-state.ts';
import type { Limits } from '../../config/limits.ts';
import type { Disk, ReadableDisk } from '../../journal/disk.ts';
import { readSmall, replaceDurably } from '../../journal/file-io.ts';
import { isSealed, sealed } from '../../journal/sealed.ts';
import { alarmKey, type Beginning, type ToldAlarm } from './alarm.ts';
import { type AboutJson, type Post, subjectOf, timeText } from './post.ts';

/** A post that was opened. */
export interface OpenPost extends Post {
  /** The UUID of its key. */
  readonly id: string;
  /** The number of hooks that the event has passed with it. */
  readonly hooks: number;
}

/** The content of the file, in memory. */
export interface ToldFile {
  /** When the file was first created, as `2026-11-20T15:19:45.266Z`; undefined before that. */
  made: string | undefined;
  open: OpenPost | undefined;
  /** The alarms by key. */
  readonly told: Map<string, ToldAlarm>;
}

/** An alarm in the form of its line, with the members in this order. */
interface AlarmLine extends AboutJson {
  readonly on: Beginning;
  readonly since: string;
  readonly since_seq: number;
  readonly posted: string | null;
}

/** @returns the record of a new hook */
export function newToldFile(): ToldFile {
  return { made: undefined, open: undefined, told: new Map() };
}

/**
 * @param name of the destination
 * @returns the content of the file, or the record of a new hook if there is no file; undefined if the file is damaged
 * or has another format
 * @throws the error of a system call
 */
export async function readTold(
  disk: ReadableDisk,
  name: string,
  { alarmBytesMax }: Limits,
): Promise<ToldFile | undefined> {
  const file = newToldFile();
  const bytes = await readSmall(disk, toldName(name), 2 * alarmBytesMax);
  if (bytes === undefined) return file;
  const text = bytes.toString();
  if (!text.endsWith('\n') || !isSealed(text.slice(0, -1))) return undefined;
  const [head, ...lines] = text
    .split('\n')
    .slice(0, -2)
    .map((line) => JSON.parse(line)); // without the last line
  if (head?.format !== FORMAT) return undefined;
  for (const line of lines as AlarmLine[]) {
    const { on, severity, since, since_seq: sinceSeq, posted } = line;
    const alarm = { on, ...subjectOf(line), severity, sinceMs: Date.parse(since), sinceSeq, posted };
    file.told.set(alarmKey(alarm), alarm);
  }
  return { ...file, made: head.made, open: head.open ?? undefined };
}

/** Replaces the file, durably. @throws the error of a system call; the folder then has the old file or the new one */
export async function writeTold(disk: Disk, name: string, { made, open, told }: ToldFile): Promise<void> {
  const head = { format: FORMAT, made, open: open ?? null };
  const lines = [head, ...[...told.values()].map(lineOf)].map((line) => `${JSON.stringify(line)}\n`);
  const text = sealed(`${lines.join('')}{"alarms":${told.size}`);
  await replaceDurably(disk, toldName(name), [Buffer.from(`${text}\n`)]);
}

function lineOf({ on, asset, check, partition, severity, sinceMs, sinceSeq, posted }: ToldAlarm): AlarmLine {
  const about = { asset_key: keyOf({ name: asset }), check_name: check, partition, severity };
  return { on, ...about, since: timeText(sinceMs), since_seq: sinceSeq, posted };
}

/** @returns the name of the file: `forward-hook.alarms` for `hook` */
export function toldName(name: string): string {
  return `forward-${name}.alarms`;
}

/** A program that finds another number rejects the file. */
const FORMAT = 1;
