/** The journals of a service, for reading over HTTP. Each is read from its files, like a command does, beside its writer. */

import { join } from 'node:path';
import type { Limits } from '../config/limits.ts';
import { unavailableRefusal } from '../http/message.ts';
import type { AssetStates } from '../journal/asset-state.ts';
import type { Disk, ReadableDisk } from '../journal/disk.ts';
import type { OwnProgress, Progress } from '../journal/progress.ts';
import type { GoneLines, Line, Remark } from '../journal/reader.ts';
import { lastLine } from '../journal/scan.ts';
import { contentsOf } from '../journal/segments.ts';
import { type Notices, oncePerName } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Refusals } from '../telemetry/refusals.ts';
import { Turns } from './turns.ts';

/** What the routes of this folder read, and their limits: `{ journals, assets, refusals, limits, metrics }`. */
export interface ReadingParts {
  readonly journals: ReadableJournals;
  readonly assets: {
    /** As `AssetMemory.upToDate`. */
    upToDate(deployment: string | undefined, ending: AbortSignal): Promise<AssetStates>;
  };
  readonly refusals: Refusals;
  readonly limits: Limits;
  readonly metrics: Metrics;
}

/** What `ReadableJournals` needs: `{ data: '/var/lib/assetlog', openDisk, progress, limits, notices }`. */
export interface ReadableJournalsOptions {
  /** The data folder. */
  readonly data: string;
  /** As `ServiceParts.openDisk`. */
  readonly openDisk: (folder: string) => Disk;
  /** Gets the values of `JournalOptions.onRecorded` of all journals. */
  readonly progress: OwnProgress;
  readonly limits: Limits;
  readonly notices: Notices;
}

/** The journals of a service: in local mode one, in hosted mode one for each deployment, as `of('prod')`. */
export class ReadableJournals {
  /** Those that were asked for, by folder. Their number is bounded by that of the deployments. */
  readonly #journals = new Map<string, ReadableJournal>();
  readonly #options: ReadableJournalsOptions;
  readonly #turns: Turns;

