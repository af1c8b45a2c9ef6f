/**
 * The id of a journal that forwards or receives events: the source, by which a hub or an engine knows the journal. It is created once
 * and kept in `.journal-id`, so that it is the same after a restart, at another address and in a restored backup.
 */

import type { Disk, ReadableDisk } from '../journal/disk.ts';
import { readSmall, replaceDurably } from '../journal/file-io.ts';
import { createUuids, ID, ID_FORM } from '../journal/line/uuid.ts';

/** Name of the file with the id. */
export const SOURCE_FILE = '.journal-id';

/** Whether a value is an id of a journal or of an event. */
export function isId(value: unknown): value is string {
  return typeof value === 'string' && ID.test(value);
}

/**
 * @returns undefined if the journal never forwarded or received events
 * @throws Error if the file contains something else, or the error of a system call
 */
export async function readSource(disk: ReadableDisk): Promise<string | undefined> {
  const text = (await readSmall(disk, SOURCE_FILE, ID_BYTES + 2))?.toString('latin1').replace(/\n$/, '');
  if (text === undefined || isId(text)) return text;
  throw new Error(`${disk.folder}/${SOURCE_FILE} does not hold the id of a journal; ${WAYS_OUT}`);
}

/**
 * Reads the id, or creates one durably: no hub or sender ever sees an id that a power cut could undo. Only one call at a time for
 * each journal.
 * @throws Error if the id cannot be read or was removed: another id would make a hub record all events again
 */
export async function openSource(disk: Disk): Promise<string> {
  const source = await readSource(disk);
  if (source === undefined) {
    if ((await disk.list()).some((name) => name.startsWith(KNOWN_PREFIX))) {
      throw new Error(`${disk.folder}/${SOURCE_FILE} was removed; ${WAYS_OUT}`);
    }
    return replaceSource(disk);
  }
  await disk.syncFolder(); // the process that created it might have died before the entry was durable
  return source;
}

/**
 * Gives the journal a new id, durably, for a copy that continues beside its original.
 * @param beginSeq the first event of the journal under that id: hubs have the events before it under another id
 * @param firstSeq the first line that belongs to the journal with the new id
 * @throws the error of a system call; the file then has the old id or the new one
 */
export async function replaceSource(disk: Disk, beginSeq?: number, firstSeq = beginSeq ?? 1): Promise<string> {
  const source = createUuids(new Date())();
  const old = await readSource(disk).catch(() => undefined);
  const kept = old === undefined ? [] : (await readEras(disk, old)).filter(([first]) => first < firstSeq);
  if (kept.length > 0) {
    const eras: readonly Era[] = [...kept.slice(1 - ERAS_MAX), [firstSeq, source]];
    await replaceDurably(disk, IDS_FILE, [Buffer.from(eras.map(([first, id]) => `${first} ${id}\n`).join(''))]);
  }
  if (beginSeq !== undefined) await replaceDurably(disk, BEGIN_FILE, [Buffer.from(`${beginSeq} ${source}\n`)]);
  await replaceDurably(disk, SOURCE_FILE, [Buffer.from(`${source}\n`)]);
  return source;
}

/**
 * @returns the first event of the journal under its id: 1 unless another one was passed to `replaceSource`. @throws the error of a
 * system call
 */
export async function readBegin(disk: ReadableDisk, source: string): Promise<number> {
  const text = `${await readSmall(disk, BEGIN_FILE, ID_BYTES + 20)}`;
  const [, seq, id] = /^([1-9]\d{0,14}) (\S+)\n$/.exec(text) ?? [];
  return id === source ? Number(seq) : 1;
}

/** An id of a journal, and the first line that the journal had under it. */
export type Era = readonly [firstSeq: number, id: string];

/** @returns all ids of the journal, the current one last. @throws the error of a system call */
export async function readEras(disk: ReadableDisk, source: string): Promise<readonly Era[]> {
  const text = `${await readSmall(disk, IDS_FILE, ERAS_MAX * (ID_BYTES + 20))}`;
  const all = Array.from(text.matchAll(ERA), ([, first, id]): Era => [Number(first), id!]);
  const at = all.findIndex(([, id]) => id === source);
  return at === -1 ? [[1, source]] : all.slice(0, at + 1);
}

/** Name of the file with each id and its first line, `38 0193e0c2-…`; entries after the current id were never used. */
const IDS_FILE = '.journal-ids';
const ERA = new RegExp(`^([1-9]\\d{0,14}) (${ID_FORM})$`, 'gm');
const ERAS_MAX = 64;

/**
 * Name of the file with a first event and the id that it belongs to, `38 0193e0c2-…`. It is ignored if the journal has
 * another id.
 */
const BEGIN_FILE = '.journal-begin';

/**
 * Prefix of an empty file for each destination that was sent to: `.forwarded-hub`. A missing cursor beside it was lost; without it the
 * destination is new. Creating an empty file is atomic.
 */
export const KNOWN_PREFIX = '.forwarded-';

const ID_BYTES = 36;
const WAYS_OUT = 'restore it from a backup, or give the journal a new id with assetlog forward identity --new';
