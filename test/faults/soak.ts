/**
 * Everything at once, for as long as one likes: `soak.ts [--seconds 600] [--seed N]`. Clients report without an end while
 * the service is killed, stopped, slowed down, put on a full disk and cut off from power, always on the same journal. Ends
 * with 1 where a figure is wrong. What needs root, Linux or a tool is left out where that is missing, and the table says so.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { eachEvent, newFolder, type Running, startService } from '../support/program.ts';
import { withoutMounts, withoutPowerCut, withoutStrace } from '../support/tools.ts';
import { post } from '../support/wire.ts';
import { compare, type Load, startLoad } from './load.ts';
import { type Mount, mountNew } from './mounts.ts';

const MIB = 1024 * 1024;
const CLIENTS = 8;
const REST_MS = 25;
const SEGMENT_BYTES = 2 * MIB;
/** What the load writes in a second, and some. The image is sparse. */
const BYTES_A_SECOND = 4 * MIB;
const PATIENCE_MS = 20_000;
const LARGE = 'x'.repeat(20_000);

interface Soak {
  readonly random: () => number;
  readonly data: string;
  readonly mount: Mount | undefined;
  readonly load: Load;
  service: Running;
  readonly start: () => Promise<Running>;
  /** Read after a power cut, so perhaps not from before it: may be there, need not. */
  readonly doubtful: Set<string>;
}

/** What may happen. Each leaves a running service behind. */
const phases = {
  killed: {
    missing: () => false as string | false,
    act: async (soak: Soak) => {
      await soak.service.kill('SIGKILL');
      soak.service = await soak.start();
    },
  },
  stopped: {
    missing: () => false as string | false,
    act: async (soak: Soak) => {
      const { code, stderr } = await soak.service.kill('SIGTERM');
      if (code !== 0) throw new Error(`a stop ended with ${code}: ${stderr.slice(-1_000)}`);
      soak.service = await soak.start();
    },
  },
  'slow disk': { missing: () => withoutStrace, act: slowDown },
  'full disk': { missing: () => withoutMounts, act: fillUp },
  'power cut': { missing: () => withoutPowerCut, act: cutPower },
} as const;

type PhaseName = keyof typeof phases;

/** Each sync takes its time for a while; every second time the service is killed in the middle of one. */
async function slowDown(soak: Soak): Promise<void> {
  const { service, random, load } = soak;
  const delayMs = 20 + Math.round(random() * 200);
  const inject = `inject=pwrite64:delay_exit=${delayMs * 1000}`;
  const args = ['-f', '-qq', '-o', '/dev/null', '-e', 'trace=pwrite64', '-e', inject, '-p', String(service.pid)];
  const tracer = spawn('strace', args, { stdio: 'ignore' });
  const ended = once(tracer, 'exit');
  await sleep(500 + random() * 1_000);
  const before = load.acknowledged.size;
  await until('a 200 from a slow disk', () => load.acknowledged.size > before);
  if (random() < 0.5) {
    await service.kill('SIGKILL');
    soak.service = await soak.start();
  }
  tracer.kill('SIGTERM');
  await ended;
}

async function fillUp({ mount, random, load }: Soak): Promise<void> {
  const refused = load.statuses.get(503) ?? 0;
  mount?.fill();
  await until('503 from a full disk', () => (load.statuses.get(503) ?? 0) > refused + CLIENTS);
  await sleep(random() * 500);
  mount?.free();
  const before = load.acknowledged.size;
  await until('200 from a disk with space', () => load.acknowledged.size > before + CLIENTS);
}

async function cutPower(soak: Soak): Promise<void> {
  const before = new Set(soak.load.acknowledged);
  soak.mount?.cutPower(soak.random() < 0.5);
  await soak.service.kill('SIGKILL');
  await sleep(50); // replies that are on their way
  for (const key of soak.load.acknowledged) if (!before.has(key)) soak.doubtful.add(key);
  soak.mount?.remount();
  soak.service = await soak.start();
}

/** Small and large, all three kinds, and now and then one that is refused. */
function requestFor(random: () => number): (key: string) => string {
  return (key) => {
    const body: Record<string, unknown> = { metadata: { text: random() < 0.1 ? LARGE : 'some', rows: 1.5 } };
    const dice = random();
    if (dice < 0.02) return post(`/report_asset_check/${key}`, '{"passed": True}');
    if (dice < 0.04) return post(`/report_asset_materialization/${key}`, '{"metadata": 1}');
    if (dice < 0.35) {
      return post(`/report_asset_check/${key}`, JSON.stringify({ ...body, check_name: 'fresh', passed: dice < 0.2 }));
    }
    if (dice < 0.65) return post(`/report_asset_observation/${key}?data_version=v2`, JSON.stringify(body));
    return post(`/report_asset_materialization/${key}`, JSON.stringify(body));
  };
}

