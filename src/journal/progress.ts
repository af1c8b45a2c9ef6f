/**
 * Reports to a reader how far the journal is durable, and when there are new lines. A reader in another process asks the holder
 * of the lock, and polls; a reader in the same process gets both from the journal.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { Defect } from '../config/defect.ts';
import type { Limits } from '../config/limits.ts';
import { Waiters } from '../waiting/waiters.ts';
import { folderMark } from './entry.ts';
import type { Follower, FreshLines } from './follower.ts';
import { askHolder, type Durable } from './lock/protocol.ts';

/** The writer's progress, for one reader. */
export interface Progress {
  /**
   * Reports how far the journal is durable. Lines from that seq on are not yielded, since a failed write truncates them, even
   * during a read.
   */
  durable(): Promise<Durable>;
  /**
   * Checks a line that is about to be shown against the current durable seq. Undefined if the writer is another process, which is
   * not asked again.
   * @throws Defect if the line is not durable
   */
  checkShown?(seq: number): void;
  /**
   * Like `durable`, if the lines from a byte of a file on are the newest and are still in memory. A reader that follows a journal
   * with few events then does not have to open the file.
   */
  fresh?(file: string, byte: number): { readonly bytes: Buffer; readonly nextSeq: number } | undefined;
  /** Resolves when there might be more lines than the last `durable` reported, or when the signal aborts. Never rejects. */
  more(signal: AbortSignal): Promise<void>;
}

/** The progress of a journal that no process writes. */
export const AT_REST: Progress = { durable: async () => ({ kind: 'unsaid' }), more: async () => {} };

/**
 * Asks the process that holds the folder's lock, and polls. Does not use fs.watch, which reports nothing on many file systems. If
 * no process holds the lock, `durable` resolves to `{ kind: 'unsaid' }`.
 *
 * When the folder has changed, there are more lines. Lines that were not durable at that time become durable without another
 * change, so the writer is also asked after each further quarter of the time since the last change, and every
 * `limits.followIdleMs`.
 * @param poll resolves when it is time to look at the folder, or the signal aborts
 */
export function pollProgress(
  folder: string,
  limits: Limits,
  poll = (signal: AbortSignal): Promise<void> => sleep(limits.followMs, undefined, { signal }).catch(() => {}), // an abort
): Progress {
  let mark: string | undefined;
  let changedMs = performance.now();
  let readMs = changedMs;
  const mightHaveMore = (): boolean => {
    const nowMs = performance.now();
    const now = folderMark(folder);
    if (now === undefined || now !== mark) changedMs = nowMs;
    else if (nowMs - readMs < Math.min(limits.followIdleMs, (nowMs - changedMs) / 4)) return false;
    mark = now;
    readMs = nowMs;
    return true;
  };
  return {
    durable: () => askHolder(folder, limits),
    more: async (signal) => {
      do await poll(signal);
      while (!signal.aborted && !mightHaveMore());
    },
  };
}

/**
 * Asks the writer how far the journal is durable, and repeats the question if there is no answer: a process that is starting or
 * stopping might miss it.
 */
export async function askDurable(progress: Progress): Promise<Durable> {
  for (let attempt = 1; ; attempt += 1) {
    const answer = await progress.durable();
    if (answer.kind !== 'unanswered' || attempt >= ATTEMPTS_MAX) return answer;
  }
}

const ATTEMPTS_MAX = 3;

/** The progress of all journals of this process. The result of `follow` follows each of them. */
export class OwnProgress {
  /** When lines of any journal last became durable, by the monotonic clock. */
  recordedMs = Number.NEGATIVE_INFINITY;
  /** Returns whether lines of any journal wait for the disk. */
  readonly isWaiting: () => boolean;
  /** By folder: the seq of the first line that is not durable yet. */
  readonly #nextSeqs = new Map<string, number>();
  /** By folder: the next seq when this process first opened the journal. */
  readonly #openedSeqs = new Map<string, number>();
  /** The folders whose journals are about to be opened, or are being opened: see `ofOpen`. */
  readonly #opening = new Set<string>();
  /** By folder: the readers that wait for more. */
  readonly #readers = new Map<string, Waiters>();
  /** By folder: the lines before its next seq, if they are few and a reader was waiting for them. */
  readonly #fresh = new Map<string, FreshLines>();
  readonly #listeners = new Set<() => void>();

