/** Tries a destination before anything is forwarded: what `assetlog forward test` reports. Nothing changes there. */

import type { Destination } from '../settings.ts';
import type { TargetOptions } from './http.ts';
import { type KindTraits, kindsWith, type TargetKind, traitsOf } from './kinds.ts';

export interface Probed {
  /** As far as it answered. */
  readonly kind: TargetKind;
  readonly works: boolean;
  /** What was tried; or what does not work, and what to do. */
  readonly reason: string;
}

/**
 * Asks a destination as a sender does, or tries it in the way of its kind.
 * @param about with the id of the journal, or any id
 * @param signal ends it
 */
export async function probe(
  destination: Destination,
  about: Pick<TargetOptions, 'source' | 'deployment' | 'limits'>,
  signal: AbortSignal,
): Promise<Probed> {
  const options = { ...destination, ...about };
  const [first, second = first] = kindsWith(destination.to) as [TargetKind, TargetKind?];
  const answer = await tryAs(first, options, signal);
  const kind = answer?.kind === 'no hub' ? second : first;
  const problem = answer?.kind === 'no hub' ? await tryAs(second, options, signal) : answer;
  const works = problem === undefined || problem.kind === 'at';
  return { kind, works, reason: works || !('reason' in problem) ? traitsOf[kind].tried : problem.reason };
}

async function tryAs(kind: TargetKind, options: TargetOptions, signal: AbortSignal) {
  const traits: KindTraits = traitsOf[kind];
  if (traits.probe !== undefined) return traits.probe(options, signal);
  const target = traits.open(options);
  return target.ask(signal).finally(() => target.close());
}
