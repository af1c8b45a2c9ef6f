/** A list of any length. Only the visible rows have elements. */

import { byId, element } from './dom.ts';

export interface Rows<Item> {
  readonly count: number;
  at(index: number): Item;
  /** @returns an id that does not change when rows are added: `17` */
  idOf(item: Item): string;
  cells(item: Item): Node[];
  open(item: Item, how: 'click' | 'key'): void;
}

const EXTRA_ROWS = 6;
/**
 * Columns of numbers, which are never truncated. The style sheet makes them as wide as `--seq` and so on, where they contain
 * numbers.
 */
const WHOLE = ['seq', 'what', 'partition'];

/** The list of the page. Keys move the active row, which is in `aria-activedescendant`. */
export class List {
  readonly #list = byId('list');
  readonly #rows = byId('rows');
  readonly #narrow = matchMedia('(max-width: 700px)');
  readonly #onBottom: () => void;
  #source: Rows<unknown> = { count: 0, at: () => undefined, idOf: () => '', cells: () => [], open: () => {} };
  /** The existing elements with their items. */
  #shown: { readonly item: unknown; readonly id: string; readonly row: HTMLElement }[] = [];
  #first = 0;
  /** The most characters of a cell since the reset, by column of `WHOLE`. */
  readonly #widths = new Map<string, number>();
  #activeId = '';
  #openId = '';
  #frame = 0;

