/** How an asset key is written in a command. */

/**
 * @param words at least one
 * @returns the parts
 * @throws Error whose message says how a key is written
 */
export function readKey(words: readonly string[]): string[] {
  const text = words.join('/');
  const parts = text.startsWith('[') ? partsInJson(text) : text.split('/');
  if (parts === undefined || parts.length === 0 || parts.includes('')) {
    throw new Error(`is not a key; write warehouse/orders, or '["warehouse","a/b"]' for a part with a slash`);
  }
  return parts;
}

/** @returns the key as `readKey` takes it */
export function keyText(parts: readonly string[]): string {
  const needsJson = parts[0]?.startsWith('[') || parts.some((part) => part.includes('/'));
  return needsJson ? JSON.stringify(parts) : parts.join('/');
}

function partsInJson(text: string): string[] | undefined {
  try {
    const parts: unknown = JSON.parse(text);
    return Array.isArray(parts) && parts.every((part) => typeof part === 'string') ? parts : undefined;
  } catch {
    return undefined;
  }
}
