/** What assetlog costs when something grows: the journal, the deployments, the connections. */

import { closeSync, fsyncSync, openSync, readdirSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '../../src/deployments/tokens.ts';
import { type ChainPosition, encodeBatch, encodeMembers } from '../../src/journal/line/record.ts';
import { segmentName } from '../../src/journal/segments.ts';
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
import { freeBytes } from './machine.ts';
import { type Conditions, measureRounds, type Result, type Variant } from './rounds.ts';
import { measureStart, timeOf } from './start.ts';
import { ASSETLOG, assetlog, bare } from './subjects.ts';

const EVENTS = 5_000_000;
/** About 60 MB: nearly what a file of the journal holds. */
const SEGMENT_EVENTS = 300_000;
const SMALL_SEGMENT_EVENTS = 1_000;
const BATCH_EVENTS = 10_000;
const DEPLOYMENTS = 1_000;
const CONNECTIONS = [1, 10, 100, 1_000];
const START_PAIRS = 5;
const VERIFY_RUNS = 3;
/** The large journal, what the loads add to it, and room for the system. */
const FREE_BYTES = 4e9;

interface Growth {
  readonly what: string;
  /** What the others are compared with comes first. */
  readonly variants: readonly Variant[];
}

/** @returns markdown, and what did not count */
export async function measureGrowth(
  conditions: Conditions,
  connections: number,
  bodyBytes: number,
): Promise<{ text: string[]; voids: string[] }> {
  const { scratch, progress } = conditions;
  const free = freeBytes(scratch.folder);
  if (free < FREE_BYTES) {
    throw new Error(
      `--growth needs ${FREE_BYTES / 1e9} GB of free space for its journals, and here are ${(free / 1e9).toFixed(1)}; name a larger disk with --scratch`,
    );
  }
  progress(`writing a journal of ${countText(EVENTS)} events`);
  const large = scratch.newFolder('large');
  writeJournal(large, EVENTS, SEGMENT_EVENTS);
  const aboutLarge = await measureLarge(conditions, large);

  const body = reportOf(bodyBytes);
  const rows: string[][] = [];
  const voids: string[] = [];
  for (const { what, variants } of [
    segmentsGrow(conditions, connections, body),
    eventsGrow(conditions, connections, body, large),
    deploymentsGrow(conditions, connections, body),
    ...connectionsGrow(conditions, body),
  ]) {
    const [base, ...grown] = await measureRounds(variants, conditions);
    for (const result of grown) {
      rows.push(rowOf(what, base!, result));
      voids.push(...result.voids.map((why) => `${what}, ${result.name}: ${why}`));
    }
  }
  const head = ['what grows', 'beside', 'requests ÷', 'quartiles', 'requests/s', '99th percentile ÷', 'memory ÷'];
  return { text: [table(head, rows), '', ...aboutLarge], voids };
}

function rowOf(what: string, base: Result, { name, ratio, rate, p99Ratio, memoryRatio }: Result): string[] {
  const quotient = ratio === undefined ? 'void' : ratioText(ratio.median);
  const figures = [quotient, spreadText(ratio), countText(rate), ratioText(p99Ratio), ratioText(memoryRatio)];
  return [`${what}: ${name}`, base.name, ...figures];
}

/** @returns markdown: what a start and a verification of the large journal take */
async function measureLarge({ scratch, node, progress }: Conditions, folder: string): Promise<string[]> {
  const bytes = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  progress('starting with the large journal');
  await measureStart(scratch, node, 1, folder); // the first start reads more: there was no clean stop
  const empty = await measureStart(scratch, node, START_PAIRS);
  const full = await measureStart(scratch, node, START_PAIRS, folder);
  progress('verifying the large journal');
  const nothing = timeOf(node, [ASSETLOG, '--version']);
  const times = Array.from({ length: VERIFY_RUNS }, () => timeOf(node, [ASSETLOG, 'verify', '--data', folder]));
  const seconds = (medianOf(times) - nothing) / 1000;
  return [
    `- a start with a journal of ${mebibytesText(bytes)} takes ${millisecondsText(full.ms)} (÷ \`node -e 0\`: ${ratioText(full.ratio)}), with none ${millisecondsText(empty.ms)} (${ratioText(empty.ratio)})`,
    `- \`assetlog verify\` reads it at ${Math.round(bytes / 1e6 / seconds)} MB/s, from memory as far as it is there`,
  ];
}

function segmentsGrow({ scratch }: Conditions, connections: number, body: string): Growth {
  const script = writeScript(scratch, body);
  const variants = [1, 10, 100].map((segments) => {
    const data = scratch.newFolder('segments');
    writeJournal(data, segments * SMALL_SEGMENT_EVENTS, SMALL_SEGMENT_EVENTS);
    return { name: countOf(segments, 'file'), subject: assetlog, connections, script, data };
  });
  return { what: "the journal's files", variants };
}

function eventsGrow({ scratch }: Conditions, connections: number, body: string, large: string): Growth {
  const script = writeScript(scratch, body);
  const common = { subject: assetlog, connections, script };
  const variants = [
    { ...common, name: 'an empty journal' },
    { ...common, name: `${countText(EVENTS)} events`, data: large },
  ];
  return { what: 'the journal', variants };
}

/** The load goes to one deployment after the other, with one token that is good for all. */
function deploymentsGrow({ scratch }: Conditions, connections: number, body: string): Growth {
  const { token, digest } = newToken();
  const variants = [1, DEPLOYMENTS].map((count) => {
    const names = Array.from({ length: count }, (_, index) => `deployment-${index + 1}`);
    const file = join(scratch.newFolder('hosted'), 'deployments.json');
    const deployments = names.map((name) => ({ name, tokens: [{ name: 'load', sha256: digest }] }));
    writeFileSync(file, JSON.stringify({ deployments }), { mode: 0o600 });
    const prefixes = names.map((name) => `/${name}`);
    const script = writeScript(scratch, body, prefixes, { 'Service-Cloud-Api-Token': token });
    return {
      name: countOf(count, 'deployment'),
      subject: assetlog,
      connections,
      script,
      args: ['--deployments', file],
    };
  });
  return { what: 'hosted mode', variants };
}

function connectionsGrow({ scratch }: Conditions, body: string): Growth[] {
  const script = writeScript(scratch, body);
  return CONNECTIONS.map((connections) => ({
    what: 'connections',
    variants: [
      { name: 'bare, the same', subject: bare, connections, script },
      { name: countText(connections), subject: assetlog, connections, script },
    ],
  }));
}

/** Writes a journal as a service leaves it. @param metadata of each event */
export function writeJournal(folder: string, events: number, segmentEvents: number, metadata = '{"rows":10}'): void {
  const members = encodeMembers({
    type: 'AssetMaterialization',
    assetKey: ['warehouse', 'orders'],
    partition: '2026-11-20',
    metadata,
  });
  for (let first = 1; first <= events; first += segmentEvents) {
    const end = Math.min(first + segmentEvents, events + 1);
    const file = openSync(join(folder, segmentName(first)), 'wx', 0o600);
    for (let chain: ChainPosition = { seq: first, crc: 0 }; chain.seq < end; ) {
      const batch = new Array<string>(Math.min(BATCH_EVENTS, end - chain.seq)).fill(members);
      const encoded = encodeBatch(batch, chain, new Date());
      writeSync(file, encoded.bytes);
      chain = encoded.chain;
    }
    fsyncSync(file);
    closeSync(file);
  }
}
