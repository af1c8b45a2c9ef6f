/**
 * The open asset: its state, and how its newest events developed over time. Nothing is read before the asset is opened.
 */

import { historyLimits, pageLimits } from '../../../config/limits.ts';
import { keyText, readKey, startsWith } from '../../../event/asset-key.ts';
import { checkSeriesOf, daysOf, History, numbersOf } from '../../../history/history.ts';
import { holdsText, shownText } from '../../../history/words.ts';
import { addressOf, hashOf } from './address.ts';
import { type Asset, checkState, latestOfKinds } from './assets.ts';
import { abortedWith, sleep } from './connection.ts';
import { button, type Content, element } from './dom.ts';
import { drawCheck, drawDays, drawNumber, Plot } from './plots.ts';
import { RefusedError, type Service } from './service.ts';
import { MessageParser, readStream } from './stream.ts';
import { counted, type DetailParts, renderAge, renderKey, renderTime, table } from './view.ts';

/** The details of an open asset, which keep their elements while events arrive. */
export class AssetPane {
  readonly #service: Service;
  /** The signal of the view's attempt. */
  #signal = AbortSignal.abort();
  #open: OpenAsset | undefined;

  constructor(service: Service) {
    this.#service = service;
  }

  /** @returns the same details as long as the asset is open */
  show(asset: Asset): DetailParts {
    const id = JSON.stringify(asset.asset_key);
    if (this.#open?.id !== id) {
      this.close();
      this.#open = new OpenAsset(this.#service, id, asset);
      this.#open.start(this.#signal);
    }
    this.#open.update(asset);
    return this.#open.parts;
  }

  /** Reads until the signal aborts or another asset is opened. */
  resume(signal: AbortSignal): void {
    this.#signal = signal;
    this.#open?.start(signal);
  }

  close(): void {
    this.#open?.stop();
    this.#open = undefined;
  }
}

class OpenAsset {
  readonly id: string;
  readonly parts: DetailParts;
  readonly #service: Service;
  readonly #state = element('div');
  readonly #watched = element('div');
  readonly #status = element('p', { role: 'status' });
  readonly #partition = element('select', { name: 'of-partition' });
  readonly #checks = element('div');
  readonly #days = new Plot(openEvent);
  readonly #numbers = element('div');
  readonly #more = element('select', { name: 'more-numbers', 'aria-label': 'Show another number' });
  /** By the kind and the name of their subject. */
  readonly #plots = new Map<string, Plot>();
  /** The checks for which all results are shown. */
  readonly #whole = new Set<string>();
  /** The numbers that the user requested. */
  readonly #asked = new Set<string>();
  #asset: Asset;
  #json = '';
  #history = new History();
  /** `READING`; `READ` after the newest events were read; or why they cannot be read. */
  #reading = READING;
  #stop = new AbortController();
  #frame = 0;

