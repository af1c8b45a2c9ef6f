/** One run of one subject, and many of them in rounds: the figures that the tables are made of. */

import { readdirSync, rmSync } from 'node:fs';
import { medianOf, type Spread, spreadOf } from './figures.ts';
import { ask, load, type Script } from './load.ts';
import { lineOf, loopOfSyncs } from './machine.ts';
import type { Scratch } from './scratch.ts';
import { countLines, type Place, type Server, type Subject } from './subjects.ts';

const WARM_UP_SECONDS = 1;

/** A subject under a load. */
export interface Variant {
  readonly name: string;
  readonly subject: Subject;
  readonly connections: number;
  readonly script: Script;
  readonly args?: readonly string[];
  /** A journal to go on with, which stays; else there is an empty folder for each run. */
  readonly data?: string;
}

export interface Conditions {
  readonly scratch: Scratch;
  readonly node: string;
  readonly rounds: number;
  readonly seconds: number;
  readonly progress: (text: string) => void;
}

/** What one run gave. NaN for what could not be had. */
export interface Figure {
  readonly rate: number;
  readonly p99Ms: number;
  readonly memoryBytes: number;
  /** What a request cost the processors, in all threads of the server. */
  readonly processorUs: number;
  readonly errors: number;
  /** Why it does not count. */
  readonly void?: string;
}

/** Of all rounds. The ratios are medians of the ratios to what else was measured in the same round. */
export interface Result {
  readonly name: string;
  readonly connections: number;
  /** Undefined where a round is void. */
  readonly ratio: Spread | undefined;
  readonly p99Ratio: number;
  readonly memoryRatio: number;
  readonly rate: number;
  readonly p99Ms: number;
  readonly memoryBytes: number;
  readonly processorUs: number;
  readonly errors: number;
  readonly voids: readonly string[];
}

/**
 * Measures all of them in each round, one after the other; each round begins with another one.
 * @param variants the others are compared with the first
 */
export async function measureRounds(variants: readonly Variant[], conditions: Conditions): Promise<Result[]> {
  const figures = new Map(variants.map((variant) => [variant, [] as Figure[]]));
  for (let round = 0; round < conditions.rounds; round += 1) {
    const first = round % variants.length;
    for (const variant of [...variants.slice(first), ...variants.slice(0, first)]) {
      conditions.progress(`${variant.connections} connections, round ${round + 1}: ${variant.name}`);
      figures.get(variant)?.push(await measure(variant, conditions));
    }
  }
  const base = figures.get(variants[0]!) ?? [];
  return variants.map((variant) => beside(base, figures.get(variant) ?? [], variant));
}

/** @param base the figures of the same rounds of what these are compared with */
export function beside(
  base: readonly Figure[],
  own: readonly Figure[],
  { name, connections }: Pick<Variant, 'name' | 'connections'>,
): Result {
  const ratios = (value: (figure: Figure) => number) => own.map((figure, round) => value(figure) / value(base[round]!));
  const voids = own.flatMap((figure, round) => figure.void ?? base[round]?.void ?? []);
  return {
    name,
    connections,
    ratio: voids.length > 0 ? undefined : spreadOf(ratios(({ rate }) => rate)),
    p99Ratio: medianOf(ratios(({ p99Ms }) => p99Ms)),
    memoryRatio: medianOf(ratios(({ memoryBytes }) => memoryBytes)),
    rate: medianOf(own.map(({ rate }) => rate)),
    p99Ms: medianOf(own.map(({ p99Ms }) => p99Ms)),
    memoryBytes: medianOf(own.map(({ memoryBytes }) => memoryBytes)),
    processorUs: medianOf(own.map(({ processorUs }) => processorUs)),
    errors: own.reduce((sum, { errors }) => sum + errors, 0),
    voids: [...new Set(voids)],
  };
}

async function measure(variant: Variant, conditions: Conditions): Promise<Figure> {
  const { scratch, node, seconds } = conditions;
  if (variant.subject.start === undefined) return measureLoop(variant, conditions);
  const data = variant.data ?? scratch.newFolder('data');
  const place: Place = { scratch, node, data, args: variant.args ?? [] };
  try {
    const last = variant.data === undefined ? '' : lastFile(data);
    const before = last === '' ? 0 : countLines(data, last);
    const server = await variant.subject.start(place);
    const { figure, replies } = await measureServer(server, variant, scratch, seconds);
    if (figure.rate === 0) return { ...figure, void: 'no reply came while the load lasted' };
    if (figure.errors > 0) return { ...figure, void: `${figure.errors} errors` };
    const lines = last === '' ? variant.subject.count?.(place) : countLines(data, last) - before;
    // wrk ends without waiting for the replies on their way: each load may leave one more line for each connection.
    const onTheirWay = 2 * variant.connections;
    if (lines === undefined || (lines >= replies && lines <= replies + onTheirWay)) return figure;
    return { ...figure, void: `${lines} lines recorded for ${replies} replies` };
  } catch (error) {
    const none = Number.NaN;
    return { rate: none, p99Ms: none, memoryBytes: none, processorUs: none, errors: 0, void: (error as Error).message };
  } finally {
    if (variant.data === undefined) rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function measureServer(
  server: Server,
  { subject, script, connections }: Variant,
  scratch: Scratch,
  seconds: number,
): Promise<{ figure: Figure; replies: number }> {
  try {
    let asked = await ask(server.url, script);
    // Compiled code is what a service runs for all but its first seconds.
    const warmUp = await load(scratch, server.url, script, connections, WARM_UP_SECONDS);
    asked += await ask(server.url, script); // what the warm-up left on its way comes first
    const usedBefore = server.processorSeconds();
    const result = await load(scratch, server.url, script, connections, Math.max(seconds, subject.secondsMin ?? 0));
    return {
      figure: {
        rate: result.requests / result.seconds,
        p99Ms: result.p99Ms,
        memoryBytes: server.memoryBytes(),
        processorUs: ((server.processorSeconds() - usedBefore) / result.requests) * 1e6,
        errors: warmUp.errors + result.errors,
      },
      replies: asked + warmUp.requests + result.requests,
    };
  } finally {
    await server.stop();
  }
}

function measureLoop({ script }: Variant, { scratch, seconds }: Conditions): Figure {
  const loop = loopOfSyncs(scratch, lineOf(script.body), seconds * 1000);
  return { rate: loop.perSecond, p99Ms: loop.p99Ms, memoryBytes: Number.NaN, processorUs: Number.NaN, errors: 0 };
}

/** The journal's file that lines are appended to: the last one by name. */
function lastFile(folder: string): string {
  return (
    readdirSync(folder)
      .filter((name) => name.endsWith('.jsonl'))
      .sort()
      .at(-1) ?? ''
  );
}
