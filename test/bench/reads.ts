/**
 * The cost of readings for reports: durable reports per second, and the time of 99 in 100 of them, with streams of all events and a
 * search through the whole journal, compared with the same service without any reading:
 * `node --import tsx test/bench/reads.ts [--rounds 5] [--seconds 5] [--connections 64] [--events 4000000] [--streams 32]
 * [--scratch FOLDER] [--node PATH]`. A round is a run without readings, a run with them, and both in the other order.
 *
 * Linear paging: also reads the journal, and a tenth of it, in pages of 1,000 lines, to compare the time per line.
 */

import { once } from 'node:events';
import { get } from 'node:http';
import { parseArgs } from 'node:util';
import { countText, medianOf, millisecondsText, ratioText, spreadOf, spreadText, table } from './figures.ts';
import { writeJournal } from './large-journal.ts';
import { type LoadResult, load, reportOf, type Script, writeScript } from './load.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { ROOT, type Server, startAssetlog } from './subjects.ts';

const REPORT_BYTES = 200;
const SEGMENT_EVENTS = 250_000;
const WARM_UP_SECONDS = 2;
const PAGE_EVENTS = 1_000;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    connections: { type: 'string', default: '64' },
    events: { type: 'string', default: '4000000' },
    streams: { type: 'string', default: '32' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
    /** In the process of the readers: the URL of the service. */
    read: { type: 'string', default: '' },
  },
});

/** Reads endlessly: `streams` streams of all events, and one search at a time without a match. Prints the number of bytes and of searches. */
function readAll(url: string, streams: number): void {
  let [bytes, searches] = [0, 0];
  for (let at = 0; at < streams; at += 1) {
    get(`${url}/events`, { headers: { accept: 'text/event-stream' }, agent: false }, (reply) => {
      reply.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
    });
  }
  const search = () => {
    get(`${url}/events?key=none`, (reply) => {
      reply.resume().on('end', () => {
        searches += 1;
        search();
      });
    });
  };
  search();
  process.on('SIGTERM', () => {
    process.stdout.write(`${JSON.stringify({ bytes, searches })}\n`, () => process.exit(0));
  });
}

interface Run extends LoadResult {
  /** Processor time per report in microseconds, in all threads of the service. */
  readonly processorUs: number;
  readonly bytes: number;
  readonly searches: number;
}

async function measure(scratch: Scratch, service: Server, script: Script, isRead: boolean): Promise<Run> {
  const loadFor = (seconds: number) => load(scratch, service.url, script, Number(values.connections), seconds);
  const loadService = async () => {
    const before = service.processorSeconds();
    const result = await loadFor(Number(values.seconds));
    return { ...result, processorUs: (1e6 * (service.processorSeconds() - before)) / result.requests };
  };
  if (!isRead) return { ...(await loadService()), bytes: 0, searches: 0 };
  const program = [values.node, '--import', 'tsx', import.meta.filename];
  const clients = scratch.spawn([...program, '--read', service.url, '--streams', values.streams], {
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: ROOT,
  });
  await loadFor(1); // until all readers read
  const result = await loadService();
  const said = once(clients.stdout!, 'data') as Promise<[Buffer]>;
  clients.kill('SIGTERM');
  const [text] = await said;
  return { ...result, ...JSON.parse(text.toString()) };
}

/** @returns microseconds per line */
async function readPages(url: string, events: number): Promise<number> {
  const startedMs = performance.now();
  for (let after = 0; after < events; after += PAGE_EVENTS) {
    const text = await (await fetch(`${url}/events?limit=${PAGE_EVENTS}&after_seq=${after}`)).text();
    if (!text.startsWith(`{"seq":${after + 1},`))
      throw new Error(`the page after ${after} starts with ${text.slice(0, 100)}`);
  }
  return ((performance.now() - startedMs) * 1000) / events;
}

async function main(scratch: Scratch): Promise<void> {
  const events = Number(values.events);
  const data = scratch.newFolder('data');
  writeJournal(data, events, SEGMENT_EVENTS);
  const service = await startAssetlog({ scratch, node: values.node, data });
  const { url } = service;
  const few = await readPages(url, events / 10);
  const all = await readPages(url, events);
  console.log(
    `pages of ${PAGE_EVENTS}: ${few.toFixed(2)} µs a line in a tenth of the journal, ${all.toFixed(2)} in all of it`,
  );
  const script = writeScript(scratch, reportOf(REPORT_BYTES));
  await load(scratch, url, script, Number(values.connections), WARM_UP_SECONDS);
  const rates: number[] = [];
  const times: number[] = [];
  const costs: number[] = [];
  const rows: string[][] = [];
  for (let round = 0; round < 2 * Number(values.rounds); round += 1) {
    const first = await measure(scratch, service, script, round % 2 === 1);
    const second = await measure(scratch, service, script, round % 2 === 0);
    const [alone, read] = round % 2 === 0 ? [first, second] : [second, first];
    const rateOf = (run: Run) => run.requests / run.seconds;
    if (alone.errors + read.errors > 0) throw new Error(`${alone.errors} and ${read.errors} errors`);
    rates.push(rateOf(read) / rateOf(alone));
    times.push(read.p99Ms / alone.p99Ms);
    costs.push(read.processorUs / alone.processorUs);
    rows.push([
      countText(Math.round(rateOf(alone))),
      countText(Math.round(rateOf(read))),
      ratioText(rateOf(read) / rateOf(alone)),
      millisecondsText(alone.p99Ms),
      millisecondsText(read.p99Ms),
      `${alone.processorUs.toFixed(0)} µs`,
      `${read.processorUs.toFixed(0)} µs`,
      `${(read.bytes / 1e6).toFixed(0)} MB, ${read.searches}`,
    ]);
    console.error(rows.at(-1)?.join(' | '));
  }
  const head = [
    'reports/s',
    'with readings',
    'ratio',
    'p99',
    'with readings',
    'processor',
    'with readings',
    'streamed, searches',
  ];
  console.log(table(head, rows));
  console.log(
    `rate ${spreadText(spreadOf(rates))}, p99 ${ratioText(medianOf(times))}, processor ${ratioText(medianOf(costs))} (medians of ${rates.length} pairs)`,
  );
}

if (values.read === '') await inScratch(values.scratch, main);
else readAll(values.read, Number(values.streams));
