/** The interface of a view, and the parts that views share. */

import { shownKey } from '../../../event/asset-key.ts';
import { ageOf } from '../../../event/moment.ts';
import { visible } from '../../../event/visible.ts';
import type { Address } from './address.ts';
import type { Attempt } from './connection.ts';
import { type Content, element } from './dom.ts';
import type { Rows } from './list.ts';

export interface View {
  /** The titles of the columns by the kinds of their cells: `{ seq: 'seq', key: 'asset key' }`. */
  readonly columns: Readonly<Record<string, string>>;
  /** The name of the list for a screen reader: `Events, newest first`. */
  readonly label: string;
  readonly rows: Rows<unknown>;
  /** Keeps the view up to date, until the signal aborts. */
  readonly attempt: Attempt;
  /** Applies the filters of an address. @returns whether the attempt has to start again */
  filter(address: Address): boolean;
  /** Whether certainly nothing matches. */
  readonly isEmpty: boolean;
  /** Loads more rows. Called when the last rows are visible. */
  more(): void;
  /** Drops all data, for another deployment. */
  clear(): void;
  /** @returns the text below the list: `12 found in 1,000 events`. */
  summary(): string;
  /** Whether a search is still reading older items; undefined if there is no search, or it has reached the end. */
  readonly searching: boolean | undefined;
  /** Stops a search, or continues it. */
  toggleSearch(): void;
  /** @returns the details of an item, undefined if it does not exist, `loading` if that is not known yet */
  detail(id: string): DetailParts | undefined | 'loading';
  /** Ends the reads of the details when they are closed. */
  close?(): void;
}

/** The details of an item. */
export interface DetailParts {
  readonly title: Content;
  readonly content: readonly Content[];
}

/**
 * @param keyOf returns a key that changes only if the details change
 * @returns a function that reuses the details of the last item, so that selection and scroll position stay
 */
export function memoizeLast<Item>(
  make: (item: Item) => DetailParts,
  keyOf: (item: Item) => unknown,
): (item: Item) => DetailParts {
  let last: { readonly key: unknown; readonly parts: DetailParts } | undefined;
  return (item) => {
    const key = keyOf(item);
    if (last === undefined || last.key !== key) last = { key, parts: make(item) };
    return last.parts;
  };
}

export function cell(kind: string, ...content: readonly Content[]): HTMLElement {
  return element(
    'span',
    { class: kind },
    ...content.map((one) => (typeof one === 'string' ? visible(one.slice(0, 500)) : one)),
  );
}

export function badge(kind: string, text: string): HTMLElement {
  return element('b', { class: `badge ${kind}` }, text);
}

/** @returns a list of names and values, without undefined values */
export function table(members: readonly (readonly [name: string, value: Content | undefined])[]): HTMLElement {
  const list = element('dl');
  for (const [name, value] of members) {
    if (value === undefined) continue;
    list.append(
      element('dt', {}, visible(name.slice(0, 500))),
      element('dd', {}, typeof value === 'string' ? visible(value) : value),
    );
  }
  return list;
}

/** @returns the text of `shownKey`, with elements for the slashes between parts */
export function renderKey(parts: readonly string[]): HTMLElement {
  const shown = element('bdi', { class: 'key' });
  const text = shownKey(parts);
  if (text !== parts.join('/')) {
    shown.append(text);
    return shown;
  }
  for (const [index, part] of parts.entries()) {
    if (index > 0) shown.append(element('i', {}, '/'));
    shown.append(part);
  }
  return shown;
}

/** @returns a time for a list: `11-20 15:19:45` for `2026-11-20T15:19:45.266Z` */
export function shortTime(time: string): string {
  return time.slice(5, 19).replace('T', ' ');
}

/** @returns a time with its date: `2026-11-20 15:19:45.266 UTC` */
export function longTime(time: string): string {
  return time.replace('T', ' ').replace('Z', ' UTC');
}

/** @returns a time with its date and its age */
export function renderTime(time: string): HTMLElement {
  return element('span', {}, `${longTime(time)}, `, renderAge(time));
}

/** @returns the age of a time, which `updateAges` updates */
export function renderAge(time: string): HTMLElement {
  return element('time', { datetime: time }, ageOf(time));
}

/** Updates all ages of the page every second. */
export function updateAges(): void {
  setInterval(() => {
    for (const shown of document.querySelectorAll('time')) {
      const age = ageOf(shown.dateTime);
      if (shown.textContent !== age) shown.textContent = age;
    }
  }, 1_000);
}

/** @returns a number with its noun: `1,000 events`, `1 event`; `1,000` without a noun */
export function counted(count: number, noun = ''): string {
  const number = count.toLocaleString('en');
  return noun === '' ? number : `${number} ${noun}${count === 1 ? '' : 's'}`;
}
