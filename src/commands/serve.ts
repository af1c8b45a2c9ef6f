/** `assetlog serve`: runs the service as a process, with its signals, its logs and its one line on standard output. */

import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { isatty } from 'node:tty';
import { openJournalsFor, readDescriptorsMax } from '../config/descriptors.ts';
import { type ExitCode, exitCodes } from '../config/exit-codes.ts';
import { limits, limitsFor } from '../config/limits.ts';
import { collectForwarded, readMemoryBytesMax, saveMemory, YoungGeneration } from '../config/memory.ts';
import { journalFolder, sourceName, version } from '../config/names.ts';
import { variableOf } from '../config/options.ts';
import {
  type Config,
  contradictionsIn,
  forwards,
  options,
  readPassedSocket,
  unreadVariables,
} from '../config/options-of-service.ts';
import { platform } from '../config/platform.ts';
import { isReadingOn } from '../service/readable.ts';
import { type Service, type ServiceParts, StartError, startService } from '../service.ts';
import { showsColours } from '../telemetry/activity.ts';
import { type Notices, openLog } from '../telemetry/log.ts';
import { printable, shellWord } from '../telemetry/printable.ts';
import { makeOwnFolder } from '../test-mode/own-folder.ts';
import { defineCommand, type Environment, type Output, refuse } from './cli/command.ts';
import { endBySignal, endWith } from './cli/end.ts';

/** Lines at the end of the help of `serve` and of the program. */
export const serveNotes: readonly string[] = [
  'Examples:',
  '  assetlog serve --port 3000 --data ./assetlog-data',
  '  assetlog serve --test --port 0 --exit-with-stdin                                 for a test suite',
  '  curl -X POST http://127.0.0.1:3000/report_asset_materialization/warehouse/orders',
  '',
  'Limits:',
  `  body ${limits.bodyBytesMax} bytes, request line and headers ${limits.headBytesMax} bytes, ${limits.headersMax} headers,`,
  `  asset key ${limits.keyBytesMax} bytes, JSON depth ${limits.jsonDepthMax}; headers within ${limits.headersMs / 1000} s, request within ${limits.requestMs / 1000} s,`,
  `  a stop waits ${limits.drainMs / 1000} s for requests that are being received;`,
  `  with deployments ${limits.failuresMax} requests without a valid token in ${limits.failuresMs / 1000} s from one address, up to ${limits.openJournalsMax} journals open at a time`,
  '',
  'Exit codes:',
  '  0 stopped cleanly, 1 unexpected, 2 flags or configuration, 3 the journal is damaged,',
  '  4 the data folder is in use, 5 the disk failed, or what the start needs is not there yet',
  '',
  'Signals:',
  '  SIGTERM, SIGINT and a closed terminal (SIGHUP) stop the service cleanly; a second SIGTERM or SIGINT ends it at once',
  '  by that signal. SIGHUP reloads the deployments and the destinations; a service with neither, whose input and outputs',
  '  are no terminal, ignores SIGHUP. If a system call of the disk never returns, the service ends by SIGKILL (137 in a',
  '  shell) instead of an exit code. On Windows Ctrl-C, Ctrl-Break and a closed window stop the service; no signal reloads.',
];

/** Runs if the command line names no command. */
export const serve = defineCommand(
  {
    summary: 'accept reports and write them to the journal (the default)',
    about:
      'Accepts reports over HTTP and appends each to the journal as one JSON line. A reply of 200 means that the line\n' +
      'is written and synced. Prints one line on standard output when it is ready; logs go to standard error.',
    notes: serveNotes,
    // Empty by default, so that a service for tests does not use the folder of another service.
    options: { ...options, data: { ...options.data, initial: '', standard: options.data.initial } },
  },
  async (given, output, _operands, env) => {
    const isForTests = given.test && given.deployments === '';
    const data = given.data || (isForTests ? makeOwnFolder() : options.data.initial); // removed when the process exits
    return runService({ ...given, data }, output, env);
  },
);

const IGNORED = 'SIGHUP is ignored: the service has no terminal and no file to reload; SIGTERM stops the service';

/** Before the URL in the line on standard output. */
const READY = 'assetlog listening on ';

