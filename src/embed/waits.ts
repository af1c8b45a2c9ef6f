/** Waits for events with a timeout. Its error lists the events that were recorded instead, and the refused requests. */

import type { waitLimits } from '../config/limits.ts';
import type { App, Incoming, ReceiveBody, Reply } from '../http/message.ts';
import { differences, type Filter } from '../journal/filter.ts';
import type { Line } from '../journal/reader.ts';

/**
 * How many events and refused requests the error of a wait lists, and how many characters of each:
 * `{ shownMax: 5, shownCharactersMax: 300 }`.
 */
export type WaitLimits = Pick<typeof waitLimits, 'shownMax' | 'shownCharactersMax'>;

/**
 * What `waitFor` waits for, and for how long:
 * `{ filter: { assetKey: ['orders'] }, shown: '{"assetKey":"orders"}', read, timeoutMs: 5_000 }`.
 */
export interface Wait {
  /** The filter that the event must match. */
  readonly filter: Filter;
  /** The filter as the caller gave it, for the error message: `{"assetKey":"orders"}`. */
  readonly shown: string;
  /** Reads all lines of the journal, and then follows it until the signal aborts. */
  readonly read: (follow: AbortSignal) => AsyncIterable<readonly Line[]>;
  /** Milliseconds, such as 5,000. */
  readonly timeoutMs: number;
}

/**
 * All waits of one service, and its refused requests, such as `400 for POST /report_asset_check/: …`, which the error of a wait
 * lists.
 */
export class Waits {
  readonly #limits: WaitLimits;
  readonly #refused: RefusedRequests;
  readonly #open = new Set<Promise<Line>>();
  /** An abort controller for each open wait. */
  readonly #endings = new Set<AbortController>();
  #ended: string | undefined;

  constructor(limits: WaitLimits) {
    this.#limits = limits;
    this.#refused = new RefusedRequests(limits);
  }

  /**
   * @returns the app, wrapped to remember the error replies of the service for the errors of waits:
   *   `aroundApp: (app) => waits.around(app)`
   */
  around(app: App): App {
    return (incoming) => {
      const decision = app(incoming);
      if (decision.kind === 'refuse') {
        this.#refused.replied(incoming, decision.reply);
        return decision;
      }
      const receive: ReceiveBody = (body, respond) =>
        decision.receive(body, (reply) => {
          this.#refused.replied(incoming, reply);
          respond(reply);
        });
      return { ...decision, receive };
    };
  }

  /** Ends every open wait after a last read of the journal. @param how such as `the service has ended (stopped)` */
  end(how: string): void {
    this.#ended = how;
    for (const ending of this.#endings) ending.abort(`before ${how}`);
  }

  /**
   * Resolves with the first line that matches, recorded already or later. For example `(await waits.waitFor(wait)).seq` is `1`.
   * @throws Error after `timeoutMs` or at the end of the service: the filter, the nearest events and the refused requests; or
   *   what `read` throws
   */
  waitFor(wait: Wait): Promise<Line> {
    const found = this.#find(wait);
    this.#open.add(found);
    return found.finally(() => this.#open.delete(found));
  }

  /** Resolves when no wait is open. Called after `end`, which ends each wait. */
  async allEnded(): Promise<void> {
    await Promise.allSettled(this.#open);
  }

  async #find({ filter, shown, read, timeoutMs }: Wait): Promise<Line> {
    const nearMisses = new NearMisses(this.#limits);
    const ending = new AbortController();
    const timer = setTimeout(() => ending.abort(`within ${timeoutMs} ms`), timeoutMs);
    this.#endings.add(ending);
    if (this.#ended !== undefined) ending.abort(`before ${this.#ended}`);
    try {
      for await (const lines of read(ending.signal)) {
        for (const line of lines) {
          const wrong = differences(line.event, filter);
          if (wrong.length === 0) return line;
          nearMisses.add(line, wrong);
        }
      }
    } finally {
      this.#endings.delete(ending);
      clearTimeout(timer);
    }
    throw new Error(`no event was ${shown} ${ending.signal.reason}${nearMisses}${this.#refused}`);
  }
}

/** The last few (`limits.shownMax`) error replies, and the count of all. */
class RefusedRequests {
  readonly #limits: WaitLimits;
  readonly #last: string[] = [];
  #count = 0;

  constructor(limits: WaitLimits) {
    this.#limits = limits;
  }

  replied({ method, url }: Incoming, reply: Reply): void {
    if (reply.kind !== 'error') return;
    this.#count += 1;
    this.#last.push(cut(`${reply.status} for ${method} ${url}: ${reply.error}`, this.#limits));
    if (this.#last.length > this.#limits.shownMax) this.#last.shift();
  }

  toString(): string {
    if (this.#count === 0) return '';
    return `\nrefused requests: ${this.#count}, the last:\n${this.#last.map((line) => `  ${line}\n`).join('')}`;
  }
}

/** Events that do not match: those with the fewest differences come first, and among equals the newest. */
class NearMisses {
  readonly #limits: WaitLimits;
  #count = 0;
  #nearest: { readonly wrong: readonly string[]; readonly text: string }[] = [];

  constructor(limits: WaitLimits) {
    this.#limits = limits;
  }

  add({ seq, text }: Line, wrong: readonly string[]): void {
    this.#count += 1;
    const after = this.#nearest.findIndex((other) => other.wrong.length >= wrong.length);
    const shown = `seq ${seq}, ${cut(text.slice(text.indexOf('"type"')), this.#limits)}`;
    this.#nearest.splice(after === -1 ? this.#nearest.length : after, 0, { wrong, text: shown });
    this.#nearest.length = Math.min(this.#nearest.length, this.#limits.shownMax);
  }

  toString(): string {
    if (this.#count === 0) return '; no event was recorded';
    const lines = this.#nearest.map(({ wrong, text }) => `\n  another ${wrong.join(', ')}: ${text}`);
    return `; ${this.#count} others were recorded, the nearest first:${lines.join('')}`;
  }
}

function cut(text: string, { shownCharactersMax }: WaitLimits): string {
  return text.length > shownCharactersMax ? `${text.slice(0, shownCharactersMax)}…` : text;
}
