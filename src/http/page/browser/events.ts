/** The view of the events: a stream of new ones, and older ones as the user scrolls to them. */

import { pageLimits } from '../../../config/limits.ts';
import type { Address } from './address.ts';
import { sleep } from './connection.ts';
import { eventBadge, eventDetail } from './event-detail.ts';
import { EventLine, EventStore } from './event-store.ts';
import { kindOf, membersOf, unquote } from './json.ts';
import type { Rows } from './list.ts';
import { Refused, type Service } from './service.ts';
import { type Message, MessageParser, readStream } from './stream.ts';
import { cell, counted, type DetailParts, keyShown, onceFor, shortTime, type View } from './view.ts';

/** What the view tells the page. */
export interface EventsOptions {
  readonly service: Service;
  /** The rows have changed. @param addedBefore how many are new at the top */
  readonly onChange: (addedBefore: number) => void;
  /** An item that was asked for has arrived, or does not exist. */
  readonly onDetail: () => void;
  readonly onNotice: (text: string) => void;
  /** The stream asks for this wait before the next attempt. */
  readonly onRetry: (ms: number) => void;
  readonly open: Rows<unknown>['open'];
}

const NDJSON = { Accept: 'application/x-ndjson' };

/** The newest event is the first row. */
export class EventsView implements View {
  readonly columns = {
    seq: 'seq',
    time: 'time (UTC)',
    what: 'event',
    key: 'asset key',
    partition: 'partition',
    says: 'what it says',
  };
  readonly label = 'Events, newest first';
  readonly rows: Rows<EventLine>;
  readonly #options: EventsOptions;
  readonly #store = new EventStore();
  readonly #detail = onceFor(eventDetail, (event) => event.line);
  #query = '';
  /** The store holds all that match from this seq on; undefined before older ones were asked for. */
  #lowestSeq: number | undefined;
  /** How many seqs below it are asked for: more if few of them match the filter. */
  #olderSeqs = pageLimits.readLimit;
  #isLoadingOlder = false;
  /** An event that a link leads to and that is not in the store. */
  #linked: { readonly id: string; readonly event: EventLine | undefined | 'loading' } = { id: '', event: undefined };
  /** Lines that arrived since the last frame. */
  #pending: string[] = [];
  #frame = 0;
  /** Whether it is known which events there are. */
  #isLoaded = false;

  constructor(options: EventsOptions) {
    this.#options = options;
    const store = this.#store;
    this.rows = {
      get count() {
        return store.matching.length;
      },
      at: (index) => store.matching[store.matching.length - 1 - index] as EventLine,
      idOf: ({ seq }) => String(seq),
      cells,
      open: options.open,
    };
  }

