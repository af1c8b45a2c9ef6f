/**
 * What a hub remembers of its sources besides their events: `forward-seen.json`.
 *
 *     {"sources":[["0193e0c2-…",{"name":"device-17","tokenName":"edge","seenMs":1795447185266,"lost":0,"lastSeq":1208}],…],"crc":"9ae0daaf"}
 *
 * It is a hint and not synced: no request waits for it. A crash can lose the last `limits.seenWriteMs` of it, and a power cut all.
 */

import type { Limits } from '../../config/limits.ts';
import type { SourceFilter } from '../../event/search.ts';
import type { Disk } from '../../journal/disk.ts';
import { readSmall } from '../../journal/file-io.ts';
import { sealedFile, unsealedFile } from '../../journal/sealed.ts';
import { isId } from '../source.ts';
import type { SaidOfSource } from './received.ts';

const NAME = 'forward-seen.json';
/** Of the name of a token, which an operator chose. */
const NAME_CHARACTERS_MAX = 64;

/** What the requests of a source said. */
export interface Sighting {
  name?: string | undefined;
  tokenName?: string | undefined;
  lastSeq?: number | undefined;
  /** When the last one came, in ms since 1970, as far as that is known: 0 if it is not. */
  seenMs: number;
  /** Number of events that it said are lost. */
  lost: number;
  /** How many sources were known before it. */
  number: number;
}

interface SightingsOptions {
  /** The folder of the journal. */
  readonly disk: Disk;
  readonly limits: Pick<Limits, 'forwardSourcesMax' | 'seenBytesMax' | 'seenWriteMs'>;
}

/** The sources of one journal of a hub. Only sources with events are added, so that their number is bounded. */
export class Sightings {
  readonly #options: SightingsOptions;
  /** Undefined before they are loaded. After `complete` the source with the oldest request is the first one. */
  #known: Map<string, Sighting> | undefined;
  /** The sources that have events, as of `complete`. */
  #completed: ReadonlyMap<string, unknown> | undefined;
  #count = 0;
  #timer: NodeJS.Timeout | undefined;
  /** One write at a time: both would use the same file. */
  #writing = Promise.resolve();

  constructor(options: SightingsOptions) {
    this.#options = options;
  }

  get(source: string): Readonly<Sighting> | undefined {
    return this.#known?.get(source);
  }

  /** Of all sources, in ms since 1970; undefined if none is known. */
  get firstSeenMs(): number | undefined {
    let firstMs = Number.POSITIVE_INFINITY;
    for (const { seenMs } of this.#known?.values() ?? []) if (seenMs > 0 && seenMs < firstMs) firstMs = seenMs;
    return firstMs === Number.POSITIVE_INFINITY ? undefined : firstMs;
  }

  /**
   * Keeps what is known of the sources that have events, and of these alone.
   * @param times of the last event of sources: a crash might have come between a request and the write of what was seen
   * @returns what is known then
   */
  complete(
    sources: ReadonlyMap<string, unknown>,
    times: ReadonlyMap<string, string>,
  ): ReadonlyMap<string, Readonly<Sighting>> {
    if (this.#known !== undefined && this.#completed === sources) return this.#known;
    const found = Array.from(sources.keys(), (id): [string, Sighting] => {
      const said = this.#known?.get(id);
      const seenMs = Math.max(said?.seenMs ?? 0, Date.parse(times.get(id) ?? EPOCH));
      return [id, { ...said, seenMs, lost: said?.lost ?? 0, number: 0 }];
    }).sort(([, one], [, other]) => one.seenMs - other.seenMs);
    for (const [at, [, said]] of found.entries()) said.number = at;
    this.#count = found.length;
    const known = new Map(found);
    if (this.#known === undefined) return known; // another journal took the place of this one
    this.#completed = sources;
    this.#known = known;
    return known;
  }

  /**
   * Yields each source once, the one with the oldest request first. A request during the iteration puts its source at the end; a new
   * source is left out.
   * @param sources those with events, see `complete`
   * @param times of their last events, see `complete`
   */
  *inOrder(
    sources: ReadonlyMap<string, unknown>,
    times: ReadonlyMap<string, string>,
  ): Generator<[string, Readonly<Sighting>]> {
    const known = this.complete(sources, times);
    const isShown = new Uint8Array(this.#count);
    for (const one of known) {
      const { number } = one[1];
      if (isShown[number] !== 0) continue;
      isShown[number] = 1;
      yield one;
    }
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
   * @param text the id of a source, or the name of any number of them; what has the form of an id is no name
   * @throws the error of a system call
   */
  async filterFor(text: string): Promise<SourceFilter> {
    await this.load();
    const has = isId(text) ? (id: string) => id === text : (id: string) => this.get(id)?.name === text;
    return { text, has };
  }

  /** A request of a source has come; it is not kept before `load`. @param lost events that the request says are lost */
  add(source: string, { name, tokenName, lastSeq }: SaidOfSource, lost = 0): void {
    const all = this.#known;
    if (all === undefined) return;
    const known = all.get(source) ?? { seenMs: 0, lost: 0, number: this.#count++ };
    all.delete(source);
    all.set(apart(source), known); // at the end
    known.name = name ?? known.name;
    known.tokenName = tokenName?.slice(0, NAME_CHARACTERS_MAX) ?? known.tokenName;
    known.lastSeq = lastSeq ?? known.lastSeq;
    known.seenMs = Date.now();
    known.lost += lost;
    this.#timer ??= setTimeout(() => void this.write(), this.#options.limits.seenWriteMs).unref();
  }

  /** Forgets a source, also in the file. Never rejects. */
  remove(source: string): Promise<void> {
    this.#known?.delete(source);
    return this.write();
  }

  /** Another journal, or the same one opened again, takes the place of this one. */
  forget(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#known = this.#completed = undefined;
  }

  /** Writes what is known of sources, if anything is. Never rejects. */
  write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#known?.size) return this.#writing;
    const listed = Array.from(this.#known, ([source, { number, ...said }]) => [source, said]);
    const bytes = sealedFile(`{"sources":${JSON.stringify(listed)}`);
    const replace = () => this.#options.disk.replace(NAME, bytes).catch(() => {}); // the next write has it
    this.#writing = this.#writing.then(replace);
    return this.#writing;
  }
}

const EPOCH = '1970-01-01T00:00:00Z';

/** @returns a copy: a part of a text keeps all of it alive, here the path of a request */
export function apart(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
