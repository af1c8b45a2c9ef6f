/** The journals of a service, for reading over HTTP. Each is read from its files, like a command does, beside its writer. */

import { join } from 'node:path';
import type { Limits } from '../config/limits.ts';
import { Refusal, unavailable } from '../http/message.ts';
import type { AssetStates } from '../journal/asset-state.ts';
import type { Disk } from '../journal/disk.ts';
import type { OwnProgress, Progress } from '../journal/progress.ts';
import type { Refusals } from '../telemetry/refusals.ts';

/** A journal that may be read: `{ disk, progress }`. */
export interface ReadableJournal {
  readonly disk: Disk;
  /** @returns for one reader how far the journal is durable, and when there is more */
  progress(): Progress;
}

/** What the routes of this folder read, and their limits: `{ journals, assets, refusals, limits }`. */
export interface ReadingParts {
  readonly journals: ReadableJournals;
  readonly assets: {
    /** As `AssetMemory.upToDate`. */
    upToDate(deployment: string | undefined, ending: AbortSignal): Promise<AssetStates>;
  };
  readonly refusals: Refusals;
  readonly limits: Limits;
}

/** What `ReadableJournals` needs: `{ data: '/var/lib/assetlog', openDisk, progress, limits }`. */
export interface ReadableJournalsOptions {
  /** The data folder. */
  readonly data: string;
  /** As `ServiceParts.openDisk`. */
  readonly openDisk: (folder: string) => Disk;
  /** Gets the values of `JournalOptions.onRecorded` of all journals. */
  readonly progress: OwnProgress;
  readonly limits: Pick<Limits, 'openWaitMs' | 'retryAfterSeconds'>;
}

/** The journals of a service: in local mode one, in hosted mode one for each deployment, as `of('prod')`. */
export class ReadableJournals {
  readonly #options: ReadableJournalsOptions;

  constructor(options: ReadableJournalsOptions) {
    this.#options = options;
  }

  /**
   * @param deployment such as `prod`, which must exist: it names a folder. Undefined in local mode
   * @returns its journal. A deployment without a report has no folder yet
   */
  of(deployment: string | undefined): ReadableJournal {
    const { data, openDisk, progress } = this.#options;
    const disk = openDisk(deployment === undefined ? data : join(data, deployment));
    return { disk, progress: () => progress.of(disk.folder) };
  }

  /**
   * Resolves to a journal when it may be read. In local mode that is when it was opened: after a crash, only a start makes its last
   * lines durable.
   * @throws Refusal 503 if that takes longer than `limits.openWaitMs`, or `ending` aborts
   */
  async whenReadable(deployment: string | undefined, ending: AbortSignal): Promise<ReadableJournal> {
    const journal = this.of(deployment);
    if (deployment !== undefined) return journal;
    const { limits } = this.#options;
    const progress = journal.progress();
    if ((await progress.durable()).kind !== 'unsaid') return journal;
    await progress.more(AbortSignal.any([ending, AbortSignal.timeout(limits.openWaitMs)]));
    if ((await progress.durable()).kind !== 'unsaid') return journal;
    const { status, error, ...more } = unavailable('the journal is being opened', limits);
    throw new Refusal(status, error, more);
  }
}
