/** JSON Schema of the values in a report, shared by the OpenAPI document and the schema of a journal line. */

/** A JSON Schema, dialect 2020-12. */
export type Schema = Readonly<Record<string, unknown>>;

/** @returns the schema of one part of an asset key: not empty, without control characters */
export function keyPartSchema(): Schema {
  return { type: 'string', pattern: '^[^\\x00-\\x1f\\x7f]+$' };
}

/** @returns a schema that also accepts null */
export function orNull(schema: Schema): Schema {
  return { anyOf: [schema, { type: 'null' }] };
}