  constructor(service: Service, id: string, asset: Asset) {
    this.#service = service;
    this.id = id;
    this.#asset = asset;
    const { asset_key } = asset;
    const events = hashOf(addressOf('events', { key_prefix: keyText([...asset_key, '']) }));
    const link = element('p', {}, element('a', { href: events }, 'Events of this asset'));
    const filter = element('label', {}, 'Partition ', this.#partition);
    this.#partition.addEventListener('change', () => this.#draw());
    this.#more.addEventListener('change', () => {
      this.#asked.add(this.#more.value);
      this.#draw();
    });
    const titled = (text: string) => element('h3', {}, text);
    this.parts = {
      title: renderKey(asset_key),
      content: [
        ...[link, this.#state, this.#watched, element('div', { class: 'over-time' }, filter, this.#status)],
        ...[titled('Checks'), this.#checks, titled('Materializations by day'), this.#days.element],
        ...[titled('Numbers'), this.#numbers, this.#more],
      ],
    };
  }

  update(asset: Asset): void {
    const json = JSON.stringify(asset);
    if (json === this.#json) return;
    this.#json = json;
    this.#asset = asset;
    this.#state.replaceChildren(...latestOfKinds(asset));
    this.#draw();
  }

  start(signal: AbortSignal): void {
    this.stop();
    if (signal.aborted) return;
    this.#stop = abortedWith(signal);
    void this.#read(this.#stop.signal);
    void this.#watch(this.#stop.signal);
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Reads and follows the events, again after a failure. Never rejects. */
  async #read(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const attempt = abortedWith(signal);
      try {
        const history = new History();
        const { materialization, observation, check } = this.#asset;
        const newest = Math.max(...[materialization, observation, check].map((kind) => kind?.seq ?? 0));
        await Promise.all([
          this.#readOlder(history, newest, attempt.signal),
          this.#follow(history, newest, attempt.signal),
        ]);
      } catch (error) {
        attempt.abort();
        if (signal.aborted) return;
        const { status = 503, message } = error instanceof RefusedError ? error : {};
        if (status < 500 && status !== 429) {
          this.#take(this.#history, `Its events cannot be read: ${message}`);
          return;
        }
      }
      await sleep(pageLimits.pollMs, signal);
    }
  }

  /** Reads the newest events up to a seq, backwards in growing ranges of the journal, so that something is shown soon. */
  async #readOlder(history: History, newestSeq: number, signal: AbortSignal): Promise<void> {
    let until = newestSeq;
    for (let range = FIRST_RANGE; !history.isFull && until > 0; range *= 16) {
      const after = Math.max(0, until - range);
      const lines = await this.#lines(after, until, signal);
      history.add(lines ?? (await this.#lines(0, until, signal)) ?? []);
      until = lines === undefined ? 0 : after;
      this.#take(history, until === 0 || history.isFull ? READ : READING);
    }
  }

  /** @returns lines of the asset in a range of seqs; undefined if retention removed the first of the range */
  async #lines(after: number, until: number, signal: AbortSignal): Promise<string[] | undefined> {
    const range = { ...(after > 0 && { after_seq: String(after) }), until_seq: String(until) };
    try {
      const path = this.#path({ ...range, last: String(historyLimits.events) });
      const reply = await this.#service.ask(path, { Accept: 'application/x-ndjson' }, signal);
      return (await reply.text()).split('\n').slice(0, -1);
    } catch (error) {
      if (after > 0 && error instanceof RefusedError && error.status === 410) return undefined;
      throw error;
    }
  }

  /** Adds new events, until the stream ends or the journal is reset. */
  async #follow(history: History, afterSeq: number, signal: AbortSignal): Promise<void> {
    const path = this.#path({ after_seq: String(afterSeq) });
    const { body } = await this.#service.ask(path, { Accept: 'text/event-stream' }, signal);
    if (body === null) return;
    await readStream(
      body,
      new MessageParser(),
      (messages) => {
        if (messages.some(({ event }) => event === 'reset')) throw new Error('the journal starts again');
        history.add(messages.filter(({ event }) => event !== 'gap').map(({ data }) => data));
        if (history === this.#history) this.#frame ||= requestAnimationFrame(() => this.#draw());
      },
      pageLimits.quietMsMax,
    );
  }

  #path(more: Readonly<Record<string, string>>): string {
    return `events?${new URLSearchParams({ key: this.id, ...more })}`;
  }

  /** Shows the age of the watched events, if the asset is watched. Never rejects. */
  async #watch(signal: AbortSignal): Promise<void> {
    for (let isWatched = true; isWatched && !signal.aborted; await sleep(pageLimits.pollMs, signal)) {
      const metrics = await this.#service.text('metrics', signal).catch(() => '');
      if (signal.aborted) return;
      const rows: [string, Content][] = [];
      for (const [, text = '', seconds] of metrics.matchAll(WATCHED)) {
        const key = text.replace(/\\(.)/g, '$1');
        if (!startsWith(this.#asset.asset_key, [...readKey([key]), ''])) continue;
        const since = new Date(Date.now() - 1_000 * Number(seconds));
        const age =
          seconds === '+Inf' ? 'unknown' : element('span', {}, 'stalest asset: ', renderAge(since.toISOString()));
        rows.push([`--watch-asset ${key}`, age]);
      }
      const { alive } = this.#asset;
      if (rows.length > 0 && alive !== undefined) rows.unshift(['last event', renderTime(alive)]);
      this.#watched.replaceChildren(...(rows.length === 0 ? [] : [table(rows)]));
      isWatched = rows.length > 0;
    }
  }

  #take(history: History, reading: string): void {
    this.#history = history;
    this.#reading = reading;
    this.#draw();
  }

  #draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const { events } = this.#history;
    this.#fillPartitions();
    const { value } = this.#partition;
    const chosen = value === ALL ? events : events.filter(({ partition }) => partition === value.slice(1));
    const isAll = this.#reading === READ;
    const found = counted(events.length, 'event');
    const status = isAll
      ? `${this.#history.isFull ? 'The newest ' : ''}${found}`
      : `Looking for older events; ${found} so far`;
    this.#status.textContent = isAll || this.#reading === READING ? status : this.#reading;
    const hasAll = isAll && !this.#history.isFull;
    const days = daysOf(chosen, Date.now(), this.#history.knownFromMs(hasAll));
    this.#days.draw(days.map(({ date, count, isKnown }) => `${date} ${count} ${isKnown}`).join(), () => drawDays(days));
    this.#drawChecks(chosen, hasAll, value === ALL);
    this.#drawNumbers(chosen);
  }

  #drawChecks(events: History['events'], hasAll: boolean, isState: boolean): void {
    const series = new Map(checkSeriesOf(events).map((one) => [one.name, one]));
    const states = new Map(this.#asset.checks.map((one) => [one.check_name, one]));
    const names = [...new Set([...states.keys(), ...series.keys()])];
    const shown = names.map((name) => {
      const plot = this.#plotOf('check', name);
      const [one, state] = [series.get(name), states.get(name)];
      const holds = one === undefined ? 'no results' : holdsText(one, hasAll);
      const caption: Content[] = [element('b', {}, shownText(name)), ' '];
      if (isState && state) caption.push(checkState(state));
      // With partitions, or after many other events, only one of them knows it.
      if (!isState || state?.since === undefined) caption.push(` ${holds}`);
      const results =
        one === undefined ? [] : this.#whole.has(name) ? one.results : one.results.slice(-historyLimits.results);
      if (one !== undefined && results.length < one.results.length) {
        const all = () => {
          this.#whole.add(name);
          this.#draw();
        };
        caption.push(' ', button(`Show ${one.results.length} results`, all));
      }
      plot.setCaption(`${JSON.stringify(state)} ${holds} ${results.length} ${isState}`, caption);
      plot.element.classList.toggle('empty', one === undefined);
      if (one !== undefined)
        plot.draw(`${holds} ${results.map(({ seq }) => seq)}`, () => drawCheck(one, results, hasAll));
      return plot.element;
    });
    place(this.#checks, shown.length === 0 ? [element('p', {}, 'none')] : shown);
  }

  #drawNumbers(events: History['events']): void {
    const all = numbersOf(events);
    const shown = all.filter(({ name }, index) => index < historyLimits.numbers || this.#asked.has(name));
    const plots = shown.map((series) => {
      const { name, points, last, lowest, highest } = series;
      const plot = this.#plotOf('number', name);
      const key = points.map(({ event }) => event.seq).join();
      const extent = `${shownText(last)}, lowest ${shownText(lowest)}, highest ${shownText(highest)}`;
      plot.setCaption(key, [element('b', {}, shownText(name)), ` ${extent}`]);
      plot.draw(key, () => drawNumber(series));
      return plot.element;
    });
    place(this.#numbers, plots.length === 0 ? [element('p', {}, 'none')] : plots);
    const rest = all.filter((series) => !shown.includes(series)).map(({ name }) => name);
    this.#more.hidden = rest.length === 0;
    fill(this.#more, ['', ...rest], (name) => (name === '' ? `Show another of ${rest.length} numbers` : name));
  }

  #plotOf(kind: string, name: string): Plot {
    const plot = this.#plots.get(`${kind} ${name}`) ?? new Plot(openEvent);
    this.#plots.set(`${kind} ${name}`, plot);
    return plot;
  }

  #fillPartitions(): void {
    const names = [...new Set(this.#history.events.flatMap(({ partition = [] }) => partition))].sort();
    fill(this.#partition, [ALL, ...names.map((name) => ` ${name}`)], (value) =>
      value === ALL ? 'all' : value.slice(1),
    );
  }
}

/** The back button of the browser returns to the asset. */
function openEvent(seq: number): void {
  location.hash = hashOf(addressOf('events', { open: String(seq) }));
}

/** Puts elements in order into their parent, without moving elements that are already in order. */
function place(parent: Element, wanted: readonly Element[]): void {
  for (const [index, one] of wanted.entries())
    if (parent.children[index] !== one) parent.insertBefore(one, parent.children[index] ?? null);
  for (const other of [...parent.children].slice(wanted.length)) other.remove();
}

/** Sets the options of a select if they differ. The chosen option is kept; if it is gone, the first one is chosen. */
function fill(select: HTMLSelectElement, values: readonly string[], textOf: (value: string) => string): void {
  if (values.join('\0') === [...select.options].map(({ value }) => value).join('\0')) return;
  const { value } = select;
  select.replaceChildren(...values.map((one) => element('option', { value: one }, shownText(textOf(one)))));
  select.value = values.includes(value) ? value : (values[0] ?? '');
}

const [READING, READ] = ['reading', 'read'];
const ALL = '';
/** Number of seqs in the first range that is read. */
const FIRST_RANGE = 16_000;
const WATCHED = /^assetlog_watched_asset_age_seconds\{key="((?:[^"\\]|\\.)*)"\} (\S+)$/gm;
