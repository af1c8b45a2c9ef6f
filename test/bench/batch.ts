/**
 * Events a second at 1, 10, 100 and 1,000 items a request, over one connection:
 * `node --import tsx test/bench/batch.ts [--rounds 5] [--seconds 2] [--scratch FOLDER] [--node PATH] [--profile FOLDER]`.
 *
 * Beside them, in turn in each round: single reports over one connection, and a loop in plain Node that parses the same lines,
 * computes a crc for each, and writes and syncs the same bytes, without a server.
 */

import { once } from 'node:events';
import { closeSync, fdatasyncSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { crc32 } from 'node:zlib';
import { countText, medianOf, ratioText, table } from './figures.ts';
import { Scratch } from './scratch.ts';
import { ASSETLOG, ROOT } from './subjects.ts';

const ITEMS = [1, 10, 100, 1_000];

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
    profile: { type: 'string' },
  },
});
const endMs = Number(values.seconds) * 1000;

function itemOf(index: number): string {
  return JSON.stringify({
    type: 'materialization',
    asset_key: ['warehouse', `orders_${index}`],
    partition: '2026-11-20',
    description: 'nightly load',
    data_version: 'v1',
    metadata: { rows: index, took_s: 1.5, path: 's3://bucket/warehouse/orders' },
  });
}

function requestOf(path: string, type: string, body: string): Buffer {
  const head = [`POST ${path} HTTP/1.1`, 'Host: localhost', `Content-Type: ${type}`, `Content-Length: ${body.length}`];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}

/** One after the other over one connection. @returns requests a second */
async function load(socket: Socket, request: Buffer): Promise<number> {
  const start = performance.now();
  let count = 0;
  while (performance.now() - start < endMs) {
    socket.write(request);
    const [reply] = (await once(socket, 'data')) as [Buffer];
    if (!reply.toString('latin1', 0, 12).endsWith(' 200')) throw new Error(`it answers ${reply}`);
    count += 1;
  }
  return (count * 1000) / (performance.now() - start);
}

/** @param lines what the journal holds of one batch. @returns batches a second of a loop without a server */
function loop(file: string, body: string, lines: readonly string[]): number {
  const bytes = Buffer.from(body);
  const descriptor = openSync(file, 'a');
  const start = performance.now();
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
  closeSync(descriptor);
  return (count * 1000) / (performance.now() - start);
}

/** The service on a folder of its own. */
async function startService(scratch: Scratch, data: string): Promise<{ port: number; stop(): Promise<unknown> }> {
  const profiling = values.profile === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', values.profile];
  const args = ['--port', '0', '--data', data, '--log-level', 'warn'];
  const child = scratch.spawn([values.node, ...profiling, ASSETLOG, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [ready] = (await once(child.stdout!, 'data')) as [Buffer];
  const port = Number(/:(\d+)\n/.exec(ready.toString())?.[1]);
  return {
    port,
    stop: () => {
      child.kill('SIGTERM');
      return once(child, 'exit');
    },
  };
}

async function main(): Promise<void> {
  const scratch = new Scratch(values.scratch);
  try {
    const data = scratch.newFolder('data');
    const service = await startService(scratch, data);
    const socket = connect({ port: service.port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    const single = requestOf('/report_asset_materialization/', 'application/json', itemOf(0));
    const batches = ITEMS.map((items) => {
      const body = Array.from({ length: items }, (_, index) => itemOf(index)).join('\n');
      return { items, body, request: requestOf('/report_asset_batch/', 'application/x-ndjson', body) };
    });
    const largest = batches.at(-1)!;
    socket.write(largest.request);
    await once(socket, 'data');
    const [name = ''] = readdirSync(data).filter((one) => one.endsWith('.jsonl'));
    const lines = readFileSync(join(data, name), 'utf8').split('\n').slice(0, largest.items);

    const singles: number[] = [];
    const rates = batches.map(() => [] as number[]);
    const loops = batches.map(() => [] as number[]);
    for (let round = 0; round < Number(values.rounds); round += 1) {
      singles.push(await load(socket, single));
      for (const [at, { items, body, request }] of batches.entries()) {
        rates[at]!.push(items * (await load(socket, request)));
        loops[at]!.push(items * loop(join(scratch.folder, 'loop.jsonl'), body, lines));
      }
    }
    socket.destroy();
    await service.stop();
    const rows = batches.map(({ items }, at) => {
      const ratios = (others: readonly number[]) =>
        ratioText(medianOf(rates[at]!.map((rate, round) => rate / others[round]!)));
      return [countText(items), countText(medianOf(rates[at]!)), ratios(loops[at]!), ratios(singles)];
    });
    console.log(`single reports: ${countText(medianOf(singles))} events/s\n`);
    console.log(table(['items a request', 'events/s', '÷ the loop', '÷ single reports'], rows));
  } finally {
    scratch.end();
  }
}

await main();
