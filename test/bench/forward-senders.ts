/**
 * A hub with many senders: `node --import tsx test/bench/forward-senders.ts [--senders 200] [--backlog-bytes 2000000]
 * [--sources 10000] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`.
 *
 * First the senders come back in the same second, each with a backlog, while other clients report to the hub: what their reports
 * take before and meanwhile, which requests are refused, and the memory. Then each of many sources sends one event: the memory, the
 * size of the file with their watermarks, and the time of a start. The senders are connections of this process that send lines as a
 * forwarder does, one request at a time, and wait after a refusal as it does.
 */

import { statSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { limits } from '../../src/config/limits.ts';
import { type ChainPosition, encodeBatch, encodeMembers } from '../../src/journal/record.ts';
import { countText, mebibytesText, medianOf, millisecondsText, quantile, table } from './figures.ts';
import { Scratch } from './scratch.ts';
import { ROOT, type Server, startAssetlog } from './subjects.ts';

const REPORTERS = 8;
const REPORT_PAUSE_MS = 20;
const QUIET_MS = 3_000;
const AT_ONCE = 64;
const FILE = 'forward-sources.json';

const { values } = parseArgs({
  options: {
    senders: { type: 'string', default: '200' },
    'backlog-bytes': { type: 'string', default: '2000000' },
    sources: { type: 'string', default: '10000' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

const MEMBERS = encodeMembers({
  type: 'AssetMaterialization',
  assetKey: ['warehouse', 'orders'],
  partition: '2026-11-20',
  metadata: '{"rows":10}',
});

function sourceOf(number: number): string {
  return `00000000-0000-7000-8000-${number.toString(16).padStart(12, '0')}`;
}

interface Reply {
  readonly status: number;
  readonly retryAfterMs: number;
}

const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

function ask(url: string, method: string, body?: Buffer, headers: Record<string, string> = {}): Promise<Reply> {
  return new Promise((resolve) => {
    const sent = request(url, { agent, method, headers: { 'content-type': 'application/x-ndjson', ...headers } });
    sent.on('response', (reply) => {
      reply.resume().on('end', () => {
        const retryAfterMs = 1000 * Number(reply.headers['retry-after'] ?? 0);
        resolve({ status: reply.statusCode ?? 0, retryAfterMs });
      });
    });
    sent.on('error', () => resolve({ status: 0, retryAfterMs: 0 }));
    sent.end(body);
  });
}

/** Sends lines until so many bytes are recorded. @param statuses counts the replies */
async function send(hub: Server, number: number, bytesMax: number, statuses: Map<number, number>): Promise<number> {
  const base = `${hub.url}/forward/${sourceOf(number)}`;
  const add = (status: number) => statuses.set(status, (statuses.get(status) ?? 0) + 1);
  let chain: ChainPosition = { seq: 1, crc: 0 };
  let [sentBytes, refusals] = [0, 0];
  add((await ask(base, 'GET')).status);
  while (sentBytes < bytesMax) {
    const left = Math.min(limits.forwardBatchBytes, bytesMax - sentBytes);
    const batch = new Array<string>(Math.max(1, Math.floor(left / 230))).fill(MEMBERS);
    const encoded = encodeBatch(batch, chain, new Date());
    const body = encoded.bytes;
    const headers = { 'assetlog-crc': chain.crc.toString(16).padStart(8, '0') };
    for (;;) {
      const { status, retryAfterMs } = await ask(`${base}/${chain.seq}`, 'PUT', body, headers);
      add(status);
      if (status === 200) break;
      if (status !== 503 && status !== 429 && status !== 0) throw new Error(`a sender got ${status}`);
      refusals += 1;
      const mostMs = Math.min(limits.forwardRetryMsMax, limits.forwardRetryMs * 2 ** Math.min(refusals, 10));
      await sleep(Math.max(retryAfterMs, Math.random() * mostMs));
    }
    sentBytes += body.length;
    chain = encoded.chain;
  }
  return chain.seq - 1;
}

/** Reports to the hub without end, some dozen times a second. */
function startReporters(hub: Server) {
  let times: number[] = [];
  let failed = 0;
  let isRunning = true;
  const all = Array.from({ length: REPORTERS }, async () => {
    while (isRunning) {
      const start = performance.now();
      const { status } = await ask(`${hub.url}/report_asset_materialization/a`, 'POST');
      if (status === 200) times.push(performance.now() - start);
      else failed += 1;
      await sleep(REPORT_PAUSE_MS);
    }
  });
  return {
    /** The median and the 99th percentile of the replies since the last call, and how many reports got no 200. */
    take: () => {
      const sorted = times.sort((a, b) => a - b);
      const taken = { p50Ms: medianOf(sorted), p99Ms: quantile(sorted, 0.99), count: sorted.length, failed };
      [times, failed] = [[], 0];
      return taken;
    },
    stop: async () => {
      isRunning = false;
      await Promise.all(all);
    },
  };
}

async function comeBack(hub: Server): Promise<void> {
  const reporters = startReporters(hub);
  await sleep(QUIET_MS);
  const before = reporters.take();
  const statuses = new Map<number, number>();
  const start = performance.now();
  const senders = Array.from({ length: Number(values.senders) }, async (_, number) => {
    await sleep(Math.random() * 1_000);
    return send(hub, number, Number(values['backlog-bytes']), statuses);
  });
  const events = (await Promise.all(senders)).reduce((sum, count) => sum + count, 0);
  const seconds = (performance.now() - start) / 1000;
  const meanwhile = reporters.take();
  await reporters.stop();
  const row = (name: string, { p50Ms, p99Ms, count, failed }: typeof before) => [
    ...[name, countText(count), millisecondsText(p50Ms), millisecondsText(p99Ms), countText(failed)],
  ];
  const rows = [row('before', before), row(`while ${values.senders} senders send`, meanwhile)];
  console.log(table(['reports to the hub', 'replies', 'median', '99th percentile', 'refused'], rows));
  const replies = [...statuses].map(([status, count]) => `${countText(count)} × ${status}`).join(', ');
  console.log(`\n${countText(events)} events in ${seconds.toFixed(1)} s; replies to the senders: ${replies}`);
  console.log(`most memory of the hub: ${mebibytesText(hub.memoryBytes())}\n`);
}

async function manySources(scratch: Scratch): Promise<void> {
  const data = scratch.newFolder('sources');
  const place = { scratch, node: values.node, data };
  let hub = await startAssetlog(place);
  const beforeBytes = hub.memoryBytes();
  const statuses = new Map<number, number>();
  const count = Number(values.sources);
  let next = 0;
  const start = performance.now();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let number = next++; number < count; number = next++) await send(hub, number, 1, statuses);
    }),
  );
  const seconds = (performance.now() - start) / 1000;
  const replies = [...statuses].map(([status, times]) => `${countText(times)} × ${status}`).join(', ');
  const memory = mebibytesText(hub.memoryBytes());
  await hub.stop();
  const startMs = performance.now();
  hub = await startAssetlog(place);
  const readyMs = performance.now() - startMs;
  await ask(`${hub.url}/forward/${sourceOf(count - 1)}`, 'GET');
  const askedMs = performance.now() - startMs - readyMs;
  const rows = [
    ['one event of each, at 64 at a time', `${seconds.toFixed(1)} s (${replies})`],
    ['most memory of the hub', `${memory}, ${mebibytesText(beforeBytes)} at its start`],
    [FILE, `${countText(statSync(join(data, FILE)).size)} bytes`],
    ['start, and its first answer to a sender', `${millisecondsText(readyMs)}, ${millisecondsText(askedMs)}`],
  ];
  console.log(table([`${countText(count)} sources`, ''], rows));
  await hub.stop();
}

const scratch = new Scratch(values.scratch);
try {
  const hub = await startAssetlog({ scratch, node: values.node, data: scratch.newFolder('hub') });
  await comeBack(hub);
  await hub.stop();
  await manySources(scratch);
} finally {
  agent.destroy();
  scratch.end();
}
