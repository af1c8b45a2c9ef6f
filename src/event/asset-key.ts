/** Asset keys as text: on the command line, in queries and on the page. */

import { visible, withEscapes } from './visible.ts';

/** Joins the parts of a key to a text that sorts like the key. No key contains it. */
export const BETWEEN_PARTS = '\0';

/** Lines of the help of commands that take keys. */
export const keyNotes: readonly string[] = [
  'Keys:',
  '  Each word and each slash starts another part: warehouse/orders is the same as warehouse orders.',
  `  For a part with a slash in it write the key as a JSON array: '["warehouse", "orders/2026"]'.`,
];

/**
 * Parses an asset key.
 * @param words at least one: `['warehouse/orders']`, `['warehouse', 'orders']` or a JSON array
 * @throws Error whose message completes "KEY …" and shows how to write a key
 */
export function readKey(words: readonly string[]): string[] {
  // A shell splits an unquoted JSON array at its spaces.
  const parts = words[0]?.startsWith('[') ? partsInJson(words.join(' ')) : words.join('/').split('/');
  if (parts === undefined || parts.length === 0 || parts.includes('')) {
    throw new Error(`is not a key; write warehouse/orders, or '["warehouse", "orders/2026"]' for a part with a slash`);
  }
  return parts;
}

/**
 * Parses the start of a key, whose last part can be incomplete: `warehouse/ord`. A slash at the end is followed by an empty part:
 * `['warehouse', '']` for `warehouse/`.
 * @throws Error whose message completes "KEY …"
 */
export function readKeyStart(text: string): string[] {
  const parts = text.startsWith('[') ? partsInJson(text) : text.split('/');
  if (parts === undefined || parts.length === 0 || parts.slice(0, -1).includes('')) {
    throw new Error(
      `is not the start of a key; write warehouse/ord, or '["warehouse", "orders/20"]' for a part with a slash`,
    );
  }
  return parts;
}

/** Whether these are the first parts of a key: `['warehouse']` of `['warehouse', 'orders']`. */
export function hasPrefix(key: readonly string[], parts: readonly string[]): boolean {
  return parts.every((part, index) => key[index] === part);
}

/** Whether a key starts with a result of `readKeyStart`; `['warehouse', '']` is also a start of the key `warehouse`. */
export function startsWith(key: readonly string[], start: readonly string[]): boolean {
  const last = start.length - 1;
  return start.every((part, index) => (index < last ? key[index] === part : (key[index] ?? '').startsWith(part)));
}

/** @returns the key as text that `readKey` parses: `warehouse/orders`, or a JSON array if a part has a slash */
export function keyText(parts: readonly string[]): string {
  const needsJson = parts[0]?.startsWith('[') || parts.some((part) => part.includes('/'));
  return needsJson ? JSON.stringify(parts) : parts.join('/');
}

/**
 * @returns the text of a key for a person. A key that could be mistaken for another key is shown as the JSON array that a filter
 *   accepts: if a part has slashes, invisible characters, outer spaces or separate accents (NFD)
 */
export function shownKey(parts: readonly string[]): string {
  const isPlain = (part: string) => part === visible(part).normalize().trim();
  const text = keyText(parts);
  return parts.every(isPlain) ? text : keyJson(parts);
}

/** @returns the key as a JSON array, with escapes for invisible characters and for separate accents */
export function keyJson(parts: readonly string[]): string {
  const json = JSON.stringify(parts);
  return visible(json === json.normalize() ? json : withEscapes(json, /[\p{M}\u1100-\u11ff]/gu));
}

/** Whether two different keys look alike, or are two spellings of one text. */
export function looksLike(key: readonly string[], other: readonly string[]): boolean {
  const look = (parts: readonly string[]) => parts.map((part) => part.normalize().replace(UNSEEN, '').trim()).join('/');
  return look(key) === look(other);
}

const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * A text with slashes is one part in the body of a report, and several parts in a path and in a filter.
 * @param text a key, or the start of a key
 * @returns the other of the two keys, in the form that `readKey` parses: `["a/b"]` for `a/b`; undefined if both are the same
 */
export function otherSpelling(text: string): string | undefined {
  try {
    const parts = readKeyStart(text);
    const whole = parts.join('/');
    const other = parts.length > 1 ? [whole] : whole.split('/');
    return other.length === parts.length || other.includes('') ? undefined : keyText(other);
  } catch {
    return undefined;
  }
}

function partsInJson(text: string): string[] | undefined {
  try {
    const parts: unknown = JSON.parse(text);
    return Array.isArray(parts) && parts.every((part) => typeof part === 'string') ? parts : undefined;
  } catch {
    return undefined;
  }
}
