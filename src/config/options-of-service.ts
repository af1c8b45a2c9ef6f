/** The options of the service: flags, environment variables and defaults. */

import { readKey } from '../event/asset-key.ts';
import { nearest } from '../event/nearest.ts';
import { type Network, readNetwork } from './client-address.ts';
import { limits, MIB } from './limits.ts';
import { deploymentName, destinationName, headerName, SOURCE_NAME_WANTED, sourceName } from './names.ts';
import {
  flagOf,
  hasVariable,
  type Invalid,
  integer,
  matching,
  type Option,
  type Options,
  oneOf,
  option,
  readOptions,
  size,
  switchOption,
  trueOrFalse,
  type ValuesOf,
  variableOf,
} from './options.ts';

/** From the most severe to the least severe. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

const whenBehind = ['refuse', 'remove'] as const;

/** A quarter of a smaller value would be less than the smallest file. */
export const LEAST_KEPT_BYTES = (limits.leastSegmentBytes * 100) / limits.segmentPercent;

/** In the order of the help. The comments add what the help leaves out. */
export const options = {
  host: option({
    argument: 'ADDRESS',
    help: 'address to listen on; localhost is 127.0.0.1 and ::1, 0.0.0.0 and :: are all',
    initial: '127.0.0.1',
    parse: (text) => matching(text, /^[A-Za-z0-9._:%-]+$/, 'is not an IP address or a host name'),
  }),
  port: option({
    argument: 'PORT',
    help: 'port to listen on; 0 for any free one',
    initial: 3000,
    parse: (text) => {
      if (/^tcp:/.test(text)) {
        throw new Error(
          'is what Kubernetes sets for a Service named "assetlog"; rename it or set enableServiceLinks: false',
        );
      }
      return integer(text, 0, 65_535);
    },
  }),
  data: option({
    argument: 'FOLDER',
    help: 'folder of the journal; serve makes it when it is missing',
    initial: './assetlog-data',
    parse: (text) => text,
  }),
  /** Empty, or starts with a slash and does not end with one: `/some/path`. */
  pathPrefix: option({
    argument: '/PATH',
    help: 'put every path under this one, as behind a reverse proxy',
    initial: '',
    parse: (text) =>
      matching(
        text.replace(/\/$/, ''),
        /^(\/[\x21\x22\x24-\x2e\x30-\x3e\x40-\x7e]+)*$/,
        'is not a path such as /some/path',
      ),
  }),
  /** In lower case and without a port. */
  allowedHost: option<readonly string[]>({
    argument: 'NAME',
    help: 'a name that clients may use for this service besides localhost; may be repeated',
    initial: [],
    repeated: true,
    parse: (text, before) => [
      ...before,
      matching(
        text,
        /^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])$/,
        'is not a host name; give it without scheme and port',
      ).toLowerCase(),
    ],
  }),
  /** Undefined for the default: see `segmentBytesOf`. */
  segmentBytes: sizeOption(
    'size of a segment [64 MiB, or a quarter of a smaller --retain-bytes or --keep-free]',
    limits.leastSegmentBytes,
    1024 * MIB,
  ),
  /** Undefined for the default: `limits.minFreeBytes`, `limits.minFreePercent` of a smaller disk, or half of `keepFree`. */
  minFreeBytes: sizeOption('free space below which it is not ready; 0 for never [64 MiB, or 5 % of a smaller disk]', 0),
  retainBytes: sizeOption(
    'remove the oldest segments of a journal beyond this size (300MB); per deployment',
    LEAST_KEPT_BYTES,
  ),
  retainDays: option<number | undefined>({
    argument: 'DAYS',
    help: 'remove segments whose last event is older; the newest is closed after a tenth of this',
    initial: undefined,
    parse: retainedDays,
  }),
  keepFree: sizeOption(
    'remove the oldest segments while the disk has less free; more than --min-free-bytes',
    LEAST_KEPT_BYTES,
  ),
  /** Base URL of the destination `upstream`; empty if there is none. */
  forwardTo: option({
    argument: 'URL',
    help: 'send every event on to this service; with --deployments the URL has {deployment}',
    initial: '',
    parse: (text) => matching(text, /^[a-z][a-z0-9+.-]*:\/\/[^/]/i, 'is not a URL such as https://assets.example/prod'),
  }),
  /** Path of a file; empty if there is none. The next two options are paths too. */
  forward: fileOption('send every event on to the destinations in this file, which is read again'),
  forwardCaFile: fileOption('--forward-to: certificates (PEM) of the authorities to trust instead of the usual ones'),
  forwardTokenFile: fileOption('--forward-to: file that contains the token and nothing else'),
  forwardTokenHeader: tokenHeaderOption('--forward-to: name of the header with the token'),
  /** Might include a password. Empty if there is none. */
  forwardProxy: option({
    argument: 'URL',
    help: 'reach destinations over HTTP on other machines through this proxy',
    initial: '',
    secret: true,
    parse: (text) => text, // checked later, like the URL of a hook
  }),
  /** URL of a hook, which is a secret; empty if there is none. */
  onFailedCheck: option({
    argument: 'URL',
    help: 'POST the line of each failed check to this URL, in order, until it is accepted',
    initial: '',
    secret: true,
    parse: (text) => text, // checked later, together with what the destination needs
  }),
  /** Empty if the name of the host is used. */
  name: option({
    argument: 'TEXT',
    help: 'name of this service at a hub [the name of the host]',
    initial: '',
    parse: (text) => matching(text, sourceName, `is not a name; give ${SOURCE_NAME_WANTED}`),
  }),
  /** Keys, or the first parts of keys; in hosted mode after the deployment. */
  watchAsset: option<readonly (readonly string[])[]>({
    argument: 'KEY',
    help: 'a metric with the age of the oldest asset under this key; may be repeated',
    initial: [],
    repeated: true,
    parse: (text, before) => {
      if (before.length === limits.watchedKeysMax) throw new Error(`is one more than ${limits.watchedKeysMax}`);
      return [...before, readKey([text])];
    },
  }),
  whenBehind: option<(typeof whenBehind)[number]>({
    argument: 'WHAT',
    choices: whenBehind,
    help: 'at a limit of retention with events to forward: refuse reports, or remove them',
    initial: 'refuse',
    parse: (text) => oneOf(whenBehind, text, 'is neither refuse nor remove'),
  }),
  /** Empty if there is none. */
  ack: option({
    argument: 'NAME',
    help: 'reply 200 only when this destination has the event too; --forward-to is named upstream',
    initial: '',
    parse: (text) => matching(text, destinationName, 'is not the name of a destination'),
  }),
  /** Path of a file; empty for a service without deployments, which accepts reports without a token. */
  deployments: fileOption('the deployments and their tokens; reports go to /NAME/… and need a token'),
  deploymentMetrics: option({
    ...switchOption('metrics of each deployment and token, with their names'),
    variable: true,
    parse: trueOrFalse,
  }),
  tokenHeader: tokenHeaderOption('token header beside Dagster-Cloud-Api-Token and Bearer'),
  trustedProxy: option<readonly Network[]>({
    argument: 'NETWORK',
    help: 'ADDRESS[/BITS] of proxies whose X-Forwarded-For is used; may be repeated',
    initial: [],
    repeated: true,
    parse: (text, before) => [...before, readNetwork(text)],
  }),
  maxConnections: option({
    argument: 'COUNT',
    help: 'open connections; beyond it the longest idle one is closed, or a wait ends',
    initial: 256,
    parse: (text) => integer(text, 1, 65_536),
  }),
  /** In seconds; undefined for the default, `limits.idleMs`. */
  idleTimeout: option<number | undefined>({
    argument: 'SECONDS',
    help: 'close a connection that is idle for longer; more than a load balancer waits [75]',
    initial: undefined,
    parse: (text) => integer(text, limits.leastIdleMs / 1000, limits.idleMsMax / 1000),
  }),
  /** In ms; 0 for no delay. */
  commitDelay: option({
    argument: 'MS',
    help: 'let a 200 wait up to this long, so that more reports share a sync; at most 1000',
    initial: 0,
    parse: (text) => integer(text, 0, limits.commitDelayMsMax),
  }),
  /** Undefined for the default, `limits.idempotencyKeysMax`. */
  idempotencyKeys: option<number | undefined>({
    argument: 'COUNT',
    help: 'Idempotency-Keys that are remembered; 0 for none [1000000, fewer in little memory]',
    initial: undefined,
    parse: (text) => integer(text, 0, 16_777_216),
  }),
  /**
   * If neither `read` nor `noRead` is given, reading over HTTP is on only if the address is reachable from this machine
   * alone.
   */
  read: option({
    ...switchOption('let clients read events over HTTP [on loopback]; with --deployments the tokens decide'),
    variable: true,
    parse: trueOrFalse,
  }),
  noRead: option({
    ...switchOption('let no client read events over HTTP, such as other users of this machine'),
    variable: true,
    parse: trueOrFalse,
  }),
  logLevel: option<LogLevel>({
    argument: 'LEVEL',
    help: `${logLevels.join(', ')}; debug logs a line for each request`,
    choices: logLevels,
    initial: 'info',
    parse: (text) => oneOf(logLevels, text, `is not a level; use one of ${logLevels.join(', ')}`),
  }),
  quiet: switchOption('on a terminal, show no line for each recorded event; elsewhere there is none'),
  test: switchOption('test mode: a temporary folder unless --data is given, faults, a reset, and --strict'),
  /** Undefined for the default, which is the value of `test`. */
  strict: option<boolean | undefined>({
    argument: '',
    trueOrFalse: true,
    variable: true,
    help: 'refuse a report with an unknown parameter; true or false may follow [off, on with --test]',
    initial: undefined,
    parse: trueOrFalse,
  }),
  exitWithStdin: switchOption('stop when standard input is closed, such as at the end of the program that started it'),
};

