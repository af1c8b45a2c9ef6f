/** A journal in the process of a test. */

import assert from 'node:assert/strict';
import { limits as standardLimits } from '../../src/config/limits.ts';
import type { RecordResult } from '../../src/event/record-result.ts';
import type { Disk } from '../../src/journal/disk.ts';
import type { Follower } from '../../src/journal/follower.ts';
import { Journal } from '../../src/journal/journal.ts';
import { checkLine } from '../../src/journal/line/chain.ts';
import type { ChainPosition } from '../../src/journal/line/record.ts';
import type { JournalOptions } from '../../src/journal/options.ts';
import { segmentFirstSeq } from '../../src/journal/segments.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';
import { eventOf, type PlainEvent } from './plain-event.ts';

/** A disk that failed is tried again after 20 ms. Idempotency keys are checked against the lines of each closed file. */
export const quickLimits = { ...standardLimits, probeMs: 20, openRetryMs: 20, keyCheckBytesMax: 2 ** 20 };

export interface TestJournal {
  readonly journal: Journal;
  /** Its log lines, as JSON. */
  readonly notices: string[];
  readonly failures: Error[];
  append(...events: readonly PlainEvent[]): Promise<RecordResult>;
  /**
   * Appends one event with this description, or all these events together.
   * @returns undefined if all are durable, otherwise why none was recorded
   */
  report(what: string | readonly PlainEvent[]): Promise<string | undefined>;
}

export function createJournal(disk: Disk, options: Partial<JournalOptions> = {}): TestJournal {
  const notices: string[] = [];
  const failures: Error[] = [];
  const journal = new Journal({
    disk,
    notices: createNotices('debug', false, (line) => notices.push(line)),
    segmentBytes: 64 * 1024 * 1024,
    limits: quickLimits,
    onFailed: (error) => failures.push(error),
    ...options,
  });
  const append = (events: readonly PlainEvent[]) =>
    new Promise<RecordResult>((resolve) => journal.append(events.map(eventOf), resolve));
  return {
    journal,
    notices,
    failures,
    append: (...events) => append(events),
    report: async (what) => {
      const result = await append(typeof what === 'string' ? [described(what)] : what);
      return 'reason' in result ? result.reason : undefined;
    },
  };
}

export async function openJournal(disk: Disk, options?: Partial<JournalOptions>): Promise<TestJournal> {
  const created = createJournal(disk, options);
  await created.journal.open();
  return created;
}

/** Like `openJournal`, on a simulated disk, which is returned as well. */
export async function openSimulated(
  options?: Partial<JournalOptions>,
): Promise<TestJournal & { readonly disk: SimulatedDisk }> {
  const disk = new SimulatedDisk();
  return { disk, ...(await openJournal(disk, options)) };
}

/** A follower that notes the seq of the next line. */
export function nextSeqsTo(seqs: number[]): Follower {
  return {
    opened: (lastSeq) => void seqs.push(lastSeq + 1),
    committed: ({ after }) => void seqs.push(after.chain.seq),
  };
}

export function described(description: string): PlainEvent {
  return { type: 'AssetMaterialization', assetKey: ['a'], description };
}

export async function textOf(disk: Disk, name: string, start?: number, end?: number): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of disk.read(name, start, end)) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString();
}

/** @returns the descriptions of all events in the folder, after checks of every line, crc and seq */
export async function recorded(disk: Disk): Promise<string[]> {
  const names = (await disk.list()).filter((name) => segmentFirstSeq(name) !== undefined).sort();
  const descriptions: string[] = [];
  let seq = segmentFirstSeq(names[0] ?? '') ?? 1;
  for (const name of names) {
    let chain: ChainPosition = { seq, crc: 0 };
    assert.equal(segmentFirstSeq(name), seq);
    const text = await textOf(disk, name);
    assert.ok(text === '' || text.endsWith('\n'), `${name} ends in the middle of a line`);
    for (const line of text.split('\n').slice(0, -1)) {
      const check = checkLine(Buffer.from(line), 0, Buffer.byteLength(line), chain);
      assert.ok(check.kind === 'good', `${name}: ${JSON.stringify(check)}`);
      chain = check.chain;
      descriptions.push(JSON.parse(line).description);
    }
    seq = chain.seq;
  }
  return descriptions;
}
