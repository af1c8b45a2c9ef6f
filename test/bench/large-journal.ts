/** Writes journals with many events faster than a service could record them. */

import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type ChainPosition, encodeBatch } from '../../src/journal/line/record.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { encodeMembers } from '../support/plain-event.ts';

const BATCH_EVENTS = 10_000;

/** Writes a journal in the state after a service has stopped. @param metadata of each event */
export function writeJournal(folder: string, events: number, segmentEvents: number, metadata = '{"rows":10}'): void {
  const shared = { type: 'AssetMaterialization', assetKey: ['warehouse', 'orders'], partition: '2026-11-20' } as const;
  const members = encodeMembers({ ...shared, metadata });
  for (let first = 1; first <= events; first += segmentEvents) {
    const end = Math.min(first + segmentEvents, events + 1);
    const file = openSync(join(folder, segmentName(first)), 'wx', 0o600);
    for (let chain: ChainPosition = { seq: first, crc: 0 }; chain.seq < end; ) {
      const batch = Array(Math.min(BATCH_EVENTS, end - chain.seq)).fill(members);
      const encoded = encodeBatch(batch, chain, new Date());
      writeSync(file, encoded.bytes);
      chain = encoded.chain;
    }
    fsyncSync(file);
    closeSync(file);
  }
}
