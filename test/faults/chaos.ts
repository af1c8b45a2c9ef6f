/**
 * Three devices that forward to a hub, which forwards to a plain upstream, for as long as one likes:
 * `chaos.ts [--seconds 600] [--seed N]`. Clients report to each while all of them are killed and stopped, their disks fill and lose
 * their power, retention removes what was forwarded, and each link cuts, delays, doubles, lies or is down. Ends with 1 if a figure
 * is wrong. The upstream is the reference if ASSETLOG_TEST_REFERENCE names it, else a server that behaves like it. What needs root
 * or Linux is left out if that is missing, and the table says so.
 */

import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { answered, type FaultyLink, type LinkFault, PASSED, startFaultyLink } from '../support/faulty-link.ts';
import { compareAtHub, deadLettersIn, sourceIn, watermark } from '../support/forwarded.ts';
import { startPlainUpstream } from '../support/plain-upstream.ts';
import { eachEvent, freePort, newFolder, run, type Scope, startService } from '../support/program.ts';
import { partitionsAtReference, startReference } from '../support/reference.ts';
import { eventually, withoutMounts, withoutPowerCut } from '../support/tools.ts';
import { post } from '../support/wire.ts';
import { type Load, startLoad } from './load.ts';
import { disturb, kill, type LongRun, type Restartable, runFor, stop } from './long-run.ts';
import { type Mount, mountNew } from './mounts.ts';

const MIB = 1024 * 1024;
const DEVICES = ['d0', 'd1', 'd2'];
const SEGMENT_BYTES = 32 * 1024;
/** Little, so that retention waits for a hub that is away for some seconds. */
const RETAIN_BYTES = 192 * 1024;
const DISK_BYTES = 24 * MIB;
const HUB_BYTES_A_SECOND = MIB;
const POLL_MS = 2_000;
const DRAIN_MS = 240_000;
/** More than the longest wait of a forwarder after an outage. */
const STALLED_MS = 120_000;
const NAME = 'upstream';

/** A device or the hub: a service, its disk, its clients, and its link to what it forwards to. */
interface Site extends Restartable {
  readonly data: string;
  readonly mount: Mount | undefined;
  readonly load: Load;
  readonly link: FaultyLink;
  /** Reports that got their 200 after the power was cut, perhaps from before the cut: may be recorded, need not. */
  readonly doubtful: Set<string>;
}

interface Upstream {
  readonly port: number;
  readonly kill: () => Promise<void>;
  readonly start: () => Promise<void>;
  /** @returns the partitions of all events of the asset */
  readonly recorded: (asset: readonly string[]) => Promise<readonly string[]>;
}

interface Chaos {
  readonly random: () => number;
  readonly hub: Site;
  readonly devices: readonly Site[];
  readonly upstream: Upstream;
}

const always = (): string | false => false;

/** What may happen. Each leaves everything running, and its links and disks as they were. */
const phases = {
  'device killed': { missing: always, act: (chaos: Chaos) => kill(aDevice(chaos)) },
  'device stopped': { missing: always, act: (chaos: Chaos) => stop(aDevice(chaos)) },
  'hub killed': { missing: always, act: ({ hub }: Chaos) => kill(hub) },
  'hub stopped': { missing: always, act: ({ hub }: Chaos) => stop(hub) },
  'upstream killed': { missing: always, act: killUpstream },
  'device link down': { missing: always, act: (chaos: Chaos) => takeLinkDown(aDevice(chaos), chaos) },
  'device link cuts': { missing: always, act: (chaos: Chaos) => disturbLink(aDevice(chaos), cuts, chaos) },
  'device link delays and doubles': {
    missing: always,
    act: (chaos: Chaos) => disturbLink(aDevice(chaos), delays, chaos),
  },
  'device link lies': { missing: always, act: (chaos: Chaos) => disturbLink(aDevice(chaos), lies, chaos) },
  'hub link down': { missing: always, act: (chaos: Chaos) => takeLinkDown(chaos.hub, chaos) },
  'hub link cuts': { missing: always, act: (chaos: Chaos) => disturbLink(chaos.hub, cuts, chaos) },
  'hub link delays': { missing: always, act: (chaos: Chaos) => disturbLink(chaos.hub, delaysAlone, chaos) },
  'hub link lies': { missing: always, act: (chaos: Chaos) => disturbLink(chaos.hub, lies, chaos) },
  'device disk full': { missing: () => withoutMounts, act: (chaos: Chaos) => fillUp(aDevice(chaos), chaos) },
  'hub disk full': { missing: () => withoutMounts, act: (chaos: Chaos) => fillUp(chaos.hub, chaos) },
  'device power cut': { missing: () => withoutPowerCut, act: (chaos: Chaos) => cutPower(aDevice(chaos), chaos) },
  'hub power cut': { missing: () => withoutPowerCut, act: (chaos: Chaos) => cutPower(chaos.hub, chaos) },
} as const;

