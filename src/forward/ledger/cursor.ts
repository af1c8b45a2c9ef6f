/**
 * How far one destination of a journal is, from the point of view of the pipe: `forward-<name>.cursor`.
 *
 * The file has three slots of 512 bytes, one sector each. They are written in place, so a save needs no further space on a full disk.
 * The valid slot with the largest number counts. Saves alternate between the first two, so a power cut during a save leaves the
 * previous value. A start copies the value that it finds into the third slot, since that value might not be durable, and then only the
 * older slot would be.
 */

import { createHash } from 'node:crypto';
import { LINE_FEED } from '../../event/json-bytes.ts';
import type { Disk, ReadableDisk, SlotFile } from '../../journal/disk.ts';
import { readSmall } from '../../journal/file-io.ts';
import { isSealed, sealed } from '../../journal/sealed.ts';
import type { DestinationKind } from '../destinations/kinds.ts';
import type { Position } from '../position.ts';
import { KNOWN_PREFIX } from '../source.ts';

/**
 * The content of a cursor. All events up to its position are settled: recorded by the destination, or in the dead
 * letters.
 */
export interface CursorValue extends Position {
  /**
   * The last event of the request that is being sent, if the cursor has to record it: see `Ledger.begin`. The destination might have
   * it.
   */
  readonly sending: number | undefined;
  /** Undefined until the destination has answered. */
  readonly kind: DestinationKind | undefined;
  /** The result of `storedUrl`, which shows whether the URL of the destination was changed. */
  readonly to: string;
}

/**
 * The state of a cursor in the folder. `new`: nothing was ever sent to the destination. `lost`: something was sent, and the
 * cursor is missing or damaged.
 */
export type CursorState =
  | { readonly kind: 'found'; readonly value: CursorValue }
  | { readonly kind: 'new' }
  | { readonly kind: 'lost'; readonly reason: string };

/** An open cursor, and the state in which it was found. */
export type OpenedCursor = CursorState & { readonly cursor: Cursor };

/**
 * @returns the URL in the form that a cursor stores: unchanged, or a digest if it is too long for a slot:
 * `sha256:9f86d081…`
 */
export function storedUrl(url: string): string {
  if (Buffer.byteLength(JSON.stringify(url)) <= URL_BYTES_MAX) return url;
  return `sha256:${createHash('sha256').update(url).digest('hex')}`;
}

/** @returns the name of the cursor file: `forward-hub.cursor` for `hub` */
export function cursorName(name: string): string {
  return `forward-${name}.cursor`;
}

/**
 * Reads a cursor, while its service runs or not.
 * @param name the name of the destination
 * @throws the error of a system call
 */
export async function readCursor(disk: ReadableDisk, name: string): Promise<CursorState> {
  return (await readFolder(disk, name)).state;
}

/** The cursor of one destination. Only one process may have it open, and only one call may run at a time. */
export class Cursor {
  readonly #disk: Disk;
  readonly #name: string;
  readonly #file: SlotFile;
  /** Number of the last slot that was written, which also determines its position; undefined if no slot is valid. */
  #number: number | undefined;
  /** Whether the file that marks the destination as not new is durable. */
  #isKnown = false;

  private constructor(disk: Disk, name: string, file: SlotFile, number: number | undefined) {
    this.#disk = disk;
    this.#name = name;
    this.#file = file;
    this.#number = number;
  }

  /**
   * Opens the cursor of a destination, and makes what it finds durable. A cursor that is new or lost must be saved before anything is
   * sent.
   * @throws the error of a system call
   */
  static async open(disk: Disk, name: string): Promise<OpenedCursor> {
    const { state, number } = await readFolder(disk, name);
    const cursor = new Cursor(disk, name, await disk.openSlots(cursorName(name)), number);
    try {
      // The process that saved it might have died before its sync, or its sync might have failed. A power cut would then undo the
      // value on which the next request relies.
      if (state.kind === 'found') {
        await cursor.#file.write(encode(state.value, number!), FOUND_POSITION);
        await cursor.#know();
      }
    } catch (error) {
      await cursor.close();
      throw error;
    }
    return { ...state, cursor };
  }

