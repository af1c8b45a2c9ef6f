/**
 * What a device pays for its events: `node --import tsx test/bench/device.ts [--beside PATH/server.js] [--seconds 30] [--quick]
 * [--only hub,delay] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`. `--beside` is the built file of another version, which
 * runs at the same time. Each version has an ext4 of its own on a loop device, which counts what reaches the disk; a hub is outside
 * of it. Without root or loop devices only the figures of /proc are there.
 */

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { deviceOf, mountNew } from '../faults/mounts.ts';
import { withoutMounts } from '../support/machine.ts';
import { countText, mebibytesText, microsecondsText, millisecondsText, quantile, ratioText, table } from './figures.ts';
import { itemOf, reportOf } from './load.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { ASSETLOG, costOfThreads, countLines, ROOT, type Server, startAssetlog } from './subjects.ts';

const { values } = parseArgs({
  options: {
    beside: { type: 'string' },
    seconds: { type: 'string' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});
const SECONDS = Number(values.seconds ?? (values.quick ? 8 : 30));
/** Lines of `report --from`, each with a key. The next start has all of them in memory. */
const LINES = values.quick ? 100_000 : 1_000_000;
const BODY = reportOf(300);
/** Sparse, and large enough for the blocks of 4 KiB that larger disks have. */
const DISK_BYTES = 2 * 1024 ** 3;
/** After a start, and after the last report: cursors and states are written by then. */
const CALM_MS = 1_500;
const COMMAND_MS = 300_000;

interface Side {
  readonly name: string;
  readonly program: string;
  /** The folder of its journals, on its own disk if there is one. */
  readonly folder: string;
  /** The device of the disk, such as `loop3`; undefined without one. */
  readonly device: string | undefined;
}

interface Scene {
  readonly name: string;
  readonly perSecond: number;
  readonly isForwarding?: boolean;
  readonly args?: readonly string[];
}

const SCENES: readonly Scene[] = [
  { name: '1 report/s', perSecond: 1 },
  { name: '10 reports/s', perSecond: 10 },
  { name: '1 report/s to a hub', perSecond: 1, isForwarding: true },
  { name: '10 reports/s to a hub', perSecond: 10, isForwarding: true },
  { name: '20 reports/s', perSecond: 20 },
  { name: '20 reports/s, delay 100', perSecond: 20, args: ['--commit-delay', '100'] },
  { name: '20 reports/s, delay 1000', perSecond: 20, args: ['--commit-delay', '1000'] },
];
const UPKEEP = 'report --from, start';

/** What a service has cost since its start. */
interface Cost {
  readonly bytes: number;
  readonly writes: number;
  readonly flushes: number;
  readonly processorMs: number;
  readonly wakeUps: number;
}

function costOf({ folder, device }: Side, { pid }: Server): Cost {
  const used = costOfThreads(pid);
  if (device === undefined) {
    const bytes = Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1]);
    return { ...used, bytes, writes: Number.NaN, flushes: Number.NaN };
  }
  execFileSync('sync', ['--file-system', folder]); // what the kernel would write some seconds later counts too
  // The fields are listed in Documentation/block/stat.rst of Linux.
  const fields = readFileSync(`/sys/block/${device}/stat`, 'utf8').trim().split(/\s+/).map(Number);
  const [writes = Number.NaN, , sectors = Number.NaN] = fields.slice(4);
  return { ...used, bytes: 512 * sectors, writes, flushes: fields[15] ?? Number.NaN };
}

/** @returns the times of the replies in ms, ascending. @throws Error if a report is not recorded */
async function reportAt(base: string, perSecond: number, seconds: number): Promise<number[]> {
  const agent = new Agent({ keepAlive: true });
  const startMs = performance.now();
  const report = async () => {
    const sentMs = performance.now();
    const sent = request(`${base}/report_asset_materialization/`, {
      method: 'POST',
      agent,
      headers: { 'Content-Type': 'application/json', 'Content-Length': BODY.length },
    }).end(BODY);
    const [reply] = await once(sent, 'response');
    if (reply.statusCode !== 200) throw new Error(`a report got ${reply.statusCode}`);
    await once(reply.resume(), 'end');
    return performance.now() - sentMs;
  };
  const replies = Array.from({ length: perSecond * seconds }, async (_, index) => {
    await sleep(startMs + (1_000 * index) / perSecond - performance.now());
    return report();
  });
  const times = await Promise.all(replies);
  agent.destroy();
  return times.sort((a, b) => a - b);
}

