/** What a view of the page is, and the parts that views share. */

import { keyText } from '../../../event/asset-key.ts';
import type { Address } from './address.ts';
import { ageOf } from './age.ts';
import type { Attempt } from './connection.ts';
import { type Content, element, escaped, visible } from './dom.ts';
import type { Rows } from './list.ts';

/** A view: what its list shows, and how it stays up to date. */
export interface View {
  /** The titles of the columns: `{ seq: 'seq', key: 'asset key' }`, by the kinds of their cells. */
  readonly columns: Readonly<Record<string, string>>;
  /** How the list is named to a screen reader: `Events, newest first`. */
  readonly label: string;
  readonly rows: Rows<unknown>;
  /** Keeps the view up to date, until the signal aborts. */
  readonly attempt: Attempt;
  /** Takes the filters. @returns whether the attempt has to begin again */
  filter(address: Address): boolean;
  /** Whether it is known that there is nothing to list, apart from a search. */
  readonly isEmpty: boolean;
  /** Called when the last rows are in sight. */
  more(): void;
  /** Forgets all data: another deployment. */
  clear(): void;
  /** What the line below the list says: `12 found in 1,000 events`. */
  summary(): string;
  /** Whether a search looks at older items now; undefined if it has looked at all. */
  readonly searching: boolean | undefined;
  /** Stops a search, or continues it. */
  toggleSearch(): void;
  /** @returns what is shown of the item with this id, or undefined if there is none; `loading` if it is on its way */
  detail(id: string): DetailParts | undefined | 'loading';
}

/** An item as a whole. */
export interface DetailParts {
  readonly title: Content;
  readonly content: readonly Content[];
}

/**
 * @param keyOf what stays the same as long as an item is shown alike
 * @returns a function that makes the parts of an item once, so that what its user has selected or scrolled to stays
 */
export function onceFor<Item>(
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

/** @returns names and values, without those that are undefined */
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

/**
 * @returns the parts of a key with slashes between them. A key that would look like another one is the JSON array that the filter
 *   takes: with a slash or invisible characters in a part, a space at an end of it, or accents that are characters of their own (NFD)
 */
export function keyShown(parts: readonly string[]): HTMLElement {
  const shown = element('bdi', { class: 'key' });
  const json = JSON.stringify(parts);
  const isPlain = (part: string) => part === visible(part).normalize().trim();
  if (keyText(parts) === json || !parts.every(isPlain)) {
    shown.append(visible(json === json.normalize() ? json : escaped(json, /[\p{M}\u1100-\u11ff]/gu)));
    return shown;
  }
  for (const [index, part] of parts.entries()) {
    if (index > 0) shown.append(element('i', {}, '/'));
    shown.append(part);
  }
  return shown;
}

/** @returns a time for a list: `11-20 15:19:45` of `2026-11-20T15:19:45.266Z` */
export function shortTime(time: string): string {
  return time.slice(5, 19).replace('T', ' ');
}

/** @returns a time with its date: `2026-11-20 15:19:45.266 UTC` */
export function longTime(time: string): string {
  return time.replace('T', ' ').replace('Z', ' UTC');
}

/** @returns a time with its date and its age */
export function timeShown(time: string): HTMLElement {
  return element('span', {}, `${longTime(time)}, `, ageShown(time));
}

/** @returns the age of a time, which `keepAges` keeps right */
export function ageShown(time: string): HTMLElement {
  return element('time', { datetime: time }, ageOf(time));
}

/** Keeps all ages of the page right. */
export function keepAges(): void {
  setInterval(() => {
    for (const shown of document.querySelectorAll('time')) {
      const age = ageOf(shown.dateTime);
      if (shown.textContent !== age) shown.textContent = age;
    }
  }, 1_000);
}

/** @returns a number and what it counts: `1,000 events`, `1 event`; `1,000` without a noun */
export function counted(count: number, noun = ''): string {
  const number = count.toLocaleString('en');
  return noun === '' ? number : `${number} ${noun}${count === 1 ? '' : 's'}`;
}
