/** What each fault of a plan does, and to whom. A fault is counted when it has really happened. */

import { type Fault, systemError } from '../support/simulated-disk.ts';
import { Chance } from './chance.ts';
import type { FaultKind, PlannedFault } from './faults.ts';
import type { Machine } from './machine.ts';
import type { FaultOf } from './machine-disk.ts';
import type { Link, Network } from './network.ts';
import type { Upstream } from './upstream.ts';
import type { World } from './world.ts';

/** What faults can strike. */
export interface Targets {
  readonly world: World;
  readonly network: Network;
  readonly machines: readonly Machine[];
  readonly upstream: Upstream;
  /** Called when a fault has happened. */
  readonly count: (kind: FaultKind) => void;
  /** Called after a process has ended without its will: an operator starts it again. */
  readonly died: (machine: Machine) => void;
}

const DAY_MS = 86_400_000;
const SLOW = [10, 100, 1_000];
/** Share of the faults of links that strike the one to the plain upstream, which knows least. */
const UPSTREAM_SHARE = 1 / 3;

type LinkFault = Extract<
  FaultKind,
  'link down' | 'request lost' | 'reply lost' | 'delayed' | 'doubled' | 'forged reply'
>;

/** Begins a fault. What has a length ends by itself. */
export function strike({ kind, seed }: PlannedFault, targets: Targets): void {
  const chance = new Chance(seed);
  const machine = chance.oneOf(targets.machines);
  switch (kind) {
    case 'crash':
    case 'power cut':
      endProcess(machine, kind, chance, targets);
      break;
    case 'stop':
      if (machine.service !== undefined) targets.count(kind);
      machine.stop();
      break;
    case 'write error':
    case 'sync error':
    case 'read error':
    case 'short write':
      failOneCall(machine, kind, chance, targets);
      break;
    case 'disk full':
    case 'slow disk':
      troubleDisk(machine, kind, chance, targets);
      break;
    case 'clock jump':
      targets.count(kind);
      machine.clock.offsetMs = chance.oneOf([0, chance.integer(-50, 50) * DAY_MS, -Date.UTC(2026, 0, 1)]);
      break;
    case 'upstream error':
      for (let left = chance.integer(1, 5); left > 0; left -= 1) {
        targets.upstream.faults.push(chance.oneOf(['before', 'after'] as const));
      }
      return;
    default:
      disturbLink(kind, chance, targets);
  }
}

/** Half of the crashes and power cuts strike in the middle of a disk call, since a disk is idle for most of the time. */
function endProcess(
  machine: Machine,
  kind: 'crash' | 'power cut',
  chance: Chance,
  { world, count, died }: Targets,
): void {
  const remains = {
    entries: chance.oneOf(['none', 'half', 'all'] as const),
    share: chance.oneOf([0, chance.share(), 1]),
    behind: chance.oneOf(['nothing', 'zeros', 'garbage'] as const),
  };
  const { disk } = machine;
  const end = () => {
    disk.fault = noFault;
    if (machine.process === undefined) return;
    count(kind);
    if (kind === 'crash') machine.kill();
    else machine.cutPower(remains);
    died(machine);
  };
  let calls = chance.happens(0.5) ? 0 : chance.integer(1, 8);
  if (calls === 0) {
    end();
    return;
  }
  disk.fault = (call) => {
    if (!['write', 'sync', 'rename', 'remove'].includes(call)) return undefined;
    calls -= 1;
    if (calls === 0) world.plan(0, kind, end, null);
    return undefined;
  };
}

type OneCall = 'write error' | 'sync error' | 'read error' | 'short write';

function failOneCall({ disk }: Machine, kind: OneCall, chance: Chance, { count }: Targets): void {
  const wanted = kind === 'sync error' ? 'sync' : kind === 'read error' ? 'read' : 'write';
  const fault: Fault = kind === 'short write' ? { shortBy: chance.integer(1, 400) } : systemError('EIO');
  disk.fault = (call) => {
    if (call !== wanted) return undefined;
    disk.fault = noFault;
    count(kind);
    return fault;
  };
}

function troubleDisk(
  { disk }: Machine,
  kind: 'disk full' | 'slow disk',
  chance: Chance,
  { world, count }: Targets,
): void {
  const end = () => {
    if (kind === 'slow disk') disk.slowness = 1;
    else if (disk.fault === full) disk.fault = noFault;
  };
  const full: FaultOf = (call) => {
    if (call !== 'write' && call !== 'create' && call !== 'replace') return undefined;
    count(kind);
    return systemError('ENOSPC');
  };
  if (kind === 'disk full') disk.fault = full;
  else {
    count(kind);
    disk.slowness = chance.oneOf(SLOW);
  }
  world.plan(chance.exponentialMs(3_000), `end of ${kind}`, end, null);
}

function disturbLink(kind: LinkFault, chance: Chance, { world, network }: Targets): void {
  const links = network.links();
  const link = chance.happens(UPSTREAM_SHARE) ? network.link('hub', 'upstream') : chance.oneOf(links);
  if (kind === 'link down') {
    link.isDown = true;
    world.plan(chance.exponentialMs(4_000), 'link up', () => linkUp(link), null);
    return;
  }
  for (let left = chance.integer(1, 4); left > 0; left -= 1) {
    const ms = chance.exponentialMs(chance.oneOf([100, 5_000, 60_000]));
    const isDelivered = chance.happens(0.5);
    // A 503 says that nothing was recorded, so that it is not forged after a request was delivered.
    const status = chance.oneOf(isDelivered ? [502, 504] : [502, 503, 504]);
    if (kind === 'delayed') link.faults.push({ kind, ms });
    else if (kind === 'request lost' || kind === 'reply lost') link.faults.push({ kind });
    else if (kind === 'forged reply') {
      const reply = { status, headers: { 'content-type': 'text/html' }, body: '<html>' };
      link.faults.push({ kind, isDelivered, reply });
    } else if (link.mayDouble) link.faults.push({ kind, afterMs: ms });
  }
}

function linkUp(link: Link): void {
  link.isDown = false;
}

const noFault: FaultOf = () => undefined;
