/**
 * Reports beside forwarding, with `--ack` and without: `node --import tsx test/bench/ack.ts [--sides NAME,NAME] [--connections 1,16,64]
 * [--rounds 3] [--seconds 4] [--delay 200] [--against PATH] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`. All sides get the
 * same load in turn in each round, and are compared with the first. The other end is on the same machine. `--delay` is how long each
 * of its answers takes on a slow link, in milliseconds; `--against` is the built file of another version.
 */

import { writeFileSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { samplesOf } from '../support/metrics.ts';
import type { Scope } from '../support/program.ts';
import { listenOn } from '../support/sent-lines.ts';
import { eventually } from '../support/tools.ts';
import { engines } from './engine.ts';
import { countText, mebibytesText, medianOf, ratioText, spreadOf, spreadText, table } from './figures.ts';
import { load, reportOf, writeScript } from './load.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { ASSETLOG, ROOT, type Server, startAssetlog } from './subjects.ts';

const { values } = parseArgs({
  options: {
    sides: { type: 'string', default: 'alone,hub,ack-hub,ack-hub-slow' },
    connections: { type: 'string', default: '1,16,64' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    delay: { type: 'string', default: '200' },
    against: { type: 'string', default: ASSETLOG },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

/** Services, each with the same load at the same time, and what was measured of them. */
interface Side {
  readonly name: string;
  readonly servers: readonly [Server, ...Server[]];
  /** By round. */
  readonly rates: number[];
  readonly costsUs: number[];
  readonly userUs: number[];
  readonly batches: number[];
}

/**
 * `alone`, `against`, or the other end, such as `nats-3`, with `ack-` before it if replies wait for it, `two-ack-` if they are of two
 * services, and `-slow` after it if the link to it is slow.
 */
async function startSide(t: Scope, scratch: Scratch, name: string): Promise<Side> {
  const start = (args: readonly string[] = [], program?: string) =>
    startAssetlog({ scratch, node: values.node, data: scratch.newFolder('data'), args, program });
  const figures = { name, rates: [], costsUs: [], userUs: [], batches: [] };
  if (name === 'alone') return { ...figures, servers: [await start()] };
  if (name === 'against') return { ...figures, servers: [await start([], values.against)] };
  const [, two, ack, end = '', slow] = /^(two-)?(ack-)?(.*?)(-slow)?$/.exec(name) ?? [];
  const { url, port } = end === 'hub' ? endOf(await start()) : await engines[end]!(t);
  const to = slow === undefined ? url : url.replace(/127\.0\.0\.1:\d+(,[^/]*)?/, await startLink(t, port));
  const file = join(scratch.newFolder('forward'), 'forward.json');
  writeFileSync(file, JSON.stringify({ destinations: [{ name: 'end', to }] }));
  const args = ['--forward', file, ...(ack === undefined ? [] : ['--ack', 'end'])];
  const servers: [Server, ...Server[]] = [await start(args)];
  if (two !== undefined) servers.push(await start(args));
  for (const { url } of servers) await eventually('it is ready', async () => (await fetch(`${url}/readyz`)).ok);
  return { ...figures, servers };
}

function endOf({ url }: Server): { readonly url: string; readonly port: number } {
  return { url, port: Number(new URL(url).port) };
}

/** @returns host and port of a link on which what comes back takes a while */
async function startLink(t: Scope, port: number): Promise<string> {
  const server = createServer((client) => {
    const other = createConnection(port, '127.0.0.1');
    const end = () => [client, other].forEach((socket: Socket) => void socket.destroy());
    for (const socket of [client, other]) socket.on('error', end).on('close', end);
    client.on('data', (bytes) => other.write(bytes));
    other.on('data', (bytes) => setTimeout(() => client.destroyed || client.write(bytes), Number(values.delay)));
  });
  return `127.0.0.1:${await listenOn(t, server)}`;
}

/** @returns how many requests with events were answered, and how many events the other end has */
async function forwardedBy({ url }: Server): Promise<{ readonly requests: number; readonly events: number }> {
  const samples = samplesOf(await (await fetch(`${url}/metrics`)).text());
  const labels = (name: string, value: string) => `{destination="end",${name}="${value}"}`;
  const requests = samples.get(`assetlog_forward_requests_total${labels('answer', 'recorded')}`) ?? 0;
  const events = samples.get(`assetlog_forward_events_total${labels('outcome', 'recorded')}`) ?? 0;
  return { requests, events };
}

async function measure(scratch: Scratch, side: Side, connections: number): Promise<void> {
  const script = writeScript(scratch, reportOf(300));
  const sum = (of: (server: Server) => number) => side.servers.reduce((total, server) => total + of(server), 0);
  const [first] = side.servers;
  const before = await forwardedBy(first);
  const used = [sum((server) => server.processorSeconds()), sum((server) => server.userSeconds())] as const;
  const loads = side.servers.map(({ url }) => load(scratch, url, script, connections, Number(values.seconds)));
  const results = await Promise.all(loads);
  const reports = results.reduce((total, { requests }) => total + requests, 0);
  if (results.some(({ errors }) => errors > 0)) throw new Error(`${side.name}: there were errors`);
  side.costsUs.push(((sum((server) => server.processorSeconds()) - used[0]) * 1e6) / reports);
  side.userUs.push(((sum((server) => server.userSeconds()) - used[1]) * 1e6) / reports);
  const after = await forwardedBy(first);
  side.rates.push(reports / results[0]!.seconds);
  side.batches.push((after.events - before.events) / (after.requests - before.requests));
}

function rowOf({ name, servers, rates, costsUs, userUs, batches }: Side, base: Side, connections: number): string[] {
  const ratios = rates.map((rate, round) => rate / base.rates[round]!);
  const users = userUs.map((cost, round) => cost / base.userUs[round]!);
  return [
    name,
    `${connections}`,
    countText(medianOf(rates)),
    `${ratioText(medianOf(ratios))} (${spreadText(spreadOf(ratios))})`,
    medianOf(costsUs).toFixed(1),
    medianOf(userUs).toFixed(1),
    `${ratioText(medianOf(users))} (${spreadText(spreadOf(users))})`,
    countText(medianOf(batches)),
    mebibytesText(servers[0].memoryBytes()),
  ];
}

const HEAD = [
  '',
  'connections',
  'reports/s',
  '÷ the first',
  'processor time of a report, µs',
  'in user mode',
  '÷ the first',
  'events in a request',
  'memory',
];

async function main(scratch: Scratch, scope: Scope): Promise<void> {
  const sides: Side[] = [];
  for (const name of values.sides.split(',')) sides.push(await startSide(scope, scratch, name));
  const rows: string[][] = [];
  for (const connections of values.connections.split(',').map(Number)) {
    for (const side of sides) {
      await measure(scratch, side, connections); // V8 compiles
      for (const figures of [side.rates, side.costsUs, side.userUs, side.batches]) figures.length = 0;
    }
    for (let round = 0; round < Number(values.rounds); round += 1) {
      for (const side of round % 2 === 0 ? sides : sides.toReversed()) await measure(scratch, side, connections);
    }
    rows.push(...sides.map((side) => rowOf(side, sides[0]!, connections)));
  }
  console.log(table(HEAD, rows));
}

await inScratch(values.scratch, main);
