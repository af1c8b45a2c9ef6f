/**
 * What an idle service costs: `node --import tsx test/bench/idle.ts [--seconds 30] [--settle 40] [--deployments 1000] [--only
 * local,hosted] [--beside PATH/server.js] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`. Prints how often in a second the
 * threads of each process wake up, and its processor time. All scenes of a program run at the same time, and those of the program
 * that `--beside` names after them.
 */

import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { newToken } from '../../src/deployments/tokens.ts';
import { table } from './figures.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { ASSETLOG, costOfThreads, ROOT, type Server, startAssetlog } from './subjects.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '30' },
    /** Time after the last request before a process counts as idle, in seconds. */
    settle: { type: 'string', default: '40' },
    deployments: { type: 'string', default: '1000' },
    only: { type: 'string', default: '' },
    beside: { type: 'string' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

/** A process that is measured. */
interface Idle {
  readonly what: string;
  readonly pid: number;
}

/** Starts the processes of a scene. */
type Scene = (start: Start, scratch: Scratch, program: string) => Promise<Idle[]>;
type Start = (...args: string[]) => Promise<Server & { readonly data: string }>;

const PATH = '/report_asset_materialization/idle';

const SCENES: Readonly<Record<string, Scene>> = {
  local: async (start) => {
    const server = await start();
    await report(server.url);
    return [{ what: 'local', pid: server.pid }];
  },
  well: async (start) => {
    const hub = await start();
    const device = await start('--forward-to', hub.url);
    await report(device.url);
    return [
      { what: 'forwards to a hub that is well', pid: device.pid },
      { what: 'the hub', pid: hub.pid },
    ];
  },
  away: async (start) => {
    const device = await start('--forward-to', 'http://127.0.0.1:1');
    await report(device.url);
    return [{ what: 'forwards to a hub that is away', pid: device.pid }];
  },
  hosted: async (start, scratch) => {
    const file = join(scratch.newFolder('deployments'), 'deployments.json');
    const names = Array.from({ length: Number(values.deployments) }, (_, at) => `d${at}`);
    const { token, digest } = newToken();
    const tokens = [{ name: 'all', sha256: digest, may: ['report'] }];
    writeFileSync(file, JSON.stringify({ deployments: names.map((name) => ({ name, tokens })) }), { mode: 0o600 });
    const server = await start('--deployments', file);
    for (const name of names) await report(`${server.url}/${name}`, { 'Service-Cloud-Api-Token': token });
    return [{ what: `${names.length} deployments, one report each`, pid: server.pid }];
  },
  follow: async (start, scratch, program) => {
    const server = await start();
    await report(server.url);
    const command = [values.node, program, 'events', '--follow', '--data', server.data];
    const follower = scratch.spawn(command, { stdio: ['ignore', 'pipe', 'ignore'] });
    await once(follower.stdout!, 'data');
    return [
      { what: 'events --follow of a folder', pid: follower.pid! },
      { what: 'the service of that folder', pid: server.pid },
    ];
  },
};

/** Reports over a connection of its own, which is closed. */
async function report(url: string, headers: Record<string, string> = {}): Promise<void> {
  const sent = request(`${url}${PATH}`, { method: 'POST', agent: false, headers }).end();
  const [reply] = await once(sent, 'response');
  reply.resume();
  await once(reply, 'close');
  if (reply.statusCode !== 200) throw new Error(`${url} answers ${reply.statusCode}`);
}

/** @returns a row for each process: what it is, its wake-ups and its processor time of a second */
async function measure(program: string, scratch: Scratch): Promise<string[][]> {
  const servers: Server[] = [];
  const start: Start = async (...args) => {
    const data = scratch.newFolder('data');
    const server = await startAssetlog({ scratch, node: values.node, data, args, program });
    servers.push(server);
    return { ...server, data };
  };
  const wanted = values.only === '' ? Object.keys(SCENES) : values.only.split(',');
  const processes: Idle[] = [];
  for (const name of wanted) processes.push(...(await SCENES[name]!(start, scratch, program)));
  await sleep(Number(values.settle) * 1000);
  const began = performance.now();
  const before = processes.map(({ pid }) => costOfThreads(pid));
  await sleep(Number(values.seconds) * 1000);
  const seconds = (performance.now() - began) / 1000;
  const rows = processes.map(({ what, pid }, at) => {
    const now = costOfThreads(pid);
    const aSecond = (figure: keyof typeof now) => (now[figure] - before[at]![figure]) / seconds;
    return [what, aSecond('wakeUps').toFixed(1), aSecond('processorMs').toFixed(2)];
  });
  for (const server of servers) await server.stop();
  return rows;
}

async function main(scratch: Scratch): Promise<void> {
  const own = await measure(ASSETLOG, scratch);
  const other = values.beside === undefined ? undefined : await measure(values.beside, scratch);
  const head = ['idle', 'wake-ups/s', 'CPU ms/s', ...(other === undefined ? [] : ['beside: wake-ups/s', 'CPU ms/s'])];
  const rows = own.map((row, at) => [...row, ...(other?.[at]?.slice(1) ?? [])]);
  console.log(table(head, rows));
}

await inScratch(values.scratch, main);
