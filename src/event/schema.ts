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

export const TEXT: Schema = { type: 'string' };

/** Pattern of a time in a reply: `2026-11-20T15:19:45.266Z`. It also matches the 31st of each month. */
export const TIME_FORM = '\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])T([01]\\d|2[0-3])(:[0-5]\\d){2}\\.\\d{3}Z';
export const TIME: Schema = { type: 'string', pattern: `^${TIME_FORM}$` };

/**
 * @param required the schemas of the members that are always present, by name. @param others the schemas of members that can be
 * absent
 */
export function objectSchema(
  required: Readonly<Record<string, Schema>>,
  others: Readonly<Record<string, Schema>> = {},
): Schema {
  return { type: 'object', properties: { ...required, ...others }, required: Object.keys(required) };
}

export function listSchema(items: Schema): Schema {
  return { type: 'array', items };
}

export function integerFrom(minimum: 0 | 1): Schema {
  return { type: 'integer', minimum };
}

/** @param name the name of a schema in the components of the OpenAPI document */
export function namedSchema(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` };
}
