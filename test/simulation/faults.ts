/**
 * The plan of faults of a life, drawn before it: what happens when, to whom, and for how long. Leaving one out changes little of the
 * others. Faults of starts are no part of it, since how often a process starts follows from the life; they have numbers as well.
 */

import { crc32 } from 'node:zlib';
import { Chance } from '../world/chance.ts';

const diskKinds = [
  'torn write',
  'disk full',
  'short write',
  'write error',
  'sync error',
  'read error',
  'slow disk',
] as const;

const networkKinds = [
  'link down',
  'request lost',
  'reply lost',
  'delayed',
  'doubled',
  'forged reply',
  'upstream error',
] as const;

const otherKinds = ['crash', 'power cut', 'stop', 'clock jump'] as const;

/** What strikes requests by chance, besides the plan: see `links.ts`. */
export const requestKinds = ['reply cut', 'gateway error', 'refusal', 'too many requests'] as const;

/** What a person does. */
const operatorKinds = ['restore device', 'restore hub', 'clone', 'repair'] as const;

/** What a person does besides the plan: moves a device to another hub, deletes the file of sources of a hub, erases events. */
export const wayKinds = ['move', 'sources lost', 'erase'] as const;

/** Those of the plan. */
export const faultKinds = [...otherKinds, ...diskKinds, ...networkKinds, ...operatorKinds];
export const allKinds = [...faultKinds, ...requestKinds, ...wayKinds];

export type LinkFault = Exclude<(typeof networkKinds)[number], 'upstream error'>;
export type OperatorKind = (typeof operatorKinds)[number];
export type WayKind = (typeof wayKinds)[number];
export type RequestKind = (typeof requestKinds)[number];
export type PlannedKind = (typeof faultKinds)[number];
export type FaultKind = (typeof allKinds)[number];

export interface PlannedFault {
  readonly number: number;
  readonly atMs: number;
  readonly kind: PlannedKind;
  /** The name of a machine, of an upstream, or of a link: `d0 to hub`. */
  readonly target: string;
  /** How long it lasts, if it has a length. */
  readonly lengthMs: number;
  /** Chooses its details, from 0 to 2 ** 32 - 1. */
  readonly seed: number;
}

/** What faults of a plan can strike, by name. */
export interface Names {
  readonly machines: readonly string[];
  readonly upstreams: readonly string[];
  /** The machines that forward to a hub only: a plain destination would get all from the copy as well. */
  readonly mayBeCopied: readonly string[];
  /** The machines that remove what they have not sent: a stop meets most with them. */
  readonly removing: readonly string[];
  /** The links of clients to their services. */
  readonly clientLinks: readonly string[];
  /** The links of services to hubs, on which a request may arrive twice. */
  readonly hubLinks: readonly string[];
  /** The links to plain upstreams. */
  readonly plainLinks: readonly string[];
}

/** The time between two faults. */
const MEAN_MS = 4_000;
/** Of five lives in a row those without faults of the disk, of the network and of the operator, which else hide each other. */
const LIVES = { count: 5, withoutDisk: 1, withoutNetwork: 3, withoutOperator: 0, withoutRestores: 2 };
/** After these less is promised. They come late in a life, so that its beginning is looked at strictly. */
const RESTORES: readonly FaultKind[] = ['restore device', 'restore hub', 'clone'];
/** After these a process ends. */
const ENDS: readonly FaultKind[] = [
  'crash',
  'power cut',
  'stop',
  'torn write',
  'sync error',
  'write error',
  ...operatorKinds,
];
/** After so many steps nothing ends a process on purpose: what one has lost track of, no restart mends. */
const STEADY_STEPS = 80_000;
/** In lives with few ends one of so many happens. */
const FEW = 10;

/**
 * Half of the lives have all ends of processes. The others have few, or all in some quarters of their steps: there processes get as old
 * as the longest timeout. What an operator does is not fewer.
 * @returns whether a fault happens, by its number and kind, at a step of the life
 */
export function endsOf(chance: Chance): (number: number, kind: FaultKind, step: number) => boolean {
  const life = chance.oneOf(['all', 'all', 'few', 'quarters'] as const);
  const quarters = Array.from({ length: 4 }, () => chance.happens(0.5));
  return (number, kind, step) => {
    if (!ENDS.includes(kind)) return true;
    if (step > STEADY_STEPS) return false;
    if (life === 'all' || (operatorKinds as readonly FaultKind[]).includes(kind)) return true;
    return life === 'few' ? crc32(`${number}`) % FEW === 0 : quarters[Math.floor((4 * step) / (STEADY_STEPS + 1))]!;
  };
}

/** What a journal does not write, or not durably. */
const OF_LINES: readonly FaultKind[] = ['sync error', 'disk full', 'short write', 'write error'];
/** What they meet, in which state, is different each time. */
const TWICE: readonly FaultKind[] = ['repair', 'restore device', 'restore hub', 'clone', 'sync error'];
const FIRST_RESTORE_MS = 60_000;
/** Planned faults have smaller numbers. */
const FIRST_START = 10_000;
/** Those of starts have smaller ones. */
export const FIRST_SELDOM = 100_000;
/** Those of all others, also of engines, have smaller ones. */
export const FIRST_REQUEST = 20_000_000;