async function runService(config: Config, output: Output, env: Environment): Promise<ExitCode> {
  const { print, complain, stdout } = output;
  const passed = readPassedSocket(env, process.pid);
  const problems = [...contradictionsIn(config), ...(passed.kind === 'invalid' ? passed.problems : [])];
  const unread = unreadVariables(env);
  const open = unread.find(({ meant }) => meant === variableOf('deployments'));
  if (open !== undefined && config.deployments === '' && !config.test) {
    problems.push(`${open.variable} is not read, and without ${open.meant} any client may report; rename it`);
  }
  if (passed.kind === 'invalid' || problems.length > 0) return refuse(output, ...problems);
  const isTerminal = process.stderr.isTTY === true;
  const { notices, write } = openLog(config.logLevel, isTerminal, process.stderr, limits);
  const terminal = isTerminal ? { write, colours: showsColours(env) } : undefined;

  for (const one of unread)
    notices.warn('a variable is not read: this version has no option of its name; rename or unset it', { ...one });

  const actions: SignalActions = {
    // Until the service has started, a stop exits at once: no report has been acknowledged.
    stop: () => void endWith(exitCodes.done, limits.lastCallMs, complain),
    reload: () => {}, // the start is reading the deployments file
  };
  listenToSignals(config, actions, notices);

  try {
    const parts = partsFor(readMemoryBytesMax(), notices);
    const isHosted = config.deployments !== '';
    const descriptors = isHosted ? readDescriptorsMax() : undefined;
    const openJournalsMax = openJournalsFor(descriptors, parts.limits);
    const service = await startService(config, notices, {
      hostName: sourceName.exec(hostname())?.[0],
      fd: passed.kind === 'passed' ? passed.fd : undefined,
      ...parts,
      limits: { ...parts.limits, openJournalsMax },
      terminal,
    });
    actions.stop = () => void service.stop();
    actions.reload = () => void service.reload();
    if (isHosted) {
      const most = { count: openJournalsMax, descriptors };
      notices.info('the file descriptors allow this many open journals at a time', most);
    }
    notices.info('started', { version, pid: process.pid, node: process.version, data: config.data, url: service.url });
    print(`${READY}${service.url}${config.test ? ' (test mode)' : ''}`);
    if (stdout.columns !== undefined) print(firstSteps(config, service));
    const code = await service.ended;
    notices.info('stopped', { exit_code: code });
    return code;
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    for (const problem of error.message.split('\n')) complain(problem);
    return error.exitCode;
  }
}

/** How the service currently reacts to a signal. */
interface SignalActions {
  stop: () => void;
  reload: () => void;
}

/** Passes on signals, and the end of standard input with `--exit-with-stdin`. */
function listenToSignals(config: Config, actions: SignalActions, notices: Notices): void {
  let stopping = false;
  const onSignal = (signal: NodeJS.Signals) => {
    if (stopping && signal === 'SIGHUP') return; // a closing terminal sends SIGHUP more than once
    if (stopping) endBySignal(signal);
    stopping = true;
    notices.info('stopping', { signal });
    actions.stop();
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  const hasFiles = config.deployments !== '' || forwards(config);
  if (platform.isWindows)
    process.on('SIGBREAK', onSignal).on('SIGHUP', onSignal); // Ctrl-Break, and a closed window
  else if (hasFiles) process.on('SIGHUP', () => actions.reload());
  else if ([0, 1, 2].some((fd) => isatty(fd))) process.on('SIGHUP', onSignal);
  else {
    process.on('SIGHUP', () => {}); // Node has undone the effect of nohup, which ignores SIGHUP
    process.once('SIGHUP', () => notices.info(IGNORED));
  }
  if (config.exitWithStdin) {
    const onClosed = () => {
      if (stopping) return;
      stopping = true;
      notices.info('stopping', { cause: 'standard input is closed' });
      actions.stop();
    };
    process.stdin.on('end', onClosed).on('error', onClosed).resume();
  }
}

/** @returns limits and garbage collectors for the memory that the process can use */
function partsFor(memoryBytes: number, notices: Notices): ServiceParts {
  const chosen = limitsFor(memoryBytes);
  if (chosen === limits) return { limits, onForwarded: collectForwarded(limits, new YoungGeneration(limits)) };
  const { uploadBytesMax, queueBytesMax, readBytesMax } = chosen;
  notices.info(
    'memory is scarce, so less of it is used for bodies, queues and readings; beyond that requests get 503',
    {
      memory_bytes: memoryBytes,
      upload_bytes_max: uploadBytesMax,
      queue_bytes_max: queueBytesMax,
      read_bytes_max: readBytesMax,
    },
  );
  return { limits: chosen, collectGarbage: saveMemory(), onForwarded: collectForwarded(chosen) };
}

/** Hints for a user at a terminal. If there is no terminal, `serve` prints only the line with its address. */
function firstSteps(config: Config, { url, deployment }: Service): string {
  const { data, tokenHeader } = config;
  const isShown = isReadingOn(config, new URL(url).hostname.replace(/[[\]]/g, ''));
  const hosted = deployment !== undefined;
  const under = hosted ? `/${deployment}` : '';
  const token = hosted ? `-H ${shellWord(`${tokenHeader}: TOKEN`)} ` : '';
  const curl = platform.isWindows ? 'curl.exe' : 'curl'; // in PowerShell, `curl` is another command
  return [
    `  events go to  ${printable(resolve(journalFolder(data, deployment)))}`,
    ...(isShown ? [`  the page is   ${url}${under}/`] : []),
    `  to try it     ${curl} -X POST ${token}${shellWord(`${url}${under}/report_asset_materialization/warehouse/orders`)}`,
    ...(hosted
      ? ['                (TOKEN is the output of assetlog token; the deployments file has its SHA-256)']
      : []),
  ].join('\n');
}