  constructor(isWaiting: () => boolean = () => false) {
    this.isWaiting = isWaiting;
  }

  /**
   * @param listener called at each write to a journal of this process. It is called often, so it must be fast, and it
   * must not throw
   */
  onWritten(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Called when a write to a journal was tried. */
  written(): void {
    for (const listener of this.#listeners) listener();
  }

  /**
   * Called when the lines before `nextSeq` are durable: wakes the waiting readers.
   * @param fresh the last of these lines, in memory that can change afterwards
   */
  recorded(folder: string, nextSeq: number, fresh?: FreshLines): void {
    this.#nextSeqs.set(folder, nextSeq);
    const readers = this.#readers.get(folder);
    if (fresh === undefined || fresh.bytes.length > FRESH_BYTES_MAX || !readers?.size) this.#fresh.delete(folder);
    else this.#fresh.set(folder, { ...fresh, bytes: Buffer.from(fresh.bytes) });
    if (!this.#openedSeqs.has(folder)) this.#openedSeqs.set(folder, nextSeq);
    this.#opening.delete(folder);
    this.recordedMs = performance.now();
    readers?.wake();
    this.written();
  }

  /** @returns the follower of the journal in a folder */
  follow(folder: string): Follower {
    return {
      opened: (lastSeq) => this.recorded(folder, lastSeq + 1),
      committed: ({ after, fresh }) => this.recorded(folder, after.chain.seq, fresh),
    };
  }

  /** Called when a journal is about to be opened or reopened; the next `recorded` means that it is open. */
  opening(folder: string): void {
    this.#opening.add(folder);
  }

  /** Forgets how far a journal is durable, because another journal replaces it, or might replace it. */
  forget(folder: string): void {
    this.#nextSeqs.delete(folder);
    this.#fresh.delete(folder);
    this.#openedSeqs.delete(folder);
  }

  /** @returns the seq of the first line that is not durable yet; undefined until the first `recorded` */
  nextSeq(folder: string): number | undefined {
    return this.#nextSeqs.get(folder);
  }

  /** @returns the seq of the first line of a journal that this process has written, or will write; undefined until it is open */
  openedSeq(folder: string): number | undefined {
    return this.#openedSeqs.get(folder);
  }

  /** @returns the progress for one reader of a folder. Until the first `recorded`, `durable` resolves to `{ kind: 'unsaid' }` */
  of(folder: string): Progress {
    return this.#progressOf(folder, () => this.#nextSeqs.get(folder));
  }

  /** Like `of`, but `unsaid` also while the journal is being reopened: the recovery might keep lines of a failed write. */
  ofOpen(folder: string): Progress {
    return this.#progressOf(folder, () => (this.#opening.has(folder) ? undefined : this.#nextSeqs.get(folder)));
  }

  #progressOf(folder: string, nextSeq: () => number | undefined): Progress {
    let seen: number | undefined;
    const readers = this.#readers.get(folder) ?? new Waiters();
    this.#readers.set(folder, readers);
    return {
      fresh: (file, byte) => {
        const lines = this.#fresh.get(folder);
        const next = nextSeq();
        if (lines?.file !== file || lines.byte !== byte || next === undefined) return undefined;
        seen = next;
        return { bytes: lines.bytes, nextSeq: next };
      },
      durable: async () => {
        seen = nextSeq();
        return seen === undefined ? { kind: 'unsaid' } : { kind: 'before', seq: seen };
      },
      checkShown: (seq) => {
        if (seq < (nextSeq() ?? Number.POSITIVE_INFINITY)) return;
        throw new Defect(
          `a reader of ${folder} has the line ${seq}, and the first one that is not durable is ${nextSeq()}`,
        );
      },
      more: async (signal) => {
        while (seen === nextSeq() && !signal.aborted) await readers.wait(signal);
        seen = nextSeq();
      },
    };
  }
}

/** The most bytes of a folder that are copied for the readers that wait for them. */
const FRESH_BYTES_MAX = 4 * 1024;
