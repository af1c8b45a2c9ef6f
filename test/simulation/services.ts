/** Which services a life has, what they forward to, and the files that their operators wrote. */

import { sha256 } from '../../src/deployments/tokens.ts';
import type { Chance } from '../world/chance.ts';
import { engineServices } from './engines/engines.ts';
import type { MachineOptions } from './machine.ts';
import type { SeenLine } from './oracle/journal-view.ts';
import { putFile } from './replaced/files.ts';

export interface PlannedService {
  readonly machine: MachineOptions;
  /** The journal, upstream, hook or engine that each destination is, by its name: `hub/d0`. */
  readonly sendsTo: Readonly<Record<string, string>>;
  readonly hook?: PlannedHook;
  readonly moves?: readonly PlannedMove[];
  /** Of a hub: when it loses its file of sources. */
  readonly loss?: PlannedLoss;
  /** When events of it are erased. */
  readonly erases?: readonly PlannedErase[];
}

/** An operator erases some events. */
export interface PlannedErase {
  readonly number: number;
  readonly atMs: number;
  /** Chooses which. */
  readonly seed: number;
}

/** A person deletes what a hub has of others, but for their events. */
export interface PlannedLoss {
  readonly number: number;
  readonly atMs: number;
  /** Chooses which of its journals. */
  readonly seed: number;
}

/** An operator lets the first destination of a device be another hub. */
export interface PlannedMove {
  readonly number: number;
  readonly atMs: number;
  readonly url: string;
  /** The journal that it is: `hub/d0`. */
  readonly to: string;
  /** Chooses what else goes wrong. */
  readonly seed: number;
}

/** A hook that an operator adds to the destinations of a service: it begins "now". */
export interface PlannedHook {
  readonly name: HookName;
  readonly atMs: number;
  /** Writes the file that has it. */
  readonly add: () => void;
}

/** Hooks with what they want: all events, or failed checks. */
export const hooks = {
  hook: { wants: () => true, only: undefined },
  alarms: {
    wants: ({ report }: SeenLine) => report.passed === false,
    only: { type: 'check', passed: false },
  },
} as const;

export type HookName = keyof typeof hooks;

/** Share of the lives whose hub has a journal for each device. */
const HOSTED_SHARE = 1 / 3;
/** Share of the lives in which the replies of a device wait for its hub. */
const ACK_SHARE = 1 / 2;
/** The name of a plain destination that gets no event again of which it is in doubt; it has this name in half of the lives. */
export const ONCE = 'once';
const ONCE_SHARE = 1 / 2;
/** Share of the lives in which the device with two destinations removes nothing before both have it. */
const HOLDING_SHARE = 1 / 4;
/** Share of the lives in which replies wait so that reports share a sync, and of the three services of these lives that do so. */
const DELAY_SHARE = 1 / 3;
const DELAYED_SHARE = 2 / 3;
const DELAY = ['--commit-delay', '300'];
/** Share of the services that wait for an answer, or for their disk, for a few seconds only: few processes live for longer. */
const IMPATIENT_SHARE = 1 / 2;
const IMPATIENT = { forwardRequestMs: 3_000, ackMs: 3_000, diskAnswerMs: 3_000 };
/** Of so many lives in a row the first two have hooks, the third one has a hook with `on`, and the last one has engines. */
const LIVES = 4;
/** Share of the services that get a hook, where three may, and the latest time at which it is added. */
const HOOK_SHARE = 1 / 2;
const HOOK_MS_MAX = 40_000;
/** A hook with `on`, see `alarmed.ts`; the service that has it, and for how long that waits: the rest at the end of a life is longer. */
export const ALARMED = 'alarmed';
export const ALARMING = 'lone';
const SOON = { alarmLookMs: 500, alarmHeldMs: 1_000, alarmPauseMs: 5_000 };
/** A hook that fails for longer gives an event up. */
const HOOKED = { hookFailingMs: 10_000 };
/** The deployment of a hosted hub that its own clients report to, besides that of the first device. */
const OWN = 'own';
/** A hub between a device and its hub; of eight lives in a row, those that have it, none of which is a saved one. */
export const SITE = 'site';
const WITH_SITE = [0, 4, 5];
/** Share of these lives in which the device moves, and in which hub and `lone` send to each other. A device that does not move sends to both. */
const MOVES_SHARE = 2 / 3;
const CIRCLE_SHARE = 1 / 3;
/** Share of them in which one of the two hubs loses its file of sources. */
const LOSS_SHARE = 1 / 2;
const MOVES_MAX = 3;
const MOVES_MS = { first: 5_000, last: 150_000 };
/** Engines have smaller numbers, requests larger ones. */
const FIRST_MOVE = 15_000_000;
/** Of sixteen lives in a row, those in which events of `lone` are erased if it forwards to no hub. None is a saved one. */
const WITH_ERASES = [0, 4, 5, 8, 9, 12, 13, 15];
const ERASES = { least: 3, most: 8, untilMs: 150_000 };
/** Ends after left out lines have smaller numbers. */
const FIRST_ERASE = 17_000_000;
const SMALL = ['--segment-bytes', '4096'];
const RETAIN_HUB = ['--retain-bytes', '32768'];