async function soak(seconds: number, seed: number, releases: (() => unknown)[]): Promise<boolean> {
  const random = randomFrom(seed);
  const scope = { after: (release: () => unknown) => void releases.push(release) };
  const mount = withoutMounts ? undefined : mountNew(scope, 'ext4', { bytes: 64 * MIB + seconds * BYTES_A_SECOND });
  const data = mount === undefined ? newFolder(scope) : join(mount.folder, 'data');
  mkdirSync(data, { recursive: true });
  const first = await startService(scope, { data, args: ['--segment-bytes', String(SEGMENT_BYTES)] });
  const load = startLoad(first.port, { clients: CLIENTS, name: 'k', restMs: REST_MS, requestFor: requestFor(random) });
  scope.after(load.stop);
  const args = ['--port', String(first.port), '--segment-bytes', String(SEGMENT_BYTES)];
  const state: Soak = {
    ...{ random, data, mount, load, service: first, doubtful: new Set<string>() },
    start: () => startService(scope, { data, args }),
  };

  const counts = new Map<PhaseName, number>();
  const possible = (Object.keys(phases) as PhaseName[]).filter((name) => phases[name].missing() === false);
  const startedMs = performance.now();
  const elapsed = () => (performance.now() - startedMs) / 1000;
  for (let round = 0; elapsed() < seconds && !interrupted; round += 1) {
    // Each once, so that a short run has them all, and then as it comes.
    const name = possible[round < possible.length ? round : Math.floor(random() * possible.length)]!;
    await sleep(200 + random() * 1_300);
    await phases[name].act(state);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    if (process.stdout.isTTY) {
      process.stdout.write(`\r${Math.round(elapsed())} s, ${load.acknowledged.size} acknowledged, ${name}\x1b[K`);
    }
  }
  await load.stop();
  await state.service.kill('SIGTERM');
  return judge(state, counts);
}

/** Starts once more, so that what a start does is in what is compared. @returns whether all figures are as they must be */
async function judge(state: Soak, counts: ReadonlyMap<PhaseName, number>): Promise<boolean> {
  const { load, doubtful, data } = state;
  await (await state.start()).kill('SIGTERM');
  const certain = [...load.acknowledged].filter((key) => !doubtful.has(key));
  const { events, lost, doubled, gapAt } = compare(eachEvent(data), certain);
  const expected = new Set([0, 200, 400, 503]);
  const strange = [...load.statuses.keys()].filter((status) => !expected.has(status));
  const table: (readonly [string, string | number])[] = [
    ...(Object.keys(phases) as PhaseName[]).map(
      (name) => [name, phases[name].missing() || (counts.get(name) ?? 0)] as const,
    ),
    ['acknowledged', load.acknowledged.size],
    ['in the journal', events],
    ['lost', lost.length],
    ['doubled', doubled.length],
    ['seq whole', gapAt === undefined ? 'yes' : `no, at ${gapAt}`],
    ['refused with 503', load.statuses.get(503) ?? 0],
    ['refused with 400', load.statuses.get(400) ?? 0],
    ['without a reply', load.statuses.get(0) ?? 0],
    ['other replies', strange.join(' ') || 'none'],
  ];
  for (const [name, value] of table) console.log(`${name.padEnd(18)} ${value}`);
  for (const key of lost.slice(0, 10)) console.log(`lost: ${key}`);
  const right = lost.length === 0 && doubled.length === 0 && gapAt === undefined && strange.length === 0;
  return right && certain.length > 0;
}

/** Numbers from 0 up to 1 that a seed brings back (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

async function until(what: string, holds: () => boolean): Promise<void> {
  for (const late = performance.now() + PATIENCE_MS; !holds(); await sleep(10)) {
    if (performance.now() > late) throw new Error(`${what}: not within ${PATIENCE_MS} ms`);
  }
}

const { values } = parseArgs({ options: { seconds: { type: 'string' }, seed: { type: 'string' } } });
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
console.log(`seed ${seed}`);

let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interrupted = true;
  });
}
const releases: (() => unknown)[] = [];
try {
  if (!(await soak(Number(values.seconds ?? 600), seed, releases))) process.exitCode = 1;
} catch (error) {
  console.log((error as Error).message);
  process.exitCode = 1;
} finally {
  // The newest first: what is mounted goes when nobody uses it any more.
  for (const release of releases.reverse()) await release();
}