type PhaseName = keyof typeof phases;

function aDevice({ devices, random }: Chaos): Site {
  return devices[Math.floor(random() * devices.length)]!;
}

async function killUpstream({ upstream, random }: Chaos): Promise<void> {
  await upstream.kill();
  await sleep(random() * 1_000);
  await upstream.start();
}

async function takeLinkDown({ link }: Site, { random }: Chaos): Promise<void> {
  link.isDown = true;
  await sleep(500 + random() * 4_000);
  link.isDown = false;
}

/** Of each request, by chance. */
type Disturbance = (random: () => number, bytes: number) => LinkFault;

const cuts: Disturbance = (random, bytes) => {
  const dice = random();
  if (dice < 0.3) return { kind: 'request cut', bytes: Math.floor(random() * bytes) };
  return dice < 0.7 ? { kind: 'reply cut', bytes: Math.floor(random() * 300) } : PASSED;
};

const delays: Disturbance = (random) =>
  random() < 0.5 ? { kind: 'doubled' } : { kind: 'delayed', ms: Math.round(random() * 300) };

/** A plain upstream records what a proxy delivers twice, and no sender can know of it. */
const delaysAlone: Disturbance = (random) => ({ kind: 'delayed', ms: Math.round(random() * 300) });

const lies: Disturbance = (random) => {
  const dice = random();
  if (dice < 0.2) return answered(200, '<html>sign in to this network</html>');
  if (dice < 0.5) return answered(dice < 0.35 ? 502 : 504, '<html>bad gateway</html>');
  if (dice < 0.6) return answered(503, '{"error":"later"}', 'application/json', ['Retry-After: 1']);
  if (dice < 0.7) return answered(302, '', 'text/html', ['Location: http://127.0.0.1:9/']);
  return dice < 0.75 ? answered(401, '<html>proxy</html>') : PASSED;
};

async function disturbLink({ link, service }: Site, disturbance: Disturbance, { random }: Chaos): Promise<void> {
  link.faultOf = ({ bytes }) => disturbance(random, bytes);
  await sleep(1_000 + random() * 2_000);
  link.faultOf = () => PASSED;
  process.kill(service.pid, 'SIGHUP'); // what it took for a mistake of the operator is tried again
}

async function fillUp({ mount, load, name }: Site, { random }: Chaos): Promise<void> {
  const refused = load.statuses.get(503) ?? 0;
  mount?.fill();
  await eventually(`503 from the full disk of ${name}`, () => (load.statuses.get(503) ?? 0) > refused);
  await sleep(random() * 1_000);
  mount?.free();
}

async function cutPower(site: Site, { random }: Chaos): Promise<void> {
  const { mount, load, doubtful } = site;
  const before = new Set(load.acknowledged);
  mount?.cutPower(random() < 0.5);
  const seen = load.statuses.get(0) ?? 0;
  await site.service.kill('SIGKILL');
  // A client that met it twice has had every reply that was on its way.
  await eventually('the clients have met the end', () => (load.statuses.get(0) ?? 0) >= seen + 4);
  for (const key of load.acknowledged) if (!before.has(key)) doubtful.add(key);
  mount?.remount();
  site.service = await site.start();
}

/** The reference lists at most 10,000 events of an asset. */
const ASSET_EVENTS = 2_000;

/** A report for a key such as `d0.1.17`, which is the asset `['chaos', 'd0', '0']` with the partition `1.17`. */
function requestFor(key: string): string {
  const [name = '', client, count] = key.split('.');
  const type = Number(count) % 3 === 0 ? 'observation' : 'materialization';
  const metadata = { text: 'é '.repeat(Number(count) % 50), rows: 1.5 };
  const asset = `chaos/${name}/${Math.floor(Number(count) / ASSET_EVENTS)}`;
  return post(`/report_asset_${type}/${asset}?partition=${client}.${count}`, JSON.stringify({ metadata }));
}

