/** The engines of a life, the services that forward to them, and what goes wrong with them. */

import type { Chance } from '../../world/chance.ts';
import type { Network } from '../../world/network.ts';
import type { World } from '../../world/time.ts';
import { isLeftOut, type PlannedFault, type PlannedKind } from '../faults.ts';
import { putFile } from '../replaced/files.ts';
import { connectWith } from '../replaced/net.ts';
import type { EngineState } from '../runner/expected.ts';
import type { PlannedService } from '../services.ts';
import { Clickhouse } from './clickhouse.ts';
import type { Engine } from './engine.ts';
import { Nats } from './nats.ts';

/** Of so many lives in a row one has engines. */
const LIVES = 4;
const MEAN_MS = 4_000;
/** The numbers of the faults are after all others. */
const FIRST_FAULT = 10_000_000;
/** Most trouble is a late request, and a service that begins anew before it arrives. */
const KINDS: readonly PlannedKind[] = [
  ...(['upstream error', 'upstream error', 'delayed', 'delayed'] as const),
  ...(['link down', 'request lost', 'reply lost', 'doubled', 'forged reply'] as const),
  ...(['crash', 'crash', 'restore device', 'clock jump'] as const),
];
/** What strikes the service, and not its link. */
const AT_SERVICE: readonly PlannedKind[] = ['crash', 'restore device', 'clock jump'];

const SMALL = ['--segment-bytes', '4096', '--ack', 'upstream'];
const FILE = '/e1/forward.json';
const TABLE = 'clickhouse+http://clickhouse:8123,clickhouse:8124,clickhouse:8125/assets.events';

/** Else a life is spent with waiting for answers that were lost. */
const IMPATIENT = { forwardRequestMs: 2_000, natsAnswerMs: 2_000, forwardStoppedMs: 5_000, nearRetryMsMax: 1_000 };

/** Replies of both services wait for their engines. */
const services: readonly PlannedService[] = [
  {
    machine: {
      name: 'e0',
      args: [...SMALL, '--forward-to', 'nats://nats:4222,nats:4223,nats:4224/ASSETLOG', '--retain-bytes', '16384'],
      limits: { ...IMPATIENT, natsBatchLinesMax: 5 },
    },
    sendsTo: { upstream: 'nats' },
  },
  {
    machine: { name: 'e1', args: [...SMALL, '--forward-to', TABLE], limits: IMPATIENT },
    sendsTo: { upstream: 'clickhouse' },
  },
];

/** @returns the services of a life that forward to engines */
export function engineServices(seed: number): readonly PlannedService[] {
  if (!hasEngines(seed)) return [];
  putFile(FILE, JSON.stringify({ destinations: [{ name: 'upstream', to: TABLE, ratePerSecond: 5 }] }));
  return services;
}

/** @param met called with what an engine went through */
export function openEngines(world: World, network: Network, met: (state: EngineState) => void): Engine[] {
  if (!hasEngines(world.seed)) return [];
  const nats = new Nats(world, network, 'nats', met);
  connectWith((options) => nats.connect(options));
  return [nats, new Clickhouse(world, network, 'clickhouse', met)];
}

/** @returns what goes wrong with the engines besides the plan of all lives */
export function planEngineFaults(seed: number, chance: Chance, untilMs: number): PlannedFault[] {
  const kinds = KINDS.filter((kind) => !isLeftOut(kind, seed));
  const plan: PlannedFault[] = [];
  if (!hasEngines(seed)) return plan;
  for (let atMs = chance.exponentialMs(MEAN_MS); atMs < untilMs; atMs += chance.exponentialMs(MEAN_MS)) {
    const kind = chance.oneOf(kinds);
    const [machine, engine] = chance.oneOf([
      ['e0', 'nats'],
      ['e1', 'clickhouse'],
    ] as const);
    const link = `${machine} to ${engine}`;
    const target = kind === 'upstream error' ? engine : AT_SERVICE.includes(kind) ? machine : link;
    const number = FIRST_FAULT + plan.length;
    plan.push({ number, atMs, kind, target, lengthMs: chance.exponentialMs(3_000), seed: chance.next() });
  }
  return plan;
}

function hasEngines(seed: number): boolean {
  return seed % LIVES === LIVES - 1;
}