/** The settings of a service. */
export type Config = ValuesOf<typeof options>;

/** Reads a number of days. @throws Error */
export function retainedDays(text: string): number {
  return integer(text, 1, 36_500);
}

function fileOption(help: string): Option<string> {
  return { argument: 'FILE', help, initial: '', parse: (text) => text };
}

function tokenHeaderOption(help: string): Option<string> {
  const parse = (text: string) => matching(text, headerName, 'is not the name of a header');
  return { argument: 'NAME', help, initial: 'Service-Cloud-Api-Token', parse };
}

function sizeOption(help: string, min: number, max = Number.MAX_SAFE_INTEGER): Option<number | undefined> {
  return { argument: 'SIZE', help, initial: undefined, parse: (text) => size(text, min, max) };
}

/** @param args `--flag value` and `--flag=value`, no operands */
export function readConfig(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): { readonly kind: 'valid'; readonly config: Config } | Invalid {
  const read = readOptions(args, env, options);
  if (read.kind === 'invalid') return read;
  const problems = contradictionsIn(read.values);
  return problems.length > 0 ? { kind: 'invalid', problems } : { kind: 'valid', config: read.values };
}

/** Variables of other commands, and of the programs that `python`, `pytest` and `dagster` print. */
const OTHER_VARIABLES = [
  'url',
  'tokenFile',
  'timeout',
  'retryFor',
  'program',
  'keyPrefix',
  'tickSeconds',
  'tickEvents',
];

