/**
 * assetlog beside others, in turn, several rounds: `npm run bench [-- --quick] [--rounds 5] [--seconds 3]
 * [--connections 1,16,64,256] [--bodies 300] [--nodes PATH,PATH] [--scratch FOLDER]`. Needs wrk.
 *
 * The figures are medians of the ratios to the bare server round by round: on a shared machine only figures of one round can be
 * compared. After each run the lines that a subject recorded are counted against its replies; a figure that they do not match
 * is void, and the exit code is 1 then. subjects.ts says what is measured, rounds.ts how; load.ts speaks to wrk.
 */

import { spawnSync } from 'node:child_process';
import { rmSync, statSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { hazardOf } from '../../src/journal/open/mount.ts';
import {
  countOf,
  countText,
  mebibytesText,
  medianOf,
  millisecondsText,
  ratioText,
  spreadText,
  table,
} from './figures.ts';
import { reportOf, writeScript } from './load.ts';
import { lineOf, loopOfSyncs, machineText, mountUnder, versionOf, wrkVersion } from './machine.ts';
import { measureRounds, type Result } from './rounds.ts';
import { Scratch } from './scratch.ts';
import { ASSETLOG, buildPrograms, startAssetlog, subjects } from './subjects.ts';

const PROBE_MS = 1_000;
const START_PAIRS = 11;

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    connections: { type: 'string' },
    bodies: { type: 'string', default: '300' },
    nodes: { type: 'string', default: process.execPath },
    scratch: { type: 'string', default: '.' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 3 : 5));
const seconds = Number(values.seconds ?? (values.quick ? 2 : 3));
const connectionCounts = (values.connections ?? (values.quick ? '64' : '1,16,64,256')).split(',').map(Number);
const bodies = values.bodies.split(',').map(Number);
const nodes = values.nodes.split(',');

const terminal = process.stderr.isTTY === true;

function progress(text: string): void {
  if (terminal) process.stderr.write(`\r${text.slice(0, (process.stderr.columns || 80) - 1)}\x1b[K`);
}

async function main(): Promise<void> {
  if (wrkVersion() === undefined) throw new Error('wrk is not installed: apt-get install wrk, or brew install wrk');
  for (const node of nodes) versionOf(node);
  const scratch = new Scratch(values.scratch);
  try {
    await report(scratch);
  } finally {
    progress('');
    scratch.end();
  }
}

/** Measures everything, and prints it when the last figure is there: the head says how the disk was at the end. */
async function report(scratch: Scratch): Promise<void> {
  checkDisk(scratch);
  progress('building the programs');
  await buildPrograms(scratch);
  const head = machineText(scratch, nodes);
  const line = lineOf(reportOf(bodies[0]!));
  const before = loopOfSyncs(scratch, line, PROBE_MS);
  const { text, voids } = await comparison(scratch);
  const after = loopOfSyncs(scratch, line, PROBE_MS);

  const syncs = `a write and fdatasync of ${line.length} bytes: ${before} before the run; ${after} after it`;
  console.log(['# assetlog beside others', '', ...[...head, syncs].map((item) => `- ${item}`), '', ...text].join('\n'));
  if (voids.length === 0) return;
  console.log(['', 'Void:', ...voids.map((why) => `- ${why}`)].join('\n'));
  process.exitCode = 1;
}

function checkDisk({ folder }: Scratch): void {
  const mount = mountUnder(folder);
  if (mount === undefined || hazardOf(mount) === undefined) return;
  throw new Error(
    `${folder} is on ${mount.type}, where a sync is not what it is on a disk; choose another with --scratch`,
  );
}

interface Report {
  readonly text: string[];
  readonly voids: string[];
}

async function comparison(scratch: Scratch): Promise<Report> {
  const text = [
    `Medians of ${countOf(rounds, 'round')} of ${seconds} s; each is the ratio to the bare server in the same round, and the quartiles say how`,
    'far the rounds lay apart. The rows of `bare` are its own figures. Memory is the most that was resident.',
    '',
  ];
  const voids: string[] = [];
  const tick = countDown();
  for (const node of nodes) {
    progress('starting');
    text.push(`## Node ${versionOf(node)}`, '', await startText(scratch, node), '');
    for (const bodyBytes of bodies) {
      const script = writeScript(scratch, reportOf(bodyBytes));
      const results: Result[] = [];
      for (const connections of connectionCounts) {
        const conditions = { scratch, node, rounds, seconds, connections, script, progress: tick };
        results.push(...(await measureRounds(conditions)));
      }
      text.push(`### A body of ${bodyBytes} bytes`, '', tableOf(results), '');
      voids.push(...voidsOf(results, `Node ${versionOf(node)}, ${bodyBytes} bytes`));
    }
  }
  return { text, voids };
}

/** @returns how long a start takes, beside a Node that does nothing */
async function startText(scratch: Scratch, node: string): Promise<string> {
  const times: number[] = [];
  const ratios: number[] = [];
  for (let pair = 0; pair < START_PAIRS; pair += 1) {
    const beforeNothing = performance.now();
    spawnSync(node, ['-e', '0']);
    const nothingMs = performance.now() - beforeNothing;
    const data = scratch.newFolder('start');
    const before = performance.now();
    const server = await startAssetlog({ scratch, node, data });
    const ms = performance.now() - before;
    await server.stop();
    rmSync(data, { recursive: true });
    times.push(ms);
    ratios.push(ms / nothingMs);
  }
  const kib = Math.round(statSync(ASSETLOG).size / 1024);
  return `From spawn to the ready line ${millisecondsText(medianOf(times))}, ÷ \`node -e 0\` ${ratioText(medianOf(ratios))}; dist/server.js has ${kib} KiB.`;
}

/** @returns what shows how far the run is, and how long the rest will take at this rate */
function countDown(): (text: string) => void {
  const runs = subjects.length * nodes.length * connectionCounts.length * bodies.length * rounds;
  const start = performance.now();
  let done = 0;
  return (text) => {
    const minutes = Math.ceil((((performance.now() - start) / done) * (runs - done)) / 60_000);
    progress(`${done} of ${runs}${done > 0 ? `, about ${minutes} min left` : ''} · ${text}`);
    done += 1;
  };
}

function tableOf(results: readonly Result[]): string {
  const rows = results.map((result) => {
    const { name, connections, ratio, p99Ratio, memoryRatio, processorUs, errors } = result;
    const own = [`${countText(result.rate)}/s`, '', millisecondsText(result.p99Ms), mebibytesText(result.memoryBytes)];
    const median = ratio === undefined ? 'void' : ratioText(ratio.median);
    const ratios = [median, spreadText(ratio), ratioText(p99Ratio), ratioText(memoryRatio)];
    const processor = Number.isNaN(processorUs) ? '' : `${processorUs.toFixed(1)} µs`;
    return [
      String(connections),
      name,
      ...(name === 'bare' && ratio !== undefined ? own : ratios),
      processor,
      String(errors),
    ];
  });
  const head = [
    'connections',
    'subject',
    'requests ÷ bare',
    'quartiles',
    '99th percentile ÷ bare',
    'memory ÷ bare',
    'processor a request',
    'errors',
  ];
  return table(head, rows);
}

function voidsOf(results: readonly Result[], where: string): string[] {
  return results.flatMap(({ name, connections, voids }) =>
    voids.map((why) => `${where}, ${connections} connections, ${name}: ${why}`),
  );
}

await main();