function keyOf(event: Record<string, unknown>): string {
  return `${(event['asset_key'] as string[])[1]}.${event['partition']}`;
}

async function startUpstream(scope: Scope): Promise<Upstream> {
  const executable = process.env['ASSETLOG_TEST_REFERENCE'];
  if (executable !== undefined) {
    const reference = await startReference(scope, executable);
    return { ...reference, recorded: (asset) => partitionsAtReference(reference.port, asset) };
  }
  const plain = await startPlainUpstream(scope);
  const recorded = async (asset: readonly string[]) =>
    plain.events.filter(({ key }) => key.join() === asset.join()).map(({ partition }) => String(partition));
  return { port: plain.port, kill: plain.kill, start: plain.start, recorded };
}

interface SiteOptions {
  readonly name: string;
  readonly args: (link: FaultyLink) => readonly string[];
  readonly toPort: number;
  readonly diskBytes: number;
  readonly clients: number;
  readonly restMs: number;
}

async function startSite(scope: Scope, { name, args, toPort, diskBytes, clients, restMs }: SiteOptions): Promise<Site> {
  const mount = withoutMounts ? undefined : mountNew(scope, 'ext4', { bytes: diskBytes });
  const data = join(mount?.folder ?? newFolder(scope), name);
  mkdirSync(data);
  const link = await startFaultyLink(scope, toPort);
  const all = ['--segment-bytes', String(SEGMENT_BYTES), '--port', String(await freePort(scope)), ...args(link)];
  const start = () => startService(scope, { data, args: all });
  const service = await start();
  const load = startLoad(service.port, { clients, name, restMs, requestFor, pauseMs: 50 });
  scope.after(load.stop);
  return { name, data, mount, load, link, service, start, doubtful: new Set() };
}

async function chaosOf({ seconds, random, scope }: LongRun): Promise<Chaos> {
  const upstream = await startUpstream(scope);
  // The reference records 40 to 100 reports a second, one at a time.
  const restMs = process.env['ASSETLOG_TEST_REFERENCE'] === undefined ? 60 : 400;
  const destinations = join(newFolder(scope), 'destinations.json');
  const hub = await startSite(scope, {
    ...{ name: 'hub', toPort: upstream.port, diskBytes: DISK_BYTES + seconds * HUB_BYTES_A_SECOND, clients: 1, restMs },
    args: ({ url }) => {
      writeFileSync(destinations, JSON.stringify({ destinations: [{ name: NAME, to: url }] }));
      return ['--forward', destinations];
    },
  });
  const devices: Site[] = [];
  for (const name of DEVICES) {
    const args = ({ url }: FaultyLink) => ['--forward-to', url, '--retain-bytes', String(RETAIN_BYTES)];
    devices.push(
      await startSite(scope, { name, args, toPort: hub.service.port, diskBytes: DISK_BYTES, clients: 2, restMs }),
    );
  }
  return { random, hub, devices, upstream };
}

/** Lets all that is recorded arrive. A start begins without a wait, so all of them start once more. @returns seconds */
async function drain({ hub, devices, upstream }: Chaos): Promise<number> {
  const startedMs = performance.now();
  const sites = [hub, ...devices];
  for (const { load } of sites) await load.stop();
  for (const site of sites) await stop(site);
  for (const { data, name } of devices) {
    const last = [...eachEvent(data)].at(-1)?.['seq'] as number | undefined;
    const source = sourceIn(data);
    await eventually(
      `the hub has ${last} of ${name}`,
      async () => (await watermark(hub.service, source)) >= (last ?? 1),
      DRAIN_MS,
    );
  }
  const expected = [...eachEvent(hub.data)];
  await reachesUpstream(expected, { hub, upstream });
  for (const { service, name } of sites) {
    const { code, stderr } = await service.kill('SIGTERM');
    if (code !== 0) throw new Error(`${name} ended with ${code}: ${stderr.slice(-1_000)}`);
  }
  return (performance.now() - startedMs) / 1000;
}

/** It may take long, since the reference records some dozen events a second. @throws Error if nothing more arrives */
async function reachesUpstream(
  expected: readonly Record<string, unknown>[],
  parts: Pick<Chaos, 'hub' | 'upstream'>,
): Promise<void> {
  let [left, sinceMs] = [Number.POSITIVE_INFINITY, performance.now()];
  while (left > 0) {
    await sleep(POLL_MS);
    const { length } = (await atUpstream(expected, parts)).missing;
    if (length < left) [left, sinceMs] = [length, performance.now()];
    if (performance.now() - sinceMs > STALLED_MS) throw new Error(`${left} events do not reach the upstream`);
  }
}