export function planFaults(seed: number, chance: Chance, untilMs: number, names: Names): PlannedFault[] {
  const kinds = faultKinds.filter((kind) => !isLeftOut(kind, seed));
  const plan: PlannedFault[] = [];
  // A device meets a hub for the first time only once.
  const first = chance.oneOf(['forged reply', 'link down', 'reply lost'] as const);
  if (kinds.includes(first)) {
    const target = chance.oneOf(names.hubLinks);
    plan.push({ number: 1, atMs: 0, kind: first, target, lengthMs: 1_000, seed: chance.next() });
  }
  let deck: PlannedKind[] = [];
  for (let atMs = chance.exponentialMs(MEAN_MS); atMs < untilMs; atMs += chance.exponentialMs(MEAN_MS)) {
    // Each kind once before one comes again, and those of many kinds twice: a life of 100,000 steps has few more faults than there are kinds.
    if (deck.length === 0) deck = [...kinds, ...kinds.filter((kind) => TWICE.includes(kind))];
    const at = chance.integer(0, deck.length - 1);
    if (atMs < FIRST_RESTORE_MS && RESTORES.includes(deck[at]!)) continue;
    const [kind] = deck.splice(at, 1) as [PlannedKind];
    const target = targetOf(kind, chance, names);
    const lengthMs = chance.exponentialMs(chance.happens(0.1) ? 30_000 : 3_000);
    plan.push({ number: plan.length + 1, atMs, kind, target, lengthMs, seed: chance.next() });
  }
  return plan;
}

export function isLeftOut(kind: FaultKind, seed: number): boolean {
  const life = seed % LIVES.count;
  const without: Readonly<Record<number, readonly FaultKind[]>> = {
    [LIVES.withoutDisk]: diskKinds,
    [LIVES.withoutNetwork]: [...networkKinds, ...requestKinds],
    [LIVES.withoutOperator]: operatorKinds,
    [LIVES.withoutRestores]: RESTORES,
  };
  return without[life]?.includes(kind) ?? false;
}

/** A third of the weather is on the link to a plain upstream, which knows least. */
function targetOf(kind: PlannedKind, chance: Chance, names: Names): string {
  if (kind === 'upstream error') return chance.oneOf(names.upstreams);
  if (kind === 'restore hub') return 'hub';
  if ((kind === 'stop' || kind === 'clock jump') && chance.happens(0.5)) return chance.oneOf(names.removing);
  // What a hub says that it has of others is known from its lines.
  if (kind === 'repair' && chance.happens(0.6)) return 'hub';
  // In a hosted one a journal that fails is opened again by the same process, and what it refuses others may send again.
  if (OF_LINES.includes(kind) && chance.happens(0.4)) return 'hub';
  if (kind === 'restore device' && chance.happens(0.7)) return chance.oneOf([...names.mayBeCopied, ...names.removing]);
  if (kind === 'restore device') return chance.oneOf(names.machines.filter((name) => name !== 'hub'));
  // What a hub answers is known from the answers before.
  if (kind === 'forged reply' && chance.happens(0.4)) return chance.oneOf(names.hubLinks);
  if (kind === 'clone') return chance.oneOf(names.mayBeCopied);
  if (kind === 'doubled') return chance.oneOf(names.hubLinks);
  if (!(networkKinds as readonly FaultKind[]).includes(kind)) return chance.oneOf(names.machines);
  return chance.oneOf(chance.oneOf([names.plainLinks, names.hubLinks, names.clientLinks]));
}

/** Share of the starts that hear nothing at first, and their numbers after those of what else strikes a start. */
const SILENT_SHARE = 0.15;
const FIRST_SILENT = 5_000;

/** @returns the number of the silence with which a start of a machine begins; undefined if it begins without one */
export function silenceOfStart(chance: Chance, machine: number, start: number): number | undefined {
  return chance.happens(SILENT_SHARE) ? FIRST_START * (machine + 1) + FIRST_SILENT + start : undefined;
}

/** What strikes a start: in its first calls of the disk, or in its first writes. A torn one is the first of lines. */
export interface StartFault {
  readonly number: number;
  readonly chance: Chance;
  readonly kind: 'crash' | 'power cut' | 'torn write' | 'disk full' | 'read error' | 'write error' | 'sync error';
  readonly where: 'calls' | 'writes';
  /** The number of the call, or of the write. */
  readonly at: number;
}

/** @returns what strikes the start of a machine: a quarter of all starts, and half of those after a clean stop */
export function faultOfStart(
  chance: Chance,
  machine: number,
  start: number,
  isAfterStop: boolean,
): StartFault | undefined {
  const isStruck = chance.happens(isAfterStop ? 0.5 : 0.25);
  const error = chance.oneOf(['read error', 'write error', 'sync error'] as const);
  const any = chance.oneOf(['crash', 'power cut', 'disk full', error] as const);
  // By the first line, what says that the last stop was clean has to be gone.
  const kind = isAfterStop && chance.happens(0.5) ? 'torn write' : any;
  const where = chance.oneOf(['calls', 'writes'] as const);
  const at = chance.integer(1, where === 'calls' ? 40 : 5);
  const number = FIRST_START * (machine + 1) + start;
  return isStruck ? { number, kind, where, at, chance: new Chance(chance.next()) } : undefined;
}
