/** What an engine may have of the journals that are forwarded to it, and what is asked of its services. */

import type { Engine, Stored } from '../engines/engine.ts';
import type { Delivered } from '../network.ts';
import { durableCursor } from './cursor.ts';
import type { History } from './history.ts';
import type { Watched } from './watched.ts';

/** @returns what is wrong at the engines of some journals, if anything is */
export function wrongAtEngines(watched: Iterable<Watched>, history: History): string | undefined {
  const places = [...watched].flatMap(({ sendsTo }) => sendsTo.map(({ to }) => to));
  for (const to of places) {
    const problem = 'stored' in to ? wrongAtEngine(to, history) : undefined;
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/**
 * An engine has each event once and as it was recorded, and those of a journal in order, without a gap but for events that dead letters
 * name as lost.
 * @returns what is wrong, if anything is
 */
function wrongAtEngine(engine: Engine, history: History): string | undefined {
  const { name, stored } = engine;
  if (engine.checked === stored.length) return undefined;
  for (const [id, count] of engine.counts) {
    const own = history.get(id);
    if (own === undefined) return `${name} has ${id}, which no journal has`;
    const isExcused = engine.mayBeTwice.has(id) || (engine.isTable && history.mayBeTwice.has(id));
    if (count > 1 && !isExcused && !isRenamed(engine, id, history))
      return `${name} has event ${own.seq} of a journal ${count} times`;
  }
  const last = new Map<string, Stored>();
  for (const line of inOrder(engine)) {
    const { source, seq, id, time } = line;
    const before = last.get(source);
    if (engine.isTable && before?.id === id) continue;
    const seen = (one: Stored) => ({ ...one, from: [one.source, one.seq] as const, recorded: time });
    const problem = history.wrongFrom(seen(line), before && seen(before));
    if (problem !== undefined) return `${name} has event ${seq} of ${source}, which is ${problem}`;
    last.set(source, line);
  }
  engine.checked = stored.length;
  return undefined;
}

/** What was sent under an older id of its journal may come again under another one, once under each. */
function isRenamed({ stored, counts }: Engine, id: string, { renamed }: History): boolean {
  const sources = new Set(stored.filter((line) => line.id === id).map(({ source }) => source));
  return sources.size === counts.get(id) && [...sources].some((source) => renamed.has(source));
}

/** A table says how far a journal is by the largest seq. */
function inOrder({ stored, isTable }: Engine): readonly Stored[] {
  const before = (a: Stored, b: Stored) => a.seq - b.seq || (a.id < b.id ? -1 : Number(a.id !== b.id));
  return isTable ? [...stored].sort(before) : stored;
}

/** What of a journal is durable before its events leave. @returns what is wrong, if anything is */
export function wrongAtLeaving(
  { journal, view, sendsTo }: Watched,
  engine: Engine,
  request: Delivered,
): string | undefined {
  const [destination] = sendsTo.filter(({ to }) => to === engine);
  if (destination === undefined) return undefined;
  const { sending = 0 } = durableCursor(journal.disk, destination.name) ?? {};
  for (const { seq, id } of engine.linesIn(request)) {
    if (view.lines.get(seq)?.id !== id) return `event ${seq}, which is not durable`;
    // "A batch's end is in the cursor from before the first try": after a crash the same rows go under the same token.
    if (engine.isTable && sending < seq) return `event ${seq}, and no cursor says so`;
  }
  return undefined;
}
