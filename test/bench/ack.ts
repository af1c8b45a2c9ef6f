/**
 * What `--ack` costs: `node --import tsx test/bench/ack.ts [--rounds 3] [--seconds 4] [--delay 200] [--scratch FOLDER]
 * [--node PATH]`, after `npm run bundle`. Reports to a service that forwards to a hub on the same machine: without `--ack`, with it,
 * and with it over a link on which each answer of the hub takes `--delay` milliseconds.
 */

import { createConnection, createServer, type Socket } from 'node:net';
import { parseArgs } from 'node:util';
import { samplesOf } from '../support/metrics.ts';
import { listenOn } from '../support/sent-lines.ts';
import { eventually } from '../support/tools.ts';
import { countText, medianOf, table } from './figures.ts';
import { load, reportOf, writeScript } from './load.ts';
import { Scratch } from './scratch.ts';
import { ROOT, type Server, startAssetlog } from './subjects.ts';

const CONNECTIONS = [1, 16, 64];

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '4' },
    delay: { type: 'string', default: '200' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

/** @returns the URL of a link on which what comes back takes a while */
async function startLink(undo: (() => void)[], to: Server): Promise<string> {
  const server = createServer((client) => {
    const hub = createConnection(Number(new URL(to.url).port), '127.0.0.1');
    const end = () => [client, hub].forEach((socket: Socket) => void socket.destroy());
    for (const socket of [client, hub]) socket.on('error', end).on('close', end);
    client.on('data', (bytes) => hub.write(bytes));
    hub.on('data', (bytes) => setTimeout(() => client.destroyed || client.write(bytes), Number(values.delay)));
  });
  return `http://127.0.0.1:${await listenOn({ after: (end) => undo.push(end) }, server)}`;
}

/** @returns how many requests with events the hub has answered */
async function requestsAt({ url }: Server): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return samplesOf(text).get('assetlog_http_requests_total{endpoint="forward",status="200"}') ?? 0;
}

async function main(): Promise<void> {
  const scratch = new Scratch(values.scratch);
  const undo: (() => void)[] = [];
  try {
    const common = { scratch, node: values.node };
    const hub = await startAssetlog({ ...common, data: scratch.newFolder('hub') });
    const link = await startLink(undo, hub);
    const start = (...args: string[]) => startAssetlog({ ...common, data: scratch.newFolder('data'), args });
    const sides = [
      { name: 'without --ack', server: await start('--forward-to', hub.url) },
      { name: '--ack', server: await start('--forward-to', hub.url, '--ack', 'upstream') },
      { name: `--ack, ${values.delay} ms`, server: await start('--forward-to', link, '--ack', 'upstream') },
    ];
    const script = writeScript(scratch, reportOf(300));
    const rows: string[][] = [];
    for (const { name, server } of sides) {
      await eventually('it is ready', async () => (await fetch(`${server.url}/readyz`)).ok);
      for (const connections of CONNECTIONS) {
        const rates: number[] = [];
        const sizes: number[] = [];
        for (let round = 0; round < Number(values.rounds); round += 1) {
          const before = await requestsAt(hub);
          const result = await load(scratch, server.url, script, connections, Number(values.seconds));
          if (result.errors > 0) throw new Error(`${name}: ${result.errors} errors`);
          rates.push(result.requests / result.seconds);
          sizes.push(result.requests / ((await requestsAt(hub)) - before));
        }
        rows.push([name, `${connections}`, countText(medianOf(rates)), medianOf(sizes).toFixed(1)]);
      }
    }
    console.log(table(['', 'connections', 'reports/s', 'events in a request to the hub'], rows));
    for (const { server } of sides) await server.stop();
    await hub.stop();
  } finally {
    for (const end of undo) end();
    scratch.end();
  }
}

await main();
