/** The plan of faults of a life, drawn before it: what happens when, and to whom. Leaving one out changes little of the others. */

import type { Chance } from './chance.ts';

export const faultKinds = [
  'crash',
  'power cut',
  'stop',
  'disk full',
  'short write',
  'write error',
  'sync error',
  'read error',
  'slow disk',
  'clock jump',
  'link down',
  'request lost',
  'reply lost',
  'delayed',
  'doubled',
  'forged reply',
  'upstream error',
] as const;

export type FaultKind = (typeof faultKinds)[number];

export interface PlannedFault {
  readonly number: number;
  readonly atMs: number;
  readonly kind: FaultKind;
  /** Chooses target and details, from 0 to 2 ** 32 - 1. */
  readonly seed: number;
}

/** The time between two faults. */
const MEAN_MS = 4_000;

export function planFaults(chance: Chance, untilMs: number): PlannedFault[] {
  const plan: PlannedFault[] = [];
  for (let atMs = chance.exponentialMs(MEAN_MS); atMs < untilMs; atMs += chance.exponentialMs(MEAN_MS)) {
    plan.push({ number: plan.length + 1, atMs, kind: chance.oneOf(faultKinds), seed: chance.next() });
  }
  return plan;
}