  /**
   * Saves a value, durably. After a rejection the file has this value or the previous one, and the same or another value can
   * be saved.
   * @throws the error of a system call, or RangeError for an id that is too long for a slot
   */
  async save(value: CursorValue): Promise<void> {
    const number = this.#number === undefined ? 0 : this.#number + 1;
    const slot = encode(value, number);
    // The first save allocates the space of all slots.
    const bytes = number === 0 ? Buffer.concat([slot, Buffer.alloc(FILE_BYTES - SLOT_BYTES)]) : slot;
    const position = positionOf(number);
    try {
      await this.#file.write(bytes, position);
    } catch (error) {
      // Otherwise the next process would find the value in the page cache, assume that it is durable, and overwrite the slot
      // that is.
      await this.#file.writeUnsynced(Buffer.alloc(bytes.length), position).catch(() => {}); // the first error is reported
      throw error;
    }
    this.#number = number;
    await this.#know();
  }

  /** Closes the file. */
  async close(): Promise<void> {
    await this.#file.close();
  }

  /** Done after the first save and before anything is sent: until then a missing or torn cursor does no harm. */
  async #know(): Promise<void> {
    if (this.#isKnown) return;
    try {
      await (await this.#disk.create(KNOWN_PREFIX + this.#name)).close();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      await this.#disk.syncFolder();
    }
    this.#isKnown = true;
  }
}

/** The number and the value of the valid slot of a cursor file; undefined if no slot is valid. */
type Slot = { readonly number: number; readonly value: CursorValue } | undefined;

async function readFolder(
  disk: ReadableDisk,
  name: string,
): Promise<{ state: CursorState; number: number | undefined }> {
  const names = await disk.list();
  const file = cursorName(name);
  const bytes = names.includes(file) ? await readSmall(disk, file, FILE_BYTES) : undefined;
  const slot = bytes && [0, SLOT_BYTES, FOUND_POSITION].map((position) => decode(bytes, position)).reduce(latest);
  if (slot !== undefined) return { state: { kind: 'found', value: slot.value }, number: slot.number };
  if (!names.includes(KNOWN_PREFIX + name)) return { state: { kind: 'new' }, number: undefined };
  const reason = `${disk.folder}/${file} ${bytes === undefined ? 'is missing' : 'is damaged'}`;
  return { state: { kind: 'lost', reason }, number: undefined };
}

function positionOf(number: number): number {
  return (number % 2) * SLOT_BYTES;
}

function latest(one: Slot, other: Slot): Slot {
  return one === undefined || (other !== undefined && other.number > one.number) ? other : one;
}

function encode(value: CursorValue, number: number): Buffer {
  const text = JSON.stringify({ number, ...value, to: storedUrl(value.to) }).slice(0, -1);
  const line = Buffer.from(sealed(text));
  if (line.length >= SLOT_BYTES) throw new RangeError(`the cursor takes ${line.length} bytes: its id is too long`);
  // Padded with spaces and a line feed, so that the file can be read as text.
  const slot = Buffer.alloc(SLOT_BYTES, ' ');
  line.copy(slot);
  slot[SLOT_BYTES - 1] = LINE_FEED;
  return slot;
}

/** @returns undefined unless the slot is complete and is at the position that belongs to its number */
function decode(bytes: Buffer, position: number): Slot {
  const text = bytes.toString('utf8', position, position + SLOT_BYTES).trimEnd();
  if (!isSealed(text)) return undefined;
  const { number, seq, id, sending, kind, to } = JSON.parse(text);
  const isInPlace = position === FOUND_POSITION || position === positionOf(number);
  return isInPlace ? { number, value: { seq, id, sending, kind, to } } : undefined;
}

const SLOT_BYTES = 512;
/** Position of the third slot. */
const FOUND_POSITION = 2 * SLOT_BYTES;
const FILE_BYTES = 3 * SLOT_BYTES;
/** A number, two seqs, an id, a kind and the names of the members together need up to about 200 bytes. */
const URL_BYTES_MAX = 256;
