/**
 * The journals that the lines of a source came through. With them no hub records an event twice, however many hubs a circle has. A
 * source names them in each request that has lines of other journals, and a hub names them when it forwards the lines of that source.
 */

import type { ForwardedEvent, ForwardRequest } from './received.ts';

/**
 * A device that receives no events names no journal, so any number of devices can be behind a hub. A hub of 0.2.0 names none either:
 * the journals in its lines are taken instead, if they leave room for others: it might have many devices.
 * @param known the journals that earlier lines of the source came through
 * @param max number of these journals
 * @returns all journals that lines of the source have come through, the source included; undefined if none of them is new
 */
export function addThrough(
  known: readonly string[] = [],
  { source, throughSources }: Pick<ForwardRequest, 'source' | 'throughSources'>,
  events: readonly ForwardedEvent[],
  max: number,
): readonly string[] | undefined {
  const sources = throughSources ?? events.flatMap(({ origin }) => origin.throughSource ?? []);
  if (sources.length === 0 || known.length >= max) return undefined;
  const all = new Set([...known, source, ...sources]);
  const kept = throughSources === undefined && all.size >= max ? new Set([...known, source]) : all;
  return kept.size === known.length ? undefined : [...kept].slice(0, max);
}
