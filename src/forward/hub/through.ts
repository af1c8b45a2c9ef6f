/**
 * What the lines of a source came through, so that no hub takes an event a second time however long the circle is. A source says it
 * with each request that has lines of others, and a hub says it with the lines of that source when it sends them on. The functions
 * are pure.
 */

import type { Received } from './received.ts';

/**
 * A device that takes no events has no names, so any number of devices can be behind a hub. A hub of 0.2.0 says nothing, so the
 * journals that it has the lines from are taken instead, as long as they leave its lines a way on: it might have many devices.
 * @param known what the source said before
 * @param max of the names
 * @returns the journals that lines of the source have come through, the source included: `known` itself if that is all of them
 */
export function heard(
  known: readonly string[],
  { source, throughSources, events }: Pick<Received, 'source' | 'throughSources' | 'events'>,
  max: number,
): readonly string[] {
  const names = throughSources ?? events.flatMap(({ origin }) => origin.throughSource ?? []);
  if (names.length === 0 || known.length >= max) return known;
  const all = new Set([...known, source, ...names]);
  const kept = throughSources === undefined && all.size >= max ? new Set([...known, source]) : all;
  return kept.size === known.length ? known : [...kept].slice(0, max);
}
