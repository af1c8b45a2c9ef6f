/** The journal of a local service. A reset of a service for tests replaces it. */

import type { Recorder } from '../http/message.ts';
import type { Journal } from '../journal/journal.ts';
import { emptyJournal } from '../journal/open/empty.ts';
import type { JournalOptions } from '../journal/options.ts';

export interface LocalJournalOptions extends Pick<JournalOptions, 'disk' | 'onFailed'> {
  /** @param waiting how long reports wait for the journal to open */
  readonly create: (waiting: Pick<JournalOptions, 'openWaitMs'>) => Journal;
  /** How long reports wait for the journal of a reset, in milliseconds. */
  readonly openWaitMs: number;
}

/** One journal after the other in the same folder; `current` is the last one. */
export class LocalJournal {
  current: Journal;
  /** A request that found this recorder before a reset is recorded in the new journal. */
  readonly recorder: Recorder = {
    deployment: undefined,
    begin: () => {},
    append: (events, done, onConflict) => this.current.append(events, done, onConflict),
    refusal: (bytes) => this.current.refusal(bytes),
  };
  readonly #options: LocalJournalOptions;
  #opened: Promise<void> | undefined;
  #begun: Promise<void> = Promise.resolve();
  #closing = false;

  constructor(options: LocalJournalOptions) {
    this.#options = options;
    this.current = options.create({});
  }

  /** Opens the first journal, after `prepare`. @throws the errors of both */
  open(prepare: Promise<void>): Promise<void> {
    this.#opened = prepare.then(() => this.current.open());
    return this.#opened;
  }

  /** See `Recording.startOver`. @throws Error */
  startOver(): Promise<void> {
    return this.whileClosed(() => emptyJournal(this.#options.disk));
  }

  /** See `Recording.whileClosed`. @throws Error, or the errors of `act` */
  whileClosed<Result>(act: () => Promise<Result>): Promise<Result> {
    const acting = this.#begun.then(() => this.#whileClosed(act));
    this.#begun = acting.then(
      () => {},
      () => {}, // the error goes to the caller
    );
    return acting;
  }

  /** Writes the queued events and closes the journal, after the last `whileClosed`. Never rejects. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.#begun;
    await this.current.close();
    await this.#opened?.catch(() => {}); // a recovery might still write; its error goes to the caller of `open`
  }

  /** Reports that arrive in the meantime wait in the queue of the new journal. */
  async #whileClosed<Result>(act: () => Promise<Result>): Promise<Result> {
    const { create, openWaitMs, onFailed } = this.#options;
    await this.#opened?.catch(() => {});
    const { nextSeq, trouble } = this.current;
    if (this.#closing || nextSeq === undefined) throw new Error(trouble ?? 'the service is stopping');
    const old = this.current;
    this.current = create({ openWaitMs });
    await old.close();
    try {
      return await act();
    } finally {
      await this.current.open().catch((error: Error) => {
        onFailed(error);
        throw error;
      });
    }
  }
}
