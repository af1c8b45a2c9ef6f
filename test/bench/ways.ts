/**
 * What it costs that an event can come by several ways: `node --import tsx test/bench/ways.ts [--seconds 20] [--rate 1000]
 * [--journals 50000] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`. Prints what two hubs pay for an event that is reported
 * at the first one, when only that one forwards and when both do (a circle), and what a hub pays for many journals that it knows.
 */

import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createSnapshot, SNAPSHOT_FILE, writeSnapshot } from '../../src/forward/hub/snapshot.ts';
import { openDisk } from '../../src/journal/disk.ts';
import { createUuids } from '../../src/journal/line/uuid.ts';
import { countText, mebibytesText, millisecondsText, quantile, table } from './figures.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { ROOT, type Server, startAssetlog } from './subjects.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '20' },
    rate: { type: 'string', default: '1000' },
    journals: { type: 'string', default: '50000' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});
const seconds = Number(values.seconds);
const rate = Number(values.rate);
const journals = Number(values.journals);
/** Between two requests of the load. */
const PAUSE_MS = 20;
const WARM_UP_S = 3;
const ITEM =
  '{"type":"materialization","asset_key":["warehouse","orders"],"partition":"2026-11-20","metadata":{"rows":10}}';
const HEADERS = { 'Content-Type': 'application/x-ndjson' };

/** Passes connections on, and counts the bytes of requests. @returns its URL, and how many there were */
async function startCounter(target: string): Promise<{ readonly url: string; readonly bytes: () => number }> {
  let bytes = 0;
  const server = createServer((socket) => {
    const there = connect(Number(new URL(target).port), '127.0.0.1');
    for (const one of [socket, there]) one.setNoDelay(true).on('error', () => {});
    socket.on('data', (chunk) => {
      bytes += chunk.length;
    });
    socket.pipe(there).pipe(socket);
  });
  server.unref().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bytes: () => bytes };
}

/** Sends as many reports as are due, in batches. @returns their number */
async function reportFor(seconds: number, { url }: Server): Promise<number> {
  const startMs = performance.now();
  let sent = 0;
  for (let now = 0; now < 1_000 * seconds; now = performance.now() - startMs) {
    const due = Math.floor((now * rate) / 1_000) - sent;
    const body = `${ITEM}\n`.repeat(due);
    const reply = due > 0 && (await fetch(`${url}/report_asset_batch/`, { method: 'POST', headers: HEADERS, body }));
    if (reply && !reply.ok) throw new Error(`it answers ${reply.status}: ${await reply.text()}`);
    sent += due;
    await sleep(PAUSE_MS);
  }
  return sent;
}

/** @returns the time from the record of the last events at the first hub to that at the second, in ms, sorted */
function latenciesIn(folder: string, count: number): number[] {
  const files = readdirSync(folder).filter((name) => /^events-\d+\.jsonl$/.test(name));
  const lines = files.flatMap((name) => readFileSync(join(folder, name), 'utf8').trimEnd().split('\n'));
  const pairs = lines.map((text) => JSON.parse(text)).filter(({ from }) => from !== undefined);
  return pairs
    .slice(-count)
    .map(({ time, recorded }) => Date.parse(time) - Date.parse(recorded))
    .sort((a, b) => a - b);
}

async function measureTwo(scratch: Scratch, isCircle: boolean): Promise<string[]> {
  const [data, otherData] = [scratch.newFolder('first'), scratch.newFolder('second')];
  const file = join(scratch.newFolder('settings'), 'forward.json');
  const settings = (destinations: readonly object[]) => writeFileSync(file, JSON.stringify({ destinations }));
  settings([]);
  const first = await startAssetlog({ scratch, node: values.node, data, args: ['--forward', file] });
  const back = await startCounter(first.url);
  const args = isCircle ? ['--forward-to', back.url] : [];
  const second = await startAssetlog({ scratch, node: values.node, data: otherData, args });
  const to = await startCounter(second.url);
  settings([{ name: 'second', to: to.url }]);
  process.kill(first.pid, 'SIGHUP');
  await reportFor(WARM_UP_S, first);
  await sleep(3_000);
  const used = [first, second].map((server) => server.processorSeconds());
  const sentBytes = [to.bytes(), back.bytes()];
  const events = await reportFor(seconds, first);
  await sleep(3_000);
  const costs = [first, second].map((server, at) => ((server.processorSeconds() - used[at]!) * 1e6) / events);
  const bytes = [to.bytes(), back.bytes()].map((now, at) => (now - sentBytes[at]!) / events);
  for (const server of [second, first]) await server.stop();
  const times = latenciesIn(otherData, events);
  if (times.length < events) throw new Error(`${times.length} of ${events} events arrived`);
  return [
    isCircle ? 'a circle' : 'one way',
    ...costs.map((us) => us.toFixed(0)),
    ...bytes.map((one) => one.toFixed(0)),
    millisecondsText(quantile(times, 0.5)),
    millisecondsText(quantile(times, 0.99)),
  ];
}

/** @returns what a hub pays that knows so many journals: its start until it answers the first one, its memory, and its file */
async function measureJournals(scratch: Scratch, count: number): Promise<string[]> {
  const data = scratch.newFolder('hub');
  const args = { scratch, node: values.node, data };
  const before = await startAssetlog(args);
  await reportFor(0.1, before);
  await before.stop();
  const newId = createUuids(new Date());
  const ids = Array.from({ length: count }, () => newId());
  const sources = new Map(ids.map((id, at) => [id, { seq: at + 1, id: newId(), lost: [], ahead: [] }]));
  const startMs = performance.now();
  await writeSnapshot(openDisk(data), { ...createSnapshot(), sources });
  const writeMs = performance.now() - startMs;
  const beginMs = performance.now();
  const hub = await startAssetlog(args);
  const reply = await fetch(`${hub.url}/forward/${ids.at(-1)}`);
  const answerMs = performance.now() - beginMs;
  const { seq } = (await reply.json()) as { readonly seq: number };
  if (seq !== count) throw new Error(`it has event ${seq} of the last of ${count} journals`);
  const memory = hub.memoryBytes();
  await hub.stop();
  const { size } = statSync(join(data, SNAPSHOT_FILE));
  return [countText(count), ...[answerMs, writeMs].map(millisecondsText), mebibytesText(memory), mebibytesText(size)];
}

await inScratch(values.scratch, async (scratch) => {
  const ways = [await measureTwo(scratch, false), await measureTwo(scratch, true)];
  const head = ['', 'µs at the first', 'at the second', 'bytes sent', 'sent back', 'median latency', '99 %'];
  console.log(table([`${countText(rate)} events/s`, ...head.slice(1)], ways));
  const many = [await measureJournals(scratch, 1), await measureJournals(scratch, journals)];
  console.log(`\n${table(['journals', 'start to the first answer', 'write', 'memory', 'file'], many)}`);
});
