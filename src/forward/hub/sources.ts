/**
 * The watermarks of one journal of a hub: which events of each other journal are recorded here. They are derived from the lines of the
 * journal itself, so they always agree with it. The first request loads them from the snapshot and from the lines after it.
 */

import type { Limits } from '../../config/limits.ts';
import { type Disk, SyncError } from '../../journal/disk.ts';
import { fromOf, originOf, timeOf } from '../../journal/line/members.ts';
import { readJournal } from '../../journal/look/reader.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { Progress } from '../../journal/progress.ts';
import { contentsOf } from '../../journal/segments.ts';
import { type Notices, oncePerName } from '../../telemetry/log.ts';
import { Mutex } from '../../waiting/mutex.ts';
import type { SeqRange } from '../position.ts';
import { createSnapshot, readSnapshot, type Snapshot, writeSnapshot } from './snapshot.ts';
import { addLine, bounded, type Watermark } from './watermark.ts';

export interface SourcesOptions {
  /** The folder of the journal. */
  readonly disk: Disk;
  /** @returns how far the journal is durable, for one reader */
  readonly progress: () => Progress;
  readonly limits: Limits;
  readonly notices: Notices;
}

/**
 * What is known since the journal was opened. If the journal is opened again during a call, the call keeps its own
 * object.
 */
interface Opening {
  /** The last seq that the journal had then. Undefined before it is open, and if no file is ever removed. */
  lastSeq?: number;
  /** The hub's own seq up to which the snapshot on the disk covers the lines; 0 before it was read. */
  writtenSeq: number;
  /**
   * The state after all lines; each event is added when it is recorded. While this is undefined no forwarded event is
   * recorded.
   */
  loaded?: Snapshot;
  /** The state after the lines that `view` has read. */
  viewed?: Snapshot;
  /** The lost lines of the journal. */
  losses?: readonly SeqRange[];
}

/** The watermarks of one journal, by source. */
export class Sources {
  readonly #options: SourcesOptions;
  readonly #isNewDamage: (problem: string) => boolean;
  #opening: Opening = { writtenSeq: 0 };
  readonly #reads = new Mutex();
  readonly #writes = new Mutex();
  /** Recordings that started while the watermarks were being loaded, and whose events might still become durable. */
  readonly #recording = new Set<Promise<unknown>>();
  /** See `moved`. */
  #timer: NodeJS.Timeout | undefined;
  /** Size of the file when it was last written. */
  #bytes = 0;

  constructor(options: SourcesOptions) {
    this.#options = options;
    this.#isNewDamage = oncePerName(options.limits.damageReportsMax);
  }

  /** The result of `load`, once it has resolved. */
  get loaded(): Snapshot | undefined {
    return this.#opening.loaded;
  }

  /** The lines of the journal that a repair reported as lost, after `load`. */
  get losses(): readonly SeqRange[] {
    return this.#opening.losses ?? [];
  }

