/**
 * The journals of a service, for reading over HTTP. Each is read from its files, like a command does, concurrently with its
 * writer.
 */

import type { Kept } from '../assets/state-file.ts';
import type { Limits } from '../config/limits.ts';
import { collectEach } from '../config/memory.ts';
import { journalFolder } from '../config/names.ts';
import { LINE_FEED } from '../event/json-bytes.ts';
import type { SourceFilter } from '../event/search.ts';
import { unavailableRefusal } from '../http/message.ts';
import { type Disk, type ReadableDisk, unlessAbsent } from '../journal/disk.ts';
import { type GoneLines, Line, type Remark } from '../journal/look/reading.ts';
import type { SourceQuery, SourceState } from '../journal/look/source-state.ts';
import { readLastStop } from '../journal/open/clean-stop.ts';
import { lastLine } from '../journal/open/scan.ts';
import type { OwnProgress, Progress } from '../journal/progress.ts';
import { contentsOf } from '../journal/segments.ts';
import { type Notices, oncePerName } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Refusals } from '../telemetry/refusals.ts';
import { endingAfter } from '../waiting/ending-after.ts';
import type { Tail } from './newest.ts';
import type { Piece } from './pieces.ts';
import { Semaphore } from './semaphore.ts';
import { Turns } from './turns.ts';

/** The parts that the routes of this folder read, and their limits. */
export interface ReadingParts {
  readonly journals: ReadableJournals;
  readonly assets: {
    /** See `AssetReadings.upToDate`. */
    upToDate(deployment: string | undefined, ending: AbortSignal): Promise<Kept>;
  };
  readonly refusals: Refusals;
  /** See `Hub.sourcesOf`. */
  readonly sourcesOf: (
    deployment: string | undefined,
    lastSeq: number,
    wanted: SourceQuery,
  ) => Promise<Iterable<SourceState>>;
  /** See `Hub.sourceFilter`. */
  readonly sourceFilter: (deployment: string | undefined, text: string) => Promise<SourceFilter>;
  readonly limits: Limits;
  readonly metrics: Metrics;
}

export interface ReadableJournalsOptions {
  /** The data folder. */
  readonly data: string;
  /** See `ServiceParts.openDisk`. */
  readonly openDisk: (folder: string) => Disk;
  /** How far the journals of the service are durable. */
  readonly progress: OwnProgress;
  /** Opens the journal of a deployment, like its first report does. @returns why it currently cannot be opened */
  readonly open: (deployment: string) => string | undefined;
  readonly limits: Limits;
  readonly notices: Notices;
  /** Runs a full garbage collection. Called each time that `limits.collectBytes` were read. */
  readonly collectGarbage?: (() => void) | undefined;
}

/** The state that all readings of a service share. */
export class SharedByReadings {
  readonly turns: Turns;
  /**
   * The memory of readings, `limits.readBytesMax` in total. A reading acquires a part when it opens a file, or gets lines that
   * others have read, and releases it when its client has accepted them. So a client that does not read holds one part.
   */
  readonly buffers: Semaphore;
  /**
   * If a line is longer than a chunk, all its bytes are in memory until it is checked, so only one such line is read at
   * a time.
   */
  readonly longLine = new Semaphore(1);
  /** Number of journals that are followed: see `limits.sharedLinesBytesMax`. */
  followed = 0;
  /** Number of further files that can be read in large chunks. */
  largeLeft: number;
  /** Counts bytes that become garbage. */
  readonly read: (bytes: number) => void;

  constructor({
    limits,
    progress,
    collectGarbage,
  }: Pick<ReadableJournalsOptions, 'limits' | 'progress' | 'collectGarbage'>) {
    const { readBytesMax, readTurnBytes } = limits;
    const parts = Math.max(1, Math.floor(readBytesMax / (CHUNKS_HELD * readTurnBytes)));
    this.largeLeft = Math.floor(parts / (LARGE_FACTOR * LARGE_FACTOR));
    this.turns = new Turns(limits, progress);
    this.buffers = new Semaphore(parts - (LARGE_FACTOR - 1) * this.largeLeft);
    this.read = collectEach(limits, () => collectGarbage?.());
  }

  /** @throws Refusal 503 if the memory of readings is used up */
  checkMemory(): void {
    if (this.buffers.isExhausted) throw unavailableRefusal('too many readings are active; ask again later');
  }
}

/**
 * A reading holds the chunk that is being sent to its client, the same chunk in another form, and the chunk that is
 * read ahead.
 */
const CHUNKS_HELD = 3;
/**
 * While few files are read, and for journals that are followed, chunks are this many times larger, since each chunk costs an
 * iteration of the event loop, and iterations are long under load. An eighth of the memory is reserved for them.
 */
