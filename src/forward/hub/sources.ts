/**
 * The watermarks of one journal of a hub: of each source the last event that is recorded here. They follow from the lines of the
 * journal itself, so they always agree with it. They are read at the first request, from a snapshot and from
 * the lines after it. What the lines of a source came through is in the snapshot alone.
 */

import type { Limits } from '../../config/limits.ts';
import { Mutex } from '../../config/mutex.ts';
import { type Disk, SyncError } from '../../journal/disk.ts';
import { originAtEnd, timeOf } from '../../journal/line/members.ts';
import { readJournal } from '../../journal/look/reader.ts';
import type { Progress } from '../../journal/progress.ts';
import { contentsOf } from '../../journal/segments.ts';
import { type Notices, oncePerName } from '../../telemetry/log.ts';
import type { Through } from '../source.ts';
import { apart } from './sightings.ts';
import { readSnapshot, type Snapshot, writeSnapshot } from './snapshot.ts';
import { continued, type Watermark } from './watermark.ts';

export interface SourcesOptions {
  /** The folder of the journal. */
  readonly disk: Disk;
  /** @returns how far the journal is durable, for one reader */
  readonly progress: () => Progress;
  readonly limits: Limits;
  readonly notices: Notices;
}

/** What is known of the sources of one journal. */
type Known = Omit<Snapshot, 'seq'>;

/** The watermarks of one journal, by source. */
export class Sources {
  readonly #options: SourcesOptions;
  readonly #isNewDamage: (problem: string) => boolean;
  /** The time of the last line of each source whose lines were read, as a lower bound of when it was heard of. */
  readonly times = new Map<string, string>();
  /** Undefined before it is loaded. */
  #known: Known | undefined;
  #loading: Promise<Map<string, Watermark>> | undefined;
  /** Records that began while the marks were known, and might still become durable. */
  readonly #recording = new Set<Promise<unknown>>();
  /**
   * The last seq of the journal when it was opened: of the lines after it, only those recorded while the marks are known are
   * forwarded events. Undefined before, and if no file is ever removed.
   */
  #openedSeq: number | undefined;
  /** How often they were forgotten. */
  #generation = 0;
  /** The own seq that the snapshot on the disk covers. */
  #writtenSeq = 0;
  /** For the snapshot. */
  readonly #mutex = new Mutex();
  /** What was heard since the last write, the next one if it is due, and when it may begin. */
  #heard = new Map<string, readonly string[]>();
  #hearing: Promise<boolean> | undefined;
  #hearsMs = 0;
  /** What was read for those who only look. */
  #viewed: Snapshot | undefined;
  readonly #viewing = new Mutex();

  constructor(options: SourcesOptions) {
    this.#options = options;
    this.#isNewDamage = oncePerName(options.limits.damageReportsMax);
  }

  /** The watermarks, once `load` has read them. */
  get loaded(): Map<string, Watermark> | undefined {
    return this.#known?.sources;
  }

  /** What the lines of each source came through, once `load` has read it. */
  get through(): Through {
    return this.#known?.through ?? NO_NAMES;
  }

  /** @returns the number of sources whose names are written, plus the others that wait for the next write, except this one */
  throughBeside(source: string): number {
    return this.through.size + this.#heard.size - Number(this.#heard.has(source));
  }

  /** Another journal, or the same one opened again, takes the place of this one: what is known of it is read again when it is needed. */
  forget(): void {
    this.#known = undefined;
    this.#loading = undefined;
    this.#openedSeq = undefined;
    this.#writtenSeq = 0;
    this.#viewed = undefined;
    this.times.clear();
    this.#generation += 1;
  }

  /** Like `JournalHooks.opened`. */
  opened(lastSeq: number): void {
    this.#openedSeq = lastSeq;
  }

  /** Waits for a record; so does the next `load`, since its lines might become durable. @param recorded never rejects */
  async waitFor<Result>(recorded: Promise<Result>): Promise<Result> {
    this.#recording.add(recorded);
    const result = await recorded;
    this.#recording.delete(recorded);
    return result;
  }

