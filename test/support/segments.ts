/** Handmade journal files, to be damaged by hand. */

import { type ChainPosition, encodeBatch } from '../../src/journal/line/record.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';
import { encodeMembers, type PlainEvent } from './plain-event.ts';

export const FIRST = segmentName(1);
export const START: ChainPosition = { seq: 1, crc: 0 };
export const quiet = createNotices('error', false, () => {});

export type Files = Readonly<Record<string, Buffer>>;

/** An event whose metadata looks like a line. */
export function plainEvent(seq: number): PlainEvent {
  return {
    type: 'AssetMaterialization',
    assetKey: ['a', `${seq}`],
    description: 'x'.repeat(50),
    metadata: '{"seq":7,"id":"x","crc":"00000000"}',
  };
}

/** Like `plainEvent`, with members after the metadata, or instead of it, in three events of four. Their text looks like a line too. */
export function eventWithLaterMembers(seq: number): PlainEvent {
  const { metadata, ...plain } = plainEvent(seq);
  const eventTime = '2026-11-20T15:19:45.250Z';
  const idempotencyKey = `{"seq":7,"id":"x","crc":"00000000"}/${seq}`;
  const origin = {
    id: '01a1fb95-ce62-7e59-9364-610bf5613940',
    source: '0193e0c2-7f3a-7000-8000-000000000000',
    seq,
    recorded: '2026-11-20T15:19:45.266Z',
  };
  switch (seq % 4) {
    case 0:
      return { ...plain, metadata, eventTime };
    case 1:
      return { ...plain, idempotencyKey };
    case 2:
      return { ...plain, metadata, eventTime, idempotencyKey, origin };
    default:
      return { ...plain, metadata };
  }
}

/** @returns lines with their newlines; the first has this position in the chain */
export function makeLines(
  count: number,
  chain: ChainPosition = START,
  eventOf: (seq: number) => PlainEvent = plainEvent,
): { lines: Buffer[]; bytes: Buffer; chain: ChainPosition } {
  const events = Array.from({ length: count }, (_, index) => eventOf(chain.seq + index));
  const ids = events.map(({ origin }) => origin?.id);
  const batch = encodeBatch(events.map(encodeMembers), chain, new Date(), undefined, ids);
  return { lines: splitLines(batch.bytes), ...batch };
}

/** @returns the bytes of a file with the first seq `firstSeq` */
export function segment(firstSeq: number, count: number): Buffer {
  return makeLines(count, { seq: firstSeq, crc: 0 }).bytes;
}

/** @returns the bytes of a file with a line for each of these times */
export function timed(firstSeq: number, ...times: readonly (Date | string | number)[]): Buffer {
  const events = times.map((time, index) => [time, plainEvent(firstSeq + index)] as const);
  return timedEvents(events, firstSeq);
}

/** @returns the bytes of a file with these events, each recorded at its time */
export function timedEvents(
  events: readonly (readonly [time: Date | string | number, event: PlainEvent])[],
  firstSeq = 1,
): Buffer {
  let chain: ChainPosition = { seq: firstSeq, crc: 0 };
  const lines = events.map(([time, event]) => {
    const batch = encodeBatch([encodeMembers(event)], chain, new Date(time));
    chain = batch.chain;
    return Buffer.from(batch.bytes);
  });
  return Buffer.concat(lines);
}

/** @returns the bytes of a file whose lines were recorded `ageMs` ago */
export function aged(firstSeq: number, count: number, ageMs: number): Buffer {
  return timed(firstSeq, ...Array<number>(count).fill(Date.now() - ageMs));
}

/** @returns each line with its newline; the last one is the rest after the last newline */
export function splitLines(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf('\n', start);
    lines.push(bytes.subarray(start, end === -1 ? bytes.length : end + 1));
    start = end === -1 ? bytes.length : end + 1;
  }
  return lines;
}

export function flip(bytes: Buffer, at: number): Buffer {
  const flipped: Buffer = Buffer.from(bytes);
  flipped.writeUInt8(flipped.readUInt8(at) ^ 1, at);
  return flipped;
}

export function diskWith(files: Files): SimulatedDisk {
  const disk = new SimulatedDisk();
  for (const [name, bytes] of Object.entries(files)) disk.put(name, bytes);
  return disk;
}

/** @returns everything in the folder, to compare it later */
export function filesOf(disk: SimulatedDisk): Record<string, Buffer | undefined> {
  return Object.fromEntries(disk.names().map((name) => [name, disk.bytes(name)]));
}
