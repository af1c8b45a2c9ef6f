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
const SMALL = ['--segment-bytes', '4096'];
const RETAIN_HUB = ['--retain-bytes', '32768'];

/**
 * @param ofHooks draws which services get hooks: a stream of its own, so that the other draws stay as they are
 * @returns the services of a life; the hub is the first
 */
export function planServices(seed: number, chance: Chance, ofHooks: Chance): PlannedService[] {
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
  const mayHook: Readonly<Record<string, readonly object[]>> =
    seed % LIVES < 2 ? { d0: [], d2: d2Destinations, lone: [] } : {};
  return services.map(({ machine, sendsTo }) => {
    const { name } = machine;
    if (name === ALARMING && hasAlarms(seed)) return { machine: withAlarms(machine), sendsTo };
    const hook = mayHook[name] && planHook(name, mayHook[name], ofHooks);
    const limits = { ...(chance.happens(IMPATIENT_SHARE) && IMPATIENT), ...machine.limits, ...(hook && HOOKED) };
    if (hook === undefined) return { machine: { ...machine, limits }, sendsTo };
    const args = [...machine.args, ...(machine.args.includes('--forward') ? [] : ['--forward', fileOf(name)])];
    return { machine: { ...machine, args, limits }, sendsTo: { ...sendsTo, [hook.name]: hook.name }, hook };
  });
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
