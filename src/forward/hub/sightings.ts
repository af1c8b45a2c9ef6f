/**
 * What a hub remembers about its sources in addition to their events: `forward-seen.json`.
 *
 *     {"sources":[["0193e0c2-…",{"name":"device-17","tokenName":"edge","seenMs":1795447185266,"lost":0,"lastSeq":1208}],…],"crc":"9ae0daaf"}
 *
 * It is not synced, and no request waits for it: a crash can lose the changes of the last `limits.seenWriteMs`, and a power cut all of it.
 */

import type { SourceFilter } from '../../event/search.ts';
import { readSmall } from '../../journal/file-io.ts';
import { idTimeMs } from '../../journal/line/uuid.ts';
import type { SourceQuery, SourceState } from '../../journal/look/source-state.ts';
import { sealedFile, unsealedFile } from '../../journal/sealed.ts';
import type { HubFigures } from '../../telemetry/metrics.ts';
import { Mutex } from '../../waiting/mutex.ts';
import { type Era, isId } from '../source.ts';
import type { SaidOfSource } from './received.ts';
import type { Snapshot } from './snapshot.ts';
import type { SourcesOptions } from './sources.ts';
import { countMissing } from './watermark.ts';

const NAME = 'forward-seen.json';
/** An operator chose the name of a token, so the name can have any length. */
const NAME_CHARACTERS_MAX = 64;

/** What the requests of a source reported. */
interface Sighting {
  name?: string | undefined;
  tokenName?: string | undefined;
  lastSeq?: number | undefined;
  /** When the last request arrived, in ms since 1970; 0 if unknown. */
  seenMs: number;
  /**
   * The journal that delivered its last event, and when, in ms since 1970; undefined if the source sent the event
   * itself.
   */
  through?: string | undefined;
  broughtMs?: number | undefined;
  /** Whether its journal is known to have another id now. */
  isReplaced?: boolean;
  /** Number of events reported as lost. */
  lost: number;
  /**
   * The reason, in its last request, why it is stopped: `stopped fork`; and the number of events that it has not sent.
   */
  state?: string | undefined;
  unsent?: number | undefined;
  /** Number of sources that were known earlier. */
  number: number;
}

/** The sources of one journal of a hub. Only sources with events are added, so their number is limited. */
export class Sightings {
  readonly #options: Pick<SourcesOptions, 'disk' | 'limits'>;
  /** Undefined before `load`. After `complete` the source with the oldest request is the first one. */
  #known: Map<string, Sighting> | undefined;
  /** The sources with events of the last `complete`. */
  #completed: Snapshot['sources'] | undefined;
  #count = 0;
  #timer: NodeJS.Timeout | undefined;
  #isSoon = false;
  readonly #writes = new Mutex();

  constructor(options: Pick<SourcesOptions, 'disk' | 'limits'>) {
    this.#options = options;
  }

