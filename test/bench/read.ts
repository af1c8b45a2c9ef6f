/**
 * What readings cost, of two versions in one run: `node --import tsx test/bench/read.ts [--against COMMIT] [--events 1000000,10000000]
 * [--rounds 3] [--seconds 5] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`.
 *
 * - Processor time of searches by command, beside that of `rg` and DuckDB where they are installed (otherwise of `grep`), and over HTTP.
 * - The 99th percentile of 500 reports a second beside no, one and two endless searches.
 * - How late the events of a stream are beside 20,000 events a second in batches.
 */

import { spawnSync } from 'node:child_process';
import { closeSync, openSync, writeSync } from 'node:fs';
import { Agent, get, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type ChainPosition, encodeBatch } from '../../src/journal/line/record.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { sourceOf } from '../support/forwarding.ts';
import { encodeMembers, type PlainEvent } from '../support/plain-event.ts';
import { countText, medianOf, millisecondsText, quantile, ratioText, table } from './figures.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { buildVersions, ROOT, type Server, type Version } from './subjects.ts';

const { values } = parseArgs({
  options: {
    against: { type: 'string', default: 'HEAD' },
    events: { type: 'string', default: '1000000,10000000' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

const SEGMENT_EVENTS = 120_000; // 66 MB
const BATCH_EVENTS = 10_000;
const SOURCES = 100;

/** The events of a device at a hub, of about 550 bytes a line. Ten in all have a rare key, partition and check. */
function eventOf(seq: number, events: number): PlainEvent {
  const isRare = seq % (events / 10) === 5;
  const shared = {
    assetKey: seq === 15 ? ['warehouse', 'once'] : ['warehouse', isRare ? 'rare' : `orders_${seq % 1_000}`],
    partition: isRare ? 'rare' : `2026-11-${10 + (seq % 20)}`,
    metadata: JSON.stringify({ rows: seq, path: `s3://bucket/${'orders/'.repeat(20)}`, by: 'x'.repeat(50) }),
    origin: { source: sourceOf(seq % SOURCES), seq, id: ID, recorded: '2026-11-20T15:19:45.266Z' },
  };
  if (seq % 3 > 0 && !isRare) return { type: 'AssetMaterialization', ...shared };
  const check = { checkName: isRare ? 'rare' : 'fresh', passed: !isRare, severity: 'WARN' } as const;
  return { type: 'AssetCheckEvaluation', ...check, ...shared };
}

const ID = '01a1fb95-ce62-7e59-9364-610bf5613940';

/** Writes the journal of a service that has stopped. The same events come again and again, but for the rare ones. */
function writeEvents(folder: string, events: number): void {
  const pool = Array.from({ length: BATCH_EVENTS }, (_, at) => encodeMembers(eventOf(at + 20, 1e12)));
  const rare = (seq: number) => seq === 15 || seq % (events / 10) === 5;
  let file = 0;
  for (let chain: ChainPosition = { seq: 1, crc: 0 }; chain.seq <= events; ) {
    const isFirst = (chain.seq - 1) % SEGMENT_EVENTS === 0;
    if (isFirst && file > 0) closeSync(file);
    if (isFirst) file = openSync(join(folder, segmentName(chain.seq)), 'wx', 0o600);
    if (isFirst) chain = { seq: chain.seq, crc: 0 };
    const first = chain.seq;
    const members = pool.map((one, at) => (rare(first + at) ? encodeMembers(eventOf(first + at, events)) : one));
    const encoded = encodeBatch(members, chain, new Date());
    writeSync(file, encoded.bytes);
    chain = encoded.chain;
  }
  closeSync(file);
}

interface Question {
  readonly name: string;
  readonly args: readonly string[];
  readonly query?: string;
  /** For `rg`: the bytes to look for. */
  readonly text?: string;
  /** Whether it looks for them in either case. */
  readonly isAnyCase?: true;
}

const questions: readonly Question[] = [
  { name: '--version', args: ['--version'] },
  {
    name: 'a rare key',
    args: ['events', '--key', 'warehouse/rare'],
    query: 'key=warehouse/rare',
    text: '["warehouse","rare"]',
  },
  { name: 'a partition', args: ['events', '--partition', 'rare'], query: 'partition=rare', text: '"partition":"rare"' },
  { name: 'a check', args: ['events', '--check', 'rare'], query: 'check=rare', text: '"check_name":"rare"' },
  {
    name: 'no match',
    args: ['events', '--key', 'warehouse/none'],
    query: 'key=warehouse/none',
    text: '["warehouse","none"]',
  },
  { name: 'all of a key at the beginning', args: ['events', '--key', 'warehouse/once'], query: 'key=warehouse/once' },
  {
    name: 'its latest',
    args: ['events', '--key', 'warehouse/once', '--last', '1'],
    query: 'key=warehouse/once&last=1',
  },
  {
    name: 'a text in either case',
    args: ['events', '--contains', 'Warehouse-Nowhere'],
    query: 'contains=Warehouse-Nowhere',
    text: 'Warehouse-Nowhere',
    isAnyCase: true,
  },
  { name: '--last 1', args: ['events', '--last', '1'], query: 'last=1' },
  { name: 'an unknown source', args: ['events', '--source', ID], query: `source=${ID}`, text: `"from":["${ID}"` },
];

/** `grep` would end at its first match if its output were /dev/null. @returns the processor time of a command, in milliseconds */
function commandMs(command: readonly string[]): number {
  const { stdout } = spawnSync('bash', ['-c', '"$@" 2>&1 | cat >/dev/null; times', 'bash', ...command], {
    encoding: 'utf8',
  });
  const [, children = ''] = stdout.trim().split('\n');
  const times = [...children.matchAll(/(\d+)m([\d.]+)s/g)];
  return 1_000 * times.reduce((sum, [, minutes, seconds]) => sum + 60 * Number(minutes) + Number(seconds), 0);
}

function isInstalled(program: string): boolean {
  return spawnSync(program, ['--version']).status === 0;
}

async function read(url: string): Promise<void> {
  await (await fetch(url, { headers: { connection: 'close' } })).arrayBuffer();
}

async function httpMs(service: Server, query: string): Promise<number> {
  const before = service.processorSeconds();
  await read(`${service.url}/events?${query}`);
  return 1_000 * (service.processorSeconds() - before);
}

async function costs(versions: readonly Version[], scratch: Scratch, data: string, events: number): Promise<void> {
  const finder = isInstalled('rg') ? ['rg'] : ['grep', '-r']; // `-r` of rg replaces
  const rows: string[][] = [];
  const services: Server[] = [];
  for (const { start } of versions) {
    const own = scratch.newFolder('copy');
    spawnSync('cp', ['-rl', `${data}/.`, own]);
    services.push(await start({ scratch, node: values.node, data: own }));
  }
  for (const { name, args, query, text, isAnyCase } of questions) {
    const found = { finder: [] as number[], duckdb: [] as number[] };
    const command = versions.map((): number[] => []);
    const http = versions.map((): number[] => []);
    for (let round = 0; round < Number(values.rounds); round += 1) {
      if (text !== undefined)
        found.finder.push(commandMs([...finder, ...(isAnyCase ? ['-i'] : []), '--fixed-strings', text, data]));
      if (text !== undefined && isInstalled('duckdb')) {
        const sql = `select count(*) from read_ndjson_objects('${data}/*.jsonl') where contains(json::varchar, '${text}')`;
        found.duckdb.push(commandMs(['duckdb', '-c', sql]));
      }
      for (const [index, { program }] of versions.entries()) {
        command[index]!.push(
          commandMs([values.node, program, ...args, ...(args[0] === 'events' ? ['--data', data] : [])]),
        );
        if (query !== undefined) http[index]!.push(await httpMs(services[index]!, query));
      }
    }
    const best = medianOf(found.finder);
    rows.push([
      name,
      millisecondsText(best),
      millisecondsText(medianOf(found.duckdb)),
      ...command.map((times) => `${millisecondsText(medianOf(times))}, ${ratioText(medianOf(times) / best)}`),
      ...http.map(
        (times, index) =>
          `${millisecondsText(medianOf(times))}, ${ratioText(medianOf(times) / medianOf(command[index]!))}`,
      ),
    ]);
    console.error(rows.at(-1)?.join(' | '));
  }
  for (const service of services) await service.stop();
  const names = versions.map(({ name }) => name);
  const head = [
    `${countText(events)} events`,
    finder[0]!,
    'duckdb',
    ...names.map((name) => `${name}, ÷ ${finder[0]}`),
    ...names.map((name) => `${name} over HTTP, ÷ command`),
  ];
  console.log(table(head, rows));
}

/** Reports at a fixed rate, whatever becomes of the earlier ones. @returns the 99th percentile of their times in ms */
async function reportAt(url: string, rate: number, seconds: number): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 256 });
  const times: number[] = [];
  const startedMs = performance.now();
  for (let sent = 0; sent < rate * seconds; ) {
    const dueMs = startedMs + (1_000 * sent) / rate;
    if (performance.now() < dueMs) {
      await sleep(1);
      continue;
    }
    sent += 1;
    request(`${url}/report_asset_observation/a`, { method: 'POST', agent }, (reply) => {
      reply.resume().on('end', () => times.push(performance.now() - dueMs));
    }).end();
  }
  while (times.length < rate * seconds) await sleep(10);
  agent.destroy();
  return quantile(
    times.toSorted((a, b) => a - b),
    0.99,
  );
}

async function beside(service: Server, readings: number): Promise<{ p99Ms: number; searches: number }> {
  const ended = { is: false };
  let searches = 0;
  const searching = Array.from({ length: readings }, async () => {
    while (!ended.is) {
      await read(`${service.url}/events?key=warehouse/none`);
      searches += 1;
    }
  });
  await sleep(500);
  const p99Ms = await reportAt(service.url, 500, Number(values.seconds));
  ended.is = true;
  await Promise.all(searching);
  return { p99Ms, searches };
}

/** @returns how late the events of a stream came, the median and the latest, in ms */
async function lateness(service: Server): Promise<readonly [number, number]> {
  const late: number[] = [];
  const stream = get(
    `${service.url}/events?key=now`,
    { headers: { accept: 'text/event-stream' }, agent: false },
    (reply) => {
      reply.setEncoding('utf8').on('data', (text: string) => {
        for (const [, sentMs] of text.matchAll(/"description":"(\d+)"/g)) late.push(Date.now() - Number(sentMs));
      });
    },
  );
  stream.on('error', () => {});
  await sleep(300);
  const endMs = performance.now() + 1_000 * Number(values.seconds);
  for (let startedMs = performance.now(), sent = 0; performance.now() < endMs; sent += 1_000) {
    const waitMs = startedMs + sent / 20 - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const item = {
      type: 'observation',
      asset_key: 'now',
      description: `${Date.now()}`,
      metadata: { path: 'x'.repeat(250) },
    };
    const body = JSON.stringify(Array(1_000).fill(item));
    const headers = { 'Content-Type': 'application/json' };
    const reply = await fetch(`${service.url}/report_asset_batch/`, { method: 'POST', headers, body });
    if (reply.status !== 200) throw new Error(`a batch got ${reply.status}: ${await reply.text()}`);
    await reply.arrayBuffer();
  }
  await sleep(200);
  stream.destroy();
  return [medianOf(late), Math.max(...late.slice(-2_000))];
}

async function service(version: Version, scratch: Scratch, data: string, run: (server: Server) => Promise<void>) {
  const server = await version.start({ scratch, node: values.node, data });
  await run(server);
  await server.stop();
}

async function main(scratch: Scratch): Promise<void> {
  const versions = buildVersions(scratch, values.against);
  for (const events of values.events.split(',').map(Number)) {
    const data = scratch.newFolder('data');
    writeEvents(data, events);
    await costs(versions, scratch, data, events);
    const rows: string[][] = [];
    for (let round = 0; round < Number(values.rounds); round += 1) {
      for (const version of versions) {
        await service(version, scratch, data, async (server) => {
          const p99s = [];
          for (const readings of [0, 1, 2]) p99s.push(await beside(server, readings));
          const [median, last] = await lateness(server);
          const searches = p99s.map(({ p99Ms, searches }) => `${millisecondsText(p99Ms)} (${searches})`);
          rows.push([version.name, ...searches, millisecondsText(median), millisecondsText(last)]);
          console.error(rows.at(-1)?.join(' | '));
        });
      }
    }
    console.log(table(['version', 'p99 alone', 'one search', 'two (searches)', 'stream late by', 'at the end'], rows));
  }
}

await inScratch(values.scratch, main);
