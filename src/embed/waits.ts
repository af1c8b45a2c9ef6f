/** Waits for events with a timeout. Its error lists the events that were recorded instead, and the refused requests. */

import type { waitLimits } from '../config/limits.ts';
import type { Line } from '../journal/look/reading.ts';
import { numbered, shortened } from '../telemetry/printable.ts';
import type { Refusals } from '../telemetry/refusals.ts';
import { Mutex } from '../waiting/mutex.ts';
import { differencesOf, givenMembers, type Wanted } from './filter.ts';

/** Number of events that the error of a wait lists, and of characters of each event. */
export type WaitLimits = Pick<typeof waitLimits, 'shownMax' | 'shownCharactersMax'>;

/** A call of `waitFor` or `expectNone`. */
export interface Wait {
  readonly wanted: Wanted;
  /** The filter as the caller gave it, for the error message. */
  readonly shown: string;
  /** Reads all lines of the journal, and then follows it until the signal aborts. */
  readonly read: (follow: AbortSignal) => AsyncIterable<readonly Line[]>;
  /** The refused requests, for the error message. */
  readonly refusals: Pick<Refusals, 'seen'>;
  readonly timeoutMs: number;
  /** How many events to wait for; undefined for one event, which the error calls `no event`. */
  readonly count: number | undefined;
}

/**
 * Reads the options of a method.
 * @param defaultMs the default of `timeoutMs`
 * @throws TypeError for options that no wait can have
 */
export function readWait(
  value: unknown,
  method: 'waitFor' | 'expectNone',
  defaultMs: number,
): Pick<Wait, 'timeoutMs' | 'count'> {
  const names = method === 'waitFor' ? ['timeoutMs', 'count'] : ['timeoutMs'];
  const { timeoutMs = defaultMs, count } = givenMembers(value, `the second argument of ${method}`, names);
  if (!(typeof timeoutMs === 'number' && timeoutMs >= 0 && timeoutMs < 2 ** 31))
    throw new TypeError(`timeoutMs is ${timeoutMs}; give milliseconds from 0 to ${2 ** 31 - 1}`);
  if (count !== undefined && !(Number.isSafeInteger(count) && (count as number) > 0))
    throw new TypeError(`count is ${count}; give a whole number from 1`);
  return { timeoutMs, count: count as number | undefined };
}

interface Found {
  readonly found: readonly Line[];
  readonly nearMisses: NearMisses;
  /**
   * Undefined if enough lines match. The end is early if it comes before `timeoutMs`. A reset forgets the refused requests
   * afterwards.
   */
  readonly end?: { readonly text: string; readonly isEarly: boolean; readonly refused: string };
}

export class Waits {
  readonly #limits: WaitLimits;
  readonly #open = new Set<Promise<unknown>>();
  /** An abort controller for each open wait. */
  readonly #endings = new Set<AbortController>();
  #ended: string | undefined;
  readonly #resets = new Mutex();
  /** Resolves after the last reset; undefined while no reset is running. */
  #reset: Promise<void> | undefined;

  constructor(limits: WaitLimits) {
    this.#limits = limits;
  }

  /**
   * Ends every wait, current or future, after a last read of the journal. @param how a text such as `the service has ended
   * (stopped)`
   */
  end(how: string): void {
    this.#ended = how;
    this.#endOpen(how);
  }

  /** Ends the open waits after a last read of the journal. @param how a text such as `the service was reset` */
  #endOpen(how: string): void {
    for (const ending of this.#endings) ending.abort(`before ${how}`);
  }

