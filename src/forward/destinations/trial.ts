/** Tries a destination before anything is forwarded: what `assetlog forward test` reports. Nothing changes there. */

import type { DestinationSettings } from '../settings.ts';
import type { Opening } from './http.ts';
import { type DestinationKind, type KindTraits, kindsWith, traitsOf } from './kinds.ts';

export interface Trial {
  /** As far as it answered. */
  readonly kind: DestinationKind;
  readonly works: boolean;
  /** What was tried; or what does not work, and what to do. */
  readonly reason: string;
}

/**
 * Asks a destination like a pipe does, or tries it in the way of its kind.
 * @param about with the id of the journal, or any id
 * @param signal ends it
 */
export async function tryDestination(
  settings: DestinationSettings,
  about: Pick<Opening, 'source' | 'deployment' | 'limits'>,
  signal: AbortSignal,
): Promise<Trial> {
  const options = { ...settings, ...about };
  const [first, second = first] = kindsWith(settings.to) as [DestinationKind, DestinationKind?];
  const answer = await tryAs(first, options, signal);
  const kind = answer?.kind === 'no hub' ? second : first;
  const problem = answer?.kind === 'no hub' ? await tryAs(second, options, signal) : answer;
  const works = problem === undefined || problem.kind === 'at';
  return { kind, works, reason: works || !('reason' in problem) ? traitsOf[kind].tried : problem.reason };
}

async function tryAs(kind: DestinationKind, options: Opening, signal: AbortSignal) {
  const traits: KindTraits = traitsOf[kind];
  if (traits.probe !== undefined) return traits.probe(options, signal);
  const destination = traits.open(options);
  return destination.ask(signal).finally(() => destination.close());
}
