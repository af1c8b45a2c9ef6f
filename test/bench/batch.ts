/**
 * Events per second at 1, 10, 100 and 1,000 items per request, over one connection:
 * `node --import tsx test/bench/batch.ts [--rounds 5] [--seconds 2] [--scratch FOLDER] [--node PATH]`.
 *
 * Compared in each round with single reports over one connection, and with a loop in plain Node that parses the same lines,
 * computes a crc for each, and writes and syncs the same bytes, without a server. On a busy machine, compare the processor time
 * per item with the loop's.
 */

import { once } from 'node:events';
import { closeSync, fdatasyncSync, openSync, readdirSync, readFileSync, statSync, writeSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { crc32 } from 'node:zlib';
import { countText, medianOf, ratioText, table } from './figures.ts';
import { batchOf, itemOf } from './load.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { ROOT, startAssetlog } from './subjects.ts';

const ITEMS = [1, 10, 100, 1_000];

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});
const endMs = Number(values.seconds) * 1000;

function requestOf(path: string, type: string, body: string): Buffer {
  const head = [`POST ${path} HTTP/1.1`, 'Host: localhost', `Content-Type: ${type}`, `Content-Length: ${body.length}`];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}

interface Figure {
  /** Requests, or iterations of the loop. */
  readonly perSecond: number;
  readonly costUs: number;
}

/**
 * Sends requests one after the other over one connection.
 * @param usedSeconds processor time of the service so far
 */
async function load(socket: Socket, request: Buffer, usedSeconds: () => number): Promise<Figure> {
  const start = performance.now();
  const usedBefore = usedSeconds();
  let count = 0;
  while (performance.now() - start < endMs) {
    socket.write(request);
    const [reply] = (await once(socket, 'data')) as [Buffer];
    if (!reply.toString('latin1', 0, 12).endsWith(' 200')) throw new Error(`it answers ${reply}`);
    count += 1;
  }
  const perSecond = (count * 1000) / (performance.now() - start);
  return { perSecond, costUs: ((usedSeconds() - usedBefore) * 1e6) / count };
}

/** A loop without a server. @param lines the journal lines of one batch */
function loop(file: string, body: string, lines: readonly string[]): Figure {
  const bytes = Buffer.from(body);
  const descriptor = openSync(file, 'a');
  const sizeBefore = statSync(file).size;
  const start = performance.now();
  const usedBefore = process.cpuUsage();
  let [count, crc] = [0, 0];
  while (performance.now() - start < endMs) {
    const texts: string[] = [];
    for (const [index, line] of bytes.toString().split('\n').entries()) {
      JSON.parse(line);
      const text = lines[index]!;
      crc = crc32(text, crc);
      texts.push(text.slice(0, -10), crc.toString(16).padStart(8, '0'), text.slice(-2), '\n');
    }
    writeSync(descriptor, texts.join(''));
    fdatasyncSync(descriptor);
    count += 1;
  }
  const perSecond = (count * 1000) / (performance.now() - start);
  const { user, system } = process.cpuUsage(usedBefore);
  closeSync(descriptor);
  const expected = count * Buffer.byteLength(`${lines.slice(0, body.split('\n').length).join('\n')}\n`);
  const written = statSync(file).size - sizeBefore;
  if (written !== expected) throw new Error(`the loop wrote ${written} bytes, the journal would have ${expected}`);
  return { perSecond, costUs: (user + system) / count };
}

async function main(scratch: Scratch): Promise<void> {
  const data = scratch.newFolder('data');
  const service = await startAssetlog({ scratch, node: values.node, data });
  const socket = connect({ port: Number(new URL(service.url).port), host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  const single = requestOf('/report_asset_materialization/', 'application/json', itemOf(0));
  const batches = ITEMS.map((items) => {
    const body = batchOf(items);
    return { items, body, request: requestOf('/report_asset_batch/', 'application/x-ndjson', body) };
  });
  const largest = batches.at(-1)!;
  socket.write(largest.request);
  await once(socket, 'data');
  const [name = ''] = readdirSync(data).filter((one) => one.endsWith('.jsonl'));
  const lines = readFileSync(join(data, name), 'utf8').split('\n').slice(0, largest.items);

  const usedSeconds = () => service.processorSeconds();
  const singles: number[] = [];
  const figures = batches.map(() => [] as { own: Figure; loop: Figure }[]);
  for (let round = 0; round < Number(values.rounds); round += 1) {
    singles.push((await load(socket, single, usedSeconds)).perSecond);
    for (const [at, { body, request }] of batches.entries()) {
      const own = await load(socket, request, usedSeconds);
      figures[at]!.push({ own, loop: loop(join(scratch.folder, 'loop.jsonl'), body, lines) });
    }
  }
  socket.destroy();
  await service.stop();
  const rows = batches.map(({ items }, at) => {
    const median = (figure: (both: { own: Figure; loop: Figure }, round: number) => number) =>
      medianOf(figures[at]!.map(figure));
    return [
      countText(items),
      countText(items * median(({ own }) => own.perSecond)),
      ratioText(median(({ own, loop }) => own.perSecond / loop.perSecond)),
      ratioText(median(({ own }, round) => (items * own.perSecond) / singles[round]!)),
      (median(({ own }) => own.costUs) / items).toFixed(1),
      ratioText(median(({ own, loop }) => own.costUs / loop.costUs)),
    ];
  });
  console.log(`single reports: ${countText(medianOf(singles))} events/s\n`);
  const head = [
    'items a request',
    'events/s',
    '÷ the loop',
    '÷ single reports',
    'µs of processor an item',
    '÷ the loop',
  ];
  console.log(table(head, rows));
}

await inScratch(values.scratch, main);
