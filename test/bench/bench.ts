/**
 * assetlog beside others, or two commits, in turn, several rounds: `npm run bench -- --help` lists the options. Needs wrk.
 *
 * The figures are medians of the ratios to the first subject, round by round: on a shared machine only figures of one round can be
 * compared. After each run the recorded lines of a subject are compared with its replies; a figure that does not match is void, and
 * the exit code is then 1. subjects.ts has the subjects, rounds.ts the measurement, and load.ts runs wrk.
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
  microsecondsText,
  millisecondsText,
  ratioText,
  spreadText,
  table,
} from './figures.ts';
import { batchOf, reportOf, type Script, writeScript } from './load.ts';
import { lineOf, loopOfSyncs, machineText, mountUnder, versionOf, wrkVersion } from './machine.ts';
import { measureRounds, type Result } from './rounds.ts';
import { Scratch } from './scratch.ts';
import { ASSETLOG, buildPrograms, buildVersions, neighbours, type Subject, startAssetlog } from './subjects.ts';

const PROBE_MS = 1_000;
const START_PAIRS = 11;
const BATCH_ITEMS = 1_000;
/** More connections would wait for the space that bodies share. */
const BATCH_CONNECTIONS_MAX = 4;

const HELP = `npm run bench [-- OPTIONS]

Measures assetlog beside a bare node:http server and others, or beside another commit of itself.

  --compare REF           the work tree beside the commit REF, pair by pair: reports of 300 bytes
                          and of 20 KB, and batches of 1,000 items
  --only NAME,NAME        these subjects; the ratios are those to the first one, and without this to bare
  --quick                 3 rounds of 2 s with 64 connections
  --rounds N              5 by default, 8 with --compare
  --seconds N             of each load: 3 by default, 2 with --compare
  --connections N,N       1,16,64,256 by default, 64 with --compare
  --bodies BYTES,BYTES    sizes of a report: 300 by default, 300,20000 with --compare
  --spaced                reports have a space after each comma and colon, as Python writes them
  --nodes PATH,PATH       executables of Node; by default the one that runs the benchmark
  --scratch FOLDER        where it writes and removes what it wrote: the current folder by default

A pair (or a round) restarts each program, warms it up for 1 s, and starts with another program than the
last. A figure is the median of the ratios of the pairs, with their quartiles. Rates depend on the disk
and on the load of the machine; processor time in user mode hardly does.`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    compare: { type: 'string' },
    only: { type: 'string', default: '' },
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    connections: { type: 'string' },
    bodies: { type: 'string' },
    spaced: { type: 'boolean', default: false },
    nodes: { type: 'string', default: process.execPath },
    scratch: { type: 'string', default: '.' },
  },
});
const versions = { rounds: 8, seconds: 2, connections: '64', bodies: '300,20000' };
const quick = { rounds: 3, seconds: 2, connections: '64', bodies: '300' };
const thorough = { rounds: 5, seconds: 3, connections: '1,16,64,256', bodies: '300' };
const defaults = { ...(values.compare === undefined ? thorough : versions), ...(values.quick && quick) };
const rounds = Number(values.rounds ?? defaults.rounds);
const seconds = Number(values.seconds ?? defaults.seconds);
const connectionCounts = (values.connections ?? defaults.connections).split(',').map(Number);
const bodies = (values.bodies ?? defaults.bodies).split(',').map(Number);
const nodes = values.nodes.split(',');

const terminal = process.stderr.isTTY === true;

function progress(text: string): void {
  if (terminal) process.stderr.write(`\r${text.slice(0, (process.stderr.columns || 80) - 1)}\x1b[K`);
}