/** @returns the row of one version in one scene */
async function play(scratch: Scratch, side: Side, scene: Scene): Promise<string[]> {
  const { perSecond, args = [], isForwarding = false } = scene;
  const { node } = values;
  const data = join(side.folder, scene.name.replaceAll(/\W/g, '-'));
  const hub = isForwarding ? await startAssetlog({ scratch, node, data: scratch.newFolder('hub') }) : undefined;
  const to = hub === undefined ? [] : ['--forward-to', hub.url];
  const service = await startAssetlog({ scratch, node, program: side.program, data, args: [...args, ...to] });
  await reportAt(service.url, perSecond, 1);
  await sleep(CALM_MS);
  const before = costOf(side, service);
  const times = await reportAt(service.url, perSecond, SECONDS);
  await sleep(CALM_MS);
  const after = costOf(side, service);
  const missing = perSecond * (SECONDS + 1) - countLines(data);
  if (missing !== 0) throw new Error(`${missing} reports have no line`);
  await service.stop();
  await hub?.stop();
  const anEvent = (figure: keyof Cost) => (after[figure] - before[figure]) / (perSecond * SECONDS);
  return [
    scene.name,
    side.name,
    countText(anEvent('bytes')),
    ratioText(anEvent('writes')),
    ratioText(anEvent('flushes')),
    millisecondsText(anEvent('processorMs')),
    anEvent('wakeUps').toFixed(1),
    millisecondsText(quantile(times, 0.5)),
  ];
}

/** @returns the processor time of a command in ms. @throws Error if it fails */
function timesOf(command: readonly string[]): number {
  const script = 'TIMEFORMAT="%U %S"; time "$@" 2> /dev/null';
  const options = { encoding: 'utf8', timeout: COMMAND_MS, env: { ...process.env, LC_ALL: 'C' } } as const;
  const text = execFileSync('bash', ['-c', `{ ${script}; } 2>&1 > /dev/null`, 'bash', ...command], options);
  const [user = Number.NaN, system = Number.NaN] = text.trim().split(' ').map(Number);
  return 1_000 * (user + system);
}

/** Sends a file of reports, and starts the service again with their keys. */
async function replay(scratch: Scratch, side: Side): Promise<string[]> {
  const data = join(side.folder, 'keys');
  const [one, all] = [join(scratch.folder, 'one.jsonl'), join(scratch.folder, 'lines.jsonl')];
  const start = () => startAssetlog({ scratch, node: values.node, program: side.program, data });
  const service = await start();
  const send = (file: string) => timesOf([values.node, side.program, 'report', '--url', service.url, '--from', file]);
  const once = send(one);
  const before = costOf(side, service);
  const client = send(all) - once;
  const after = costOf(side, service);
  await service.stop();
  const again = await start();
  await sleep(CALM_MS);
  const resident = /^VmRSS:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${again.pid}/status`, 'utf8'))?.[1];
  const memory = [1024 * Number(resident), again.memoryBytes()].map(mebibytesText);
  await again.stop();
  const aLine = (ms: number) => microsecondsText((1_000 * ms) / LINES);
  const bytes = countText((after.bytes - before.bytes) / LINES);
  return [side.name, aLine(client), aLine(after.processorMs - before.processorMs), bytes, ...memory];
}

function writeLines(scratch: Scratch): void {
  writeFileSync(join(scratch.folder, 'one.jsonl'), `${itemOf(0)}\n`);
  const lines = Array.from({ length: LINES }, (_, index) => itemOf(index % 1_000));
  writeFileSync(join(scratch.folder, 'lines.jsonl'), `${lines.join('\n')}\n`);
}

function sideOf(scratch: Scratch, name: string, program: string): Side {
  if (withoutMounts !== false) return { name, program, folder: scratch.newFolder(name), device: undefined };
  // Otherwise the kernel would write its own tables during the first minutes.
  const { folder } = mountNew(scratch, 'ext4', { bytes: DISK_BYTES, options: 'noatime,noinit_itable' });
  return { name, program, folder, device: basename(deviceOf(folder)) };
}

function knows({ program }: Side, args: readonly string[]): boolean {
  const help = execFileSync(values.node, [program, 'serve', '--help'], { encoding: 'utf8' });
  return args.every((arg) => !arg.startsWith('--') || help.includes(` ${arg} `));
}

async function main(scratch: Scratch): Promise<void> {
  if (withoutMounts !== false) console.error(`no disk of its own, only the figures of /proc: ${withoutMounts}`);
  const programs = { ...(values.beside !== undefined && { beside: values.beside }), this: ASSETLOG };
  const sides = Object.entries(programs).map(([name, program]) => sideOf(scratch, name, program));
  const words = values.only.split(',');
  const isChosen = (name: string) => words.some((word) => name.includes(word));
  const rows: string[][] = [];
  for (const scene of SCENES.filter(({ name }) => isChosen(name))) {
    const able = sides.filter((side) => knows(side, scene.args ?? []));
    const played = await Promise.all(able.map((side) => play(scratch, side, scene)));
    rows.push(...played);
    for (const row of played) console.error(row.join(' | '));
  }
  const heads = ['an event of', 'version', 'bytes', 'writes', 'flushes', 'processor', 'wake-ups', 'reply'];
  if (rows.length > 0) console.log(table(heads, rows));
  if (!isChosen(UPKEEP)) return;
  writeLines(scratch);
  const replays: string[][] = [];
  for (const side of sides) replays.push(await replay(scratch, side));
  const keys = `resident with ${countText(LINES)} keys`;
  console.log(`\n${table(['version', 'report --from, a line', 'its service', 'bytes', keys, 'peak'], replays)}`);
}

await inScratch(values.scratch, main);
