/** The view of the events: a stream of new ones, and older ones as the user scrolls to them. */

import { pageLimits } from '../../../config/limits.ts';
import type { Address } from './address.ts';
import { sleep } from './connection.ts';
import { eventBadge, eventDetail } from './event-detail.ts';
import { EventLine, EventStore } from './event-store.ts';
import { kindOf, membersOf, unquote } from './json.ts';
import type { Rows } from './list.ts';
import { RefusedError, type Service } from './service.ts';
import { type Message, MessageParser, readStream } from './stream.ts';
import { cell, counted, type DetailParts, keyShown, onceFor, shortTime, type View } from './view.ts';

/** What the view needs of the page. */
export interface EventsOptions {
  readonly service: Service;
  /** The rows have changed. @param addedBefore how many are new at the top */
  readonly onChange: (addedBefore: number) => void;
  /** An item that was asked for has arrived, or does not exist. */
  readonly onDetail: () => void;
  /** Whether the last rows are in sight. */
  readonly wantsMore: () => boolean;
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
    device: 'source',
    says: 'what it says',
  };
  readonly label = 'Events, newest first';
  readonly rows: Rows<EventLine>;
  /** The names of the journals that forward to a hub, by their ids. */
  names: ReadonlyMap<string, string> = new Map();
  readonly #options: EventsOptions;
  readonly #store = new EventStore();
  readonly #detail = onceFor(eventDetail, (event) => event.line);
  #query = '';
  #text = '';
  /** The seq of the first event of the journal; undefined if it is not known. */
  #firstSeq: number | undefined;
  /** How many seqs are looked at with one request: more if few of them match the filter. */
  #olderSeqs = pageLimits.readLimit;
  /** Ends what looks at older events; undefined if nothing does. */
  #looking: AbortController | undefined;
  /** Whether the user has stopped the search. */
  #isStopped = false;
  /** Of the attempt. */
  #signal = AbortSignal.abort();
  /** An event that a link leads to and that is not in the store. */
  #linked: { readonly id: string; readonly event: EventLine | undefined | 'loading' } = { id: '', event: undefined };
  /** Lines that arrived since the last frame. */
  #pending: string[] = [];
  #frame = 0;
  /** Whether it is known which events there are. */
  #isLoaded = false;
  /** Whether all that the stream began with has arrived. */
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
    this.#stopLooking();
    this.#isStopped = false;
    if (before === this.#query) return false;
    this.clear();
    return true;
  }

  clear(): void {
    this.#store.clear();
    this.#pending = [];
    this.#stopLooking();
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
    this.#stopLooking();
    const last = await this.#lastKnown(signal);
    const { service, onRetry } = this.#options;
    const headers = { Accept: 'text/event-stream', ...(last !== undefined && { 'Last-Event-ID': String(last) }) };
    const begin = last === undefined ? { last: String(pageLimits.readLimit) } : {};
    const reply = await service.ask(this.#path(begin), headers, signal);
    live();
    if (this.#options.wantsMore()) this.more();
    const parser = new MessageParser();
    const quiet = sleep(300, signal).then(async () => {
      if (signal.aborted) return;
      this.#settle();
      await this.#findFirst(signal).catch(() => {}); // how many events there are is not shown
    });
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
    if (this.#looking !== undefined || this.#isStopped || this.#isComplete || this.#store.isFull) return;
    if (this.#signal.aborted) return;
    const looking = new AbortController();
    this.#looking = looking;
    this.#signal.addEventListener('abort', () => looking.abort(), { once: true });
    this.#options.onChange(0);
    void this.#lookFurther(looking.signal).then(() => {
      if (this.#looking !== looking) return;
      this.#looking = undefined;
      this.#options.onChange(0);
    });
  }

  summary(): string {
    if (!this.#isLoaded) return '';
    const { lines, matching, isFull, lookedAt, lowestSeq } = this.#store;
    const found = this.#text === '' ? '' : `${isFull ? 'the newest ' : ''}${counted(matching.length)} found in `;
    if (this.#isComplete) return `${found}${counted(lookedAt, 'event')}`;
    if (this.#query !== '') return `${found}the newest ${counted(lookedAt, 'event')}, from seq ${lowestSeq} on`;
    const all = this.#firstSeq === undefined ? '' : ` of ${counted((lines.at(-1)?.seq ?? 0) - this.#firstSeq + 1)}`;
    return `${found}the newest ${counted(lookedAt)}${all} events`;
  }

  get searching(): boolean | undefined {
    if (this.#text === '' || !this.#isLoaded || this.#isComplete || this.#store.isFull) return undefined;
    return this.#looking !== undefined;
  }

  toggleSearch(): void {
    const isStopped = this.#looking !== undefined;
    this.#stopLooking();
    this.#isStopped = isStopped;
    this.more();
    this.#options.onChange(0);
  }

  /** Whether it is known that no event matches. */
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

  /** @returns the seq after which the stream resumes; undefined if it begins anew, also because the journal did */
  async #lastKnown(signal: AbortSignal): Promise<number | undefined> {
    const last = this.#store.lines.at(-1);
    if (last === undefined) return undefined;
    const lines = await this.#read({ after_seq: String(last.seq - 1), limit: '1' }, signal);
    if (lines?.[0] === last.line) return last.seq;
    this.clear();
    this.#options.onChange(0);
    return undefined;
  }

  #take(messages: readonly Message[], signal: AbortSignal): void {
    for (const { event, data } of messages) {
      if (event === 'reset') {
        this.clear();
        this.#settle();
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

  /** What the stream begins with has arrived; if that is nothing, there are no events. */
  #settle(): void {
    this.#isSettled = true;
    this.#isLoaded = true;
    this.#options.onChange(0);
  }

  #stopLooking(): void {
    this.#looking?.abort();
    this.#looking = undefined;
  }

  /** Whether all events that there are were looked at. */
  get #isComplete(): boolean {
    return this.#store.hasAll || this.#store.lowestSeq <= (this.#firstSeq ?? 1);
  }

  /** Looks at older events, a range of seqs at a time, until the rows in sight are filled. Never rejects. */
  async #lookFurther(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#store.isFull && !this.#isComplete) {
      try {
        if (this.#firstSeq === undefined) await this.#findFirst(signal);
        const added = await this.#lookAtRange(signal);
        if (signal.aborted) return;
        this.#options.onChange(0);
        if (added > 0 && !this.#options.wantsMore()) return;
      } catch (error) {
        if (signal.aborted) return;
        const { status = 503, retryAfterMs = 0 } = error instanceof RefusedError ? error : {};
        if (status < 500 && status !== 429) {
          this.#isStopped = true; // the connection says what is wrong
          return;
        }
        await sleep(Math.max(pageLimits.pollMs, retryAfterMs), signal);
      }
    }
  }

  /** @returns how many of the events are to be shown */
  async #lookAtRange(signal: AbortSignal): Promise<number> {
    const { readLimit } = pageLimits;
    const { lowestSeq } = this.#store;
    const afterSeq = Math.max(0, lowestSeq - 1 - this.#olderSeqs);
    const read = (after: number, limit: number) =>
      this.#read({ after_seq: String(after), limit: String(limit) }, signal);
    const lastSeqOf = (lines: readonly string[]) => new EventLine(lines.at(-1) ?? '').seq;
    let found = await read(afterSeq, readLimit);
    // A reply ends before events that retention removes while it is read, and the next request is refused.
    const mayEndEarly = found !== undefined && found.length < readLimit && lastSeqOf(found) < lowestSeq - 1;
    if (mayEndEarly && afterSeq > 0 && (await read(afterSeq, 1)) === undefined) found = undefined;
    const lines = found ?? (await read(0, readLimit)) ?? []; // retention removed a part of the range
    if (signal.aborted) return 0;
    const isCut = lines.length === readLimit && lastSeqOf(lines) < lowestSeq - 1;
    if (isCut && this.#olderSeqs > readLimit) {
      this.#olderSeqs = readLimit;
      return 0;
    }
    if (lines.length < readLimit / 4) this.#olderSeqs *= 4;
    return this.#store.addOlder(lines, found === undefined ? 1 : afterSeq + 1);
  }

  /** Asks for the first event that there is, so that it is known how many there are. */
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
    const { time, asset_key, partition = '', from: [source = ''] = [], check_name, tags, description } = event.shown;
    const version = tags?.data_version === undefined ? undefined : `version ${tags.data_version}`;
    const says = [check_name, version, description, preview(event.line)].filter((one) => one !== undefined);
    return [
      cell('seq', String(event.seq)),
      cell('time', shortTime(time)),
      cell('what', eventBadge(event)),
      cell('key', keyShown(asset_key)),
      cell('partition', partition),
      cell('device', this.names.get(source) ?? source),
      cell('says', says.join(' · ')),
    ];
  }
}

/** @returns the first members of the metadata: `rows 12`; undefined without any, or if finding them would take long */
function preview(line: string): string | undefined {
  if (line.length > pageLimits.previewedCharactersMax) return undefined;
  const metadata = membersOf(line).find(({ name }) => name === 'metadata')?.value ?? '{}';
  const members = membersOf(metadata).slice(0, 8);
  if (members.length === 0) return undefined;
  return members.map(({ name, value }) => `${name} ${kindOf(value) === 'string' ? unquote(value) : value}`).join(', ');
}
