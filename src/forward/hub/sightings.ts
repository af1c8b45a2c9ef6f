/**
 * What a hub remembers of its sources besides their events: `forward-seen.json`.
 *
 *     {"sources":[["0193e0c2-…",{"name":"device-17","tokenName":"edge","seenMs":1795447185266,"lost":0,"lastSeq":1208}],…],"crc":"9ae0daaf"}
 *
 * It is a hint and not synced: no request waits for it. A crash may lose the last `limits.seenWriteMs` of it, and a power cut all.
 */

import type { Limits } from '../../config/limits.ts';
import type { SourceFilter } from '../../event/search.ts';
import type { Disk } from '../../journal/disk.ts';
import { readSmall } from '../../journal/file-io.ts';
import { isId } from '../source.ts';
import type { SaidOfSource } from './received.ts';
import { sealed, unsealed } from './snapshot.ts';

const NAME = 'forward-seen.json';
/** Of the name of a token, which an operator chose. */
const NAME_CHARACTERS_MAX = 64;

/** What the requests of a source said, and when the last one came, in ms since 1970. */
interface Sighting {
  name?: string | undefined;
  tokenName?: string | undefined;
  lastSeq?: number | undefined;
  seenMs: number;
  /** Number of events that it said are lost. */
  lost: number;
}

interface SightingsOptions {
  /** The folder of the journal. */
  readonly disk: Disk;
  readonly limits: Pick<Limits, 'forwardSourcesMax' | 'seenBytesMax' | 'seenWriteMs'>;
}

/** The sources of one journal of a hub. Only sources with events are added, so that their number is bounded. */
export class Sightings {
  readonly #options: SightingsOptions;
  /** Undefined before they are loaded. */
  #known: Map<string, Sighting> | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** One write at a time: both would use the same file. */
  #writing = Promise.resolve();

  constructor(options: SightingsOptions) {
    this.#options = options;
  }

  get(source: string): Readonly<Sighting> | undefined {
    return this.#known?.get(source);
  }

  /** @throws the error of a system call */
  async load(): Promise<void> {
    if (this.#known !== undefined) return;
    const { disk, limits } = this.#options;
    const bytes = await readSmall(disk, NAME, (limits.forwardSourcesMax + 1) * limits.seenBytesMax);
    const text = bytes && unsealed(bytes);
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
    let known = this.#known?.get(source);
    if (known === undefined) {
      known = { seenMs: 0, lost: 0 };
      this.#known?.set(apart(source), known);
    }
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
    this.#timer = this.#known = undefined;
  }

  /** Writes what is known of sources, if anything is. Never rejects. */
  write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#known?.size) return this.#writing;
    const text = `{"sources":${JSON.stringify([...this.#known])}`;
    const replace = () => this.#options.disk.replace(NAME, sealed(text)).catch(() => {}); // the next write has it
    this.#writing = this.#writing.then(replace);
    return this.#writing;
  }
}

/** @returns a copy: a part of a text keeps all of it alive, here the path of a request */
export function apart(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