const LARGE_FACTOR = 8;

/** The journals of a service: a single one in local mode, one for each deployment in hosted mode. */
export class ReadableJournals {
  /** The requested journals by folder, at most one for each deployment. */
  readonly #journals = new Map<string, ReadableJournal>();
  readonly #options: ReadableJournalsOptions;
  readonly shared: SharedByReadings;

  constructor(options: ReadableJournalsOptions) {
    this.#options = options;
    this.shared = new SharedByReadings(options);
  }

  /**
   * @param deployment must exist, since it names a folder; undefined in local mode
   * @returns its journal, the same object each time. A deployment without a report has no folder yet
   */
  of(deployment: string | undefined): ReadableJournal {
    const { data } = this.#options;
    const folder = journalFolder(data, deployment);
    let journal = this.#journals.get(folder);
    if (journal === undefined) {
      journal = new ReadableJournal(this.#options.openDisk(folder), this.shared, this.#options);
      this.#journals.set(folder, journal);
    }
    return journal;
  }

  /**
   * Resolves to a journal when it can be read. That is after it was opened, since after a crash only that makes its last lines
   * durable. In hosted mode it is opened for this purpose, unless it was stopped cleanly.
   * @throws Refusal 503 if that takes longer than `limits.openWaitMs`, if `ending` aborts, or if the journal cannot be opened
   */
  async whenReadable(deployment: string | undefined, ending: AbortSignal): Promise<ReadableJournal> {
    const { limits, open } = this.#options;
    const journal = this.of(deployment);
    await journal.whole();
    const progress = journal.progress();
    const isOpen = async () => (await progress.durable()).kind !== 'unsaid';
    if ((await isOpen()) || (deployment !== undefined && (await journal.isAtRest()))) return journal;
    const reason = deployment && open(deployment);
    if (reason) throw unavailableRefusal(reason);
    await progress.more(endingAfter(limits.openWaitMs, ending));
    if (await isOpen()) return journal;
    throw unavailableRefusal('the journal is being opened');
  }
}

/** A reader of a journal's files: see `ReadableJournal.diskFor`. */
interface Reader {
  readonly signal?: AbortSignal | undefined;
  readonly isCounted?: boolean;
  readonly isFollower?: boolean;
  readonly mayReadNow?: (bytes: number) => boolean;
}

/** A journal whose files are read in turns. */
export class ReadableJournal {
  readonly shared: SharedByReadings;
  /** The newest lines, if there are streams: see `follow`. */
  tail: Tail | undefined;
  readonly #options: ReadableJournalsOptions;
  readonly #isNewDamage: (problem: string) => boolean;
  #replaced = new AbortController();
  #replacing: Promise<void> | undefined;

  readonly #disk: ReadableDisk;

  constructor(disk: Disk, shared: SharedByReadings, options: ReadableJournalsOptions) {
    this.#disk = disk;
    this.shared = shared;
    this.#options = options;
    this.#isNewDamage = oncePerName(options.limits.damageReportsMax);
  }

  /**
   * @param signal closes the open files; calls that wait for a turn throw its reason
   * @param isCounted whether each open file holds a part of `SharedByReadings.buffers`, since the reading waits for its client
   * @param isFollower whether the newest lines are read when they are recorded: see `Turns.take`
   * @param mayReadNow whether a chunk of this many bytes can be read without a turn
   * @returns the disk of its folder. Each chunk of a file waits for its turn among all readings of the service
   */
  diskFor(reader: Reader): ReadableDisk {
    const disk = this.#disk;
    return {
      folder: disk.folder,
      list: () => disk.list(),
      size: (name) => disk.size(name),
      read: (name, start, end) =>
        this.#chunks((chunkBytes) => disk.read(name, start, end, { chunkBytes, signal: reader.signal }), reader),
    };
  }

  /**
   * Yields the bytes of pieces. A long line is read again, in chunks, so that a client that does not read holds only a chunk of
   * it. The caller holds a part of `SharedByReadings.buffers`.
   * @param signal ends the turns, but not the line, so that a reply that ends early has only complete lines
   * @returns each chunk of a long line is valid until the next one is requested; its newline is included
   * @throws the error of a system call
   */
  async *bytesOf(pieces: readonly Piece[], signal: AbortSignal): AsyncGenerator<Buffer> {
    const chunkBytes = this.#options.limits.readTurnBytes;
    for (const piece of pieces) {
      if (!(piece instanceof Line)) {
        if (piece.length > 0) yield piece;
        continue;
      }
      const { file, byte, start, end } = piece;
      let left = end + 1 - start;
      for await (const chunk of this.#disk.read(file, byte, byte + left, { chunkBytes })) {
        if (!signal.aborted) await this.shared.turns.take(signal).catch(() => {}); // only the signal is passed
        this.shared.read(chunk.length);
        left -= chunk.length;
        yield chunk;
      }
      if (left > 0) throw new Error(`${file} ends ${left} bytes before the end of a line that was there`);
    }
  }

