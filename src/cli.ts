/** The commands: what a person types, and what the process answers and ends with. */

import { request } from 'node:http';
import { hostOf } from './access.ts';
import {
  type Config,
  didYouMean,
  flagOf,
  limits,
  type OptionName,
  options,
  readConfig,
  readPassedSocket,
  serveOptions,
  variableOf,
  version,
} from './config.ts';
import { newToken } from './deployments.ts';
import { createNotices } from './notice.ts';
import { type ExitCode, exitCodes, StartError, startService } from './service.ts';
import { type Output, repairJournal, verifyJournal } from './upkeep.ts';

type Environment = Readonly<Record<string, string | undefined>>;

interface Command {
  readonly summary: string;
  readonly about: string;
  readonly options: readonly OptionName[];
  /** What the help says below the options: examples, limits, exit codes. */
  readonly notes: readonly string[];
  readonly run: (config: Config, env: Environment) => Promise<ExitCode>;
}

const serveNotes: readonly string[] = [
  'Try it:',
  '  assetlog serve --port 3000 --data ./assetlog-data',
  '  curl -X POST http://127.0.0.1:3000/report_asset_materialization/warehouse/orders',
  '',
  'Limits:',
  `  body ${limits.bodyBytesMax} bytes, request line and headers ${limits.headBytesMax} bytes, ${limits.headersMax} headers,`,
  `  asset key ${limits.keyBytesMax} bytes, JSON depth ${limits.jsonDepthMax}; headers within ${limits.headersMs / 1000} s, request within ${limits.requestMs / 1000} s,`,
  `  a kept connection may idle ${limits.idleMs / 1000} s; a stop waits ${limits.drainMs / 1000} s for requests that are being received;`,
  `  in hosted mode ${limits.failuresMax} requests without a good token in ${limits.failuresMs / 1000} s from one address, ${limits.openJournalsMax} journals open at a time`,
  '',
  'Exit codes:',
  '  0 stopped cleanly, 1 unexpected, 2 flags or configuration, 3 the journal is damaged,',
  '  4 the data folder is in use, 5 the disk failed',
];

const commands: Readonly<Record<string, Command>> = {
  serve: {
    summary: 'take reports and write them to the journal (the default)',
    about:
      'Takes reports over HTTP and appends each to the journal as one JSON line. A reply of 200 means that the line\n' +
      'is on the disk. Prints one line on standard output when it is ready; logs go to standard error.',
    options: serveOptions,
    notes: serveNotes,
    run: serve,
  },
  healthcheck: {
    summary: 'ask a running service whether it can take reports',
    about:
      'Asks /readyz of the service that runs with the same options or environment. Ends with 0 when reports are taken,\n' +
      'else with 1 and the reason on standard error. Made for container health checks.',
    options: ['host', 'port', 'pathPrefix'],
    notes: ['Exit codes: 0 takes reports, 1 does not, 2 flags or configuration.'],
    run: healthcheck,
  },
  token: {
    summary: 'print a fresh token and its entry for the deployments file',
    about:
      'Prints two lines: the token, which is for the client and is stored nowhere, and the entry that goes into the tokens\n' +
      'of a deployment. A deployment may have any number of tokens, so a new one can be handed out before an old one goes;\n' +
      'a member "notAfter" with a date such as "2027-01-31" makes a token expire.',
    options: ['name'],
    notes: [
      'A deployments file:',
      '  {"deployments": [{"name": "prod", "tokens": [{"name": "ci", "sha256": "…", "notAfter": "2027-01-31"}]}]}',
    ],
    run: token,
  },
  verify: {
    summary: 'read the whole journal and say what is in it and what is wrong',
    about:
      'Checks every line of every file: crc, seq, and that file joins up with file. Says how many files and events there\n' +
      'are, the first and last seq and time, and the first thing wrong. Changes nothing, and may run beside a service.\n' +
      'Ends with 0 when a start would go well, with 3 when the journal is damaged.',
    options: ['data', 'json'],
    notes: ['Exit codes: 0 good, 2 flags or no journal there, 3 the journal is damaged, 5 it can not be read.'],
    run: (config) => verifyJournal(config, output()),
  },
  repair: {
    summary: 'make a damaged journal startable, without losing a good line',
    about:
      'Shows what it would do; does it with --yes. Good lines stay, with their seq, id and time. Each damaged file is kept\n' +
      'whole in a folder damaged-… beside the journal, and an empty file events-….lost stands for events that are gone.\n' +
      'The service must not be running. Ends with 0 when the journal is good, with 3 when --yes would have something to do.',
    options: ['data', 'json', 'yes'],
    notes: [
      'Exit codes: 0 good, 2 flags or no journal there, 3 the journal is damaged, 4 the data folder is in use,',
      '  5 it can not be read or written.',
    ],
    run: (config) => repairJournal(config, output()),
  },
};

/**
 * @param args what follows the program's name
 * @returns what the process ends with; for `serve` only once the service has ended
 */
