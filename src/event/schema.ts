/** JSON Schema of what a report holds, for the documents that tools read. */

/** JSON Schema, dialect 2020-12. */
export type Schema = Readonly<Record<string, unknown>>;

/** @returns one part of an asset key */
export function keyPartSchema(): Schema {
  return { type: 'string', pattern: '^[^\\x00-\\x1f\\x7f]+$' };
}
