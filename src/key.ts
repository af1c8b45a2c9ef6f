/** How an asset key is written in a command. */

import { limits } from './config.ts';
import { readJson, stringsOf } from './json.ts';

/** For the help of commands that take keys. */
export const keyNotes: readonly string[] = [
  'Keys:',
  '  Each word and each slash begins another part: warehouse/orders is the same as warehouse orders.',
  `  For a part with a slash in it write the key as a JSON array: '["warehouse", "orders/2026"]'.`,
];

/**
 * @param words at least one
 * @returns the parts
 * @throws Error whose message says what to do about a key that can not be
 */
export function readKey(words: readonly string[]): string[] {
  const [first = ''] = words;
  const parts = first.startsWith('[') ? inJson(words.join(' ')) : words.join('/').split('/');
  if (parts.length === 0 || parts.includes('')) {
    const sent = JSON.stringify(words.join(' '));
    throw new Error(`the key ${sent} has an empty part; write warehouse/orders or '["warehouse", "orders/2026"]'`);
  }
  return parts;
}

function inJson(text: string): string[] {
  try {
    const value = readJson(text, limits.jsonDepthMax);
    const parts = value.kind === 'array' ? stringsOf(value) : undefined;
    if (parts !== undefined) return parts;
  } catch {
    // What is wrong with it matters less than how it is written.
  }
  throw new Error(
    `the key ${text} begins with [ and is no JSON array of strings; write '["warehouse", "orders/2026"]'`,
  );
}
