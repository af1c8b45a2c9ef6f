/**
 * What readings cost, of two versions in one run: `node --import tsx test/bench/read.ts [--against COMMIT] [--events 1000000]
 * [--rounds 3] [--seconds 5] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`.
 *
 * - Processor time of searches: by command, over HTTP, and by `grep`.
 * - The 99th percentile of 500 reports a second beside no, one and two endless searches.
 * - How late the events of a stream are beside 20,000 events a second in batches.
 */

import { spawnSync } from 'node:child_process';
import { Agent, get, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { sourceOf } from '../support/forwarding.ts';
import { encodeMembers, type PlainEvent } from '../support/plain-event.ts';
import { countText, medianOf, millisecondsText, quantile, ratioText, table } from './figures.ts';
import { writeJournal } from './large-journal.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { buildVersions, ROOT, type Server, type Version } from './subjects.ts';

const { values } = parseArgs({
  options: {
    against: { type: 'string', default: 'HEAD' },
    events: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});
const EVENTS = Number(values.events);
const SEGMENT_EVENTS = 120_000; // 66 MB
const SOURCES = 100;
const ID = '01a1fb95-ce62-7e59-9364-610bf5613940';

const isRare = (seq: number) => seq % (EVENTS / 10) === 5;

/** An event of a device at a hub, of about 550 bytes a line. Ten in all have a rare key, partition and check. */
function eventOf(seq: number): PlainEvent {
  const shared = {
    assetKey: ['warehouse', seq === 15 ? 'once' : isRare(seq) ? 'rare' : `orders_${seq % 1_000}`],
    partition: isRare(seq) ? 'rare' : `2026-11-${10 + (seq % 20)}`,
    metadata: JSON.stringify({ rows: seq, path: `s3://bucket/${'orders/'.repeat(20)}`, by: 'x'.repeat(50) }),
    origin: { source: sourceOf(seq % SOURCES), seq, id: ID, recorded: '2026-11-20T15:19:45.266Z' },
  };
  if (seq % 3 > 0 && !isRare(seq)) return { type: 'AssetMaterialization', ...shared };
  const check = { checkName: isRare(seq) ? 'rare' : 'fresh', passed: !isRare(seq), severity: 'WARN' } as const;
  return { type: 'AssetCheckEvaluation', ...check, ...shared };
}

/** The same events are written again and again, except for the rare ones. */
function writeEvents(folder: string): void {
  const pool = Array.from({ length: 9_900 }, (_, at) => encodeMembers(eventOf(at + 20)));
  writeJournal(folder, EVENTS, SEGMENT_EVENTS, (seq) =>
    seq === 15 || isRare(seq) ? encodeMembers(eventOf(seq)) : pool[seq % pool.length]!,
  );
}

/** Searches: the options of the command, which are the query over HTTP as well, and the bytes that `grep` looks for. */
const searches: readonly (readonly [name: string, options: Readonly<Record<string, string>>, text?: string])[] = [
  ['a rare key', { key: 'warehouse/rare' }, '["warehouse","rare"]'],
  ['a partition', { partition: 'rare' }, '"partition":"rare"'],
  ['a check', { check: 'rare' }, '"check_name":"rare"'],
  ['no match', { key: 'warehouse/none' }, '["warehouse","none"]'],
  ['all of a key at the beginning', { key: 'warehouse/once' }],
  ['its latest', { key: 'warehouse/once', last: '1' }],
  ['a text in either case', { contains: 'Warehouse-Nowhere' }, 'Warehouse-Nowhere'],
  ['--last 1', { last: '1' }],
  ['an unknown source', { source: ID }, `"from":["${ID}"`],
];

/** `grep` would end at its first match if its output were /dev/null. @returns the processor time of a command, in milliseconds */
function commandMs(...command: readonly string[]): number {
  const { stdout } = spawnSync('bash', ['-c', '"$@" 2>&1 | cat >/dev/null; times', 'bash', ...command], {
    encoding: 'utf8',
  });
  const [, children = ''] = stdout.trim().split('\n');
  const times = [...children.matchAll(/(\d+)m([\d.]+)s/g)];
  return 1_000 * times.reduce((sum, [, minutes, seconds]) => sum + 60 * Number(minutes) + Number(seconds), 0);
}

async function read(url: string): Promise<void> {
  await (await fetch(url, { headers: { connection: 'close' } })).arrayBuffer();
}

async function httpMs(service: Server, query: Readonly<Record<string, string>>): Promise<number> {
  const before = service.processorSeconds();
  await read(`${service.url}/events?${new URLSearchParams(query)}`);
  return 1_000 * (service.processorSeconds() - before);
}

async function measureSearches(versions: readonly Version[], scratch: Scratch, data: string): Promise<void> {
  const services: Server[] = [];
  for (const { start } of versions) {
    const own = scratch.newFolder('copy');
    spawnSync('cp', ['-rl', `${data}/.`, own]);
    services.push(await start({ scratch, node: values.node, data: own }));
  }
  const rows: string[][] = [];
  for (const [name, options, text] of searches) {
    const finder: number[] = [];
    const times = versions.map(() => ({ command: [] as number[], http: [] as number[] }));
    const args = Object.entries(options).flatMap(([option, value]) => [`--${option}`, value]);
    for (let round = 0; round < Number(values.rounds); round += 1) {
      if (text !== undefined) finder.push(commandMs('grep', '-r', '--fixed-strings', text, data));
      for (const [at, { program }] of versions.entries()) {
        times[at]!.command.push(commandMs(values.node, program, 'events', ...args, '--data', data));
        times[at]!.http.push(await httpMs(services[at]!, options));
      }
    }
    const best = medianOf(finder);
    const cells = times.flatMap(({ command, http }) => {
      const [ms, overHttp] = [medianOf(command), medianOf(http)];
      return [`${millisecondsText(ms)}, ${ratioText(ms / best)}`, millisecondsText(overHttp)];
    });
    rows.push([name, millisecondsText(best), ...cells]);
    console.error(rows.at(-1)?.join(' | '));
  }
  for (const service of services) await service.stop();
  const head = versions.flatMap(({ name }) => [`${name}, ÷ grep`, 'over HTTP']);
  console.log(table([`${countText(EVENTS)} events`, 'grep', ...head], rows));
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
  times.sort((a, b) => a - b);
  return quantile(times, 0.99);
}

/** @returns the 99th percentile of reports beside endless searches, and the number of searches */
async function beside(service: Server, readings: number): Promise<string> {
  let [count, isEnding] = [0, false];
  const searching = Array.from({ length: readings }, async () => {
    for (; !isEnding; count += 1) await read(`${service.url}/events?key=warehouse/none`);
  });
  await sleep(500);
  const p99Ms = await reportAt(service.url, 500, Number(values.seconds));
  isEnding = true;
  await Promise.all(searching);
  return `${millisecondsText(p99Ms)} (${count})`;
}

/** @returns how late the events of a stream came: the median, and the latest of the end */
async function lateness(service: Server): Promise<string[]> {
  const late: number[] = [];
  const headers = { accept: 'text/event-stream' };
  const stream = get(`${service.url}/events?key=now`, { headers, agent: false }, (reply) => {
    reply.setEncoding('utf8').on('data', (text: string) => {
      for (const [, sentMs] of text.matchAll(/"description":"(\d+)"/g)) late.push(Date.now() - Number(sentMs));
    });
  });
  stream.on('error', () => {});
  await sleep(300);
  const endMs = performance.now() + 1_000 * Number(values.seconds);
  const filling = { path: 'x'.repeat(250) };
  for (let startedMs = performance.now(), sent = 0; performance.now() < endMs; sent += 1_000) {
    const waitMs = startedMs + sent / 20 - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const item = { type: 'observation', asset_key: 'now', description: `${Date.now()}`, metadata: filling };
    const reply = await fetch(`${service.url}/report_asset_batch/`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(Array(1_000).fill(item)),
    });
    if (reply.status !== 200) throw new Error(`a batch got ${reply.status}: ${await reply.text()}`);
    await reply.arrayBuffer();
  }
  await sleep(200);
  stream.destroy();
  return [medianOf(late), Math.max(...late.slice(-2_000))].map(millisecondsText);
}

async function main(scratch: Scratch): Promise<void> {
  const versions = buildVersions(scratch, values.against);
  const data = scratch.newFolder('data');
  writeEvents(data);
  await measureSearches(versions, scratch, data);
  const rows: string[][] = [];
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const { name, start } of versions) {
      const service = await start({ scratch, node: values.node, data });
      const reports: string[] = [];
      for (const readings of [0, 1, 2]) reports.push(await beside(service, readings));
      rows.push([name, ...reports, ...(await lateness(service))]);
      console.error(rows.at(-1)?.join(' | '));
      await service.stop();
    }
  }
  console.log(table(['version', 'p99 alone', 'one search', 'two (searches)', 'stream late by', 'at the end'], rows));
}

await inScratch(values.scratch, main);