/**
 * @param chanceOf returns a stream by its name: that of hooks, or of the ways of events, leaves the other draws as they are
 * @returns the services of a life; the hub is the first
 */
export function planServices(seed: number, chanceOf: (name: string) => Chance): PlannedService[] {
  const [chance, ofHooks] = [chanceOf('services'), chanceOf('hooks')];
  const isHosted = chance.happens(HOSTED_SHARE);
  const hubOf = (device: string) => (isHosted ? `hub/${device}` : 'hub');
  const tokenOf = (device: string) => (isHosted ? ['--forward-token-file', tokenFile(device)] : []);
  const toHub = (device: string) => [...SMALL, '--forward-to', `http://${hubOf(device)}`, ...tokenOf(device)];
  const waits = chance.happens(ACK_SHARE) ? ['--ack', 'upstream'] : [];
  const plain = chance.happens(ONCE_SHARE) ? { name: ONCE, inDoubt: 'once' } : { name: 'plain' };
  const d2Destinations = [
    { name: 'hub', to: `http://${hubOf('d2')}`, ...(isHosted && { tokenFile: tokenFile('d2') }) },
    { ...plain, to: 'http://plain' },
  ];
  putDestinations('d2', d2Destinations);
  // A clock that jumps makes all events old at once; else the bytes are the limit.
  const limits = ['--retain-bytes', '16384', '--retain-days', '7'];
  const whenBehind = ['--when-behind', chance.happens(HOLDING_SHARE) ? 'refuse' : 'remove'];
  const toBoth = [...limits, ...whenBehind, '--forward', fileOf('d2')];
  const isDelayed = chance.happens(DELAY_SHARE);
  const delay = () => (isDelayed && chance.happens(DELAYED_SHARE) ? DELAY : []);
  const hub = isHosted ? hostedHub() : localHub();
  const ways = WITH_SITE.includes(seed % 8) ? planWays(chanceOf('ways'), isHosted) : NO_WAYS;
  const services: PlannedService[] = [
    { machine: { ...hub, args: [...hub.args, ...delay()] }, sendsTo: { upstream: 'upstream' } },
    {
      machine: { name: 'd0', args: [...toHub('d0'), '--retain-bytes', '16384', ...delay()] },
      sendsTo: { upstream: hubOf('d0') },
    },
    {
      machine: { name: 'd1', args: [...toHub('d1'), ...waits], limits: { forwardBatchBytes: 1_000 } },
      sendsTo: { upstream: hubOf('d1') },
    },
    {
      machine: { name: 'd2', args: [...SMALL, ...toBoth] },
      sendsTo: { hub: hubOf('d2'), [plain.name]: 'plain' },
    },
    { machine: { name: 'lone', args: [...SMALL, ...delay()] }, sendsTo: {} },
    ...engineServices(seed),
  ];
  if (ways.device !== undefined)
    services.push({
      machine: { name: SITE, args: [...toHub(ways.device), ...RETAIN_HUB] },
      sendsTo: { upstream: hubOf(ways.device) },
    });
  const mayHook: Readonly<Record<string, readonly object[]>> =
    seed % LIVES < 2
      ? { d0: ways.more['d0'] ?? [], d2: d2Destinations, ...(!ways.isCircle && { lone: [] }) } // a hook gets each event from one service
      : {};
  const planned = services.map((service) => {
    const { machine, sendsTo, ...more } = withWays(service, ways);
    const { name } = machine;
    if (name === ALARMING && hasAlarms(seed)) return { machine: withAlarms(machine), sendsTo };
    const hook = mayHook[name] && planHook(name, mayHook[name], ofHooks);
    const limits = { ...(chance.happens(IMPATIENT_SHARE) && IMPATIENT), ...machine.limits, ...(hook && HOOKED) };
    if (hook === undefined) return { machine: { ...machine, limits }, sendsTo, ...more };
    const args = withFile(machine);
    return { machine: { ...machine, args, limits }, sendsTo: { ...sendsTo, [hook.name]: hook.name }, hook, ...more };
  });
  const isErased = ({ machine, sendsTo }: PlannedService) =>
    WITH_ERASES.includes(seed % 16) && machine.name === 'lone' && Object.keys(sendsTo).every((name) => name in hooks);
  return planned.map((service) =>
    isErased(service) ? { ...service, erases: planErases(chanceOf('erases')) } : service,
  );
}

