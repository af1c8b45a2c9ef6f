/** A run of one subject, and many runs in rounds: the figures of the tables. */

import { rmSync } from 'node:fs';
import { medianOf, type Spread, spreadOf } from './figures.ts';
import { ask, load, type Script } from './load.ts';
import type { Scratch } from './scratch.ts';
import { countLines, type Server, type Subject } from './subjects.ts';

const WARM_UP_SECONDS = 1;
/** Requests whose reply is checked: one before the warm-up and one after it. */
const ASKED = 2;

export interface Conditions {
  readonly scratch: Scratch;
  /** The others are compared with the first one. */
  readonly subjects: readonly Subject[];
  readonly node: string;
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  readonly script: Script;
  readonly progress: (text: string) => void;
}

/** The result of one run. NaN for missing values. */
export interface Figure {
  readonly rate: number;
  readonly p99Ms: number;
  readonly memoryBytes: number;
  /** Processor time per report, in all threads of the server. */
  readonly processorUs: number;
  /** The part in user mode. */
  readonly userUs: number;
  readonly errors: number;
  /** Why the run does not count. */
  readonly void?: string;
}

/** The result of all rounds: medians, and medians of the ratios to the first subject in the same round. */
export interface Result extends Omit<Figure, 'void'> {
  readonly name: string;
  readonly connections: number;
  /** Undefined if a round is void. */
  readonly ratio: Spread | undefined;
  readonly userRatio: Spread | undefined;
  readonly p99Ratio: number;
  readonly memoryRatio: number;
  readonly voids: readonly string[];
}

/** Measures all subjects in each round, one after the other; each round starts with another subject. */
export async function measureRounds(conditions: Conditions): Promise<Result[]> {
  const { subjects } = conditions;
  const figures = new Map(subjects.map((subject) => [subject, [] as Figure[]]));
  for (let round = 0; round < conditions.rounds; round += 1) {
    const first = round % subjects.length;
    for (const subject of [...subjects.slice(first), ...subjects.slice(0, first)]) {
      conditions.progress(`${conditions.connections} connections, round ${round + 1}: ${subject.name}`);
      figures.get(subject)?.push(await measure(subject, conditions));
    }
  }
  const base = figures.get(subjects[0]!) ?? [];
  return subjects.map((subject) => beside(base, figures.get(subject) ?? [], subject.name, conditions.connections));
}

/** @param base the figures of the first subject in the same rounds */
export function beside(base: readonly Figure[], own: readonly Figure[], name: string, connections: number): Result {
  const ratios = (value: (figure: Figure) => number) => own.map((figure, round) => value(figure) / value(base[round]!));
  const voids = own.flatMap((figure, round) => figure.void ?? base[round]?.void ?? []);
  return {
    name,
    connections,
    ratio: voids.length > 0 ? undefined : spreadOf(ratios(({ rate }) => rate)),
    userRatio: voids.length > 0 ? undefined : spreadOf(ratios(({ userUs }) => userUs)),
    p99Ratio: medianOf(ratios(({ p99Ms }) => p99Ms)),
    memoryRatio: medianOf(ratios(({ memoryBytes }) => memoryBytes)),
    rate: medianOf(own.map(({ rate }) => rate)),
    p99Ms: medianOf(own.map(({ p99Ms }) => p99Ms)),
    memoryBytes: medianOf(own.map(({ memoryBytes }) => memoryBytes)),
    processorUs: medianOf(own.map(({ processorUs }) => processorUs)),
    userUs: medianOf(own.map(({ userUs }) => userUs)),
    errors: own.reduce((sum, { errors }) => sum + errors, 0),
    voids: [...new Set(voids)],
  };
}

async function measure(subject: Subject, conditions: Conditions): Promise<Figure> {
  const { scratch, node, connections, script } = conditions;
  const data = scratch.newFolder('data');
  try {
    const server = await subject.start({ scratch, node, data });
    const { figure, reports } = await measureServer(server, conditions);
    if (figure.rate === 0) return { ...figure, void: 'no reply came while the load lasted' };
    if (figure.errors > 0) return { ...figure, void: `${figure.errors} errors` };
    if (!subject.records) return figure;
    const lines = countLines(data);
    // wrk ends without waiting for the replies on their way: each load can leave one more request for each connection.
    if (lines >= reports && lines <= reports + 2 * connections * (script.items ?? 1)) return figure;
    return { ...figure, void: `${lines} lines recorded, ${reports} acknowledged` };
  } catch (error) {
    const none = Number.NaN;
    const figure = { rate: none, p99Ms: none, memoryBytes: none, processorUs: none, userUs: none, errors: 0 };
    return { ...figure, void: (error as Error).message };
  } finally {
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function measureServer(
  server: Server,
  { scratch, script, connections, seconds }: Conditions,
): Promise<{ figure: Figure; reports: number }> {
  const { items = 1 } = script;
  try {
    await ask(server.url, script);
    // A service runs compiled code, except in its first seconds.
    const warmUp = await load(scratch, server.url, script, connections, WARM_UP_SECONDS);
    await ask(server.url, script); // requests left by the warm-up are served before this one
    const usedBefore = server.processorSeconds();
    const userBefore = server.userSeconds();
    const result = await load(scratch, server.url, script, connections, seconds);
    const loaded = result.requests * items;
    return {
      figure: {
        rate: loaded / result.seconds,
        p99Ms: result.p99Ms,
        memoryBytes: server.memoryBytes(),
        processorUs: ((server.processorSeconds() - usedBefore) / loaded) * 1e6,
        userUs: ((server.userSeconds() - userBefore) / loaded) * 1e6,
        errors: warmUp.errors + result.errors,
      },
      reports: (ASKED + warmUp.requests) * items + loaded,
    };
  } finally {
    await server.stop();
  }
}
