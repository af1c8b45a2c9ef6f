/**
 * Events per second of a sender alone, from a backlog into a hub, compared with the hub's own batch endpoint:
 * `node --import tsx test/bench/forward-rate.ts [--rounds 5] [--events 300000] [--scratch FOLDER] [--node PATH]`, after
 * `npm run bundle`. Both send the same events in requests of up to 1 MiB, one after the other over one connection, to one hub.
 */

import { once } from 'node:events';
import { cpSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { sourceIn, watermark } from '../support/forwarded.ts';
import { countText, medianOf, ratioText, spreadOf, spreadText, table } from './figures.ts';
import { writeJournal } from './large-journal.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { ROOT, type Server, startAssetlog } from './subjects.ts';

const SEGMENT_EVENTS = 250_000;
const POLL_MS = 20;
/** The number of these lines in one request to a hub. */
const ITEMS = 4_500;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    events: { type: 'string', default: '300000' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});
const events = Number(values.events);

/** The event of `writeJournal`, as an item of a batch. */
const ITEM = JSON.stringify({
  type: 'materialization',
  asset_key: ['warehouse', 'orders'],
  partition: '2026-11-20',
  metadata: { rows: 10 },
});

/** @returns events per second of the batch endpoint */
async function reportBatches(hub: Server): Promise<number> {
  const socket = connect({ port: Number(new URL(hub.url).port), host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  const body = `${ITEM}\n`.repeat(ITEMS);
  const head = [
    'POST /report_asset_batch/ HTTP/1.1',
    'Host: localhost',
    'Content-Type: application/x-ndjson',
    `Content-Length: ${body.length}`,
  ];
  const request = Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
  const start = performance.now();
  let sent = 0;
  for (; sent < events; sent += ITEMS) {
    socket.write(request);
    const [reply] = (await once(socket, 'data')) as [Buffer];
    if (!reply.toString('latin1', 0, 12).endsWith(' 200')) throw new Error(`it answers ${reply}`);
  }
  socket.destroy();
  return (sent * 1000) / (performance.now() - start);
}

interface Forwarded {
  readonly rate: number;
  /** Processor time of an event in the device and in the hub, in microseconds. */
  readonly deviceUs: number;
  readonly hubUs: number;
}

/** Starts a device with the backlog. Measures from the first events that arrive to the last. */
async function forwardAll(hub: Server, backlog: string, scratch: Scratch): Promise<Forwarded> {
  const data = join(scratch.newFolder('device'), 'data');
  cpSync(backlog, data, { recursive: true });
  const device = await startAssetlog({ scratch, node: values.node, data, args: ['--forward-to', hub.url] });
  let [first, startMs] = [0, 0];
  for (; first === 0; await sleep(POLL_MS)) first = await watermark(hub, sourceIn(data));
  startMs = performance.now();
  const used = [device.processorSeconds(), hub.processorSeconds()];
  for (let at = first; at < events; await sleep(POLL_MS)) at = await watermark(hub, sourceIn(data));
  const count = events - first;
  const rate = (count * 1000) / (performance.now() - startMs);
  const costs = [device.processorSeconds(), hub.processorSeconds()].map((now, at) => ((now - used[at]!) * 1e6) / count);
  await device.stop();
  return { rate, deviceUs: costs[0]!, hubUs: costs[1]! };
}

async function main(scratch: Scratch): Promise<void> {
  const backlog = scratch.newFolder('backlog');
  writeJournal(backlog, events, SEGMENT_EVENTS);
  const hub = await startAssetlog({ scratch, node: values.node, data: scratch.newFolder('hub') });
  await reportBatches(hub);
  const batches: number[] = [];
  const forwarded: Forwarded[] = [];
  for (let round = 0; round < Number(values.rounds); round += 1) {
    if (round % 2 === 0) batches.push(await reportBatches(hub));
    forwarded.push(await forwardAll(hub, backlog, scratch));
    if (round % 2 === 1) batches.push(await reportBatches(hub));
  }
  const figure = (of: (one: Forwarded) => number) => medianOf(forwarded.map(of));
  const rows = [
    ['batch endpoint', countText(medianOf(batches))],
    ['sender', countText(figure(({ rate }) => rate))],
  ];
  console.log(table(['into one hub', 'events/s'], rows));
  const ratios = forwarded.map(({ rate }, round) => rate / batches[round]!);
  console.log(`\nratio ${ratioText(medianOf(ratios))}, quartiles ${spreadText(spreadOf(ratios))}`);
  const costs = [figure(({ deviceUs }) => deviceUs), figure(({ hubUs }) => hubUs)].map((us) => us.toFixed(1));
  console.log(`processor time of a forwarded event: ${costs[0]} µs at the device, ${costs[1]} µs at the hub`);
  await hub.stop();
}

await inScratch(values.scratch, main);