function planErases(chance: Chance): PlannedErase[] {
  return Array.from({ length: chance.integer(ERASES.least, ERASES.most) }, (_, at) => ({
    number: FIRST_ERASE + at,
    atMs: chance.share() * ERASES.untilMs,
    seed: chance.next(),
  }));
}

/** The ways of the events of one device, besides that to its hub. */
interface Ways {
  /** The device that can be put behind `site`; undefined if there is no `site`. */
  readonly device: string | undefined;
  readonly moves: readonly PlannedMove[];
  /** By service: further hubs in its file of destinations. */
  readonly more: Readonly<Record<string, readonly { readonly name: string; readonly to: string }[]>>;
  /** Whether `lone` and the hub send each other what they have. */
  readonly isCircle: boolean;
  /** By service. */
  readonly losses: Readonly<Record<string, PlannedLoss>>;
}

const NO_WAYS: Ways = { device: undefined, moves: [], more: {}, isCircle: false, losses: {} };

function planWays(chance: Chance, isHosted: boolean): Ways {
  const device = chance.oneOf(['d0', 'd1'] as const);
  const shares = [MOVES_SHARE, CIRCLE_SHARE, LOSS_SHARE];
  const [moves, circle, isLost] = shares.map((share) => chance.happens(share));
  const times = Array.from({ length: chance.integer(1, MOVES_MAX) }, () => chance.share());
  const places = [SITE, isHosted ? `hub/${device}` : 'hub'];
  const timeOf = (share: number) => MOVES_MS.first + share * (MOVES_MS.last - MOVES_MS.first);
  const planned = times
    .map(timeOf)
    .sort((a, b) => a - b)
    .map((atMs, at) => {
      const to = places[at % 2]!;
      return { number: FIRST_MOVE + at, atMs, to, url: `http://${to}`, seed: chance.next() };
    });
  const isCircle = circle! && !isHosted;
  const loss = { number: FIRST_MOVE + MOVES_MAX, atMs: timeOf(chance.share() / 2), seed: chance.next() };
  const losing = chance.oneOf(['hub', SITE]);
  return {
    device,
    moves: moves ? planned : [],
    more: {
      ...(!moves && { [device]: [{ name: 'second', to: `http://${SITE}` }] }),
      ...(isCircle && { hub: [{ name: 'circle', to: 'http://lone' }] }),
    },
    isCircle,
    losses: isLost ? { [losing]: loss } : {},
  };
}