/** A variable that nothing reads, and the option that was perhaps meant: `ASSETLOG_PORT`, or `--flag` if it has no variable. */
export interface UnreadVariable {
  readonly variable: string;
  readonly meant: string | undefined;
}

/**
 * @returns the variables that start with `ASSETLOG_`, or are at most two edits away from the name of an option, and that this
 * version
 *   does not know, except those that Kubernetes sets for a Service whose name starts with `assetlog` or a similar text
 */
export function unreadVariables(env: Readonly<Record<string, string | undefined>>): UnreadVariable[] {
  const meanings = new Map([
    ...OTHER_VARIABLES.map((name) => [variableOf(name), variableOf(name)] as const),
    ...Object.entries<Option<never>>(options as Options<never>).map(
      ([name, option]) => [variableOf(name), hasVariable(option) ? variableOf(name) : `--${flagOf(name)}`] as const,
    ),
  ]);
  const set = Object.entries(env).filter(
    ([name, value = '']) => /^ASSET/.test(name) && !OF_KUBERNETES.test(name) && !/^((tcp|udp|sctp):.*)?$/.test(value),
  );
  return set.flatMap(([variable]) => {
    const meant = meanings.get(nearest(variable, [...meanings.keys()], 2) ?? '');
    return meant === variable || !(meant ?? variable.startsWith('ASSETLOG_')) ? [] : [{ variable, meant }];
  });
}

const OF_KUBERNETES = /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;

