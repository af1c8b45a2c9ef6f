/** The states of a sender: `sender.ts` runs them, and says how they follow each other. */

import type { Again, StopKind } from '../destinations/destination.ts';

export type State =
  | { readonly kind: 'starting' | 'asking' | 'idle' | 'sending' }
  | Settling
  | Suspect
  | { readonly kind: 'waiting'; readonly reason: string; readonly waitMs: number; readonly next: State }
  | { readonly kind: 'stopped'; readonly why: StopKind | null; readonly reason: string; readonly next: State };

/** A state in which no event passes. */
export type BlockedState = Extract<State, { reason: string }>;

/** What an answer means is made durable. A write that fails is repeated, and the writes before it are not. */
export interface Settling {
  readonly kind: 'settling';
  readonly writes: readonly Write[];
  /** Called after the last write, and again if it rejects. */
  readonly finish: () => State | Promise<State>;
}

/** May be called again after a rejection. */
export type Write = () => Promise<unknown>;

/** An event is in doubt: the next one shows whether this is about the event or an outage. */
export interface Suspect {
  readonly kind: 'suspect';
  readonly reason: string;
  /** Whether there was no next event to send. */
  readonly wasLast: boolean;
}

export const STARTING: State = { kind: 'starting' };
export const ASKING: State = { kind: 'asking' };
export const IDLE: State = { kind: 'idle' };

/** What a request that did nothing says about the next try. */
export type Failure = Pick<Again, 'reason' | 'afterMs'>;

export function stop(why: StopKind | null, reason: string, next: State): State {
  return { kind: 'stopped', why, reason, next };
}