  /** @param onBottom called when the last rows become visible */
  constructor(onBottom: () => void) {
    this.#onBottom = onBottom;
    const later = () => this.#later();
    this.#list.addEventListener('scroll', later, { passive: true });
    this.#list.addEventListener('focus', () => this.#focus());
    this.#rows.addEventListener('click', ({ target }) => {
      const row = (target as Element).closest('.row');
      const index = this.#shown.findIndex((one) => one.row === row);
      if (index !== -1) this.#open(this.#first + index, 'click');
    });
    this.#narrow.addEventListener('change', () => this.#reset());
    new ResizeObserver(later).observe(this.#list);
    this.#reset();
  }

  get isAtTop(): boolean {
    return this.#list.scrollTop < this.#rowPx;
  }

  /** @param addedBefore number of new rows at the top; the visible rows do not move */
  show(source: Rows<unknown>, addedBefore = 0): void {
    this.#source = source;
    this.#rows.style.height = `${source.count * this.#rowPx}px`;
    if (addedBefore > 0 && !this.isAtTop) this.#list.scrollTop += addedBefore * this.#rowPx;
    this.#later();
  }

  /** Rebuilds all rows, for another list. */
  reset(): void {
    this.#reset();
    this.#list.scrollTop = 0;
  }

  /** Marks the row of the open item. @param id empty for none */
  mark(id: string): void {
    this.#openId = id;
    if (id !== '') this.#activeId = id;
    for (const one of this.#shown) this.#updateMarks(one);
  }

  /** Whether the last rows are visible, or nearly visible. */
  get isAtBottom(): boolean {
    const { scrollTop, clientHeight } = this.#list;
    return Math.ceil((scrollTop + clientHeight) / this.#rowPx) + EXTRA_ROWS >= this.#source.count;
  }

  focus(): void {
    this.#list.focus();
  }

  /** Scrolls to the first row, makes it active and puts the focus on the list. */
  toTop(): void {
    this.#list.scrollTop = 0;
    this.#activeId = '';
    this.focus();
  }

  /**
   * Moves to another row, or opens the active row.
   * @param takesFocus whether the focus moves to the list
   * @returns whether the list handled the key
   */
  onKey(key: string, takesFocus: boolean): boolean {
    const page = Math.max(1, Math.floor(this.#list.clientHeight / this.#rowPx) - 1);
    const active = this.#activeIndex();
    const to: Readonly<Record<string, number>> = {
      ArrowDown: active + 1,
      j: active + 1,
      ArrowUp: active - 1,
      k: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: this.#source.count - 1,
    };
    const index = to[key];
    const isOpening = key === 'Enter' || key === ' ';
    if (index === undefined && !isOpening) return false;
    if (index !== undefined) this.#activate(index);
    if (takesFocus) this.focus();
    if (isOpening) this.#openActive('key');
    return true;
  }

  get #rowPx(): number {
    return this.#narrow.matches ? 60 : 36;
  }

  #reset(): void {
    this.#list.style.setProperty('--row', `${this.#rowPx}px`);
    this.#rows.style.height = `${this.#source.count * this.#rowPx}px`;
    this.#rows.replaceChildren();
    this.#widths.clear();
    for (const column of WHOLE) document.body.style.removeProperty(`--${column}`);
    this.#shown = [];
    this.#later();
  }

  #later(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw(): void {
    const { count } = this.#source;
    const rowPx = this.#rowPx;
    const { scrollTop, clientHeight } = this.#list;
    const first = Math.max(0, Math.floor(scrollTop / rowPx) - EXTRA_ROWS);
    const end = Math.min(count, Math.ceil((scrollTop + clientHeight) / rowPx) + EXTRA_ROWS);
    const before = new Map(this.#shown.map((one) => [one.item, one]));
    this.#first = first;
    this.#shown = [];
    for (let index = first; index < end; index += 1) {
      const item = this.#source.at(index);
      let one = before.get(item);
      before.delete(item);
      if (one === undefined) {
        const id = this.#source.idOf(item);
        const row = element('div', { class: 'row', role: 'option' }, ...this.#source.cells(item));
        this.#widen(row);
        one = { item, id, row };
      }
      one.row.style.transform = `translateY(${index * rowPx}px)`;
      one.row.setAttribute('aria-posinset', String(index + 1));
      one.row.setAttribute('aria-setsize', String(count));
      this.#shown.push(one);
      this.#updateMarks(one);
    }
    for (const { row } of before.values()) row.remove();
    for (const [index, { row }] of this.#shown.entries()) {
      row.id = `row-${index}`;
      if (this.#rows.children[index] !== row) this.#rows.insertBefore(row, this.#rows.children[index] ?? null);
    }
    const active = this.#shown.find(({ id }) => id === this.#activeId);
    if (active === undefined) this.#list.removeAttribute('aria-activedescendant');
    else this.#list.setAttribute('aria-activedescendant', active.row.id);
    if (end === count) this.#onBottom();
  }

  #widen(row: HTMLElement): void {
    for (const column of WHOLE) {
      const { length } = row.querySelector(`.${column}`)?.textContent ?? '';
      if (length <= (this.#widths.get(column) ?? 0)) continue;
      this.#widths.set(column, length);
      document.body.style.setProperty(`--${column}`, `${length}ch`);
    }
  }

  #updateMarks({ id, row }: { readonly id: string; readonly row: HTMLElement }): void {
    row.setAttribute('aria-selected', String(id === this.#openId));
    row.classList.toggle('active', id === this.#activeId);
  }

  #focus(): void {
    if (this.#activeIndex() === -1) this.#activate(Math.ceil(this.#list.scrollTop / this.#rowPx));
  }

  /** @returns the index of the active item, or -1. The visible rows are searched first */
  #activeIndex(): number {
    if (this.#activeId === '') return -1;
    const near = this.#shown.findIndex(({ id }) => id === this.#activeId);
    if (near !== -1) return this.#first + near;
    for (let index = 0; index < this.#source.count; index += 1) {
      if (this.#source.idOf(this.#source.at(index)) === this.#activeId) return index;
    }
    return -1;
  }

  #activate(wanted: number): void {
    const { count } = this.#source;
    if (count === 0) return;
    const index = Math.min(Math.max(wanted, 0), count - 1);
    this.#activeId = this.#source.idOf(this.#source.at(index));
    const top = index * this.#rowPx;
    const { scrollTop, clientHeight } = this.#list;
    if (top < scrollTop) this.#list.scrollTop = top;
    else if (top + this.#rowPx > scrollTop + clientHeight) this.#list.scrollTop = top + this.#rowPx - clientHeight;
    this.#draw();
    if (this.#openId !== '') this.#openActive('click');
  }

  #openActive(how: 'click' | 'key'): void {
    const index = this.#activeIndex();
    if (index !== -1) this.#open(index, how);
  }

  #open(index: number, how: 'click' | 'key'): void {
    const item = this.#source.at(index);
    this.#activeId = this.#source.idOf(item);
    this.#source.open(item, how);
    this.#later();
  }
}
