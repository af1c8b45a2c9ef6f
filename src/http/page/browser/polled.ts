/** A view of a document that is polled while it is shown: assets, refusals or sources. */

import { pageLimits } from '../../../config/limits.ts';
import { textPattern } from '../../../event/text-filter.ts';
import type { Address } from './address.ts';
import { sleep } from './connection.ts';
import type { Rows } from './list.ts';
import type { Service } from './service.ts';
import { counted, type DetailParts, memoizeLast, type View } from './view.ts';

export interface PolledOptions<Item> {
  readonly service: Service;
  readonly columns: View['columns'];
  readonly label: string;
  /** The noun for an item: `asset`. */
  readonly noun: string;
  /** @returns the path with its query, such as `assets?limit=1000` */
  readonly pathFor: (address: Address) => string;
  /** @returns the items in the JSON of a reply */
  readonly itemsIn: (reply: Readonly<Record<string, readonly Item[]>>) => readonly Item[];
  readonly idOf: (item: Item) => string;
  readonly cells: (item: Item) => Node[];
  readonly detail: ((item: Item) => DetailParts) | LivePane<Item>;
  readonly onChange: () => void;
  readonly open: Rows<unknown>['open'];
}

/** Details that continue to read from the service while they are open. */
export interface LivePane<Item> {
  show(item: Item): DetailParts;
  /** Called with the signal of each attempt of the view. */
  resume(signal: AbortSignal): void;
  close(): void;
}

export class PolledView<Item> implements View {
  readonly columns: View['columns'];
  readonly label: string;
  readonly rows: Rows<Item>;
  readonly #options: PolledOptions<Item>;
  #items: readonly Item[] = [];
  #matching: readonly Item[] = [];
  #search: RegExp | undefined;
  #path = '';
  #text = '';
  #isLoaded = false;
  readonly #detail: (item: Item) => DetailParts;
  readonly #pane: LivePane<Item> | undefined;

  constructor(options: PolledOptions<Item>) {
    const { columns, label, idOf, cells, open } = options;
    this.#options = options;
    const { detail } = options;
    this.#pane = typeof detail === 'function' ? undefined : detail;
    this.#detail =
      typeof detail === 'function' ? memoizeLast(detail, (item) => JSON.stringify(item)) : (item) => detail.show(item);
    this.columns = columns;
    this.label = label;
    const count = () => this.#matching.length;
    this.rows = {
      get count() {
        return count();
      },
      at: (index) => this.#matching[index] as Item,
      idOf,
      cells,
      open,
    };
  }

  get isEmpty(): boolean {
    return this.#isLoaded && this.#matching.length === 0;
  }

  filter(address: Address): boolean {
    const path = this.#options.pathFor(address);
    const isOther = path !== this.#path;
    if (isOther) this.clear();
    this.#path = path;
    this.#search = textPattern(address.text);
    this.#applySearch();
    return isOther;
  }

  clear(): void {
    this.#items = [];
    this.#text = '';
    this.#isLoaded = false;
    this.#applySearch();
  }

  readonly attempt = async (signal: AbortSignal, live: () => void): Promise<void> => {
    const { service, itemsIn, onChange } = this.#options;
    this.#pane?.resume(signal);
    while (!signal.aborted) {
      const reply = await service.ask(this.#path, { Accept: 'application/json' }, signal);
      const text = await reply.text();
      live();
      if (text !== this.#text || !this.#isLoaded) {
        this.#text = text;
        this.#items = itemsIn(JSON.parse(text));
        this.#isLoaded = true;
        this.#applySearch();
        onChange();
      }
      await sleep(pageLimits.pollMs, signal);
    }
  };

  close(): void {
    this.#pane?.close();
  }

  readonly searching = undefined;

  more(): void {}

  toggleSearch(): void {}

  summary(): string {
    if (!this.#isLoaded) return '';
    const { length } = this.#items;
    const all = `${length === pageLimits.readLimit ? 'the first ' : ''}${counted(length, this.#options.noun)}`;
    return this.#search === undefined ? all : `${counted(this.#matching.length)} found in ${all}`;
  }

  detail(id: string): DetailParts | undefined | 'loading' {
    if (!this.#isLoaded) return 'loading';
    const found = this.#items.find((item) => this.#options.idOf(item) === id);
    return found === undefined ? undefined : this.#detail(found);
  }

  #applySearch(): void {
    const search = this.#search;
    this.#matching =
      search === undefined ? this.#items : this.#items.filter((item) => search.test(JSON.stringify(item)));
  }
}