  filter({ text, key_prefix, type, partition, failed }: Address): boolean {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ key_prefix, type, partition }))
      if (value !== '') query.set(name, value);
    if (failed !== '') query.set('passed', 'false');
    const before = this.#query;
    this.#query = query.toString();
    this.#store.search(text);
    if (before === this.#query) return false;
    this.clear();
    return true;
  }

  clear(): void {
    this.#store.clear();
    this.#pending = [];
    this.#lowestSeq = undefined;
    this.#isLoaded = false;
    this.#olderSeqs = pageLimits.readLimit;
    this.#linked = { id: '', event: undefined };
  }

  readonly attempt = async (signal: AbortSignal, live: () => void): Promise<void> => {
    this.#pending = [];
    const last = await this.#lastKnown(signal);
    const { service, onRetry } = this.#options;
    const headers = { Accept: 'text/event-stream', ...(last !== undefined && { 'Last-Event-ID': String(last) }) };
    const begin = last === undefined ? { last: String(pageLimits.readLimit) } : {};
    const reply = await service.ask(this.#path(begin), headers, signal);
    live();
    const parser = new MessageParser();
    const quiet = sleep(300, signal).then(() => this.#loaded(signal)); // nothing has come: there are no events
    if (reply.body !== null) {
      await readStream(
        reply.body,
        parser,
        (messages) => {
          if (parser.retryMs !== undefined) onRetry(parser.retryMs);
          if (!signal.aborted) this.#take(messages, signal);
        },
        pageLimits.quietMsMax,
      );
    }
    await quiet;
  };

  more(): void {
    // A stream begins with as many events as there are, at most `readLimit`.
    if (this.#isLoadingOlder || this.#store.lines.length < pageLimits.readLimit) return;
    this.#isLoadingOlder = true;
    void this.#loadOlder()
      .catch(() => {}) // the connection says what is wrong, and scrolling tries again
      .finally(() => {
        this.#isLoadingOlder = false;
      });
  }

  summary(): string {
    const { lines, matching, isFull } = this.#store;
    if (!this.#isLoaded) return '';
    if (isFull)
      return `the newest ${counted(lines.length, 'event')}${lines.length === matching.length ? '' : `, ${matching.length} with the text`}`;
    if (lines.length !== matching.length) return `${matching.length} of ${counted(lines.length, 'event')}`;
    return counted(lines.length, 'event');
  }

  /** Whether it is known that no event matches. */
  get isEmpty(): boolean {
    return this.#isLoaded && this.#store.lines.length === 0;
  }

  detail(id: string): DetailParts | undefined | 'loading' {
    const held = this.#store.lines.find(({ seq }) => String(seq) === id);
    if (held !== undefined) return this.#detail(held);
    if (!this.#isLoaded) return 'loading';
    if (this.#linked.id !== id) void this.#loadLinked(id);
    const { event } = this.#linked;
    return event instanceof EventLine ? this.#detail(event) : event;
  }

  #path(more: Readonly<Record<string, string>>): string {
    const query = new URLSearchParams(this.#query);
    for (const [name, value] of Object.entries(more)) query.set(name, value);
    return `events?${query}`;
  }

  /** @returns the seq after which the stream resumes; undefined if it begins anew, also because the journal did */
  async #lastKnown(signal: AbortSignal): Promise<number | undefined> {
    const last = this.#store.lines.at(-1);
    if (last === undefined) return undefined;
    const lines = await this.#read({ after_seq: String(last.seq - 1), limit: '1' }, signal);
    if (lines?.[0] === last.line) return last.seq;
    this.#startOver();
    return undefined;
  }

  #startOver(): void {
    this.clear();
    this.#options.onChange(0);
  }

  #take(messages: readonly Message[], signal: AbortSignal): void {
    for (const { event, data } of messages) {
      if (event === 'reset') {
        this.#startOver();
        this.#loaded(signal);
      } else if (event === 'gap') {
        const [first, last] = membersOf(data).map(({ value }) => value);
        this.#options.onNotice(`Retention removed the events ${first} to ${last}.`);
      } else {
        this.#pending.push(data);
      }
    }
    // All that arrives until the next frame is drawn together.
    if (this.#pending.length > 0) this.#frame ||= requestAnimationFrame(() => this.#flush(signal));
  }

  #flush(signal: AbortSignal): void {
    this.#frame = 0;
    if (signal.aborted) return;
    const added = this.#store.add(this.#pending);
    const isFirst = !this.#isLoaded;
    this.#pending = [];
    this.#isLoaded = true;
    this.#options.onChange(isFirst ? 0 : added);
  }

  #loaded(signal: AbortSignal): void {
    if (signal.aborted || this.#isLoaded) return;
    this.#isLoaded = true;
    this.#options.onChange(0);
  }

  /** Asks for ranges of seqs below those that were asked for, until one has an event that matches. */
  async #loadOlder(): Promise<void> {
    const { readLimit } = pageLimits;
    const query = this.#query;
    for (;;) {
      const lowest = this.#lowestSeq ?? this.#store.lines[0]?.seq ?? 0;
      if (lowest <= 1 || this.#store.isFull) return;
      const afterSeq = Math.max(0, lowest - 1 - this.#olderSeqs);
      const limit = String(readLimit);
      const found = await this.#read({ after_seq: String(afterSeq), limit });
      const lines = found ?? (await this.#read({ after_seq: '0', limit })) ?? []; // retention removed a part of the range
      if (query !== this.#query || this.#store.lines.length === 0) return;
      const isCut = lines.length === readLimit && new EventLine(lines.at(-1) ?? '').seq < lowest - 1;
      if (isCut && this.#olderSeqs > readLimit) {
        this.#olderSeqs = readLimit;
        continue;
      }
      this.#lowestSeq = found === undefined ? 1 : afterSeq + 1;
      if (lines.length < readLimit / 4) this.#olderSeqs *= 4;
      this.#store.addOlder(lines);
      if (lines.length === 0) continue;
      this.#options.onChange(0);
      return;
    }
  }

  async #loadLinked(id: string): Promise<void> {
    this.#linked = { id, event: 'loading' };
    const query = new URLSearchParams({ after_seq: String(Number(id) - 1), limit: '1' });
    let event: EventLine | undefined;
    try {
      const reply = await this.#options.service.ask(
        `events?${query}`,
        NDJSON,
        AbortSignal.timeout(pageLimits.quietMsMax),
      );
      const line = new EventLine((await reply.text()).trimEnd());
      if (String(line.seq) === id) event = line;
    } catch {
      event = undefined; // shown as an event that does not exist
    }
    if (this.#linked.id !== id) return;
    this.#linked = { id, event };
    this.#options.onDetail();
  }

  /** @returns lines that match the filter; undefined if retention removed the first of them (410) */
  async #read(
    more: Readonly<Record<string, string>>,
    signal = AbortSignal.timeout(pageLimits.quietMsMax),
  ): Promise<string[] | undefined> {
    try {
      const reply = await this.#options.service.ask(this.#path(more), NDJSON, signal);
      return (await reply.text()).split('\n').slice(0, -1);
    } catch (error) {
      if (error instanceof Refused && error.status === 410) return undefined;
      throw error;
    }
  }
}

function cells(event: EventLine): Node[] {
  const { time, asset_key, partition = '', check_name, tags, description } = event.shown;
  const version = tags?.data_version === undefined ? undefined : `version ${tags.data_version}`;
  const says = [check_name, version, description, preview(event.line)].filter((one) => one !== undefined);
  return [
    cell('seq', String(event.seq)),
    cell('time', shortTime(time)),
    cell('what', eventBadge(event)),
    cell('key', keyShown(asset_key)),
    cell('partition', partition),
    cell('says', says.join(' · ')),
  ];
}

/** @returns the first members of the metadata: `rows 12`; undefined without any, or if finding them would take long */
function preview(line: string): string | undefined {
  if (line.length > pageLimits.previewedCharactersMax) return undefined;
  const metadata = membersOf(line).find(({ name }) => name === 'metadata')?.value ?? '{}';
  const members = membersOf(metadata).slice(0, 8);
  if (members.length === 0) return undefined;
  return members.map(({ name, value }) => `${name} ${kindOf(value) === 'string' ? unquote(value) : value}`).join(', ');
}
