/**
 * How long senders wait after a request has failed, as their state files say it: up to 0.5 s by chance, twice as long after each further
 * failure, up to 60 s, and from the beginning once an event was taken.
 */

const FIRST_MS = 500;
/** A state is not written each time: there may have been as many failures since an event was taken that no file says. */
const UNSEEN = 3;
const MOST_MS = 60_000;
/** The time between two readings of the clock. */
const READ_MS = 5;
/** With as many first waits, one of them is longer than a fifth of the longest, but for one life in a hundred million. */
const JUDGED = 12;

interface ShownState {
  readonly state: string;
  readonly since: string;
  readonly next_try: string | null;
  readonly last_success: string | null;
}

/** The waits of all senders of a life. */
export class Paces {
  /** By sender: the last wait. */
  readonly #last = new Map<string, { readonly since: string; readonly nextTryMs: number }>();
  #firsts = 0;
  #longestMs = 0;

  /** A state file is written. @param clockMs what the clock of the machine says; undefined if it jumped lately @returns what is wrong */
  written(sender: string, text: string, clockMs: number | undefined): string | undefined {
    const { state, since, next_try, last_success }: ShownState = JSON.parse(text);
    if (state !== 'waiting' || next_try === null) return undefined;
    const nextTryMs = Date.parse(next_try);
    const last = this.#last.get(sender);
    this.#last.set(sender, { since, nextTryMs });
    if (clockMs === undefined) return undefined;
    const waitMs = nextTryMs - Date.parse(since);
    if (nextTryMs - clockMs > MOST_MS + READ_MS) return `${sender} waits for ${nextTryMs - clockMs} ms`;
    // An event was taken after the last wait that was written, and what began to wait now has not failed before.
    const isFirst = last !== undefined && last.since !== since && Date.parse(last_success ?? '') > last.nextTryMs;
    if (!isFirst || clockMs - Date.parse(since) > READ_MS) return undefined;
    if (waitMs > FIRST_MS * 2 ** UNSEEN + READ_MS) return `${sender} waits for ${waitMs} ms after its first failure`;
    this.#firsts += 1;
    this.#longestMs = Math.max(this.#longestMs, waitMs);
    return this.#firsts === JUDGED && this.#longestMs < FIRST_MS / 5
      ? `senders wait for at most ${this.#longestMs} ms after their first failures`
      : undefined;
  }
}
