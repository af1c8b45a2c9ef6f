/** The media type that a client wants for its reply, according to its header `Accept`. */

/** The media type of JSON lines: one JSON text on each line. */
export const linesType = 'application/x-ndjson';

/**
 * Reads the header in the form of RFC 9110 section 12.5.1. Only named types count, not ranges such as a star.
 * @param accept the header as it was sent, such as `application/x-ndjson, application/json;q=0.5`; undefined if it is missing
 * @param types the possible types of the reply, in lower case; the first is the default
 * @returns the type with the greatest quality value, and among equals the first in `types`; the first type if the header names
 * none
 */
export function acceptedType<Type extends string>(accept: string | undefined, types: readonly [Type, ...Type[]]): Type {
  if (accept === undefined) return types[0];
  const qualities = new Map<string, number>();
  for (const range of accept.toLowerCase().split(',')) {
    const [name = '', ...parameters] = range.split(';').map((part) => part.trim());
    const quality = parameters.find((parameter) => parameter.startsWith('q='));
    qualities.set(name, quality === undefined ? 1 : Number(quality.slice(2)) || 0);
  }
  const qualityOf = (type: string) => qualities.get(type) ?? 0;
  const best = types.reduce((found, type) => (qualityOf(type) > qualityOf(found) ? type : found));
  return qualityOf(best) > 0 ? best : types[0];
}
