/** The states of a pipe: `pipe.ts` runs them, and describes their order. */

import type { Again, StopKind } from '../destinations/destination.ts';
import type { Step } from '../ledger/ledger.ts';

export type State =
  | { readonly kind: 'opening' | 'asking' | 'idle' | 'sending' | 'lingering' }
  | Settling
  | Suspect
  | { readonly kind: 'waiting'; readonly reason: string; readonly waitMs: number; readonly next: State }
  | { readonly kind: 'stopped'; readonly why: StopKind | null; readonly reason: string; readonly next: State };

/** A state in which no event passes. */
export type BlockedState = Extract<State, { reason: string }>;

/**
 * Makes the consequences of an answer durable, step by step. A step that fails is repeated, and the steps before it are
 * not.
 */
export interface Settling {
  readonly kind: 'settling';
  readonly steps: readonly Step[];
  readonly next: State;
}

/** An event is in doubt. The next event shows whether the event or an outage is the reason. */
export interface Suspect {
  readonly kind: 'suspect';
  readonly reason: string;
  /** Whether there was no next event to send. */
  readonly wasLast: boolean;
}

export const OPENING: State = { kind: 'opening' };
export const ASKING: State = { kind: 'asking' };
export const IDLE: State = { kind: 'idle' };
export const SENDING: State = { kind: 'sending' };
/** Events are being collected for one request. */
export const LINGERING: State = { kind: 'lingering' };

/** What a request without effect implies for the next try. */
export type Failure = Pick<Again, 'reason' | 'afterMs'>;

export function stop(why: StopKind | null, reason: string, next: State): State {
  return { kind: 'stopped', why, reason, next };
}

/** @returns the state that settles the steps, and then the steps of `next` */
export function settle(steps: readonly Step[], next: State = IDLE): State {
  return next.kind === 'settling' ? { ...next, steps: [...steps, ...next.steps] } : { kind: 'settling', steps, next };
}
