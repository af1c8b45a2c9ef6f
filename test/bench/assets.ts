/**
 * What `GET /assets` costs: `assets.ts [MEGABYTES] [ASSETS]` writes a journal of that size (1,000 MB) with events of so many assets
 * (100,000), each with a materialization and two checks, and prints times and memory of a service that is asked for its assets.
 */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Event } from '../../src/event/event.ts';
import { encodeBatch, encodeMembers } from '../../src/journal/record.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { memoryMib } from '../support/memory.ts';
import { launch } from '../support/program.ts';
import { START } from '../support/segments.ts';

const [megabytes = 1_000, assets = 100_000] = process.argv.slice(2).map(Number);
const FILE_EVENTS = 200_000;

function eventOf(n: number): Event {
  const asset = Math.floor(n / 3) % assets;
  const assetKey = ['warehouse', `schema_${asset % 100}`, `table_${asset}`];
  const metadata = JSON.stringify({
    rows: n,
    took_s: 1.5,
    path: `s3://bucket/warehouse/table_${asset}/part-0.parquet`,
  });
  if (n % 3 === 0)
    return { type: 'AssetMaterialization', assetKey, partition: '2026-11-20', dataVersion: `v${n}`, metadata };
  const checkName = n % 3 === 1 ? 'no_nulls' : 'row_count';
  return { type: 'AssetCheckEvaluation', assetKey, checkName, passed: n % 101 !== 0, severity: 'WARN', metadata };
}

/** @returns the number of events */
function writeJournal(data: string): number {
  let bytes = 0;
  for (let seq = 1; ; seq += FILE_EVENTS) {
    const pieces: Buffer[] = [];
    let chain = { ...START, seq };
    for (let at = 0; at < FILE_EVENTS; at += 1_000) {
      const events = Array.from({ length: 1_000 }, (_, n) => encodeMembers(eventOf(seq + at + n - 1)));
      const batch = encodeBatch(events, chain, new Date('2026-11-20T15:00:00.000Z'));
      pieces.push(Buffer.from(batch.bytes));
      chain = batch.chain;
    }
    const file = Buffer.concat(pieces);
    writeFileSync(join(data, segmentName(seq)), file);
    bytes += file.length;
    if (bytes >= megabytes * 1e6) return seq + FILE_EVENTS - 1;
  }
}

const folder = mkdtempSync(join(tmpdir(), 'assetlog-assets-'));
const data = join(folder, 'data');
mkdirSync(data);
const events = writeJournal(data);
const { child, finished } = launch(['serve', '--port', '0', '--data', data, '--min-free-bytes', '0']);
try {
  const url = await new Promise<string>((resolve) => {
    child.stdout?.on('data', (text) => resolve(/http:\S+/.exec(text)?.[0] ?? ''));
  });
  const pid = child.pid ?? 0;
  const ask = async (query = '') => {
    const begunMs = performance.now();
    const reply = await fetch(`${url}/assets${query}`);
    const text = await reply.text();
    return { status: reply.status, bytes: text.length, ms: performance.now() - begunMs };
  };
  console.log(`${events} events in ${megabytes} MB, ${assets} assets; memory ${memoryMib(pid, 'VmRSS')} MiB`);
  const begunMs = performance.now();
  let refused = 0;
  while ((await ask()).status === 503) refused += 1;
  console.log(
    `first answer after ${((performance.now() - begunMs) / 1000).toFixed(1)} s, ${refused} replies of 503 before it; memory ${memoryMib(pid, 'VmRSS')} MiB`,
  );
  for (const query of [
    '',
    '?limit=1',
    '?failing=true',
    '?key_prefix=warehouse/schema_7',
    '?after_key=warehouse/schema_50/table_50',
  ]) {
    const times: number[] = [];
    let bytes = 0;
    for (let n = 0; n < 20; n += 1) {
      await fetch(`${url}/report_asset_observation/warehouse/schema_1/table_1`, { method: 'POST' });
      const reply = await ask(query);
      times.push(reply.ms);
      bytes = reply.bytes;
    }
    times.sort((a, b) => a - b);
    console.log(
      `/assets${query}: median ${times[10]?.toFixed(1)} ms, slowest ${times[19]?.toFixed(1)} ms, ${bytes} bytes`,
    );
  }
  console.log(`memory ${memoryMib(pid, 'VmRSS')} MiB`);
} finally {
  child.kill('SIGTERM');
  await finished;
  rmSync(folder, { recursive: true });
}