  /**
   * Resolves with the first `wait.count` matching lines, whether they are already recorded or will be.
   * @throws Error after `timeoutMs` or at the end of the service, with the filter, the number of matches, the nearest other events
   *   and the refused requests; or the error of `read`
   */
  async waitFor(wait: Wait): Promise<readonly Line[]> {
    const { shown, count } = wait;
    const { found, end, nearMisses } = await this.runRead(() => this.#find(wait));
    if (end === undefined) return found;
    const matched = count === undefined ? 'no event matched' : `${this.#countText(found)} of ${count} events matched`;
    throw new Error(`${matched} ${shown} ${end.text}${nearMisses.text(found)}${end.refused}`);
  }

  /**
   * Resolves after `timeoutMs` without a matching line, recorded before the call or during the wait.
   * @throws Error with the first such line, or if the wait ends early, since a line might have come later; or the error of `read`
   */
  async expectNone(wait: Wait): Promise<void> {
    const { found, end } = await this.runRead(() => this.#find(wait));
    if (end === undefined)
      throw new Error(`an event matched ${wait.shown}, and none was expected: ${this.#textOf(found[0]!)}`);
    if (end.isEarly) throw new Error(`the check that no event matches ${wait.shown} ended early, ${end.text}`);
  }

  /** Runs a read of the journal, after a running reset. `awaitReads` waits for it. */
  async runRead<Value>(read: () => Promise<Value>): Promise<Value> {
    while (this.#reset !== undefined) await this.#reset;
    const reading = read();
    this.#open.add(reading);
    return reading.finally(() => this.#open.delete(reading));
  }

  /**
   * Ends open waits, and runs a reset as soon as nothing reads the journal. New reads wait until all resets are done.
   * @throws the error of `reset`
   */
  async runReset(reset: () => Promise<void>): Promise<void> {
    const done = this.#resets.run(async () => {
      this.#endOpen('the service was reset');
      await this.awaitReads();
      await reset();
    });
    const last = done.catch(() => {}); // the error goes to the caller
    this.#reset = last;
    await last;
    if (this.#reset === last) this.#reset = undefined;
    return done;
  }

  /** Resolves when no wait or other read is open. Called when each wait has to end. */
  async awaitReads(): Promise<void> {
    await Promise.allSettled(this.#open);
  }

  /** @returns a text such as `2 (seq 1, 4)` */
  #countText(found: readonly Line[]): string {
    const { shownMax } = this.#limits;
    const seqs = found.slice(0, shownMax).map(({ seq }) => seq);
    return `${found.length}${found.length > 0 ? ` (seq ${seqs.join(', ')}${found.length > shownMax ? ', …' : ''})` : ''}`;
  }

  /** @returns the first `count` matching lines; if there are fewer, also the end of the wait */
  async #find({ wanted, read, refusals, timeoutMs, count }: Wait): Promise<Found> {
    const found: Line[] = [];
    const nearMisses = new NearMisses((line) => this.#textOf(line), this.#limits.shownMax);
    const ending = new AbortController();
    let isEarly = true;
    const timer = setTimeout(() => {
      isEarly = ending.signal.aborted;
      ending.abort(`within ${timeoutMs} ms`);
    }, timeoutMs);
    this.#endings.add(ending);
    if (this.#ended !== undefined) ending.abort(`before ${this.#ended}`);
    try {
      for await (const lines of read(ending.signal)) {
        for (const line of lines) {
          const wrong = differencesOf(line, wanted);
          if (wrong.length > 0) nearMisses.add(line, wrong);
          else if (found.push(line) === (count ?? 1)) return { found, nearMisses };
        }
      }
    } finally {
      this.#endings.delete(ending);
      clearTimeout(timer);
    }
    const refused = this.#refusedText(refusals.seen());
    return { found, nearMisses, end: { text: ending.signal.reason, isEarly, refused } };
  }

  /** @returns a text such as `seq 7, "type":"AssetObservation",…` */
  #textOf({ seq, text }: Line): string {
    return `seq ${seq}, ${shortened(text.slice(text.indexOf('"type"')), this.#limits.shownCharactersMax)}`;
  }

  /** @returns the end of the error of a wait; empty if there were no refused requests */
  #refusedText({ last, count }: ReturnType<Refusals['seen']>): string {
    if (count === 0) return '';
    const { shownMax, shownCharactersMax } = this.#limits;
    const lines = last.slice(-shownMax).map(({ method, path, query, status, error }) => {
      const what = path === undefined ? '' : ` for ${method} ${path}${query === undefined ? '' : `?${query}`}`;
      return `  ${shortened(`${status}${what}: ${error}`, shownCharactersMax)}\n`;
    });
    return `\nrefused requests: ${count}, the last:\n${lines.join('')}`;
  }
}

/** Events that do not match, ordered by the number of differences, and among equals the newest first. */
class NearMisses {
  readonly #textOf: (line: Line) => string;
  readonly #max: number;
  #count = 0;
  #nearest: { readonly wrong: readonly string[]; readonly text: string }[] = [];

  constructor(textOf: (line: Line) => string, max: number) {
    this.#textOf = textOf;
    this.#max = max;
  }

  add(line: Line, wrong: readonly string[]): void {
    this.#count += 1;
    const after = this.#nearest.findIndex((other) => other.wrong.length >= wrong.length);
    this.#nearest.splice(after === -1 ? this.#nearest.length : after, 0, { wrong, text: this.#textOf(line) });
    this.#nearest.length = Math.min(this.#nearest.length, this.#max);
  }

  /** @param found the matching events */
  text(found: readonly Line[]): string {
    if (this.#count === 0) return found.length === 0 ? '; no event was recorded' : '; no other event was recorded';
    const lines = this.#nearest.map(({ wrong, text }) => `\n  another ${wrong.join(', ')}: ${text}`);
    const others = `${numbered(this.#count, 'other event')} ${this.#count === 1 ? 'was' : 'were'}`;
    return `; ${others} recorded, the nearest first:${lines.join('')}`;
  }
}