  constructor(options: ReadableJournalsOptions) {
    this.#options = options;
    this.#turns = new Turns(options.limits);
    options.progress.onRecorded(() => this.#turns.recorded());
  }

  /**
   * @param deployment such as `prod`, which must exist: it names a folder. Undefined in local mode
   * @returns its journal, the same object each time. A deployment without a report has no folder yet
   */
  of(deployment: string | undefined): ReadableJournal {
    const { data } = this.#options;
    const folder = deployment === undefined ? data : join(data, deployment);
    let journal = this.#journals.get(folder);
    if (journal === undefined) {
      journal = new ReadableJournal(this.#options.openDisk(folder), this.#turns, this.#options);
      this.#journals.set(folder, journal);
    }
    return journal;
  }

  /**
   * Resolves to a journal when it may be read. In local mode that is when it was opened: after a crash, only a start makes its last
   * lines durable.
   * @throws Refusal 503 if that takes longer than `limits.openWaitMs`, or `ending` aborts
   */
  async whenReadable(deployment: string | undefined, ending: AbortSignal): Promise<ReadableJournal> {
    const { limits } = this.#options;
    const journal = this.of(deployment);
    await journal.whole();
    if (deployment !== undefined) return journal;
    const progress = journal.progress();
    const isOpen = async () => (await progress.durable()).kind !== 'unsaid';
    if (await isOpen()) return journal;
    await progress.more(AbortSignal.any([ending, AbortSignal.timeout(limits.openWaitMs)]));
    if (await isOpen()) return journal;
    throw unavailableRefusal('the journal is being opened', limits);
  }
}

/** A journal that may be read: `journal.disk`, whose files are read in turns, and `journal.progress()`. */
export class ReadableJournal {
  /** The disk of its folder. Each piece of a file waits for its turn among all readings of the service. */
  readonly disk: ReadableDisk;
  readonly turns: Turns;
  /** The newest lines, if there are streams: see `follow`. */
  tail: NewestLines | undefined;
  readonly #options: ReadableJournalsOptions;
  readonly #isNewDamage: (problem: string) => boolean;
  #replaced = new AbortController();
  #replacing: Promise<void> | undefined;

  constructor(disk: Disk, turns: Turns, options: ReadableJournalsOptions) {
    this.disk = inTurns(disk, turns, options.limits.readTurnBytes);
    this.turns = turns;
    this.#options = options;
    this.#isNewDamage = oncePerName(options.limits.damageReportsMax);
  }

  /** @returns for one reader how far the journal is durable, and when there is more */
  progress(): Progress {
    return this.#options.progress.of(this.disk.folder);
  }

  /** Aborts when another journal takes the place of this one, see `beginAnew`: what is being read of it ends. */
  get replaced(): AbortSignal {
    return this.#replaced.signal;
  }

  /** Resolves when no `beginAnew` is under way. Never rejects. */
  async whole(): Promise<void> {
    await this.#replacing?.catch(() => {}); // its caller gets the error
  }

  /**
   * Replaces the journal by a new one that begins with seq 1, as the test mode does. Readings that are under way end, and streams
   * get `event: reset` and continue with seq 1 when the new one is open.
   * @param replace closes the journal, empties its folder, and opens a new one
   * @throws what `replace` throws
   */
  async beginAnew(replace: () => Promise<void>): Promise<void> {
    const before = this.#replaced;
    this.#replaced = new AbortController();
    this.tail = undefined;
    this.#options.progress.forget(this.disk.folder);
    this.#replacing = replace();
    before.abort();
    try {
      await this.#replacing;
    } finally {
      this.#replacing = undefined;
    }
  }

  /** Logs what a reader finds damaged, each problem once. */
  readonly remark = ({ kind, text }: Remark): void => {
    if (kind !== 'damage' || !this.#isNewDamage(text)) return;
    this.#options.notices.error(
      'a journal is damaged, and what can not be verified is not shown; see assetlog verify',
      {
        folder: this.disk.folder,
        problem: text,
      },
    );
  };

  /**
   * @returns the first seq that the journal has, or would get, and the last one that is durable: `{ first: 54, last: 100 }`
   * @throws the error of a system call
   */
  async range(): Promise<{ readonly first: number; readonly last: number }> {
    const said = await this.progress().durable();
    const { segments, removedLast } = contentsOf(await listed(this.disk));
    const newest = segments.at(-1);
    const first = segments[0]?.firstSeq ?? removedLast + 1;
    if (said.kind === 'before') return { first: Math.min(first, said.seq), last: said.seq - 1 };
    if (newest === undefined) return { first, last: removedLast };
    const line = await lastLine(this.disk, newest.name, await this.disk.size(newest.name), this.#options.limits);
    return { first, last: line?.seq ?? newest.firstSeq - 1 };
  }
}

/** Newest lines, all after `afterSeq` up to `lastSeq`: `{ afterSeq: 7, lastSeq: 9, lines, gone: [], bytes: 610 }`. */
export interface Page {
  readonly afterSeq: number;
  readonly lastSeq: number;
  readonly lines: readonly Line[];
  readonly gone: readonly GoneLines[];
  readonly bytes: number;
  /** All of it in the form of a stream, made by the first stream that sends it. */
  form?: Buffer;
}

/** The newest lines of a journal, which its followers share: `await tail.after(7, signal, 15_000)`. */
export interface NewestLines {
  /** A follower of an older seq has to read the file: 7 if the oldest page has the lines after 7. */
  readonly oldestSeq: number;
  /** Adds a follower. @returns itself */
  joined(): NewestLines;
  /** A follower has gone; without any the reader ends. */
  left(): void;
  /**
   * Resolves to the page with the line after a seq, as soon as there is one; undefined if the signal aborts, or after a time.
   * @param seq at least `oldestSeq`
   * @param idleMs that time, in milliseconds
   * @throws the error of a system call
   */
  after(seq: number, signal: AbortSignal, idleMs: number): Promise<Page | undefined>;
}

async function listed(disk: ReadableDisk): Promise<string[]> {
  return disk.list().catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return [];
  });
}

/** @returns the disk, whose reads yield at most so many bytes at a time, each when it is their turn */
function inTurns(disk: ReadableDisk, turns: Turns, bytesMax: number): ReadableDisk {
  return {
    folder: disk.folder,
    list: () => disk.list(),
    size: (name) => disk.size(name),
    read: async function* (name, start, end) {
      for await (const chunk of disk.read(name, start, end)) {
        for (let at = 0; at < chunk.length; at += bytesMax) {
          await turns.take();
          yield chunk.subarray(at, at + bytesMax);
        }
      }
    },
  };
}
