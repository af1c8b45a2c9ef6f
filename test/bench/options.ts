/** What the benchmark can be asked for. */

import { parseArgs } from 'node:util';
import { didYouMean } from '../../src/event/nearest.ts';
import { type Subject, subjects } from './subjects.ts';

export interface Options {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: readonly number[];
  readonly bodies: readonly number[];
  /** Executables. */
  readonly nodes: readonly string[];
  readonly subjects: readonly Subject[];
  /** Of the scratch folder, in which everything is written. */
  readonly scratch: string;
  readonly growth: boolean;
}

/** The smallest body that holds a report with all its parameters, and the largest that is taken. */
const BODY_BYTES_MIN = 160;
const BODY_BYTES_MAX = 1024 * 1024;

const QUICK = {
  rounds: '3',
  seconds: '2',
  connections: '64',
  bodies: '300',
  subjects: 'bare,assetlog,fastify + appendFile + fdatasync,go',
};

const parameters = {
  quick: { type: 'boolean' },
  rounds: { type: 'string' },
  seconds: { type: 'string' },
  connections: { type: 'string' },
  bodies: { type: 'string' },
  nodes: { type: 'string' },
  subjects: { type: 'string' },
  limits: { type: 'boolean' },
  growth: { type: 'boolean' },
  scratch: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const;

/**
 * @returns the options, or the text to print where help was asked for
 * @throws Error with a sentence for each problem
 */
export function readOptions(args: readonly string[]): Options | string {
  const values = parse(args);
  if (values.help) return help();
  const standard = values.quick
    ? QUICK
    : {
        rounds: '5',
        seconds: '3',
        connections: values.growth ? '64' : '1,16,64,256',
        bodies: '300',
        subjects: undefined,
      };
  const problems: string[] = [];
  const numbers = (name: keyof typeof QUICK, min: number, max: number): number[] =>
    (values[name as 'rounds'] ?? standard[name] ?? '').split(',').map((text) => {
      const number = /^[0-9]{1,9}$/.test(text) ? Number(text) : Number.NaN;
      if (!(number >= min && number <= max)) {
        problems.push(`--${name} ${JSON.stringify(text)} is not a whole number from ${min} to ${max}`);
      }
      return number;
    });
  const one = (name: 'rounds' | 'seconds', max: number): number => {
    const [number = Number.NaN, ...more] = numbers(name, 1, max);
    if (more.length > 0) problems.push(`--${name} takes one number`);
    return number;
  };
  const options: Options = {
    rounds: one('rounds', 1000),
    seconds: one('seconds', 600),
    connections: numbers('connections', 1, 10_000),
    bodies: numbers('bodies', BODY_BYTES_MIN, BODY_BYTES_MAX),
    nodes: values.nodes?.split(',') ?? [process.execPath],
    subjects: choose(values.subjects ?? standard.subjects, values.limits === true, problems),
    scratch: values.scratch ?? '.',
    growth: values.growth === true,
  };
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return options;
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: parameters }).values;
  } catch (error) {
    const { message } = error as Error;
    const unknown = /^Unknown option '--?([^']*)'/.exec(message)?.[1];
    if (unknown === undefined) throw new Error(message.replace(/\. .*/s, ''));
    const near = didYouMean(unknown, Object.keys(parameters)).replace(/(\S+\?)$/, '--$1');
    throw new Error(`unknown option --${unknown}${near}`);
  }
}

/** The ceiling is always there: everything is compared with it. */
function choose(names: string | undefined, limits: boolean, problems: string[]): Subject[] {
  const wanted = names?.split(',').map((name) => name.trim());
  for (const name of wanted ?? []) {
    if (subjects.some((subject) => subject.name === name)) continue;
    const known = subjects.map((subject) => subject.name);
    problems.push(
      `there is no subject ${JSON.stringify(name)}${didYouMean(name, known)}; they are ${known.join(', ')}`,
    );
  }
  return subjects.filter(
    ({ name, limit }) => name === 'bare' || (limit && limits) || (wanted?.includes(name) ?? limit !== true),
  );
}

function help(): string {
  const width = Math.max(...subjects.map(({ name }) => name.length));
  const row = ({ name, about }: Subject) => `  ${name.padEnd(width)}  ${about}`;
  return [
    'Usage: npm run bench -- [options]',
    '',
    'Loads assetlog and others in turn, several rounds, and prints the medians of the ratios to the bare server round by',
    'round: on a shared machine only figures of one round can be compared. After each run the lines that a subject recorded',
    'are counted against its replies. Markdown goes to standard output, progress to a terminal on standard error.',
    '',
    'Options:',
    '  --quick                 under a minute: four subjects, 64 connections, three short rounds',
    '  --rounds COUNT          how often each subject is loaded [5]',
    '  --seconds COUNT         how long, after one second to warm up [3]',
    '  --connections LIST      how many connections at a time [1,16,64,256]',
    `  --bodies LIST           bytes of a report, ${BODY_BYTES_MIN} or more [300]`,
    '  --nodes PATH,PATH       the Node executables to measure on [the one that runs this]',
    '  --subjects NAME,NAME    only these, and bare',
    '  --limits                also what assetlog could reach at most: the last subjects below',
    '  --growth                instead: what it costs when the journal, the deployments or the connections grow',
    '  --scratch FOLDER        where to write, on a disk that counts: a folder is made in it and removed [.]',
    '',
    'Subjects:',
    ...subjects.filter(({ limit }) => limit !== true).map(row),
    '',
    'With --limits:',
    ...subjects.filter(({ limit }) => limit === true).map(row),
    '',
    'Needs wrk. Go, a Node with node:sqlite, and ASSETLOG_TEST_REFERENCE=/path/to/dagster-webserver add their subjects;',
    'what is absent is said with the reason. Ends with 1 where a figure is void, with 2 where it can not run.',
    '',
    'Try it:',
    '  npm run bench -- --quick',
    '  npm run bench -- --connections 1,64',
    '  npm run bench -- --growth --rounds 3',
  ].join('\n');
}