export async function main(args: readonly string[], env: Environment): Promise<ExitCode> {
  const [first = ''] = args;
  const named = first !== '' && !first.startsWith('-');
  const name = named ? first : 'serve';
  const rest = named ? args.slice(1) : args;

  if (first === '--version') return say(`assetlog ${version}`);
  if (first === 'help') return say(helpFor(args[1]));
  if (rest.some((word) => word === '--help' || word === '-h')) return say(helpFor(named ? first : undefined));
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) {
    return complain([`unknown command ${JSON.stringify(name)}${didYouMean(name, Object.keys(commands))}`]);
  }
  const read = readConfig(rest, env, command.options);
  return 'problems' in read ? complain(read.problems) : command.run(read.config, env);
}

function output(): Output {
  const { stderr } = process;
  return {
    say: (text) => void say(text),
    complain: (problem) => void complain([problem]),
    progress: stderr.isTTY ? (text) => void stderr.write(`\r${text}\x1b[K`) : () => {},
  };
}

async function token({ name }: Config): Promise<ExitCode> {
  const { token, digest } = newToken();
  return say(`${token}\n${JSON.stringify({ name, sha256: digest })}`);
}

async function serve(config: Config, env: Environment): Promise<ExitCode> {
  const passed = readPassedSocket(env, process.pid);
  if ('problem' in passed) return complain([passed.problem]);
  const terminal = process.stderr.isTTY === true;
  const notices = createNotices(config.logLevel, terminal, (line) => process.stderr.write(line));
  // Whoever read our output has gone; that is no reason to stop taking reports.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

  let stop: () => void = () => process.exit(exitCodes.stopped); // nothing has been acknowledged yet
  const onSignal = (signal: NodeJS.Signals) => {
    notices.info('stopping', { signal });
    stop();
    stop = () => process.exit(exitCodes.unexpected);
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);

  try {
    const service = await startService(config, notices, passed);
    stop = () => void service.stop();
    if (config.deployments !== '') process.on('SIGHUP', () => void service.reload());
    notices.info('started', { version, pid: process.pid, node: process.version, data: config.data, url: service.url });
    say(`assetlog listening on ${service.url}`);
    const code = await service.ended;
    notices.info('stopped', { exit_code: code });
    return code;
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return complain([error.message], error.exitCode);
  }
}

async function healthcheck({ host, port, pathPrefix }: Config): Promise<ExitCode> {
  const everyInterface: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '::1' };
  const url = `http://${hostOf(everyInterface[host] ?? host)}:${port}${pathPrefix}/readyz`;
  try {
    const { status, body } = await get(url);
    if (status === 200) return exitCodes.stopped;
    return complain([`${url} answers ${status}: ${body}`], exitCodes.unexpected);
  } catch (error) {
    return complain([`${url} does not answer: ${(error as Error).message}`], exitCodes.unexpected);
  }
}

function get(url: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent: false, timeout: limits.healthcheckMs }, (reply) => {
      let body = '';
      reply.setEncoding('utf8').on('data', (chunk) => {
        body += chunk;
      });
      reply.on('end', () => resolve({ status: reply.statusCode ?? 0, body }));
      reply.on('error', reject);
    });
    asked.on('timeout', () => asked.destroy(new Error(`nothing came within ${limits.healthcheckMs} ms`)));
    asked.on('error', reject);
    asked.end();
  });
}

function say(text: string): ExitCode {
  process.stdout.write(`${text}\n`);
  return exitCodes.stopped;
}

function complain(problems: readonly string[], code: ExitCode = exitCodes.configuration): ExitCode {
  for (const problem of problems) process.stderr.write(`assetlog: ${problem}\n`);
  return code;
}

function helpFor(name: string | undefined): string {
  if (name === undefined || !Object.hasOwn(commands, name)) return generalHelp();
  const { about, options: names, notes } = commands[name] as Command;
  const flags = names.map((option) => `--${flagOf(option)} ${options[option].argument}`.trimEnd());
  const width = Math.max(...flags.map(({ length }) => length));
  const lines = names.map((option, index) => {
    const { argument, help, initial } = options[option];
    const standard = typeof initial === 'number' || (typeof initial === 'string' && initial !== '');
    const first = `  ${flags[index]?.padEnd(width)}  ${help}${standard ? ` [${initial}]` : ''}`;
    if (argument === '') return first;
    return `${first}\n${' '.repeat(width + 4)}(or ${variableOf(option)} in the environment)`;
  });
  return [`Usage: assetlog ${name} [options]`, '', about, '', 'Options:', ...lines, '', ...notes].join('\n');
}

function generalHelp(): string {
  const rows = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(12)} ${summary}`);
  return [
    'Usage: assetlog [command] [options]',
    '',
    'Records reports about data assets: one POST, one JSON line on disk, 200 only when the line would survive a power cut.',
    '',
    'Commands:',
    ...rows,
    '',
    '  assetlog COMMAND --help   its options',
    '  assetlog --version        the version',
    '',
    ...serveNotes,
  ].join('\n');
}
