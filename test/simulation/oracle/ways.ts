/** What a hub did with events that can come to it by several ways. */

import type { Reply } from '../../../src/http/message.ts';
import type { Delivered } from '../../world/network.ts';
import type { WayState } from '../runner/expected.ts';
import { type JournalView, nameOf, type SeenLine } from './journal-view.ts';
import { headerOf, senderOf } from './sent.ts';

type SentLine = Pick<SeenLine, 'seq' | 'from' | 'origin'>;

export class Ways {
  /** The lines of senders that the hub has answered with 200: `<source>,<seq>`. */
  readonly #answered = new Set<string>();
  /** The journals some of whose lines the hub has left out. */
  readonly leftOut = new Set<string>();
  /** The lines that their journal has called lost. */
  readonly #lost = new Set<string>();
  /** By the id of a journal: its last line that is here. */
  readonly #last = new Map<string, number>();

  /** @param view has what is durable now @returns what became of the lines of a request */
  replied(view: JournalView, request: Delivered, reply: Reply): WayState[] {
    const { method, body } = request;
    const source = senderOf(request);
    if (source === undefined || method !== 'PUT' || reply.status !== 200) return [];
    const [, first, last] = /^(\d+)-(\d+)$/.exec(headerOf(request, 'Assetlog-Lost') ?? '') ?? [];
    for (let seq = Number(first); seq <= Number(last); seq += 1) this.#lost.add(`${source},${seq}`);
    const lines: readonly SentLine[] = body
      .toString()
      .trimEnd()
      .split('\n')
      .map((text) => JSON.parse(text));
    return [...new Set(lines.flatMap((line) => this.#met(view, source, line)))];
  }

  #met(view: JournalView, source: string, line: SentLine): WayState | [] {
    const own = `${source},${line.seq}`;
    if (this.#answered.has(own)) return [];
    this.#answered.add(own);
    if (!view.byOrigin.has(own)) {
      this.leftOut.add(source);
      return 'hub left out';
    }
    const [journal, seq] = nameOf(line) ?? [source, line.seq];
    const last = this.#last.get(journal) ?? 0;
    this.#last.set(journal, Math.max(last, seq));
    if (journal !== source && seq > last + 1) return 'hub later part first';
    return this.#lost.has(`${journal},${seq}`) ? 'hub lost filled' : [];
  }
}