  /**
   * Called when a watermark changes without a line that shows the change. The change is in the file some seconds later. After a crash
   * before that, a sender might send lines again, and they are left out again.
   */
  moved(): void {
    const { seenWriteMs, snapshotRateBytes } = this.#options.limits;
    const pauseMs = Math.max(seenWriteMs, (1_000 * this.#bytes) / snapshotRateBytes);
    this.#timer ??= setTimeout(() => void this.#writeMoved(), pauseMs).unref();
  }

  async #writeMoved(): Promise<void> {
    const opening = this.#opening;
    this.#timer = undefined;
    const { notices, progress } = this.#options;
    try {
      const durable = await progress().durable();
      if (durable.kind !== 'before' || opening.loaded === undefined) return;
      await Promise.all(this.#recording); // the watermarks then include the lines up to that seq
      await this.#write(opening, opening.loaded, durable.seq - 1);
    } catch (error) {
      notices.rated.warn('the record of other journals could not be written', { problem: (error as Error).message });
    }
  }

  #cancelMoved(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Called before each opening of the journal. */
  forget(): void {
    this.#cancelMoved();
    this.#opening = { writtenSeq: 0 };
  }

  /** Like `Follower.opened`. */
  opened(lastSeq: number): void {
    this.#opening.lastSeq = lastSeq;
  }

  /**
   * Waits for a recording. The next `load` waits for it too, since its lines might become durable. @param recorded never
   * rejects
   */
  async waitFor<Result>(recorded: Promise<Result>): Promise<Result> {
    this.#recording.add(recorded);
    const result = await recorded;
    this.#recording.delete(recorded);
    return result;
  }

  /** @returns the same object until `forget`. @throws Error if the journal is not open, or the error of a system call */
  load(): Promise<Snapshot> {
    return this.#reads.run(async () => {
      const opening = this.#opening;
      if (opening.loaded !== undefined) return opening.loaded;
      await Promise.all(this.#recording);
      const durable = await this.#options.progress().durable();
      if (durable.kind !== 'before') throw new Error('the journal is not open');
      const lastSeq = durable.seq - 1;
      opening.losses = contentsOf(await this.#options.disk.list()).lost;
      const found = await this.#readFile();
      const known = await this.#read(opening, found, lastSeq);
      if (known === found) opening.writtenSeq = known.seq;
      else await this.#write(opening, known, lastSeq);
      opening.loaded = known;
      return known;
    });
  }

  /**
   * For read-only callers: nothing is written. Without a snapshot no line is read, since the journal receives no events.
   * @param lastSeq the last durable seq
   * @throws the error of a system call
   */
  view(lastSeq: number): Promise<Snapshot> {
    return this.#reads.run(async () => {
      const opening = this.#opening;
      const { loaded, viewed } = opening;
      if (loaded !== undefined) return loaded;
      if (viewed !== undefined && viewed.seq >= lastSeq) return viewed;
      const found = viewed ?? (await this.#readFile());
      if (found === 'absent') return createSnapshot();
      opening.viewed = { ...(await this.#read(opening, found, lastSeq)), seq: lastSeq };
      return opening.viewed;
    });
  }

  /**
   * Forgets a source, durably. In the process that has the journal open, the watermarks must be loaded, and no request of the
   * source may be in progress.
   * @param lastSeq the last durable seq
   * @returns false if it is unknown
   * @throws the error of a system call; it is still known then
   */
  async remove(source: string, lastSeq: number): Promise<boolean> {
    const opening = this.#opening;
    const known = await this.view(lastSeq);
    await Promise.all(this.#recording); // the watermarks then include the lines up to `lastSeq`
    return this.#writes.run(async () => {
      const sources = new Map(known.sources);
      if (opening !== this.#opening || !sources.delete(source)) return false;
      const seq = Math.max(lastSeq, opening.writtenSeq);
      known.tokens.delete(source);
      await writeSnapshot(this.#options.disk, { ...known, sources, seq });
      opening.writtenSeq = seq;
      return known.sources.delete(source);
    });
  }

  /**
   * Binds sources to the name of a token, durably. The caller is the process that may write the journal.
   * @param isMeant gets the id of a source, and the name that it is bound to
   * @param token undefined if the next token that they use binds them
   * @returns how many sources are meant. @throws the error of a system call
   */
  async bind(
    isMeant: (source: string, bound: string | undefined) => boolean,
    token: string | undefined,
    lastSeq: number,
  ): Promise<number> {
    const opening = this.#opening;
    const known = await this.view(lastSeq);
    await Promise.all(this.#recording); // the watermarks then include the lines up to `lastSeq`
    const meant = [...known.sources.keys()].filter((source) => isMeant(source, known.tokens.get(source)));
    for (const source of meant) {
      if (token === undefined) known.tokens.delete(source);
      else known.tokens.set(source, token);
    }
    if (meant.length > 0) await this.#write(opening, known, Math.max(lastSeq, opening.writtenSeq));
    return meant.length;
  }

  /**
   * Like `Follower.removing`: lines with a watermark may be removed only after the snapshot has it. A journal without a
   * snapshot might be a copy of a hub's files, or written by an older program, so all its lines are read. This happens once,
   * since the journal then has a snapshot.
   */
  async removing(lastSeq: number): Promise<void> {
    const opening = this.#opening;
    if (opening.writtenSeq >= lastSeq) return;
    const seq = Math.max(lastSeq, opening.lastSeq ?? 0);
    let known = opening.loaded;
    if (known === undefined) {
      const found = await this.#readFile();
      // On a full disk files are removed before the journal is open, when its end is unknown. A snapshot that covers more is
      // kept.
      if (opening.lastSeq === undefined && typeof found === 'object' && found.seq >= lastSeq) return;
      known = await this.#read(opening, found, seq);
    }
    const { size } = known.sources;
    await this.#write(opening, known, seq).catch((error: Error) => {
      // Frees the space of a full disk: without watermarks, the lines can be removed without a snapshot.
      if (size > 0 || error instanceof SyncError) throw error;
    });
  }

  /**
   * Called after a file was closed, and before a clean stop, so that the next start reads only the lines after the
   * snapshot.
   */
  async closed(lastSeq: number): Promise<void> {
    this.#cancelMoved(); // what is written now has it, and after a stop nothing may be written
    const opening = this.#opening;
    const known = opening.loaded ?? (await this.#readUnchanged(opening));
    if (known !== undefined) await this.#write(opening, known, lastSeq);
    else await this.#writes.run(async () => {}); // a stop waits for the write of a `load`
  }

  /**
   * If the watermarks are not loaded, a snapshot that covered the whole journal when it was opened covers all of it now. So a
   * journal that receives no events keeps its snapshot up to date without reading a line.
   * @returns undefined if lines would have to be read
   */
  async #readUnchanged({ lastSeq, writtenSeq }: Opening): Promise<Snapshot | undefined> {
    if (lastSeq === undefined) return undefined;
    const found = await this.#readFile();
    if (found === 'absent') return lastSeq === 0 ? createSnapshot() : undefined;
    const isCurrent = found !== 'bad' && found.seq >= lastSeq && found.seq <= Math.max(lastSeq, writtenSeq);
    return isCurrent ? found : undefined;
  }

  #readFile(): Promise<Snapshot | 'absent' | 'bad'> {
    return readSnapshot(this.#options.disk, this.#options.limits);
  }

  /**
   * Adds the lines after a snapshot, up to a durable one.
   * @returns the snapshot, or another one if it is not valid
   */
  async #read({ writtenSeq }: Opening, found: Snapshot | 'absent' | 'bad', lastSeq: number): Promise<Snapshot> {
    const { disk, limits, notices } = this.#options;
    const whole = typeof found === 'object' ? found : undefined;
    const isValid = whole !== undefined && whole.seq <= Math.max(lastSeq, writtenSeq); // must not be ahead of the journal
    const known = isValid ? whole : createSnapshot();
    const { seq, sources, newest } = known;
    if (seq >= lastSeq) return known;
    const problem =
      typeof found === 'object' ? `it is of seq ${found.seq}, and the journal ends with ${lastSeq}` : `it is ${found}`;
    const message =
      'the record of other journals is rebuilt from the whole journal, since forward-sources.json cannot be used';
    const report = () => notices.warn(message, { folder: disk.folder, problem });
    if (!isValid && found !== 'absent') report();
    const { lost, removedLast } = contentsOf(await disk.list());
    const isFirst = seq < removedLast;
    const bound = (mark: Watermark) => bounded(mark, limits.forwardPartsMax, () => {});
    let [loss, isAfterLoss] = [0, false];
    for await (const page of this.#linesBetween(seq, lastSeq)) {
      for (const { bytes, start, end, seq: own, event } of page) {
        for (; loss < lost.length && lost[loss]!.first <= own; loss += 1) isAfterLoss ||= lost[loss]!.last > seq;
        const from = fromOf(bytes, start, end);
        if (from === undefined) continue;
        const origin = originOf(bytes, start, end, from);
        addLine(sources, { from, origin, id: event.id }, { isAfterLoss, isFirst, bound });
        const time = timeOf(bytes, start, own);
        newest.set(origin[0], { time, through: from[0] });
        newest.set(from[0], { time, through: undefined });
      }
    }
    if (isAfterLoss) this.#reportLost(sources);
    if (found === 'absent' && sources.size > 0) report(); // most journals without the file receive no events
    return known;
  }

  #linesBetween(afterSeq: number, untilSeq: number): AsyncIterable<readonly Line[]> {
    const { disk, limits, notices } = this.#options;
    const progress = { durable: async () => ({ kind: 'before', seq: untilSeq + 1 }) as const, more: async () => {} };
    return readJournal(disk, { filter: { afterSeq, untilSeq }, seek: true, progress, limits }, ({ kind, text }) => {
      if (kind !== 'damage' || !this.#isNewDamage(text)) return;
      const message = 'a journal is damaged; a source whose last events are lost is asked for them again';
      notices.error(message, { folder: disk.folder, problem: text });
    });
  }

  #reportLost(sources: ReadonlyMap<string, Watermark>): void {
    const lacking = [...sources].filter(([, { ahead }]) => ahead.length > 0);
    const [source, { seq = 0, ahead = [] } = {}] = lacking[0] ?? [];
    if (source === undefined) return;
    const message = 'a repair has lost events of other journals, which are asked for them again; this is the first';
    const { folder } = this.#options.disk;
    const fields = { folder, journals: lacking.length, source, first: seq + 1, last: ahead[0]!.first - 1 };
    this.#options.notices.warn(message, fields);
  }

  /** @throws Error if the journal was opened again, or the error of a system call */
  #write(opening: Opening, known: Snapshot, seq: number): Promise<void> {
    return this.#writes.run(async () => {
      if (opening !== this.#opening) throw new Error('the journal was opened again in the meantime');
      if (seq < opening.writtenSeq) return; // `removing` relies on the written seq
      this.#bytes = await writeSnapshot(this.#options.disk, { ...(opening.loaded ?? known), seq }); // it might have been loaded in the meantime
      opening.writtenSeq = seq;
    });
  }
}

/** @param id the id of a source; undefined for all sources that are bound to the name `bound` */
export function isMeantBy(id: string | undefined, bound: string | undefined) {
  return (source: string, now: string | undefined): boolean => (id === undefined ? now === bound : source === id);
}
