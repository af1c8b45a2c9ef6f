/**
 * Everything at once, for as long as one likes: `soak.ts [--seconds 600] [--seed N]`. Clients report without an end to a
 * local service and to a hosted one while these are killed, stopped, slowed down, put on a full disk, cut off from power,
 * flooded by clients that never read, and held by their lock, always on the same journals. Ends with 1 if a figure is wrong.
 * What needs root, Linux or a tool is left out if that is missing, and the table says so.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Deployments, writeDeployments } from '../support/deployments.ts';
import { eachEvent, freePort, newFolder, type Scope, startService } from '../support/program.ts';
import { eventually, withoutMounts, withoutPowerCut, withoutStrace } from '../support/tools.ts';
import { post, Wire } from '../support/wire.ts';
import { compare, type Load, startLoad } from './load.ts';
import { disturb, kill, type LongRun, type Restartable, runFor, stop } from './long-run.ts';
import { type Mount, mountNew } from './mounts.ts';

const MIB = 1024 * 1024;
const CLIENTS = 8;
const REST_MS = 25;
const SEGMENT_BYTES = 2 * MIB;
/** What the load writes in a second, and some. The image is sparse. */
const BYTES_A_SECOND = 4 * MIB;
const LARGE = 'x'.repeat(20_000);

/** A journal each, opened by the first report after a start. */
const DEPLOYMENTS = ['one', 'two', 'three', 'four', 'five', 'six'];
const READERLESS = 8;

/** A service, its clients and its journals. */
interface Site extends Restartable {
  /** Begins each line of the table that is about it. */
  readonly name: 'local' | 'hosted';
  readonly data: string;
  readonly load: Load;
  /** The folders of its journals, and which of its keys are recorded there. */
  readonly journals: readonly { readonly folder: string; readonly has: (key: string) => boolean }[];
  /** Read after a power cut, so perhaps not from before it: may be there, need not. */
  readonly doubtful: Set<string>;
  /** Clients that sent requests and read no reply. */
  readonly readerless: Set<Wire>;
}

interface Soak {
  readonly random: () => number;
  readonly mount: Mount | undefined;
  readonly sites: readonly Site[];
}

/** What may happen to a service. Each leaves it running. */
const phases = {
  killed: { missing: () => false as string | false, act: kill },
  stopped: { missing: () => false as string | false, act: stop },
  'unread replies': { missing: () => false as string | false, act: leaveUnread },
  'held lock': { missing: () => process.platform === 'win32' && 'it has no lock file', act: holdLock },
  'slow disk': { missing: () => withoutStrace, act: slowDown },
  'full disk': { missing: () => withoutMounts, act: fillUp },
  'power cut': { missing: () => withoutPowerCut, act: cutPower },
} as const;

type PhaseName = keyof typeof phases;

