/**
 * Memory of a service while a large backlog is forwarded: `node --import tsx test/bench/forward-backlog.ts [--to hub,nats-1,clickhouse]
 * [--gigabytes 1,3] [--line-bytes 227] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`. It writes twice as much to the
 * scratch folder, or to that of the system.
 */

import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { sourceIn, watermark } from '../support/forwarded.ts';
import type { Scope } from '../support/program.ts';
import { engines } from './engine.ts';
import { countText, mebibytesText, table } from './figures.ts';
import { writeJournal } from './large-journal.ts';
import { inScope, inScratch, type Scratch } from './scratch.ts';
import { ROOT, startAssetlog } from './subjects.ts';

/** Of a line whose metadata are `{}`, and of a file. */
const LEAST_LINE_BYTES = 216;
const SEGMENT_BYTES = 56_000_000;
const POLL_MS = 100;

const { values } = parseArgs({
  options: {
    to: { type: 'string', default: 'hub' },
    gigabytes: { type: 'string', default: '1,3' },
    'line-bytes': { type: 'string', default: '227' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

function bytesIn(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

/** What the events go to. */
interface End {
  readonly url: string;
  /** @param from the folder of the journal */
  readonly events: (from: string) => Promise<number>;
  readonly memoryBytes: () => number;
}

async function startEnd(t: Scope, scratch: Scratch, name: string): Promise<End> {
  if (name !== 'hub') return { memoryBytes: () => Number.NaN, ...(await engines[name]!(t)) };
  const data = scratch.newFolder('hub');
  const hub = await startAssetlog({ scratch, node: values.node, data });
  t.after(() => rmSync(data, { recursive: true }));
  t.after(() => hub.stop());
  const { url, memoryBytes } = hub;
  return { url, memoryBytes, events: (from) => watermark(hub, sourceIn(from)) };
}

async function forwardBacklog(t: Scope, scratch: Scratch, name: string, gigabytes: number): Promise<string[]> {
  const data = scratch.newFolder('device');
  const lineBytes = Number(values['line-bytes']);
  const events = Math.ceil((gigabytes * 1e9) / lineBytes);
  const metadata = JSON.stringify({ a: 'x'.repeat(Math.max(0, lineBytes - LEAST_LINE_BYTES - '"a":""'.length)) });
  writeJournal(data, events, Math.floor(SEGMENT_BYTES / lineBytes), metadata);
  const bytes = bytesIn(data);
  const end = await startEnd(t, scratch, name);
  const file = join(scratch.newFolder('forward'), 'forward.json');
  writeFileSync(file, JSON.stringify({ destinations: [{ name: 'end', to: end.url, ratePerSecond: 1_000_000 }] }));
  const device = await startAssetlog({ scratch, node: values.node, data, args: ['--forward', file] });
  const start = performance.now();
  while ((await end.events(data)) < events) await sleep(POLL_MS);
  const seconds = (performance.now() - start) / 1000;
  const memory = [device, end].map((service) => mebibytesText(service.memoryBytes()));
  await device.stop();
  rmSync(data, { recursive: true });
  return [name, `${(bytes / 1e9).toFixed(1)} GB`, countText(events), `${seconds.toFixed(0)} s`, ...memory];
}

await inScratch(values.scratch, async (scratch) => {
  const rows: string[][] = [];
  for (const name of values.to.split(',')) {
    for (const gigabytes of values.gigabytes.split(',').map(Number))
      rows.push(await inScope((t) => forwardBacklog(t, scratch, name, gigabytes)));
  }
  console.log(table(['to', 'backlog', 'events', 'forwarded in', 'most memory of the device', 'of the hub'], rows));
});
