/** The load: wrk with one thread, and its results. */

import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Scratch } from './scratch.ts';

/** Longer than the slowest subject needs for a reply: wrk counts slower replies as errors. */
const TIMEOUT_SECONDS = 60;
const PATH = '/report_asset_materialization/';
const BATCH_PATH = '/report_asset_batch/';

export interface LoadResult {
  readonly requests: number;
  readonly seconds: number;
  readonly p99Ms: number;
  /** Broken connections, replies over 399, and missing replies. */
  readonly errors: number;
}

export interface Script {
  readonly file: string;
  readonly body: string;
  /** The number of lines in the batch; undefined for a single report. */
  readonly items?: number | undefined;
}

/**
 * @param spaced whether a space follows each comma and colon, as Python writes JSON
 * @returns a report of `bytes` bytes, with every parameter of a materialization
 */
export function reportOf(bytes: number, spaced = false): string {
  const report = (note: string) =>
    JSON.stringify({
      asset_key: ['warehouse', 'orders'],
      partition: '2026-11-20',
      description: 'nightly load',
      data_version: 'v1',
      metadata: { rows: 10, note },
    }).replace(/[,:]/g, spaced ? '$& ' : '$&');
  return report('x'.repeat(Math.max(0, bytes - report('').length)));
}

/** @returns the lines of a batch, each with its own key */
export function batchOf(items: number): string {
  return Array.from({ length: items }, (_, index) => itemOf(index)).join('\n');
}

export function itemOf(index: number): string {
  return JSON.stringify({
    type: 'materialization',
    asset_key: ['warehouse', `orders_${index}`],
    partition: '2026-11-20',
    description: 'nightly load',
    data_version: 'v1',
    metadata: { rows: index, took_s: 1.5, path: 's3://bucket/warehouse/orders' },
  });
}

export function writeScript(scratch: Scratch, body: string, items?: number): Script {
  const file = join(scratch.newFolder('script'), 'post.lua');
  const script = { file, body, items };
  const { path, type } = endpointOf(script);
  const lines = [
    'wrk.method = "POST"',
    `wrk.path = "${path}"`,
    `wrk.body = [==[${body}]==]`,
    `wrk.headers["Content-Type"] = "${type}"`,
    DONE,
  ];
  writeFileSync(file, `${lines.join('\n')}\n`);
  return script;
}

function endpointOf({ items }: Script): { readonly path: string; readonly type: string } {
  return items === undefined
    ? { path: PATH, type: 'application/json' }
    : { path: BATCH_PATH, type: 'application/x-ndjson' };
}

/** wrk's own summary rounds the numbers; this one does not. */
const DONE = `done = function(summary, latency)
  local e = summary.errors
  io.write(string.format("RESULT requests %d microseconds %d errors %d p99 %d\\n", summary.requests, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(99)))
end`;

export async function load(
  scratch: Scratch,
  url: string,
  script: Script,
  connections: number,
  seconds: number,
): Promise<LoadResult> {
  const command = ['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, `--timeout=${TIMEOUT_SECONDS}s`, '--latency'];
  const child = scratch.spawn([...command, '-s', script.file, url], { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
  }
  await once(child, 'close');
  return readLoadResult(text);
}

export function readLoadResult(text: string): LoadResult {
  const result = /^RESULT requests (\d+) microseconds (\d+) errors (\d+) p99 (\d+)$/m.exec(text);
  if (result === null) throw new Error(`wrk gave no result: ${text.trim()}`);
  const [requests = 0, microseconds = 0, errors = 0, p99Us = 0] = result.slice(1).map(Number);
  return { requests, seconds: microseconds / 1e6, errors, p99Ms: p99Us / 1000 };
}

/**
 * Sends one request and checks the reply, since wrk counts a redirect as a success.
 * @throws Error if the reply is not the reply of a service that recorded everything
 */
export async function ask(url: string, script: Script): Promise<void> {
  const { path, type } = endpointOf(script);
  const headers = { 'Content-Type': type };
  const reply = await fetch(url + path, { method: 'POST', headers, body: script.body, redirect: 'manual' });
  const text = await reply.text();
  const expected = script.items === undefined ? '{}' : JSON.stringify({ recorded: script.items });
  if (reply.status !== 200 || text !== expected) throw new Error(`it answers ${reply.status} ${text.slice(0, 200)}`);
}
