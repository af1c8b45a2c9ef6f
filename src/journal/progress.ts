/**
 * What a reader knows of the process that writes the journal: how far it is durable, and when there is more. A reader in another
 * process asks the holder of the lock, and polls. One in the same process learns both from the journal itself.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { askHolder, type Durable } from './lock.ts';

/** Made for one reader. */
export interface Progress {
  /** Lines from here on are held back: a failed write is cut off again, also while its reader looks. */
  durable(): Promise<Durable>;
  /** Resolves when there may be more than the last `durable` said, or when the signal aborts. Never rejects. */
  more(signal: AbortSignal): Promise<void>;
}

/** Asks the process that holds the folder's lock, and polls. Not fs.watch: it says nothing on many file systems. */
export function pollProgress(folder: string, pollMs: number): Progress {
  return {
    durable: () => askHolder(folder),
    more: (signal) => sleep(pollMs, undefined, { signal }).catch(() => {}), // it rejects only when it is aborted
  };
}

/** What the journals of this process have made durable: `recorded` takes what `JournalOptions.onRecorded` gives. */
export class OwnProgress {
  /** By folder: the seq of the first line that is not durable yet. */
  readonly #nextSeqs = new Map<string, number>();
  /** Of readers that wait, of any folder. */
  readonly #wakers = new Set<() => void>();

  recorded(folder: string, nextSeq: number): void {
    this.#nextSeqs.set(folder, nextSeq);
    for (const wake of this.#wakers) wake();
  }

  of(folder: string): Progress {
    let seen: number | undefined;
    return {
      durable: async () => {
        seen = this.#nextSeqs.get(folder);
        return seen === undefined ? { kind: 'unsaid' } : { kind: 'before', seq: seen };
      },
      more: async (signal) => {
        while (seen === this.#nextSeqs.get(folder) && !signal.aborted) await this.#recordedOrAborted(signal);
        seen = this.#nextSeqs.get(folder);
      },
    };
  }

  #recordedOrAborted(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#wakers.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      this.#wakers.add(wake);
      signal.addEventListener('abort', wake);
    });
  }
}