/** More replies than the system buffers, to clients that stay connected and read none of them. */
async function leaveUnread(site: Site): Promise<void> {
  for (const wire of site.readerless) wire.close();
  site.readerless.clear();
  const before = site.load.acknowledged.size;
  for (let opened = 0; opened < READERLESS; opened += 1) {
    const wire = await Wire.open(site.service.port);
    wire.socket.pause();
    wire.send('GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(200));
    site.readerless.add(wire);
  }
  await eventually('200 beside clients that do not read', () => site.load.acknowledged.size > before + CLIENTS);
}

/** A program that connects to the lock and never leaves keeps the service neither from its work nor from its end. */
async function holdLock(site: Site): Promise<void> {
  const [lock] = readdirSync(site.data).filter((name) => name.startsWith('.lock-'));
  if (lock === undefined) throw new Error(`there is no lock file in ${site.data}`);
  const holder = connect({ path: join(site.data, lock), allowHalfOpen: true });
  await once(holder, 'connect');
  holder.on('error', () => {}); // the service ends
  const before = site.load.acknowledged.size;
  await eventually('200 beside a held lock', () => site.load.acknowledged.size > before + CLIENTS);
  await stop(site);
  holder.destroy();
}

/** Each sync takes its time for a while; every second time the service is killed in the middle of one. */
async function slowDown(site: Site, { random }: Soak): Promise<void> {
  const delayMs = 20 + Math.round(random() * 200);
  const inject = `inject=pwrite64:delay_exit=${delayMs * 1000}`;
  const pid = String(site.service.pid);
  const args = ['-f', '-qq', '-o', '/dev/null', '-e', 'trace=pwrite64', '-e', inject, '-p', pid];
  const tracer = spawn('strace', args, { stdio: 'ignore' });
  const ended = once(tracer, 'exit');
  await sleep(500 + random() * 1_000);
  const before = site.load.acknowledged.size;
  await eventually('a 200 from a slow disk', () => site.load.acknowledged.size > before);
  if (random() < 0.5) await kill(site);
  tracer.kill('SIGTERM');
  await ended;
}

async function fillUp({ load }: Site, { mount, random }: Soak): Promise<void> {
  const refused = load.statuses.get(503) ?? 0;
  mount?.fill();
  await eventually('503 from a full disk', () => (load.statuses.get(503) ?? 0) > refused + CLIENTS);
  await sleep(random() * 500);
  mount?.free();
  const before = load.acknowledged.size;
  await eventually('200 from a disk with space', () => load.acknowledged.size > before + CLIENTS);
}

/** Of the disk that both services have. */
async function cutPower(_site: Site, { mount, random, sites }: Soak): Promise<void> {
  const before = sites.map(({ load }) => new Set(load.acknowledged));
  mount?.cutPower(random() < 0.5);
  const unanswered = () => sites.map(({ load }) => load.statuses.get(0) ?? 0);
  const seen = unanswered();
  await Promise.all(sites.map(({ service }) => service.kill('SIGKILL')));
  // A client that met it twice has had every reply that was on its way.
  await eventually('each client has met the end twice', () =>
    unanswered().every((count, at) => count >= seen[at]! + 2 * CLIENTS),
  );
  for (const [index, { load, doubtful }] of sites.entries())
    for (const key of load.acknowledged) if (!before[index]?.has(key)) doubtful.add(key);
  mount?.remount();
  for (const site of sites) site.service = await site.start();
}

/** Small and large, all three kinds, and now and then one that is refused. */
function requestFor(random: () => number, hosted: Deployments | undefined): (key: string) => string {
  return (key) => {
    const prefix = hosted === undefined ? '' : `/${deploymentOf(key)}`;
    const headers = hosted === undefined ? [] : [hosted.headerOf(deploymentOf(key))];
    const send = (target: string, text: string) => post(prefix + target, text, headers);
    const body: Record<string, unknown> = { metadata: { text: random() < 0.1 ? LARGE : 'some', rows: 1.5 } };
    const dice = random();
    if (dice < 0.02) return send(`/report_asset_check/${key}`, '{"passed": True}');
    if (dice < 0.04) return send(`/report_asset_materialization/${key}`, '{"metadata": 1}');
    if (dice < 0.35) {
      return send(`/report_asset_check/${key}`, JSON.stringify({ ...body, check_name: 'fresh', passed: dice < 0.2 }));
    }
    if (dice < 0.65) return send(`/report_asset_observation/${key}?data_version=v2`, JSON.stringify(body));
    return send(`/report_asset_materialization/${key}`, JSON.stringify(body));
  };
}

function deploymentOf(key: string): string {
  const count = Number(key.split('.').at(-1));
  return DEPLOYMENTS[count % DEPLOYMENTS.length] ?? '';
}

async function startSite(name: Site['name'], disk: string, scope: Scope, random: () => number): Promise<Site> {
  const data = join(disk, name);
  mkdirSync(data, { recursive: true });
  const hosted = name === 'hosted' ? writeDeployments(scope, DEPLOYMENTS) : undefined;
  const port = String(await freePort(scope));
  const args = ['--segment-bytes', String(SEGMENT_BYTES), '--port', port, ...(hosted?.args ?? [])];
  const start = () => startService(scope, { data, args });
  const service = await start();
  const options = { clients: CLIENTS, name: 'k', restMs: REST_MS };
  const load = startLoad(service.port, {
    ...options,
    requestFor: requestFor(random, hosted),
  });
  scope.after(load.stop);
  const journals = DEPLOYMENTS.map((deployment) => ({
    folder: join(data, deployment),
    has: (key: string) => deploymentOf(key) === deployment,
  }));
  return {
    ...{ name, data, load, service, doubtful: new Set<string>(), readerless: new Set<Wire>() },
    journals: hosted !== undefined ? journals : [{ folder: data, has: () => true }],
    start,
  };
}

async function soak(run: LongRun): Promise<boolean> {
  const { random, scope, seconds } = run;
  const mount = withoutMounts ? undefined : mountNew(scope, 'ext4', { bytes: 64 * MIB + seconds * BYTES_A_SECOND });
  const disk = mount?.folder ?? newFolder(scope);
  const sites = [await startSite('local', disk, scope, random), await startSite('hosted', disk, scope, random)];
  const state: Soak = { random, mount, sites };
  const possible = (Object.keys(phases) as PhaseName[]).filter((name) => phases[name].missing() === false);
  const steps = possible.flatMap((name) => sites.map((site) => ({ name, act: () => phases[name].act(site, state) })));
  const counts = await disturb(steps, run);
  for (const { load, readerless, service } of sites) {
    await load.stop();
    for (const wire of readerless) wire.close();
    await service.kill('SIGTERM');
  }
  return judge(state, counts);
}

interface Verdict {
  readonly events: number;
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  /** Journals whose `seq` does not count up by one, and where. */
  readonly gaps: readonly string[];
}

/** Starts once more, so that what a start does is in what is compared. */
async function judgeSite({ load, doubtful, journals, start }: Site): Promise<Verdict> {
  await (await start()).kill('SIGTERM');
  const certain = [...load.acknowledged].filter((key) => !doubtful.has(key));
  const compared = journals.map(({ folder, has }) => ({
    folder,
    ...compare(eachEvent(folder), certain.filter(has)),
  }));
  return {
    events: compared.reduce((sum, { events }) => sum + events, 0),
    lost: compared.flatMap(({ lost }) => lost),
    doubled: compared.flatMap(({ doubled }) => doubled),
    gaps: compared.flatMap(({ folder, gapAt }) => (gapAt === undefined ? [] : [`${folder} at ${gapAt}`])),
  };
}

/** @returns whether all figures are as they must be */
async function judge({ sites }: Soak, counts: ReadonlyMap<PhaseName, number>): Promise<boolean> {
  const print = (name: string, value: string | number) => console.log(`${name.padEnd(25)} ${value}`);
  for (const name of Object.keys(phases) as PhaseName[]) print(name, phases[name].missing() || (counts.get(name) ?? 0));
  const expected = new Set([0, 200, 400, 503]);
  let right = true;
  for (const site of sites) {
    const { name, load } = site;
    const { events, lost, doubled, gaps } = await judgeSite(site);
    const strange = [...load.statuses.keys()].filter((status) => !expected.has(status));
    print(`${name} acknowledged`, load.acknowledged.size);
    print(`${name} in the journal`, events);
    print(`${name} lost`, lost.length);
    print(`${name} doubled`, doubled.length);
    print(`${name} seq whole`, gaps.length === 0 ? 'yes' : `no: ${gaps.join(', ')}`);
    for (const status of [503, 400]) print(`${name} refused with ${status}`, load.statuses.get(status) ?? 0);
    print(`${name} without a reply`, load.statuses.get(0) ?? 0);
    print(`${name} other replies`, strange.join(' ') || 'none');
    for (const key of lost.slice(0, 10)) console.log(`${name} lost: ${key}`);
    right &&= lost.length + doubled.length + gaps.length + strange.length === 0 && load.acknowledged.size > 0;
  }
  return right;
}

await runFor(soak);
