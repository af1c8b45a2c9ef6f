/** Which media type a client wants its reply in, by its header `Accept`. */

/** The media type of JSON lines: one JSON text on each line. */
export const linesType = 'application/x-ndjson';

/**
 * Reads the header as RFC 9110 section 12.5.1 has it, as far as types are concerned that are named. A range such as a star names
 * none.
 * @param accept as sent, such as `application/x-ndjson, application/json;q=0.5`; undefined without one
 * @param types the types that the reply can have, in lower case; the first is the standard one
 * @returns the type with the greatest quality value, of several the first in `types`; the first one if the header names none
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
