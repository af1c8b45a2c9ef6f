/** Erases events of the journals of a running service, for a command or a client of it: one erase at a time. */

import type { Filter } from '../event/search.ts';
import { describe } from '../journal/disk.ts';
import type { EraseParts } from '../journal/erase/erase.ts';
import { select } from '../journal/erase/select.ts';
import type { ReadableJournals } from '../reading/journals.ts';
import { Mutex } from '../waiting/mutex.ts';
import { erase, finishEraseAtStart, reportUnfinished } from './erasing.ts';
import type { DataFolder } from './folder.ts';
import type { Peers } from './peers.ts';
import type { Setup } from './setup.ts';

/** What became of an erase. */
export interface Erased {
  /** How many events they are. */
  readonly events: number;
  /** Why files may still have their texts; absent if none has. The next start finishes it. */
  readonly unfinished?: string;
}

export class Eraser {
  readonly #setup: Setup;
  readonly #folder: DataFolder;
  readonly #peers: Peers;
  readonly #journals: ReadableJournals;
  readonly #turns = new Mutex();

  constructor(setup: Setup, folder: DataFolder, peers: Peers, journals: ReadableJournals) {
    this.#setup = setup;
    this.#folder = folder;
    this.#peers = peers;
    this.#journals = journals;
  }

  /** Finishes what a crash interrupted, before the journal of a deployment is opened. @throws as `finishEraseAtStart` */
  finish(deployment: string | undefined): Promise<void> {
    return finishEraseAtStart(this.#partsOf(deployment));
  }

  /**
   * Erases the events that match any of the filters. The journal and its forwarding are closed meanwhile, and reports wait.
   * @param all see `Erasure.all`
   * @param ending ends the search for them
   * @throws NotSelectedError, DamagedError, Error if the journal cannot be opened, or the error of a system call: nothing was erased
   */
  erase(
    deployment: string | undefined,
    filters: readonly Filter[],
    all: boolean,
    ending: AbortSignal,
  ): Promise<Erased> {
    return this.#turns.run(async () => {
      const { later, limits, notices } = this.#setup;
      const parts = this.#partsOf(deployment);
      const journal = this.#journals.of(deployment);
      const named = await Promise.all(filters.map((filter) => this.#withSource(deployment, filter)));
      const disk = journal.diskFor({ signal: ending });
      const { seqs } = await select(disk, journal.progress(), named, all, limits);
      const events = seqs.size;
      if (events === 0) return { events };
      const order = { time: new Date().toISOString(), all, seqs };
      const done = new Set<number>();
      let unfinished: string | undefined;
      const note = (error: Error) => {
        unfinished = describe(error);
        return true;
      };
      const act = () => erase(parts, order, done).catch(note);
      const part = () =>
        later.recording!.whileClosed(deployment, act).catch((error: Error) => {
          if (done.size === 0) throw error;
          return note(error);
        });
      await this.#peers.pausing(deployment, async () => {
        for (let isAll = false; !isAll; isAll = await part());
      });
      journal.tail = undefined; // it has lines in memory
      if (unfinished === undefined) notices.info('events were erased', { events });
      else reportUnfinished(notices, unfinished);
      return unfinished === undefined ? { events } : { events, unfinished };
    });
  }

  async #withSource(deployment: string | undefined, filter: Filter): Promise<Filter> {
    const { source } = filter;
    return source ? { ...filter, source: await this.#peers.hub.sourceFilter(deployment, source.text) } : filter;
  }

  #partsOf(deployment: string | undefined): EraseParts {
    const { openDisk, notices, limits } = this.#setup;
    const disk = this.#folder.diskOf(deployment);
    return { disk, openDisk, notices: notices.with({ folder: disk.folder }), limits, checkHeld: () => {} };
  }
}
