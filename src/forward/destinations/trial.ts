/**
 * Tries a destination before anything is forwarded, for the report of `assetlog forward test`. It changes nothing
 * there.
 */

import type { DestinationSettings } from '../settings.ts';
import type { Opening } from './destination.ts';
import { type DestinationKind, kindsWith, traitsOf } from './kinds.ts';

export interface Trial {
  /** The kind of destination, as far as it answered. */
  readonly kind: DestinationKind;
  readonly works: boolean;
  /** What was tried; or what failed, and what to do. */
  readonly reason: string;
}

/**
 * Asks a destination like a pipe does, or tries it in the way of its kind.
 * @param about includes the id of the journal, or any id
 * @param signal ends the trial
 */
export async function tryDestination(
  settings: DestinationSettings,
  about: Pick<Opening, 'source' | 'deployment' | 'limits'>,
  signal: AbortSignal,
): Promise<Trial> {
  const tryAs = async (kind: DestinationKind) => {
    const destination = traitsOf[kind].open({ ...settings, ...about });
    const answer = destination.ask === undefined ? destination.test?.(signal) : destination.ask(signal);
    return Promise.resolve(answer).finally(() => destination.close());
  };
  const [first, second = first] = kindsWith(settings.to) as [DestinationKind, DestinationKind?];
  const answer = await tryAs(first);
  const kind = answer?.kind === 'no hub' ? second : first;
  const problem = answer?.kind === 'no hub' ? await tryAs(second) : answer;
  const works = problem === undefined || problem.kind === 'at';
  return { kind, works, reason: works || !('reason' in problem) ? traitsOf[kind].tried : problem.reason };
}
