/** The view of the events: a stream of new events, and older events when the user scrolls to them. */

import { pageLimits } from '../../../config/limits.ts';
import { deviceOf } from '../../../event/line-name.ts';
import { jsonKind, jsonMembers, unquote } from '../../../history/json-text.ts';
import type { Address } from './address.ts';
import { abortedWith, sleep } from './connection.ts';
import { eventBadge, eventDetail } from './event-detail.ts';
import { EventLine, EventStore } from './event-store.ts';
import type { Rows } from './list.ts';
import { RefusedError, type Service } from './service.ts';
import { type Message, MessageParser, readStream } from './stream.ts';
import { cell, counted, type DetailParts, memoizeLast, renderKey, shortTime, type View } from './view.ts';

export interface EventsOptions {
  readonly service: Service;
  /** Called after the rows have changed. @param addedBefore number of new rows at the top */
  readonly onChange: (addedBefore: number) => void;
  /** Called after a linked event has arrived, or turns out not to exist. */
  readonly onDetail: () => void;
  /** Whether the last rows are in sight. */
  readonly wantsMore: () => boolean;
  readonly onNotice: (text: string) => void;
  /** Called with the wait before the next attempt that the stream requests. */
  readonly onRetry: (ms: number) => void;
  readonly open: Rows<unknown>['open'];
}

const NDJSON = { Accept: 'application/x-ndjson' };

export class EventsView implements View {
  readonly columns = {
    seq: 'seq',
    time: 'time (UTC)',
    what: 'event',
    key: 'asset key',
    partition: 'partition',
    device: 'source',
    says: 'what it says',
  };
  readonly label = 'Events, newest first';
  readonly rows: Rows<EventLine>;
  /** The names of the journals that forward to a hub, by id. */
  names: ReadonlyMap<string, string> = new Map();
  readonly #options: EventsOptions;
  readonly #store = new EventStore();
  readonly #detail = memoizeLast(eventDetail, (event) => event.line);
  #query = '';
  #text = '';
  /** The seq of the first event of the journal; undefined if unknown. */
  #firstSeq: number | undefined;
  /** Number of seqs to read with one request. It is larger if few events match the filter. */
  #olderSeqs = pageLimits.readLimit;
  /** Aborts the current read of older events; undefined if there is none. */
  #reading: AbortController | undefined;
  /** Whether the user has stopped the search. */
  #isStopped = false;
  /** The signal of the attempt. */
  #signal = AbortSignal.abort();
  /** An event in the address that is not in the store. */
  #linked: { readonly id: string; readonly event: EventLine | undefined | 'loading' } = { id: '', event: undefined };
  /** Lines that arrived since the last frame. */
  #pending: string[] = [];
  #frame = 0;
  /** Whether the first events have arrived, or there are none. */
  #isLoaded = false;
  /** Whether all events that existed at the start of the stream have arrived. */
  #isSettled = false;

  constructor(options: EventsOptions) {
    this.#options = options;
    const store = this.#store;
    this.rows = {
      get count() {
        return store.matching.length;
      },
      at: (index) => store.matching[store.matching.length - 1 - index] as EventLine,
      idOf: ({ seq }) => String(seq),
      cells: (event) => this.#cells(event),
      open: options.open,
    };
  }