interface AtUpstream {
  /** Neither recorded nor a dead letter. */
  readonly missing: readonly string[];
  readonly doubled: number;
  /** Recorded more than once, and no dead letter says that they may be. */
  readonly unexplained: readonly string[];
  readonly deadLetters: number;
}

async function atUpstream(
  expected: readonly Record<string, unknown>[],
  { hub, upstream }: Pick<Chaos, 'hub' | 'upstream'>,
): Promise<AtUpstream> {
  const letters = deadLettersIn(hub.data, NAME);
  const dead = new Set(letters.flatMap(({ line }) => (line === undefined ? [] : [keyOf(line)])));
  const times = new Map<string, number>();
  for (const asset of new Set(expected.map((event) => JSON.stringify(event['asset_key'])))) {
    const asset_key: string[] = JSON.parse(asset);
    for (const partition of await upstream.recorded(asset_key)) {
      const key = keyOf({ asset_key, partition });
      times.set(key, (times.get(key) ?? 0) + 1);
    }
  }
  const doubled = [...times].filter(([, count]) => count > 1).map(([key]) => key);
  return {
    missing: expected.map(keyOf).filter((key) => !times.has(key) && !dead.has(key)),
    doubled: doubled.length,
    unexplained: doubled.filter((key) => !dead.has(key)),
    deadLetters: letters.length,
  };
}

/** @returns whether all figures are as they must be */
async function judge(chaos: Chaos, counts: ReadonlyMap<PhaseName, number>, drainSeconds: number): Promise<boolean> {
  const print = (name: string, value: string | number) => console.log(`${name.padEnd(32)} ${value}`);
  const { hub, devices } = chaos;
  for (const name of Object.keys(phases) as PhaseName[]) print(name, phases[name].missing() || (counts.get(name) ?? 0));
  let right = true;
  const isRight = (name: string, wrong: readonly string[]) => {
    print(name, wrong.length);
    for (const sentence of wrong.slice(0, 10)) console.log(`  ${sentence}`);
    right &&= wrong.length === 0;
  };
  const times = new Map<string, number>();
  for (const event of eachEvent(hub.data)) times.set(keyOf(event), (times.get(keyOf(event)) ?? 0) + 1);
  for (const { name, load, doubtful, data, link } of [hub, ...devices]) {
    print(`${name} acknowledged`, load.acknowledged.size);
    print(`${name} refused with 503`, load.statuses.get(503) ?? 0);
    isRight(
      `${name} not at the hub`,
      [...load.acknowledged].filter((key) => !doubtful.has(key) && !times.has(key)),
    );
    isRight(
      `${name} other replies`,
      [...load.statuses.keys()].filter((status) => ![0, 200, 503].includes(status)).map(String),
    );
    if (name !== 'hub') isRight(`${name} wrong at the hub`, compareAtHub(hub.data, data).wrong);
    print(`${name} link`, [...link.counts].map(([kind, count]) => `${count} ${kind}`).join(', '));
    print(`${name} removed by retention`, Number(/-0*(\d+)\.removed/.exec(readdirSync(data).join())?.[1] ?? 0));
    const verified = await run(['verify', '--data', data]);
    isRight(`${name} damage`, verified.code === 0 ? [] : [verified.stdout]);
    right &&= load.acknowledged.size > 0;
  }
  isRight(
    'doubled at the hub',
    [...times].filter(([, count]) => count > 1).map(([key]) => key),
  );
  const upstream = await atUpstream([...eachEvent(hub.data)], chaos);
  isRight('neither upstream nor dead letter', upstream.missing);
  print('doubled upstream', upstream.doubled);
  isRight('of them without a dead letter', upstream.unexplained);
  print('dead letters', upstream.deadLetters);
  print('seconds until all had arrived', Math.round(drainSeconds));
  return right;
}

await runFor(async (run) => {
  const chaos = await chaosOf(run);
  const possible = (Object.keys(phases) as PhaseName[]).filter((name) => phases[name].missing() === false);
  const steps = possible.map((name) => ({ name, act: () => phases[name].act(chaos) }));
  const counts = await disturb(steps, run);
  return judge(chaos, counts, await drain(chaos));
});
