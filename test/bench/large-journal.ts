/** Writes journals with many events faster than a service could record them. */

import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type ChainPosition, encodeBatch } from '../../src/journal/line/record.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { encodeMembers } from '../support/plain-event.ts';

const BATCH_EVENTS = 10_000;

const plain = encodeMembers({
  type: 'AssetMaterialization',
  assetKey: ['warehouse', 'orders'],
  partition: '2026-11-20',
  metadata: '{"rows":10}',
});

/** Writes a journal in the state after a service has stopped. @param membersOf returns the members of the event with a seq */
export function writeJournal(folder: string, events: number, segmentEvents: number, membersOf = (_: number) => plain) {
  for (let first = 1; first <= events; first += segmentEvents) {
    const end = Math.min(first + segmentEvents, events + 1);
    const file = openSync(join(folder, segmentName(first)), 'wx', 0o600);
    for (let chain: ChainPosition = { seq: first, crc: 0 }; chain.seq < end; ) {
      const { seq } = chain;
      const batch = Array.from({ length: Math.min(BATCH_EVENTS, end - seq) }, (_, at) => membersOf(seq + at));
      const encoded = encodeBatch(batch, chain, new Date());
      writeSync(file, encoded.bytes);
      chain = encoded.chain;
    }
    fsyncSync(file);
    closeSync(file);
  }
}
