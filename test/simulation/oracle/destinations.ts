/** Where events are forwarded to, and what all kinds of it have in common. */

import type { Engine } from '../engines/engine.ts';
import type { MachineJournal } from '../machine.ts';
import type { Upstream } from '../upstream.ts';

/** A journal of a hub, a plain upstream, or an engine. */
export type Place = MachineJournal | Upstream | Engine;

export type Destinations = ReadonlyMap<string, Place>;

/** @returns the name of its host, as links have it */
export function hostOf(place: Place): string {
  return 'machine' in place ? place.machine.name : place.name;
}

/** The ids of the events that were stored there. */
export function idsAt(place: Upstream | Engine): ReadonlyMap<string, unknown> {
  return 'received' in place ? place.received : place.counts;
}

/** @returns the id of a journal; undefined if it never forwarded */
export function sourceOf({ disk }: MachineJournal): string | undefined {
  return disk.durableBytes('.journal-id')?.toString().trim();
}