  async *#chunks(
    read: (chunkBytes: number) => AsyncIterable<Buffer>,
    { signal, isCounted, isFollower = false, mayReadNow }: Reader,
  ): AsyncGenerator<Buffer> {
    const { shared } = this;
    const { turns, buffers, longLine } = shared;
    const release = isCounted ? await buffers.acquire(signal) : undefined;
    const isLarge = shared.largeLeft > 0;
    if (isLarge) shared.largeLeft -= 1;
    const factor = isLarge || isFollower ? LARGE_FACTOR : 1;
    let endLongLine: (() => void) | undefined;
    try {
      for await (const chunk of read(factor * this.#options.limits.readTurnBytes)) {
        shared.read(chunk.length);
        if (mayReadNow?.(chunk.length) !== true) await turns.take(signal, isFollower);
        const isInside = !chunk.includes(LINE_FEED); // within a long line
        if (!isInside) {
          endLongLine?.();
          endLongLine = undefined;
        }
        yield chunk;
        if (isInside) endLongLine ??= await longLine.acquire(signal);
      }
    } finally {
      endLongLine?.();
      release?.();
      if (isLarge) shared.largeLeft += 1;
    }
  }

  /** @returns the progress for one reader: how far the journal is durable, and when there are new lines */
  progress(): Progress {
    return this.#options.progress.of(this.#disk.folder);
  }

  /**
   * @returns whether all lines are durable although nothing has opened the journal. @throws the error of a system call
   */
  async isAtRest(): Promise<boolean> {
    const names = await this.#disk.list().catch(unlessAbsent<string[]>([]));
    return contentsOf(names).segments.length === 0 || (await readLastStop(this.#disk, names)) !== undefined;
  }

  /** Aborts when another journal replaces this one (see `startOver`), which ends all readings of this one. */
  get replaced(): AbortSignal {
    return this.#replaced.signal;
  }

  /** Resolves when no `startOver` is in progress. Never rejects. */
  async whole(): Promise<void> {
    await this.#replacing?.catch(() => {}); // the caller of `startOver` gets the error
  }

  /**
   * Replaces the journal by a new one that starts with seq 1, for the test mode. Current readings end, and streams get `event:
   * reset` and continue with seq 1 when the new journal is open.
   * @param replace closes the journal, empties its folder, and opens a new one
   * @throws the errors of `replace`
   */
  async startOver(replace: () => Promise<void>): Promise<void> {
    const before = this.#replaced;
    this.#replaced = new AbortController();
    this.tail = undefined;
    this.#options.progress.forget(this.#disk.folder);
    this.#replacing = replace();
    before.abort();
    try {
      await this.#replacing;
    } finally {
      this.#replacing = undefined;
    }
  }

  /**
   * @param onGone called with lines that the journal no longer has
   * @returns a function that logs the damage found by a reader that starts now, each problem once. If another journal
   * replaces this one
   *   in the meantime it logs nothing, since missing files are no damage then
   */
  remarks(onGone: (gone: GoneLines) => void = () => {}): (remark: Remark) => void {
    const { replaced } = this;
    const isWhole = this.#replacing === undefined;
    return ({ kind, text, gone }) => {
      if (gone !== undefined) onGone(gone);
      if (kind !== 'damage' || !isWhole || replaced.aborted || !this.#isNewDamage(text)) return;
      this.#options.notices.error(
        'a journal is damaged, and lines that cannot be verified are not shown; see assetlog verify',
        { folder: this.#disk.folder, problem: text },
      );
    };
  }

  /**
   * @returns the first seq that the journal has, or will get, and the last durable one
   * @throws the error of a system call
   */
  async range(): Promise<{ readonly first: number; readonly last: number }> {
    const said = await this.progress().durable();
    const { segments, removedLast } = contentsOf(await this.#disk.list().catch(unlessAbsent<string[]>([])));
    const newest = segments.at(-1);
    const first = segments[0]?.firstSeq ?? removedLast + 1;
    if (said.kind === 'before') return { first: Math.min(first, said.seq), last: said.seq - 1 };
    if (newest === undefined) return { first, last: removedLast };
    const disk = this.diskFor({});
    const line = await lastLine(disk, newest.name, await disk.size(newest.name), this.#options.limits);
    return { first, last: line?.seq ?? newest.firstSeq - 1 };
  }
}