export function forwards({
  forwardTo,
  forward,
  onFailedCheck,
}: Pick<Config, 'forwardTo' | 'forward' | 'onFailedCheck'>): boolean {
  return forwardTo + forward + onFailedCheck !== '';
}

/** Values that contradict each other, and what to do about them. */
const contradictions: readonly (readonly [
  areThere: (config: Config) => boolean,
  problem: string | ((config: Config) => string),
])[] = [
  [({ read, noRead }) => read && noRead, '--read and --no-read contradict each other; leave one of them out'],
  [({ test, deployments }) => test && deployments !== '', '--test has no --deployments; leave one of them out'],
  [
    (config) => config.test && forwards(config),
    '--test has no --forward-to, no --forward and no --on-failed-check, since a reset replaces its journal; leave one of them out',
  ],
  [
    ({ forwardTo, forwardTokenFile, forwardCaFile }) => forwardTo === '' && forwardTokenFile + forwardCaFile !== '',
    '--forward-token-file and --forward-ca-file are for --forward-to; give it, or tokenFile and caFile in the file of --forward',
  ],
  [
    (config) => config.ack !== '' && !forwards(config),
    '--ack names a destination, and there is none; give --forward-to or --forward',
  ],
  [
    ({ deployments, deploymentMetrics }) => deployments === '' && deploymentMetrics,
    '--deployment-metrics is for --deployments; give it, or leave the metrics out',
  ],
  [
    ({ deployments, watchAsset }) => deployments !== '' && watchAsset.some(([name = '']) => !deploymentName.test(name)),
    '--watch-asset starts with the deployment, as in prod/warehouse',
  ],
  [
    ({ segmentBytes = 0, retainBytes = Number.POSITIVE_INFINITY }) => segmentBytes > retainBytes,
    ({ segmentBytes, retainBytes = 0 }) =>
      `--segment-bytes is ${segmentBytes}, more than the ${retainBytes} of --retain-bytes: the newest file alone would exceed the limit; leave it out or give at most ${shareOf(retainBytes)}`,
  ],
  [
    ({ minFreeBytes = 0, keepFree = Number.POSITIVE_INFINITY }) => minFreeBytes >= keepFree,
    ({ minFreeBytes = 0, keepFree }) =>
      `--keep-free is ${keepFree}, not more than the ${minFreeBytes} of --min-free-bytes: /readyz would turn 503 before files are removed; give more, such as ${2 * minFreeBytes}`,
  ],
];

/** @returns each contradiction between the values, as a sentence that says what to do */
export function contradictionsIn(config: Config): string[] {
  return contradictions
    .filter(([areThere]) => areThere(config))
    .map(([, problem]) => (typeof problem === 'string' ? problem : problem(config)));
}

/**
 * @returns the size at which a journal file is closed: by default 64 MiB, or a quarter of a smaller `retainBytes` or `keepFree`, so
 *   that retention can remove closed files
 */
export function segmentBytesOf({
  segmentBytes,
  retainBytes = Number.POSITIVE_INFINITY,
  keepFree = Number.POSITIVE_INFINITY,
}: Pick<Config, 'segmentBytes' | 'retainBytes' | 'keepFree'>): number {
  return segmentBytes ?? Math.min(limits.segmentBytes, shareOf(retainBytes), shareOf(keepFree));
}

/** @returns the size of each file of a journal that keeps this many bytes */
function shareOf(bytes: number): number {
  return Math.floor((bytes * limits.segmentPercent) / 100);
}

/** Whether another process opened the listening socket. */
export type PassedSocket = { readonly kind: 'none' } | { readonly kind: 'passed'; readonly fd: number };

/**
 * Finds the socket that systemd passed to the service (socket activation, sd_listen_fds(3)). The variables are left in the
 * environment: the service starts no child process that could inherit them.
 * @param pid the id of this process; variables for another process are ignored
 */
export function readPassedSocket(
  env: Readonly<Record<string, string | undefined>>,
  pid: number,
): PassedSocket | Invalid {
  if (env['LISTEN_PID'] !== String(pid)) return { kind: 'none' };
  const count = env['LISTEN_FDS'];
  if (count === '1') return { kind: 'passed', fd: FIRST_PASSED_FD };
  return { kind: 'invalid', problems: [`LISTEN_FDS is ${count}; give the socket unit one ListenStream=`] };
}

/** SD_LISTEN_FDS_START */
const FIRST_PASSED_FD = 3;
