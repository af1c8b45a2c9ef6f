/**
 * Events a second of a sender alone, from a backlog into an engine, beside a minimal client that sends the same lines with the same
 * settings, one request in flight: `node --import tsx test/bench/engines.ts [--engines nats-1,nats-3,clickhouse] [--rounds 3]
 * [--events 300000] [--rate 1000000] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`. `--rate` is the most requests a second
 * of both. Needs ASSETLOG_TEST_NATS and ASSETLOG_TEST_CHDB.
 */

import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { samplesOf } from '../support/metrics.ts';
import type { Scope } from '../support/program.ts';
import { type Engine, engines } from './engine.ts';
import { countText, mebibytesText, medianOf, ratioText, spreadOf, spreadText, table } from './figures.ts';
import { writeReadings } from './large-journal.ts';
import { inScope, inScratch, type Scratch } from './scratch.ts';
import { processorSecondsOfChildren, ROOT, startAssetlog } from './subjects.ts';

const SEGMENT_EVENTS = 250_000;
const POLL_MS = 40;

const { values } = parseArgs({
  options: {
    engines: { type: 'string', default: 'nats-1,nats-3,clickhouse' },
    rounds: { type: 'string', default: '3' },
    events: { type: 'string', default: '300000' },
    rate: { type: 'string', default: '1000000' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});
const events = Number(values.events);
const ratePerSecond = Number(values.rate);

interface Forwarded {
  readonly rate: number;
  /** Processor time of an event, in microseconds. */
  readonly senderUs: number;
  readonly engineUs: number;
  readonly memoryBytes: number;
}

/** Starts a service with the backlog. The time is taken from the first events that are acknowledged to the last. */
async function forwardAll({ url, command }: Engine, backlog: string, scratch: Scratch): Promise<Forwarded> {
  const data = join(scratch.newFolder('device'), 'data');
  cpSync(backlog, data, { recursive: true });
  const file = join(scratch.newFolder('forward'), 'forward.json');
  writeFileSync(file, JSON.stringify({ destinations: [{ name: 'engine', to: url, ratePerSecond }] }));
  const device = await startAssetlog({ scratch, node: values.node, data, args: ['--forward', file] });
  const lag = async () => {
    const text = await (await fetch(`${device.url}/metrics`)).text();
    return samplesOf(text).get('assetlog_forward_lag_events{destination="engine"}') ?? events;
  };
  let behind = events;
  for (; behind === events; await sleep(POLL_MS)) behind = await lag();
  const [first, startMs] = [behind, performance.now()];
  const used = [device.processorSeconds(), processorSecondsOfChildren(command)];
  for (; behind > 0; await sleep(POLL_MS)) behind = await lag();
  const seconds = (performance.now() - startMs) / 1000;
  const costs = [device.processorSeconds(), processorSecondsOfChildren(command)].map(
    (now, at) => ((now - used[at]!) * 1e6) / first,
  );
  const memoryBytes = device.memoryBytes();
  await device.stop();
  return { rate: first / seconds, senderUs: costs[0]!, engineUs: costs[1]!, memoryBytes };
}

/** @returns the lines of a journal, without their newlines */
function linesOf(folder: string): Buffer[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.jsonl'));
  const text = names.sort().map((name) => readFileSync(join(folder, name), 'utf8'));
  const lines = text.join('').split('\n').slice(0, -1);
  return lines.map((line) => Buffer.from(line));
}

async function measure(t: Scope, name: string, backlog: string, scratch: Scratch): Promise<string[]> {
  const engine = await engines[name]!(t);
  const lines = linesOf(backlog);
  const clients: number[] = [];
  const clientUs: number[] = [];
  const forwarded: Forwarded[] = [];
  let wireBytes = 0;
  const client = async (round: number) => {
    const [startMs, used] = [performance.now(), process.cpuUsage()];
    wireBytes = (await engine.sendAll(lines, round, 1000 / ratePerSecond)) / lines.length;
    clients.push((lines.length * 1000) / (performance.now() - startMs));
    const { user, system } = process.cpuUsage(used);
    clientUs.push((user + system) / lines.length);
  };
  await client(-1); // V8 compiles
  clients.length = clientUs.length = 0;
  for (let round = 0; round < Number(values.rounds); round += 1) {
    if (round % 2 === 0) await client(round);
    forwarded.push(await forwardAll(engine, backlog, scratch));
    if (round % 2 === 1) await client(round);
  }
  const figure = (of: (one: Forwarded) => number) => medianOf(forwarded.map(of));
  const ratios = forwarded.map(({ rate }, round) => rate / clients[round]!);
  return [
    name,
    countText(medianOf(clients)),
    countText(figure(({ rate }) => rate)),
    `${ratioText(medianOf(ratios))} (${spreadText(spreadOf(ratios))})`,
    ...[medianOf(clientUs), figure(({ senderUs }) => senderUs), figure(({ engineUs }) => engineUs)].map((us) =>
      us.toFixed(1),
    ),
    mebibytesText(figure(({ memoryBytes }) => memoryBytes)),
    ...[wireBytes, await engine.storedBytes()].map((bytes) => bytes.toFixed(0)),
  ];
}

const HEAD = [
  'engine',
  'client, events/s',
  'sender, events/s',
  'sender ÷ client',
  'µs of an event: client',
  'service',
  'engine, all nodes',
  'memory of the service',
  'bytes of an event: sent',
  'stored, all nodes',
];

async function main(scratch: Scratch): Promise<void> {
  const backlog = scratch.newFolder('backlog');
  writeReadings(backlog, events, SEGMENT_EVENTS);
  const rows: string[][] = [];
  for (const name of values.engines.split(',')) {
    rows.push(await inScope((t) => measure(t, name, backlog, scratch)));
  }
  console.log(table(HEAD, rows));
  const bytes = linesOf(backlog).reduce((sum, line) => sum + line.length + 1, 0);
  console.log(`\na line has ${(bytes / events).toFixed(0)} bytes in the journal`);
}

await inScratch(values.scratch, main);
