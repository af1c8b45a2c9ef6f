/** Journals with many events, which are written faster than a service could record them. */

import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type ChainPosition, encodeBatch, type LineMembers } from '../../src/journal/line/record.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { encodeMembers } from '../support/plain-event.ts';

const BATCH_EVENTS = 10_000;

/** Writes a journal as a service leaves it. @param metadata of each event */
export function writeJournal(folder: string, events: number, segmentEvents: number, metadata = '{"rows":10}'): void {
  const shared = { type: 'AssetMaterialization', assetKey: ['warehouse', 'orders'], partition: '2026-11-20' } as const;
  const members = encodeMembers({ ...shared, metadata });
  writeLines(folder, events, segmentEvents, () => members);
}

/** As `writeJournal`, with the readings of 1,000 devices, no two of them the same: what an engine compresses as it would real ones. */
export function writeReadings(folder: string, events: number, segmentEvents: number): void {
  writeLines(folder, events, segmentEvents, () => {
    const device = Math.floor(Math.random() * 1000);
    const metadata = `{"temperature":${(Math.random() * 100).toFixed(3)},"count":${Math.floor(Math.random() * 1e6)}}`;
    return encodeMembers({ type: 'AssetObservation', assetKey: [`site-${device % 20}`, `device-${device}`], metadata });
  });
}

function writeLines(folder: string, events: number, segmentEvents: number, membersOf: () => LineMembers): void {
  for (let first = 1; first <= events; first += segmentEvents) {
    const end = Math.min(first + segmentEvents, events + 1);
    const file = openSync(join(folder, segmentName(first)), 'wx', 0o600);
    for (let chain: ChainPosition = { seq: first, crc: 0 }; chain.seq < end; ) {
      const batch = Array.from({ length: Math.min(BATCH_EVENTS, end - chain.seq) }, membersOf);
      const encoded = encodeBatch(batch, chain, new Date());
      writeSync(file, encoded.bytes);
      chain = encoded.chain;
    }
    fsyncSync(file);
    closeSync(file);
  }
}