function withWays(
  { machine, sendsTo }: PlannedService,
  { device, moves, more, isCircle, losses }: Ways,
): PlannedService {
  const { name } = machine;
  const loss = losses[name] && { loss: losses[name] };
  if (name === 'lone' && isCircle) {
    const args = [...machine.args, '--forward-to', 'http://hub'];
    return { machine: { ...machine, args }, sendsTo: { upstream: 'hub' } };
  }
  const others = more[name] ?? [];
  const isMoved = name === device && moves.length > 0;
  if (others.length > 0) putDestinations(name, others);
  const places = Object.fromEntries(others.map((other) => [other.name, new URL(other.to).host]));
  const args = others.length > 0 ? withFile(machine) : machine.args;
  return {
    machine: { ...machine, args, ...(isMoved && { moves: true }) },
    sendsTo: { ...sendsTo, ...places },
    ...(isMoved && { moves }),
    ...loss,
  };
}

function withFile({ name, args }: MachineOptions): readonly string[] {
  return args.includes('--forward') ? args : [...args, '--forward', fileOf(name)];
}

/** Whether a life has a hook with `on`. */
export function hasAlarms(seed: number): boolean {
  return seed % LIVES === 2;
}

function withAlarms(machine: MachineOptions): MachineOptions {
  const { name } = machine;
  putDestinations(name, [{ name: ALARMED, to: `hook+http://${ALARMED}/hook`, on: ['failed', 'recovered'] }]);
  return { ...machine, args: [...machine.args, '--forward', fileOf(name)], limits: { ...machine.limits, ...SOON } };
}

/** @param others the destinations that the file of the service has from its first start on */
function planHook(service: string, others: readonly object[], chance: Chance): PlannedHook | undefined {
  const isHooked = chance.happens(HOOK_SHARE);
  const name = chance.oneOf(Object.keys(hooks) as HookName[]);
  const atMs = chance.share() * HOOK_MS_MAX;
  if (!isHooked) return undefined;
  putDestinations(service, others);
  const { only } = hooks[name];
  const hook = { name, to: `hook+http://${name}/hook/${service}?secret=1`, begin: 'now', only };
  return { name, atMs, add: () => putDestinations(service, [...others, hook]) };
}

function putDestinations(service: string, destinations: readonly object[]): void {
  putFile(fileOf(service), JSON.stringify({ destinations }));
}

function fileOf(service: string): string {
  return `/${service}/forward.json`;
}

function localHub(): MachineOptions {
  return { name: 'hub', args: [...SMALL, ...RETAIN_HUB, '--forward-to', 'http://upstream'] };
}

function hostedHub(): MachineOptions {
  const deployments = ['d0', 'd1', 'd2', OWN];
  const tokensOf = (name: string) => [
    { name, sha256: sha256(tokenOf(name)).toString('hex'), may: ['report', 'read', 'forward'] },
  ];
  const listed = deployments.map((name) => ({ name, tokens: tokensOf(name) }));
  for (const name of deployments) putFile(tokenFile(name), tokenOf(name));
  putFile('/hub/deployments.json', JSON.stringify({ deployments: listed }));
  const upstream = { name: 'upstream', to: 'http://upstream/{deployment}' };
  putFile('/hub/forward.json', JSON.stringify({ destinations: [upstream] }));
  const files = ['--deployments', '/hub/deployments.json', '--forward', '/hub/forward.json'];
  // So that journals are closed and opened again while the service runs.
  const limits = { idleJournalMs: 2_000, openJournalsMax: 3 };
  return { name: 'hub', args: [...SMALL, ...RETAIN_HUB, ...files], deployments, limits };
}

/** @returns the deployments that the clients of a hosted service report to */
export function deploymentsForClients(): readonly [string, string] {
  return [OWN, 'd0'];
}

/** @returns the token of a deployment */
export function tokenOf(deployment: string): string {
  return `token-of-${deployment}`;
}

function tokenFile(deployment: string): string {
  return `/tokens/${deployment}`;
}
