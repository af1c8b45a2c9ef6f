/** A hub on a simulated disk: its journal and its receiver, without HTTP. */

import { limits as standardLimits } from '../../src/config/limits.ts';
import type { ForwardRequest } from '../../src/forward/hub/received.ts';
import { Receiver } from '../../src/forward/hub/receiver.ts';
import { type Era, SOURCE_FILE } from '../../src/forward/source.ts';
import { batchItemReader } from '../../src/http/batch.ts';
import { type Recorder, Refusal, type Reply } from '../../src/http/message.ts';
import { Journal } from '../../src/journal/journal.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import type { Retain } from '../../src/journal/retention.ts';
import { contentsOf } from '../../src/journal/segments.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { type SentJournal, sourceOf } from '../support/forwarding.ts';
import { eventOf } from '../support/plain-event.ts';
import type { SimulatedDisk } from './simulated-disk.ts';

export const readItem = batchItemReader(standardLimits);

export interface HubParts {
  readonly retain?: Retain;
  readonly segmentBytes?: number;
  readonly limits?: Partial<typeof standardLimits>;
}

export const OWN = sourceOf(999);

/** A hub whose process can die at any time: only its disk is left then. */
export class TestHub {
  readonly disk: SimulatedDisk;
  readonly notices: string[] = [];
  readonly receiver: Receiver;
  readonly journal: Journal;
  readonly recorder: Recorder;

  constructor(disk: SimulatedDisk, parts: HubParts = {}) {
    const { retain = {}, segmentBytes = 64 * 1024, limits = {} } = parts;
    this.disk = disk;
    if (!disk.names().includes(SOURCE_FILE)) disk.put(SOURCE_FILE, Buffer.from(`${OWN}\n`));
    const all = { ...standardLimits, ...limits } as typeof standardLimits;
    const notices = createNotices('info', false, (line) => this.notices.push(line), all);
    const progress = new OwnProgress();
    const options = { disk, limits: all, notices };
    this.receiver = new Receiver({ ...options, readItem, progress: () => progress.of(disk.folder) });
    const followers = [progress.follow(disk.folder), this.receiver.reopen(Object.keys(retain).length > 0)];
    const journal = new Journal({ ...options, followers, retain, segmentBytes, onFailed: () => {} });
    this.journal = journal;
    this.recorder = {
      deployment: undefined,
      begin: () => {},
      refusal: (bytes) => journal.refusal(bytes),
      append: (events, done, onConflict) => journal.append(events, done, onConflict),
    };
  }

  static async open(disk: SimulatedDisk, parts?: HubParts): Promise<TestHub> {
    const hub = new TestHub(disk, parts);
    await hub.journal.open();
    return hub;
  }

  /** Sends lines of a journal to the hub, both seqs inclusive. @returns the reply */
  async put(
    sent: SentJournal,
    first: number,
    last: number,
    headers: Partial<Pick<ForwardRequest, 'lost' | 'eras' | 'begins' | 'after' | 'tokenName'>> = {},
  ): Promise<Said> {
    const { source } = sent;
    const request = {
      source,
      eras: [[1, source] as const],
      firstSeq: first,
      ...headers,
      body: sent.bytes(first, last),
    };
    return saidBy(this.receiver.take(request, this.recorder));
  }

  ask(source: string, eras: readonly Era[] = [[1, source]], tokenName?: string): Promise<Said> {
    return saidBy(this.receiver.ask(eras, this.recorder, { tokenName }));
  }

  /** Records an event of the hub itself. */
  report(name = 'own'): Promise<void> {
    return new Promise((resolve) =>
      this.journal.append([eventOf({ type: 'AssetObservation', assetKey: [name] })], () => resolve()),
    );
  }
}

export interface Said {
  readonly status: number;
  readonly seq?: number;
  readonly id?: string | null;
  readonly reason?: string;
  readonly error?: string;
}

async function saidBy(replied: Promise<Reply>): Promise<Said> {
  const reply = await replied.catch((error) => {
    if (error instanceof Refusal) return error.reply;
    throw error;
  });
  if (reply.kind === 'error') return { status: reply.status, error: reply.error, ...reply.members };
  if (reply.kind !== 'body') throw new Error(reply.kind);
  return { status: reply.status, ...JSON.parse(reply.body) };
}

interface RecordedLine {
  readonly id: string;
  readonly from?: readonly [string, number];
  readonly origin?: readonly [string, number];
}

/** @returns the lines of a journal, in order */
export function eventsOf(disk: SimulatedDisk): RecordedLine[] {
  const { segments } = contentsOf(disk.names());
  return segments.flatMap(({ name }) => disk.text(name).split('\n').slice(0, -1)).map((line) => JSON.parse(line));
}

/** @returns the seqs of each source, in the order of the hub's journal */
export function forwardedIn(disk: SimulatedDisk): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const { from } of eventsOf(disk))
    if (from !== undefined) found.set(from[0], [...(found.get(from[0]) ?? []), from[1]]);
  return found;
}