async function main(): Promise<void> {
  if (values.help) return console.log(HELP);
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

/** Measures everything, and prints it after the last figure, since the head describes the disk at the end. */
async function report(scratch: Scratch): Promise<void> {
  checkDisk(scratch);
  progress('building the programs');
  const subjects = values.compare === undefined ? chosen() : buildVersions(scratch, values.compare);
  if (values.compare === undefined) await buildPrograms(scratch);
  const head = machineText(scratch, nodes);
  const line = lineOf(reportOf(bodies[0]!));
  const before = loopOfSyncs(scratch, line, PROBE_MS);
  const { text, voids } = await comparison(scratch, subjects);
  const after = loopOfSyncs(scratch, line, PROBE_MS);

  const syncs = `a write and fdatasync of ${line.length} bytes: ${before} before the run; ${after} after it`;
  console.log(
    [
      `# assetlog beside ${values.compare ?? 'others'}`,
      '',
      ...[...head, syncs].map((item) => `- ${item}`),
      '',
      ...text,
    ].join('\n'),
  );
  if (voids.length === 0) return;
  console.log(['', 'Void:', ...voids.map((why) => `- ${why}`)].join('\n'));
  process.exitCode = 1;
}

/** @throws Error for a name that no subject has */
function chosen(): readonly Subject[] {
  if (values.only === '') return neighbours;
  return values.only.split(',').map((name) => {
    const found = neighbours.find((subject) => subject.name === name);
    const names = neighbours.map((subject) => subject.name).join(', ');
    if (found === undefined) throw new Error(`there is no subject ${name}; choose of ${names}`);
    return found;
  });
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

async function comparison(scratch: Scratch, subjects: readonly Subject[]): Promise<Report> {
  const [{ name }] = subjects as [Subject];
  const text = [
    `Medians of ${countOf(rounds, 'round')} of ${seconds} s; each is the ratio to ${name} in the same round, and the quartiles show how`,
    `far the rounds lie apart. The rows of ${name} are its own figures. Memory is the peak of resident memory.`,
    '',
  ];
  const voids: string[] = [];
  const loads = loadsOf(scratch);
  const tick = countDown(subjects.length * nodes.length * connectionCounts.length * loads.length * rounds);
  for (const node of nodes) {
    progress('starting');
    text.push(`## Node ${versionOf(node)}`, '', await startText(scratch, node), '');
    for (const { load, script } of loads) {
      const results: Result[] = [];
      const most = script.items === undefined ? Number.POSITIVE_INFINITY : BATCH_CONNECTIONS_MAX;
      for (const connections of new Set(connectionCounts.map((count) => Math.min(count, most)))) {
        const conditions = { scratch, subjects, node, rounds, seconds, connections, script, progress: tick };
        results.push(...(await measureRounds(conditions)));
      }
      text.push(`### ${load}`, '', tableOf(results), '');
      voids.push(...voidsOf(results, `Node ${versionOf(node)}, ${load}`));
    }
  }
  return { text, voids };
}

function loadsOf(scratch: Scratch): { readonly load: string; readonly script: Script }[] {
  const reports = bodies.map((bytes) => ({
    load: `A body of ${countOf(bytes, 'byte')}${values.spaced ? ', spaced' : ''}`,
    script: writeScript(scratch, reportOf(bytes, values.spaced)),
  }));
  if (values.compare === undefined) return reports;
  const batch = writeScript(scratch, batchOf(BATCH_ITEMS), BATCH_ITEMS);
  return [...reports, { load: `Batches of ${countOf(BATCH_ITEMS, 'item')}`, script: batch }];
}

/** @returns the time of a start, and its ratio to a Node that does nothing */
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

/** @returns a function that shows the progress, and the remaining time at this rate */
function countDown(runs: number): (text: string) => void {
  const start = performance.now();
  let done = 0;
  return (text) => {
    const minutes = Math.ceil((((performance.now() - start) / done) * (runs - done)) / 60_000);
    progress(`${done} of ${runs}${done > 0 ? `, about ${minutes} min left` : ''} · ${text}`);
    done += 1;
  };
}

function tableOf(results: readonly Result[]): string {
  const first = results[0]?.name ?? '';
  const rows = results.map((result) => {
    const { name, connections, ratio, userRatio, p99Ratio, memoryRatio, userUs, processorUs, errors } = result;
    const own = [`${countText(result.rate)}/s`, '', millisecondsText(result.p99Ms), mebibytesText(result.memoryBytes)];
    const median = ratio === undefined ? 'void' : ratioText(ratio.median);
    const ratios = [median, spreadText(ratio), ratioText(p99Ratio), ratioText(memoryRatio)];
    const users = [ratioText(userRatio?.median ?? Number.NaN), spreadText(userRatio)];
    return [
      String(connections),
      name,
      ...(name === first && ratio !== undefined ? own : ratios),
      microsecondsText(userUs),
      ...(name === first ? ['', ''] : users),
      microsecondsText(processorUs),
      String(errors),
    ];
  });
  const head = [
    'connections',
    'subject',
    `reports ÷ ${first}`,
    'quartiles',
    `99th percentile ÷ ${first}`,
    `memory ÷ ${first}`,
    'user mode a report',
    `÷ ${first}`,
    'quartiles',
    'processor a report',
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