  filter({ text, key_prefix, type, partition, source, failed }: Address): boolean {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ key_begins_with: key_prefix, type, partition, source }))
      if (value !== '') query.set(name, value);
    if (failed !== '') query.set('passed', 'false');
    const before = this.#query;
    this.#query = query.toString();
    if (before === this.#query && text === this.#text) return false;
    this.#text = text;
    this.#store.search(text);
    this.#stopReading();
    this.#isStopped = false;
    this.#olderSeqs = pageLimits.readLimit;
    if (before === this.#query) return false;
    this.clear();
    return true;
  }

  clear(): void {
    this.#store.clear();
    this.#pending = [];
    this.#stopReading();
    this.#isStopped = false;
    this.#olderSeqs = pageLimits.readLimit;
    this.#firstSeq = undefined;
    this.#isLoaded = false;
    this.#isSettled = false;
    this.#linked = { id: '', event: undefined };
  }

  readonly attempt = async (signal: AbortSignal, live: () => void): Promise<void> => {
    this.#pending = [];
    this.#signal = signal;
    this.#stopReading();
    const last = await this.#lastKnown(signal);
    const { service, onRetry } = this.#options;
    const headers = { Accept: 'text/event-stream', ...(last !== undefined && { 'Last-Event-ID': String(last) }) };
    const start = last === undefined ? { last: String(pageLimits.readLimit) } : {};
    const reply = await service.ask(this.#path(start), headers, signal);
    live();
    if (this.#options.wantsMore()) this.more();
    const parser = new MessageParser();
    const quiet = sleep(300, signal).then(async () => {
      if (signal.aborted) return;
      this.#settle();
      await this.#findFirst(signal).catch(() => {}); // the number of events is not shown
    });
    if (reply.body !== null) {
      await readStream(
        reply.body,
        parser,
        (messages) => {
          if (parser.retryMs !== undefined) onRetry(parser.retryMs);
          if (!signal.aborted) this.#handle(messages, signal);
        },
        pageLimits.quietMsMax,
      );
    }
    await quiet;
  };

  more(): void {
    if (this.#reading !== undefined || this.#isStopped || this.#isComplete || this.#store.isFull) return;
    if (this.#signal.aborted) return;
    const reading = abortedWith(this.#signal);
    this.#reading = reading;
    this.#options.onChange(0);
    void this.#readOlder(reading.signal).then(() => {
      if (this.#reading !== reading) return;
      this.#reading = undefined;
      this.#options.onChange(0);
    });
  }

  summary(): string {
    if (!this.#isLoaded) return '';
    const { lines, matching, isFull, hasAll, lowestSeq } = this.#store;
    const isSearch = this.#text !== '';
    const found = isSearch ? `${isFull ? 'the newest ' : ''}${counted(matching.length)} found` : '';
    const isCounted = !isSearch || hasAll; // otherwise the service knows how many events match the other filters
    if (!isCounted && this.#query !== '') return this.#isComplete ? found : `${found} from seq ${lowestSeq} on`;
    const before = isSearch ? `${found} in ` : '';
    const lastSeq = lines.at(-1)?.seq ?? 0;
    const seen = isCounted ? lines.length : lastSeq - Math.max(lowestSeq, this.#firstSeq ?? 1) + 1;
    if (this.#isComplete) return `${before}${counted(seen, 'event')}`;
    if (this.#query !== '') return `${before}the newest ${counted(seen, 'event')}, from seq ${lowestSeq} on`;
    const all = this.#firstSeq === undefined ? '' : ` of ${counted(lastSeq - this.#firstSeq + 1)}`;
    return `${before}the newest ${counted(seen)}${all} events`;
  }

  get searching(): boolean | undefined {
    if (this.#text === '' || !this.#isLoaded || this.#isComplete || this.#store.isFull) return undefined;
    return this.#reading !== undefined;
  }

  toggleSearch(): void {
    const isStopped = this.#reading !== undefined;
    this.#stopReading();
    this.#isStopped = isStopped;
    this.more();
    this.#options.onChange(0);
  }

  /** Whether certainly no event matches. */
  get isEmpty(): boolean {
    const { lines, matching } = this.#store;
    if (!this.#isLoaded || matching.length > 0) return false;
    return lines.length === 0 || (this.#isSettled && this.#isComplete);
  }

  detail(id: string): DetailParts | undefined | 'loading' {
    const { lines, matching } = this.#store;
    const held = [matching, lines].flatMap((all) => all.find(({ seq }) => String(seq) === id) ?? []).at(0);
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

  /**
   * @returns the seq after which the stream resumes; undefined if it starts from the beginning, for example because the
   * journal was reset
   */
  async #lastKnown(signal: AbortSignal): Promise<number | undefined> {
    const last = this.#store.lines.at(-1);
    if (last === undefined) return undefined;
    const lines = await this.#read({ after_seq: String(last.seq - 1), limit: '1' }, signal);
    if (lines?.[0] === last.line) return last.seq;
    this.clear();
    this.#options.onChange(0);
    return undefined;
  }

  #handle(messages: readonly Message[], signal: AbortSignal): void {
    for (const { event, data } of messages) {
      if (event === 'reset') {
        this.clear();
        this.#settle();
      } else if (event === 'gap') {
        const [first, last] = jsonMembers(data).map(({ value }) => value);
        this.#options.onNotice(`Retention removed the events ${first} to ${last}.`);
      } else {
        this.#pending.push(data);
      }
    }
    // All events until the next frame are drawn together.
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

  /** Called when the stream has sent the existing events, or there are none. */
  #settle(): void {
    this.#isSettled = true;
    this.#isLoaded = true;
    this.#options.onChange(0);
  }

  #stopReading(): void {
    this.#reading?.abort();
    this.#reading = undefined;
  }

  /** Whether all events of the journal were read. */
  get #isComplete(): boolean {
    return this.#store.hasAll || this.#store.lowestSeq <= (this.#firstSeq ?? 1);
  }

  /** Reads older events, a range of seqs at a time, until the visible rows are filled. Never rejects. */
  async #readOlder(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#store.isFull && !this.#isComplete) {
      try {
        if (this.#firstSeq === undefined) await this.#findFirst(signal);
        const added = await this.#readRange(signal);
        if (signal.aborted) return;
        this.#options.onChange(0);
        if (added > 0 && !this.#options.wantsMore()) return;
      } catch (error) {
        if (signal.aborted) return;
        const pauseMs = pauseAfter(error);
        if (pauseMs === undefined) {
          this.#isStopped = true; // the connection shows the error
          return;
        }
        await sleep(pauseMs, signal);
      }
    }
  }

  /** Reads the next older range of seqs; during a search, only the matches in it. @returns the number of events to show */
  async #readRange(signal: AbortSignal): Promise<number> {
    const { readLimit } = pageLimits;
    const { lowestSeq } = this.#store;
    const afterSeq = Math.max(0, lowestSeq - 1 - this.#olderSeqs);
    const contains = this.#text === '' ? {} : { contains: this.#text };
    const read = (after: number) =>
      this.#read({ after_seq: String(after), limit: String(readLimit), ...contains }, signal);
    const lastSeqOf = (lines: readonly string[]) => new EventLine(lines.at(-1) ?? '').seq;
    let found = await read(afterSeq);
    // If retention removes events during a reply, the reply ends early and the next request is refused.
    const isShort = found !== undefined && found.length < readLimit && lastSeqOf(found) < lowestSeq - 1;
    if (isShort && afterSeq > 0) {
      const first = await this.#read({ after_seq: String(afterSeq), limit: '1' }, signal);
      if (first === undefined) found = undefined;
    }
    const lines = found ?? (await read(0)) ?? []; // after a removal in this range
    if (signal.aborted) return 0;
    const isCut = lines.length === readLimit && lastSeqOf(lines) < lowestSeq - 1;
    if (isCut && this.#olderSeqs > readLimit) {
      this.#olderSeqs = readLimit;
      return 0;
    }
    if (lines.length < readLimit / 4) this.#olderSeqs *= 4;
    return this.#store.addOlder(lines, found === undefined ? 1 : afterSeq + 1);
  }

  /** Reads the first event of the journal, for the total number of events. */
  async #findFirst(signal: AbortSignal): Promise<void> {
    if (this.#query !== '' || this.#store.hasAll) return;
    const [first] = (await this.#read({ after_seq: '0', limit: '1' }, signal)) ?? [];
    if (first === undefined || signal.aborted) return;
    this.#firstSeq = new EventLine(first).seq;
    this.#options.onChange(0);
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
  async #read(more: Readonly<Record<string, string>>, signal: AbortSignal): Promise<string[] | undefined> {
    try {
      const reply = await this.#options.service.ask(this.#path(more), NDJSON, signal);
      return (await reply.text()).split('\n').slice(0, -1);
    } catch (error) {
      if (error instanceof RefusedError && error.status === 410) return undefined;
      throw error;
    }
  }

  #cells(event: EventLine): Node[] {
    const { time, asset_key, partition = '', check_name, tags, description, by } = event.shown;
    const source = deviceOf(event.shown) ?? '';
    const version = tags?.data_version === undefined ? undefined : `version ${tags.data_version}`;
    const says = [check_name, version, description, by && `by ${by}`, preview(event.line)].filter(
      (one) => one !== undefined,
    );
    return [
      cell('seq', String(event.seq)),
      cell('time', shortTime(time)),
      cell('what', eventBadge(event)),
      cell('key', renderKey(asset_key)),
      cell('partition', partition),
      cell('device', this.names.get(source) ?? source),
      cell('says', says.join(' · ')),
    ];
  }
}

/**
 * @returns the first members of the metadata: `rows 12`; undefined if there is none, or if the line is longer than
 * `previewedCharactersMax`
 */
function preview(line: string): string | undefined {
  if (line.length > pageLimits.previewedCharactersMax) return undefined;
  const metadata = jsonMembers(line).find(({ name }) => name === 'metadata')?.value ?? '{}';
  const members = jsonMembers(metadata).slice(0, 8);
  if (members.length === 0) return undefined;
  return members
    .map(({ name, value }) => `${name} ${jsonKind(value) === 'string' ? unquote(value) : value}`)
    .join(', ');
}

/** @returns how long to wait before the same request; undefined if it would be refused again */
function pauseAfter(error: unknown): number | undefined {
  const { status = 503, retryAfterMs = 0 } = error instanceof RefusedError ? error : {};
  return status < 500 && status !== 429 ? undefined : Math.max(pageLimits.pollMs, retryAfterMs);
}