  /**
   * @returns the watermarks, the same object until `forget`
   * @throws the error of a system call
   */
  load(): Promise<Map<string, Watermark>> {
    if (this.#loading !== undefined) return this.#loading;
    const loading = this.#load().then(
      (known) => {
        if (this.#loading === loading) this.#known = known;
        this.#viewed = undefined;
        return known.sources;
      },
      (error) => {
        if (this.#loading === loading) this.#loading = undefined;
        throw error;
      },
    );
    this.#loading = loading;
    return loading;
  }

  /**
   * The watermarks for those who only look: nothing is written, and of a journal without a snapshot, which is no hub, no line is
   * read.
   * @param lastSeq the last seq that is durable
   * @throws the error of a system call
   */
  view(lastSeq: number): Promise<ReadonlyMap<string, Watermark>> {
    return this.#viewing.run(async () => {
      if (this.#known !== undefined) return this.#known.sources;
      const generation = this.#generation;
      const found = this.#viewed ?? (await readSnapshot(this.#options.disk, this.#options.limits));
      if (found === 'absent') return new Map();
      const read = await this.#read(found, lastSeq);
      if (generation === this.#generation) this.#viewed = { ...read, seq: lastSeq };
      return read.sources;
    });
  }

  /**
   * Forgets a source, durably. In the process that has the journal open, the marks are loaded and no request of the source is
   * being handled.
   * @param lastSeq as for `view`
   * @returns false if it is not known
   * @throws the error of a system call, after which it is still known
   */
  async remove(source: string, lastSeq: number): Promise<boolean> {
    const generation = this.#generation;
    const sources = (await this.view(lastSeq)) as Map<string, Watermark>;
    await Promise.all(this.#recording); // the marks then have the lines up to `lastSeq`
    return this.#mutex.run(async () => {
      const kept = new Map(sources);
      if (generation !== this.#generation || !kept.delete(source)) return false;
      const seq = Math.max(lastSeq, this.#writtenSeq);
      await writeSnapshot(this.#options.disk, { seq, sources: kept, through: this.#viewed?.through ?? this.through });
      this.#writtenSeq = seq;
      return sources.delete(source);
    });
  }

  /**
   * Keeps what the lines of a source came through, durably: a crash after the next lines of it must not lose that. All that is heard
   * within `limits.hearMs` is one write, of the whole file.
   * @returns false if that is not written yet: it is with the next one
   * @throws the error of a system call, after which it is not known
   */
  hear(source: string, names: readonly string[]): Promise<boolean> {
    this.#heard.set(apart(source), names.map(apart));
    if (this.#hearing === undefined && performance.now() < this.#hearsMs) return Promise.resolve(false);
    this.#hearing ??= this.#mutex.run(() => this.#writeHeard());
    return this.#hearing;
  }

  async #writeHeard(): Promise<true> {
    const known = this.#known;
    const heard = this.#heard;
    this.#heard = new Map();
    this.#hearing = undefined;
    this.#hearsMs = performance.now() + this.#options.limits.hearMs;
    if (known === undefined) return true; // the caller has it read again
    const through = new Map([...known.through, ...heard]);
    await writeSnapshot(this.#options.disk, { ...known, through, seq: this.#writtenSeq });
    if (known === this.#known) this.#known = { ...known, through };
    return true;
  }

  /**
   * Like `JournalHooks.removing`: the lines that hold a watermark may go only after the snapshot has it. A journal without a
   * snapshot might be a copy of a hub's files, or of an older program, so all its lines are read: once, since then it has one.
   */
  async removing(lastSeq: number): Promise<void> {
    if (this.#writtenSeq >= lastSeq) return;
    let known = this.#known;
    let seq = lastSeq;
    if (known === undefined) {
      const { disk, limits } = this.#options;
      const found = await readSnapshot(disk, limits);
      // A full disk gets its space before the journal is open, and its end is not known: one that covers more is not replaced.
      if (this.#openedSeq === undefined && typeof found === 'object' && found.seq >= lastSeq) return;
      const until = this.#openedSeq ?? lastSeq;
      known = await this.#read(found, until);
      seq = Math.max(lastSeq, until);
    }
    const { sources } = known;
    await this.#write({ ...known, seq }).catch((error: Error) => {
      // A full disk gets its space: without watermarks, the lines may go without a snapshot.
      if (sources.size > 0 || error instanceof SyncError) throw error;
    });
  }

  /** Like `JournalHooks.closed`: the next start reads the lines after the snapshot only. */
  async closed(lastSeq: number): Promise<void> {
    const known = this.#known ?? (await this.#unchanged());
    if (known !== undefined) await this.#write({ ...known, seq: lastSeq });
  }

  /**
   * While the marks are not known no forwarded event is recorded, so a snapshot that covers the journal as it was opened covers
   * all of it: a journal that is no hub keeps its snapshot up to date without reading a line.
   * @returns what it has; undefined if lines would have to be read
   */
  async #unchanged(): Promise<Known | undefined> {
    const { disk, limits } = this.#options;
    const openedSeq = this.#openedSeq;
    if (openedSeq === undefined) return undefined;
    const found = await readSnapshot(disk, limits);
    if (found === 'absent') return openedSeq === 0 ? { sources: new Map(), through: NO_NAMES } : undefined;
    return this.#isGood(found, openedSeq) && found.seq >= openedSeq ? found : undefined;
  }

  /** Whether a snapshot is of this journal, which has the seq `lastSeq`, and not ahead of it. */
  #isGood(found: Snapshot | 'absent' | 'bad', lastSeq: number): found is Snapshot {
    return typeof found === 'object' && found.seq <= Math.max(lastSeq, this.#writtenSeq);
  }

  async #load(): Promise<Snapshot> {
    const { disk, limits, progress } = this.#options;
    const generation = this.#generation;
    await Promise.all(this.#recording);
    const said = await progress().durable();
    if (said.kind !== 'before') throw new Error('the journal is not open');
    const found = await readSnapshot(disk, limits);
    const snapshot = await this.#read(found, said.seq - 1);
    if (generation !== this.#generation) throw new Error('the journal was opened again meanwhile');
    this.#reportLost(snapshot.sources);
    if (snapshot === found) this.#writtenSeq = snapshot.seq;
    else await this.#write({ ...snapshot, seq: said.seq - 1 });
    return snapshot;
  }

  /**
   * Adds what the lines after a snapshot say, up to one that is durable.
   * @returns the snapshot, or a new one if it cannot be used
   */
  async #read(found: Snapshot | 'absent' | 'bad', lastSeq: number): Promise<Snapshot> {
    const { disk, limits, notices } = this.#options;
    const isGood = this.#isGood(found, lastSeq);
    const through: Through = typeof found === 'object' ? found.through : NO_NAMES; // no line has it
    const snapshot: Snapshot = isGood ? found : { seq: 0, sources: new Map(), through };
    const { seq, sources } = snapshot;
    if (seq >= lastSeq) return snapshot;
    const ahead = `it is of seq ${(found as Snapshot).seq}, and the journal ends with ${lastSeq}`;
    const problem = typeof found === 'object' ? ahead : `it is ${found}`;
    const message = 'what is here of other journals is read from the whole journal, not from forward-sources.json';
    const report = () => notices.warn(message, { folder: disk.folder, problem });
    if (!isGood && found !== 'absent') report();
    const durable = async () => ({ kind: 'before', seq: lastSeq + 1 }) as const;
    const reading = {
      filter: { afterSeq: seq, untilSeq: lastSeq },
      seek: true,
      progress: { durable, more: async () => {} }, // it is read once
      limits,
    };
    const lines = readJournal(disk, reading, ({ kind, text }) => {
      if (kind !== 'damage' || !this.#isNewDamage(text)) return;
      const message = 'a journal is damaged; a source whose last events are lost is asked for them again';
      notices.error(message, { folder: disk.folder, problem: text });
    });
    const losses = contentsOf(await disk.list()).lost;
    let [loss, lostSeq] = [0, 0];
    /** The own seq of the last line of each source. */
    const read = new Map<string, number>();
    for await (const page of lines) {
      for (const line of page) {
        for (; loss < losses.length && losses[loss]!.first <= line.seq; loss += 1) lostSeq = losses[loss]!.last;
        const origin = originAtEnd(line.bytes, line.start, line.end);
        if (origin === undefined) continue;
        const { source } = origin;
        const isAfterLoss = lostSeq > (read.get(source) ?? seq);
        const mark = { seq: origin.seq, id: line.event.id };
        sources.set(source, continued(sources.get(source), mark, isAfterLoss, limits.forwardPartsMax));
        read.set(source, line.seq);
        this.times.set(source, timeOf(line.bytes, line.start, line.seq));
      }
    }
    if (found === 'absent' && sources.size > 0) report(); // most journals without the file are no hubs
    return snapshot;
  }

  #reportLost(sources: ReadonlyMap<string, Watermark>): void {
    const lacking = [...sources].filter(([, { ahead }]) => ahead !== undefined);
    const [source, { seq = 0, ahead = [] } = {}] = lacking[0] ?? [];
    if (source === undefined) return;
    const message = 'a repair has lost events of other journals, which are asked for them again; this is the first';
    const { folder } = this.#options.disk;
    const fields = { folder, journals: lacking.length, source, first: seq + 1, last: ahead[0]!.first - 1 };
    this.#options.notices.warn(message, fields);
  }

  #write(snapshot: Snapshot): Promise<void> {
    return this.#mutex.run(async () => {
      if (snapshot.seq < this.#writtenSeq) return; // `removing` counts on what was written
      const { through } = this.#known ?? snapshot; // it might have heard more since
      await writeSnapshot(this.#options.disk, { ...snapshot, through });
      this.#writtenSeq = snapshot.seq;
    });
  }
}

const NO_NAMES: Through = new Map();