  /** The time of the earliest last request of any source, in ms since 1970; Infinity if unknown. */
  get firstSeenMs(): number {
    let firstMs = Number.POSITIVE_INFINITY;
    for (const one of this.#known?.values() ?? [])
      if (one.seenMs > 0 && one.seenMs < firstMs && isExpected(one)) firstMs = one.seenMs;
    return firstMs;
  }

  /**
   * Keeps only sources with events, and adds missing sources, since a crash might have happened before their requests were written. For
   * these the time of the last event counts.
   */
  complete({ sources, newest }: Pick<Snapshot, 'sources' | 'newest'>): ReadonlyMap<string, Readonly<Sighting>> {
    if (this.#known !== undefined && this.#completed === sources) return this.#known;
    const found = Array.from(sources.keys(), (source) => {
      const said = this.#known?.get(source) ?? { seenMs: 0, lost: 0 };
      const last = newest.get(source);
      if (last === undefined) return { source, said };
      const lastMs = Date.parse(last.time);
      const { through } = last;
      if (through !== undefined) return { source, said: { ...said, through, broughtMs: lastMs } };
      return { source, said: { ...said, through, seenMs: Math.max(said.seenMs, lastMs) } };
    }).sort((one, other) => one.said.seenMs - other.said.seenMs);
    const known = new Map(found.map(({ source, said }, number) => [source, { ...said, number }]));
    this.#count = known.size;
    if (this.#known === undefined) return known; // the journal was opened again
    this.#completed = sources;
    this.#known = known;
    return known;
  }

  /** @throws the error of a system call */
  async load(): Promise<void> {
    if (this.#known !== undefined) return;
    const { disk, limits } = this.#options;
    const bytes = await readSmall(disk, NAME, (limits.forwardSourcesMax + 1) * limits.seenBytesMax);
    const text = bytes && unsealedFile(bytes);
    this.#known ??= new Map(text === undefined ? [] : JSON.parse(text).sources); // the crc shows that assetlog wrote it
  }

  /**
   * Yields each wanted source once, the one with the oldest request first. A request during the iteration moves its source to the
   * end; new sources are left out.
   * @param deployment undefined in local mode
   */
  *list(
    snapshot: Snapshot,
    deployment: string | undefined,
    { silentMs, isStopped = false, after, limit = Number.POSITIVE_INFINITY }: SourceQuery,
  ): Generator<SourceState> {
    const untilMs = Date.now() - (silentMs ?? Number.NEGATIVE_INFINITY);
    let left = limit;
    for (const [source, said] of this.#allAfter(after, this.complete(snapshot))) {
      const { name, tokenName, lastSeq, seenMs, lost } = said;
      const mark = snapshot.sources.get(source);
      if (mark === undefined || seenMs > untilMs || (silentMs !== undefined && !isExpected(said))) continue;
      if (isStopped && stateIn(said).state !== 'stopped') continue;
      yield {
        id: source,
        name: name ?? null,
        token_name: tokenName ?? null,
        deployment: deployment ?? null,
        last_seq: mark.seq,
        last_event: timeText(idTimeMs(mark.id)),
        last_seen: timeText(seenMs),
        through: said.through ?? null,
        ...stateIn(said),
        lost_events: lost,
        // If a hub's events are delivered by another hub, the lines that carry events of others arrive under the names
        // of those others.
        missing_events: said.through === undefined ? countMissing(mark) : null,
        lag_events: said.unsent ?? (lastSeq === undefined ? null : Math.max(0, lastSeq - mark.seq)),
      };
      left -= 1;
      if (left === 0) return;
    }
  }

  /**
   * Yields once each source that comes after `after`: all without it, and the sources with later requests if that one has moved in the
   * meantime.
   */
  *#allAfter(
    after: SourceQuery['after'],
    known: ReadonlyMap<string, Readonly<Sighting>>,
  ): Generator<readonly [string, Readonly<Sighting>]> {
    const isPassed = new Uint8Array(this.#count);
    const isThere = after !== undefined && known.get(after.id)?.seenMs === after.seenMs;
    let isAfter = after === undefined;
    for (const [source, sighting] of known) {
      if (isPassed[sighting.number] !== 0) continue;
      isPassed[sighting.number] = 1;
      if (!isAfter) {
        isAfter = isThere ? source === after.id : sighting.seenMs >= after!.seenMs; // a request moved it to the end
        if (isThere || !isAfter) continue;
      }
      yield [source, sighting];
    }
  }

  /**
   * @param text the id of a source, or a name that any number of sources have; a text in the form of an id is not a
   * name
   * @throws the error of a system call
   */
  async filterFor(text: string): Promise<SourceFilter> {
    await this.load();
    if (isId(text)) return { text, has: (source) => source === text };
    const has = (source: string) => this.#known?.get(source)?.name === text;
    const onlyId = () => {
      const ids = [...(this.#known?.keys() ?? [])].filter(has);
      return ids.length === 1 ? ids[0] : undefined;
    };
    return { text, has, onlyId };
  }

  /** @returns the names of the sources by id, after `load`; a source without a name has its id as its name */
  names(): ReadonlyMap<string, string> {
    return new Map(Array.from(this.#known ?? [], ([source, { name }]) => [source, name ?? source]));
  }

  /** Notes a request of a source, after `load`. @param lost number of events that the request reports as lost */
  add(source: string, { name, tokenName, lastSeq, state, unsent }: SaidOfSource, lost = 0): void {
    const known = this.#of(source);
    if (known === undefined) return;
    this.#known!.delete(source);
    this.#known!.set(source, known); // at the end
    known.through = undefined;
    known.isReplaced = false;
    if (name !== undefined && name !== known.name) this.#writeSoon();
    known.name = name ?? known.name;
    known.tokenName = tokenName?.slice(0, NAME_CHARACTERS_MAX) ?? known.tokenName;
    known.lastSeq = lastSeq ?? known.lastSeq;
    known.seenMs = Date.now();
    known.lost += lost;
    known.state = state;
    known.unsent = unsent;
  }

  /** @returns the number of stopped sources, and the number of events that they have not sent */
  stopped(): Pick<HubFigures, 'sourcesStopped' | 'unsentEvents'> {
    const all = [...(this.#known?.values() ?? [])].filter((one) => one.state !== undefined);
    return { sourcesStopped: all.length, unsentEvents: all.reduce((sum, { unsent = 0 }) => sum + unsent, 0) };
  }

  /**
   * Notes which journal delivered events of another one. @returns whether a different journal had delivered its last
   * events
   */
  brought(source: string, through: string): boolean {
    const known = this.#of(source);
    if (known === undefined) return false;
    const isNew = known.through !== through;
    known.through = through;
    known.broughtMs = Date.now();
    return isNew;
  }

  /** A new name is written soon, since commands beside the hub look for it. */
  #writeSoon(): void {
    if (this.#isSoon) return;
    clearTimeout(this.#timer);
    this.#isSoon = true;
    this.#timer = setTimeout(() => void this.write(), this.#options.limits.seenNamedMs).unref();
  }

  /** Notes why the hub refuses a source, until the next request that is not refused. */
  refused(source: string, state: string): void {
    if (this.#known?.has(source)) this.#of(source)!.state = state;
  }

  /** Notes that a journal has a new id. Nothing is expected from its earlier ids unless one of them sends again, as a copy does. */
  replaced(eras: readonly Era[]): void {
    for (const [, id] of eras.slice(0, -1)) {
      if (this.#known?.has(id)) Object.assign(this.#of(id)!, { isReplaced: true, state: undefined, unsent: undefined });
    }
  }

  /** @returns what is known about a source, so that it can be changed; undefined before `load` */
  #of(source: string): Sighting | undefined {
    const all = this.#known;
    if (all === undefined) return undefined;
    const known = all.get(source) ?? { seenMs: 0, lost: 0, number: this.#count++ };
    all.set(source, known);
    this.#timer ??= setTimeout(() => void this.write(), this.#options.limits.seenWriteMs).unref();
    return known;
  }

  /** @returns the source whose last request or event is the oldest, and the time of that, if it is known for any source */
  oldest(isWanted: (source: string) => boolean): { readonly source: string; readonly lastMs: number } | undefined {
    let oldest: { readonly source: string; readonly lastMs: number } | undefined;
    for (const [source, { seenMs, broughtMs = 0 }] of this.#known ?? []) {
      const lastMs = Math.max(seenMs, broughtMs);
      if (lastMs > 0 && lastMs < (oldest?.lastMs ?? Number.POSITIVE_INFINITY) && isWanted(source))
        oldest = { source, lastMs };
    }
    return oldest;
  }

  /** Forgets a source, in the file too. Never rejects. */
  remove(source: string): Promise<void> {
    this.drop(source);
    return this.write();
  }

  /** Forgets a source. The next write removes it from the file. */
  drop(source: string): void {
    this.#known?.delete(source);
  }

  /** Called before the journal is opened, also if another one replaces it. */
  forget(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#known = this.#completed = undefined;
    this.#isSoon = false;
  }

  /** Writes the file, unless no source is known. Never rejects. */
  write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isSoon = false;
    const listed = Array.from(this.#known ?? [], ([source, { number, ...said }]) => [source, said]);
    return this.#writes.run(async () => {
      if (listed.length === 0) return;
      const bytes = sealedFile(`{"sources":${JSON.stringify(listed)}`);
      await this.#options.disk.replace(NAME, bytes).catch(() => {}); // the next write includes it
    });
  }
}

/** Whether a source makes its own requests. */
function isExpected({ through, isReplaced }: Sighting): boolean {
  return through === undefined && isReplaced !== true;
}

/** @returns the first word of the state, and the others */
function stateIn({ state: text = '' }: Sighting): Pick<SourceState, 'state' | 'reason'> {
  const [state = '', ...reason] = text.split(' ');
  return { state: state || null, reason: reason.join(' ') || null };
}

function timeText(ms = 0): string | null {
  return ms === 0 ? null : new Date(ms).toISOString();
}
