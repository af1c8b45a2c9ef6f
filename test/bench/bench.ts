/**
 * assetlog beside others: `npm run bench`, and `npm run bench -- --help`.
 *
 * options.ts says what can be asked for, subjects.ts what is measured, rounds.ts how; load.ts speaks to wrk.
 */

import { statSync } from 'node:fs';
import { hazardOf } from '../../src/journal/open/mount.ts';
import { countOf, countText, mebibytesText, millisecondsText, ratioText, spreadText, table } from './figures.ts';
import { measureGrowth } from './growth.ts';
import { reportOf, writeScript } from './load.ts';
import {
  freeBytes,
  lineOf,
  loopOfSyncs,
  machineText,
  mountUnder,
  syncsText,
  versionOf,
  wrkVersion,
} from './machine.ts';
import { type Options, readOptions } from './options.ts';
import { type Conditions, measureRounds, type Result } from './rounds.ts';
import { Scratch } from './scratch.ts';
import { measureStart } from './start.ts';
import { ASSETLOG, buildPrograms, type Subject } from './subjects.ts';

const PROBE_MS = 1_000;
const START_PAIRS = 11;
/** More than any subject has recorded on a desktop. */
const REPORTS_PER_SECOND_MAX = 60_000;

const terminal = process.stderr.isTTY === true;

function progress(text: string): void {
  if (terminal) process.stderr.write(`\r${text.slice(0, (process.stderr.columns || 80) - 1)}\x1b[K`);
}

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args);
  if (typeof options === 'string') {
    console.log(options);
    return 0;
  }
  if (wrkVersion() === undefined) throw new Error('wrk is not installed: apt-get install wrk, or brew install wrk');
  for (const node of options.nodes) versionOf(node);
  const scratch = new Scratch(options.scratch);
  try {
    return await report(options, scratch);
  } finally {
    progress('');
    scratch.end();
  }
}

/** Measures everything, and prints it when the last figure is there: the head says how the disk was at the end. */
async function report(options: Options, scratch: Scratch): Promise<number> {
  checkDisk(options, scratch);
  progress('building the programs');
  await buildPrograms(scratch, options.subjects);
  const head = machineText(scratch, options.nodes);
  const line = lineOf(reportOf(options.bodies[0]!));
  const before = loopOfSyncs(scratch, line, PROBE_MS);
  const { text, voids } = options.growth ? await growth(options, scratch) : await comparison(options, scratch);
  const after = loopOfSyncs(scratch, line, PROBE_MS);

  const syncs = `a write and fdatasync of ${line.length} bytes: ${syncsText(before)} before the run; ${syncsText(after)} after it`;
  console.log(['# assetlog beside others', '', ...[...head, syncs].map((item) => `- ${item}`), '', ...text].join('\n'));
  if (voids.length > 0) console.log(['', 'Void:', ...voids.map((why) => `- ${why}`)].join('\n'));
  return voids.length > 0 ? 1 : 0;
}

function checkDisk({ bodies, seconds, growth }: Options, { folder }: Scratch): void {
  const mount = mountUnder(folder);
  if (mount !== undefined && hazardOf(mount) !== undefined) {
    throw new Error(
      `${folder} is on ${mount.type}, where a sync is not what it is on a disk; choose another with --scratch`,
    );
  }
  const needed = REPORTS_PER_SECOND_MAX * (seconds + 1) * (Math.max(...bodies) + 300);
  const free = freeBytes(folder);
  if (growth || free > needed) return; // growth knows better what it needs
  throw new Error(
    `a run may write ${(needed / 1e9).toFixed(1)} GB, and ${(free / 1e9).toFixed(1)} are free; name a larger disk with --scratch, or ask for smaller --bodies`,
  );
}

interface Report {
  readonly text: string[];
  readonly voids: string[];
}

async function growth(options: Options, scratch: Scratch): Promise<Report> {
  const { rounds, seconds, connections, bodies } = options;
  const text: string[] = [];
  const voids: string[] = [];
  for (const node of options.nodes) {
    const conditions: Conditions = { scratch, node, rounds, seconds, progress };
    const measured = await measureGrowth(conditions, connections[0]!, bodies[0]!);
    text.push(`## What growth costs, Node ${versionOf(node)}`, '');
    text.push(
      `${countOf(rounds, 'round')} of ${seconds} s, ${bodies[0]} bytes, ${connections[0]} connections where nothing else is said.`,
      '',
    );
    text.push(...measured.text, '');
    voids.push(...measured.voids);
  }
  return { text, voids };
}

async function comparison(options: Options, scratch: Scratch): Promise<Report> {
  const { rounds, seconds } = options;
  const text = [
    `Medians of ${countOf(rounds, 'round')} of ${seconds} s; each is the ratio to the bare server in the same round, and the quartiles say how`,
    'far the rounds lay apart. The rows of `bare` are its own figures. Memory is the most that was resident.',
    '',
  ];
  const voids: string[] = [];
  const tick = countDown(options);
  for (const node of options.nodes) {
    progress('starting');
    const { ms, ratio } = await measureStart(scratch, node, START_PAIRS);
    text.push(
      `## Node ${versionOf(node)}`,
      '',
      `From spawn to the ready line ${millisecondsText(ms)}, ÷ \`node -e 0\` ${ratioText(ratio)}; dist/server.js has ${Math.round(statSync(ASSETLOG).size / 1024)} KiB.`,
      '',
      ...absent(options.subjects, node),
    );
    for (const bodyBytes of options.bodies) {
      const results = await compare(options, { scratch, node, rounds, seconds, progress: tick }, bodyBytes);
      text.push(`### A body of ${bodyBytes} bytes`, '', tableOf(results), '');
      voids.push(...voidsOf(results, `Node ${versionOf(node)}, ${bodyBytes} bytes`));
    }
  }
  return { text, voids };
}

async function compare(options: Options, conditions: Conditions, bodyBytes: number): Promise<Result[]> {
  const script = writeScript(conditions.scratch, reportOf(bodyBytes));
  const present = presentOn(conditions.node, options.subjects);
  const results: Result[] = [];
  for (const connections of options.connections) {
    const variants = present.map((subject) => ({ name: subject.name, subject, connections, script }));
    results.push(...(await measureRounds(variants, conditions)));
  }
  return results;
}

/** @returns what shows how far the run is, and how long the rest will take at this rate */
function countDown({ subjects, connections, bodies, nodes, rounds }: Options): (text: string) => void {
  const present = nodes.reduce((sum, node) => sum + presentOn(node, subjects).length, 0);
  const runs = present * connections.length * bodies.length * rounds;
  const start = performance.now();
  let done = 0;
  return (text) => {
    const minutes = Math.ceil((((performance.now() - start) / done) * (runs - done)) / 60_000);
    progress(`${done} of ${runs}${done > 0 ? `, about ${minutes} min left` : ''} · ${text}`);
    done += 1;
  };
}

function presentOn(node: string, subjects: readonly Subject[]): Subject[] {
  return subjects.filter(({ missing }) => missing?.(node) === undefined);
}

function absent(subjects: readonly Subject[], node: string): string[] {
  const lines = subjects.flatMap(({ name, missing }) => {
    const why = missing?.(node);
    return why === undefined ? [] : [`- absent: ${name}: ${why}`];
  });
  return lines.length > 0 ? [...lines, ''] : [];
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

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error: Error) => {
    for (const problem of error.message.split('\n')) console.error(`bench: ${problem}`);
    process.exitCode = 2;
  },
);
