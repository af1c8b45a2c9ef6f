/**
 * Memory of a device and of its hub while a large backlog is forwarded: `node --import tsx test/bench/forward-backlog.ts
 * [--gigabytes 1,3] [--line-bytes 227] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`. It writes twice as much to the
 * scratch folder.
 */

import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { sourceIn, watermark } from '../support/forwarded.ts';
import { countText, mebibytesText, table } from './figures.ts';
import { writeJournal } from './large-journal.ts';
import { Scratch } from './scratch.ts';
import { ROOT, startAssetlog } from './subjects.ts';

/** Of a line whose metadata are `{}`, and of a file. */
const LEAST_LINE_BYTES = 216;
const SEGMENT_BYTES = 56_000_000;
const POLL_MS = 100;

const { values } = parseArgs({
  options: {
    gigabytes: { type: 'string', default: '1,3' },
    'line-bytes': { type: 'string', default: '227' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

function bytesIn(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

async function forwardBacklog(scratch: Scratch, gigabytes: number): Promise<string[]> {
  const [data, hubData] = [scratch.newFolder('device'), scratch.newFolder('hub')];
  const lineBytes = Number(values['line-bytes']);
  const events = Math.ceil((gigabytes * 1e9) / lineBytes);
  const metadata = JSON.stringify({ a: 'x'.repeat(Math.max(0, lineBytes - LEAST_LINE_BYTES - '"a":""'.length)) });
  writeJournal(data, events, Math.floor(SEGMENT_BYTES / lineBytes), metadata);
  const bytes = bytesIn(data);
  const hub = await startAssetlog({ scratch, node: values.node, data: hubData });
  const device = await startAssetlog({ scratch, node: values.node, data, args: ['--forward-to', hub.url] });
  const start = performance.now();
  while ((await watermark(hub, sourceIn(data))) < events) await sleep(POLL_MS);
  const seconds = (performance.now() - start) / 1000;
  const memory = [device, hub].map((service) => mebibytesText(service.memoryBytes()));
  await device.stop();
  await hub.stop();
  for (const folder of [data, hubData]) rmSync(folder, { recursive: true });
  return [`${(bytes / 1e9).toFixed(1)} GB`, countText(events), `${seconds.toFixed(0)} s`, ...memory];
}

const scratch = new Scratch(values.scratch);
try {
  const rows: string[][] = [];
  for (const gigabytes of values.gigabytes.split(',').map(Number)) rows.push(await forwardBacklog(scratch, gigabytes));
  console.log(table(['backlog', 'events', 'forwarded in', 'most memory of the device', 'of the hub'], rows));
} finally {
  scratch.end();
}
