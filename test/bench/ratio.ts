/**
 * assetlog beside a bare node:http server, with and without the sync: `npm run bench`.
 *
 * `durable` is the service; `unsynced` is the service without its sync; `by hand` does the same work without a sync and
 * without checking anything: what the work itself costs on this machine.
 *
 * Loads each in turn with wrk, several rounds, and prints the median of the ratios round by round: on a shared machine
 * only figures of one round can be compared. Afterwards the journal's lines are counted against the replies.
 */

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '16,64,256' },
    node: { type: 'string', default: process.execPath },
    'body-bytes': { type: 'string', default: '300' },
  },
});
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);

const folder = mkdtempSync(join(process.cwd(), '.bench-'));
const script = join(folder, 'post.lua');
const body = JSON.stringify({
  asset_key: ['warehouse', 'orders'],
  partition: '2026-11-20',
  description: 'nightly load',
  data_version: 'v1',
  metadata: { rows: 10, note: 'x'.repeat(Math.max(0, Number(values['body-bytes']) - 145)) },
});
writeFileSync(
  script,
  `wrk.method = "POST"
wrk.path = "/report_asset_materialization/"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '${body}'
done = function(summary)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d\\n", summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout))
end
`,
);

interface Subject {
  readonly name: string;
  readonly args: (data: string) => string[];
}

const subjects: readonly Subject[] = [
  { name: 'bare', args: () => ['--import', 'tsx', 'test/bench/bare.ts'] },
  { name: 'durable', args: (data) => ['dist/server.js', '--port', '0', '--data', data] },
  { name: 'by hand', args: (data) => ['--import', 'tsx', 'test/bench/minimal.ts', '--data', data] },
  { name: 'unsynced', args: (data) => ['--import', 'tsx', 'test/bench/unsynced.ts', '--port', '0', '--data', data] },
];

async function measure(subject: Subject, connections: number): Promise<number> {
  const data = mkdtempSync(join(folder, 'data-'));
  const server = spawn(values.node, subject.args(data), {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ASSETLOG_LOG_LEVEL: 'warn' },
  });
  const exited = once(server, 'exit');
  const [line] = (await once(createInterface(server.stdout), 'line')) as [string];
  const url = /http:\S+/.exec(line)?.[0];
  if (url === undefined) throw new Error(`no address in ${line}`);
  const warmUp = runLoad(url, connections, 1); // compiled code is what a service runs for all but its first seconds
  const { requests, microseconds } = runLoad(url, connections, seconds);
  server.kill('SIGTERM');
  await exited;
  if (subject.name !== 'bare') checkLines(data, warmUp.requests + requests, 2 * connections);
  rmSync(data, { recursive: true });
  return requests / (microseconds / 1e6);
}

function runLoad(url: string, connections: number, loadSeconds: number): { requests: number; microseconds: number } {
  const load = ['-t1', `-c${connections}`, `-d${loadSeconds}s`, '-s', script, url];
  const out = execFileSync('wrk', load, { encoding: 'utf8' });
  const [, requests, microseconds, errors] = (/RESULT (\d+) (\d+) (\d+)/.exec(out) ?? []).map(Number);
  if (requests === undefined || microseconds === undefined || errors !== 0) {
    throw new Error(`void: ${errors} errors\n${out}`);
  }
  return { requests, microseconds };
}

/** wrk stops without waiting for the replies on their way, so each load may leave one more line for each connection. */
function checkLines(data: string, replies: number, onTheirWay: number): void {
  let lines = 0;
  for (const name of readdirSync(data).filter((name) => name.endsWith('.jsonl'))) {
    for (const byte of readFileSync(join(data, name))) if (byte === 10) lines += 1;
  }
  if (lines < replies || lines > replies + onTheirWay) throw new Error(`void: ${replies} replies, ${lines} lines`);
}

/** From spawn to the ready line, beside a Node that does nothing. */
async function measureStart(): Promise<string> {
  const ratios: number[] = [];
  const times: number[] = [];
  for (let round = 0; round < 11; round += 1) {
    const before = performance.now();
    execFileSync(values.node, ['-e', '0']);
    const nothing = performance.now() - before;
    const started = performance.now();
    const args = ['dist/server.js', '--port', '0', '--data', mkdtempSync(join(folder, 'data-'))];
    const server = spawn(values.node, args, { stdio: ['ignore', 'pipe', 'ignore'] });
    await once(server.stdout, 'data');
    times.push(performance.now() - started);
    ratios.push((performance.now() - started) / nothing);
    server.kill('SIGTERM');
    await once(server, 'exit');
  }
  return `ready after ${Math.round(median(times))} ms, ÷ node -e 0: ${median(ratios).toFixed(2)}`;
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;
}

try {
  console.log(
    `node ${execFileSync(values.node, ['-v'], { encoding: 'utf8' }).trim()}, body ${body.length} bytes, ${rounds} rounds of ${seconds} s`,
  );
  console.log(`${await measureStart()}; dist/server.js has ${Math.round(statSync('dist/server.js').size / 1024)} KiB`);
  for (const connections of values.connections.split(',').map(Number)) {
    const ratios = new Map<string, number[]>();
    const bares: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      let bare = Number.NaN;
      for (const subject of subjects) {
        const rate = await measure(subject, connections);
        if (subject.name === 'bare') {
          bare = rate;
          bares.push(rate);
        } else ratios.set(subject.name, [...(ratios.get(subject.name) ?? []), rate / bare]);
      }
    }
    const shown = [...ratios].map(
      ([name, all]) => `${name} ÷ bare ${median(all).toFixed(2)} (${all.map((r) => r.toFixed(2)).join(' ')})`,
    );
    console.log(`${connections} connections: bare ${Math.round(median(bares))}/s, ${shown.join(', ')}`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
