/**
 * The destinations of a service, from `--forward-to` and from the file of `--forward`, which is read again when it
 * changes.
 */

import { dirname, resolve } from 'node:path';
import { hasLogin, isLocal, PROXY_WANTED, readProxyUrl } from '../client/base-url.ts';
import { type Checker, isObject, type JsonObject, readJsonFile } from '../config/json-file.ts';
import type { Limits } from '../config/limits.ts';
import { deploymentName, destinationName, headerName } from '../config/names.ts';
import type { Invalid } from '../config/options.ts';
import { type Config, options } from '../config/options-of-service.ts';
import { type WatchedFile, watchFile } from '../config/watched-file.ts';
import { durationMs } from '../event/moment.ts';
import type { Filter } from '../event/search.ts';
import type { Notices } from '../telemetry/log.ts';
import { kindsWith, onlyKindOf, schemes, traitsOf } from './destinations/kinds.ts';
import { hookOrigin, readHookUrl } from './destinations/plain.ts';
import { headerProblems } from './headers.ts';
import { readOnly } from './only.ts';
import { type AlarmKind, alarmKinds, type Deployment, type DestinationSettings, type OwnHeaders } from './settings.ts';

/** What replaces `{deployment}` in the URL of a destination. */
const DEPLOYMENT = '{deployment}';

/** @returns the settings of a destination for one journal */
export function resolveSettings(settings: DestinationSettings, deployment: Deployment): DestinationSettings {
  const named = (url: string) => url.replaceAll(DEPLOYMENT, deployment ?? '');
  const { to, hookPath } = settings;
  const own = hookPath === undefined ? {} : { hookPath: named(hookPath) };
  return { ...settings, ...own, to: named(to), deployments: undefined };
}

/**
 * Whether the events of a deployment, or of a local service, are forwarded to this destination. True if the destination
 * names no deployments.
 */
export function appliesTo(
  { deployments }: Pick<DestinationSettings, 'deployments'>,
  deployment: string | undefined,
): boolean {
  return deployments === undefined || deployments.includes(deployment ?? '');
}

/** The options that determine where events are forwarded. */
export type DestinationOptions = Pick<
  Config,
  | 'forward'
  | 'forwardTo'
  | 'forwardTokenFile'
  | 'forwardTokenHeader'
  | 'forwardCaFile'
  | 'forwardProxy'
  | 'onFailedCheck'
  | 'deployments'
  | 'whenBehind'
  | 'ack'
>;

const DEFAULTS = {
  tokenHeader: options.forwardTokenHeader.initial,
  stamp: false,
  inDoubt: 'again',
  begin: 'first',
} as const;

interface WatchOptions {
  readonly limits: Limits;
  readonly notices: Notices;
  /** See `FileUse.refused`. */
  readonly refusedFiles?: Set<string>;
  readonly isOwnUrl?: IsOwnUrl;
}

/** The name of the destination of `--forward-to`. */
const UPSTREAM = 'upstream';
/** The name of the destination of `--on-failed-check`. */
const FAILED_CHECKS = 'failed-checks';

/** Whether a URL leads to the service to which the destinations belong. */
export type IsOwnUrl = (url: URL) => boolean;

/**
 * Reads the destinations of a service, and reads the file of `--forward` again when it changes.
 * @param journalsOf returns from how many journals a destination currently gets events
 * @param changed called with the destinations of each valid new version of the file, but not of the first one
 * @returns undefined if there are no destinations and no file
 * @throws Error with one line for each problem: `/etc/forward.json, line 1: destinations[0].name must be …`
 */
export async function watchDestinations(
  config: DestinationOptions,
  { limits, notices, isOwnUrl, refusedFiles }: WatchOptions,
  journalsOf: (settings: DestinationSettings) => number,
  changed: (all: readonly DestinationSettings[]) => void,
): Promise<WatchedFile<readonly DestinationSettings[]> | undefined> {
  if (config.forwardProxy !== '' && readProxyUrl(config.forwardProxy) === undefined)
    throw new Error(`--forward-proxy ${PROXY_WANTED}`);
  const own = ownOf(config);
  const problemOf = (all: readonly DestinationSettings[]) => {
    const count = all.reduce((sum, one) => sum + journalsOf(one), 0);
    if (count > limits.sendersMax) return tooMany(count, limits);
    return ackProblem(all, journalsOf, config) ?? ownHookProblem(all, isOwnUrl);
  };
  if (config.forward === '') {
    const problem = problemOf(own);
    if (problem !== undefined)
      throw new Error(`${config.forwardTo === '' ? '--on-failed-check' : '--forward-to'} ${problem}`);
    return own.length === 0 ? undefined : { current: own, reload: async () => {}, stop: () => {} };
  }
  return watchFile(config.forward, limits, {
    option: '--forward',
    read: (text) => {
      const former: string[] = [];
      const found = readDestinations(text, config, (name) => former.push(name));
      if (found.kind === 'invalid') return found;
      if (former.length > 0) notices.warn(EACH_FAILURE, { destinations: former.join(', ') });
      const value = [...own, ...found.value];
      const problem = problemOf(value);
      return problem === undefined ? { kind: 'valid', value } : { kind: 'invalid', problems: [`line 1: ${problem}`] };
    },
    changed: (all) => {
      notices.info('the destinations were read again', { count: all.length });
      changed(all);
    },
    failed: (problem) =>
      notices.error('the file with the destinations is refused; the previous destinations stay in effect', {
        problem,
      }),
    refused: refusedFiles,
  });
}

/** @returns the problem of the destination of `--ack`, which every journal needs, as a clause */
export function ackProblem(
  all: readonly DestinationSettings[],
  journalsOf: (destination: DestinationSettings) => number,
  { ack }: DestinationOptions,
): string | undefined {
  if (ack === '') return undefined;
  const one = all.find(({ name }) => name === ack);
  if (one === undefined) {
    return `has no destination ${ack}, which --ack names; add it, or name another (that of --forward-to is ${UPSTREAM})`;
  }
  if (onlyKindOf(one.to) === 'hook') return `has ${ack} as a hook, and --ack needs a hub or an engine`;
  if (one.lingerMs) return `has lingerMs for ${ack}, and with --ack each reply would wait as long; leave it out`;
  if (journalsOf(one) === journalsOf({ ...one, deployments: undefined })) return undefined;
  return `has the destination ${ack} not for all deployments, and --ack needs that; leave out its deployments`;
}

/**
 * @returns which hook posts to the service itself, as a sentence; each of its events would produce another one, endlessly
 */
export function ownHookProblem(
  all: readonly DestinationSettings[],
  isOwnUrl: IsOwnUrl = () => false,
): string | undefined {
  const one = all.find(({ to }) => onlyKindOf(to) === 'hook' && isOwnUrl(new URL(hookOrigin(to))));
  if (one === undefined) return undefined;
  return `the hook ${one.name} posts to ${hookOrigin(one.to)}, which is this service itself; give it another URL`;
}

/** @returns the destinations of the options. @throws the errors of `upstreamOf` */
function ownOf(config: DestinationOptions): DestinationSettings[] {
  return [
    ...(config.forwardTo === '' ? [] : [upstreamOf(config)]),
    ...(config.onFailedCheck === '' ? [] : [hookOf(config)]),
  ];
}

/** @returns what to do about too many senders, as a clause */
export function tooMany(count: number, { sendersMax }: Limits): string {
  return `has ${count} destinations, counted for each deployment, and at most ${sendersMax} are allowed; list fewer in deployments`;
}

/** @throws the errors of `upstreamOf` */
function hookOf(config: DestinationOptions): DestinationSettings {
  const to = `hook+${config.onFailedCheck}`;
  if (readHookUrl(to) === undefined && !hasLogin(to))
    throw new Error('--on-failed-check must be a URL such as https://hooks.example/path');
  const entry = { name: FAILED_CHECKS, to, begin: 'now', only: { type: 'check', passed: false } };
  const found = readDestinations(JSON.stringify({ destinations: [entry] }), { ...config, onFailedCheck: '' });
  if (found.kind === 'valid') return found.value[0]!;
  throw new Error(found.problems.join('; ').replace(/line 1: \S+/g, '--on-failed-check'));
}

/** @throws Error that describes the problem of the URL, without the URL */
function upstreamOf(config: DestinationOptions): DestinationSettings {
  const { forwardTo, forwardTokenFile, forwardTokenHeader, forwardCaFile, whenBehind } = config;
  const problem = urlProblem(forwardTo, config, false);
  if (problem !== undefined) throw new Error(`--forward-to ${problem}`);
  const isOtherHeader = forwardTokenHeader !== DEFAULTS.tokenHeader;
  const flags = {
    tokenFile: forwardTokenFile && '--forward-token-file',
    tokenHeader: isOtherHeader && '--forward-token-header',
  };
  for (const [member, flag] of Object.entries(flags)) {
    if (!flag || !meaningless(forwardTo).includes(member)) continue;
    throw new Error(`${flag} ${noUse(forwardTo)}; user and passwordFile are members of the file of --forward`);
  }
  return {
    ...DEFAULTS,
    name: UPSTREAM,
    ...placeOf(forwardTo),
    ...proxyOf(forwardTo, undefined, config),
    tokenFile: forwardTokenFile || undefined,
    tokenHeader: forwardTokenHeader,
    caFile: forwardCaFile || undefined,
    hold: whenBehind === 'refuse',
  };
}

/**
 * Reads a file with destinations; paths in it are relative to it:
 *
 *     {"destinations": [{"name": "hub", "to": "https://hub.example/{deployment}", "tokenFile": "hub.token"}]}
 *
 * @param onFormer called with the name of each hook whose `on` meant something else in version 0.3
 * @returns the destinations, with `hold` set to false if events may be removed, or every problem as a clause that names line
 * and member,
 *   such as `line 1: destinations[0].name must be …`
 */
export function readDestinations(
  text: string,
  config: DestinationOptions,
  onFormer: (name: string) => void = () => {},
): { readonly kind: 'valid'; readonly value: readonly DestinationSettings[] } | Invalid {
  return readJsonFile(text, (file, checker) => {
    const names = new Set([
      ...(config.forwardTo === '' ? [] : [UPSTREAM]),
      ...(config.onFailedCheck === '' ? [] : [FAILED_CHECKS]),
    ]);
    const entries = checker.entries(file, '', 'destinations', 0);
    return entries.map(([path, entry]) => {
      if (isFormer(entry['on'])) onFormer(`${entry['name']}`);
      return readEntry(entry, path, names, config, checker);
    });
  });
}

/** The valid form of each member except `name` and `to`, and its check. */
const members: Readonly<Record<string, readonly [problem: string, isGood: (value: unknown) => boolean]>> = {
  deployments: ['must be an array of names of deployments', areDeployments],
  tokenFile: ['must be the path of a file', isText],
  tokenHeader: ['must be the name of a header', (value) => isText(value) && headerName.test(value)],
  user: ['must be the name of a user', (value) => isText(value) && VISIBLE.test(value)],
  passwordFile: ['must be the path of a file', isText],
  caFile: ['must be the path of a file', isText],
  ratePerSecond: ['must be a number above 0', (value) => typeof value === 'number' && value > 0],
  lingerMs: ['must be a number of milliseconds from 0 to 60000', isLingerMs],
  stamp: ['must be true or false', isBoolean],
  inDoubt: ['must be "again" or "once"', (value) => value === 'again' || value === 'once'],
  begin: ['must be "first" or "now"', (value) => value === 'first' || value === 'now'],
  hold: ['must be true or false', isBoolean],
  on: [`must be an array of ${alarmKinds.map((kind) => `"${kind}"`).join(', ')}`, areAlarmKinds],
  staleAfter: ['must be a duration such as 26h', (value) => isText(value) && (durationMs(value) ?? 0) > 0],
};

/** The members that can contradict each other. */
type Contradicting = Pick<DestinationSettings, 'on' | 'staleAfter' | 'only' | 'user' | 'passwordFile' | 'tokenFile'>;

/** Members that require or exclude each other: the refused member, the reason, and the condition. */
const contradictions: readonly (readonly [at: string, problem: string, isWrong: (given: Contradicting) => boolean])[] =
  [
    [
      '',
      'has only one of "stale" or "fresh" in on and staleAfter, which belong together',
      ({ on, staleAfter }) =>
        (Array.isArray(on) && (on.includes('stale') || on.includes('fresh'))) !== (staleAfter !== undefined),
    ],
    [
      '.only',
      'has type or passed, which on says; leave them out',
      ({ on, only }) => on !== undefined && (only?.passed !== undefined || only?.type !== undefined),
    ],
    [
      '.only',
      'has data_version, description or idempotency_key, which an alarm does not have; leave them out',
      ({ on, only: { dataVersion, description, idempotencyKey } = {} }) =>
        on !== undefined && [dataVersion, description, idempotencyKey].some((member) => member !== undefined),
    ],
    [
      '',
      'has only one of user and passwordFile, which belong together',
      ({ user, passwordFile }) => (user === undefined) !== (passwordFile === undefined),
    ],
    [
      '.tokenFile',
      'is one way to log in, and user is another; leave one of them out',
      (given) => [given.user, given.passwordFile, given.tokenFile].every((member) => member !== undefined),
    ],
  ];

/** @param names the names of the earlier destinations; the name of this one is added */
function readEntry(
  entry: JsonObject,
  path: string,
  names: Set<string>,
  config: DestinationOptions,
  checker: Checker,
): DestinationSettings {
  checker.known(entry, path, ['name', 'to', ...Object.keys(members), 'headers', 'proxy', 'only']);
  const { name, to, deployments, hold = true, only, headers, proxy, ...more } = entry as Partial<DestinationSettings>;
  checkName(name, path, names, checker);
  for (const [member, [problem, isGood]] of Object.entries(members)) {
    const value = entry[member];
    if (value !== undefined && !isGood(value)) checker.refuse(`${path}.${member}`, problem);
  }
  const { tokenHeader = DEFAULTS.tokenHeader } = more;
  const wrong = headers === undefined ? [] : headerProblems(headers, tokenHeader);
  for (const [at, problem] of wrong) checker.refuse(`${path}.headers${at}`, problem);
  if (proxy !== undefined && !isProxy(proxy))
    checker.refuse(`${path}.proxy`, `${PROXY_WANTED}, {"file": "PATH"} or "none"`);
  const wanted = readWanted(only, path, checker);
  for (const [at, problem, isWrong] of contradictions) {
    if (isWrong({ ...more, only: wanted })) checker.refuse(`${path}${at}`, problem);
  }
  if (deployments !== undefined && config.deployments === '') {
    checker.refuse(`${path}.deployments`, 'is for a service with --deployments; leave it out');
  }
  const problem = urlProblem(to, config, deployments !== undefined);
  if (problem !== undefined) checker.refuse(`${path}.to`, problem);
  for (const member of meaningless(`${to}`).filter((one) => entry[one] !== undefined)) {
    checker.refuse(`${path}.${member}`, noUse(`${to}`));
  }
  const { tokenFile, passwordFile, caFile, on } = more;
  const folder = dirname(config.forward);
  const located = (file: string | undefined) => (isText(file) ? resolve(folder, file) : undefined);
  return {
    ...DEFAULTS,
    ...more,
    name: String(name),
    ...placeOf(String(to)),
    ...proxyOf(String(to), proxy, config),
    ...(wanted !== undefined && { only: wanted }),
    ...(Array.isArray(on) && { on: kindsIn(on) }),
    ...(headers !== undefined && wrong.length === 0 && { headers: locatedIn(headers, folder) }),
    deployments,
    tokenFile: located(tokenFile),
    passwordFile: located(passwordFile),
    caFile: located(caFile),
    // A hook with `on` never holds events back.
    hold: on === undefined && hold && config.whenBehind === 'refuse',
  };
}

/** @param names the names of the earlier destinations; this one is added */
function checkName(name: unknown, path: string, names: Set<string>, checker: Checker): void {
  if (!isText(name) || !destinationName.test(name)) {
    const problem = 'must be up to 63 lower-case letters, digits and -, and begin with a letter or a digit';
    checker.refuse(`${path}.name`, problem);
  } else if (names.has(name)) {
    checker.refuse(`${path}.name`, `is ${name}, like another destination; choose another`);
  } else names.add(name);
}

/** @returns the filter of a destination; undefined if it is missing or invalid */
function readWanted(only: unknown, path: string, checker: Checker): Filter | undefined {
  try {
    return only === undefined ? undefined : readOnly(only);
  } catch (error) {
    checker.refuse(`${path}.only`, (error as Error).message);
    return undefined;
  }
}

/** @param proxy the proxy of the destination in the file; without one, the proxy of `--forward-proxy` applies */
function proxyOf(
  to: string,
  proxy: DestinationSettings['proxy'],
  { forwardProxy, forward }: DestinationOptions,
): Pick<DestinationSettings, 'proxy'> {
  const isLocalOnly = isLocal(/:\/\/(\[[^\]]*\]|[^:/,?#]*)/.exec(to)?.[1] ?? '');
  if (isLocalOnly || proxy === 'none' || meaningless(to).includes('proxy')) return {};
  const place = proxy ?? (forwardProxy || undefined);
  if (place === undefined) return {};
  return { proxy: typeof place === 'string' ? place : { file: resolve(dirname(forward), `${place.file}`) } };
}

/** @returns the headers, with paths that do not depend on the working directory of the process */
function locatedIn(headers: OwnHeaders, folder: string): OwnHeaders {
  const located = Object.entries(headers).map(([name, value]) => {
    return [name, typeof value === 'string' ? value : { file: resolve(folder, value.file) }] as const;
  });
  return Object.fromEntries(located);
}

/**
 * @param isListed whether the destination lists its deployments
 * @returns the problem of a destination's URL, as a text that follows its name; it does not contain a password
 */
function urlProblem(to: unknown, { deployments }: DestinationOptions, isListed: boolean): string | undefined {
  const given = isText(to) ? to : '';
  const scheme = schemeOf(given);
  if (scheme !== '' && !schemes.has(scheme.toLowerCase())) {
    const all = [...schemes].map((one) => `${one}://`).join(', ');
    return `has the scheme ${scheme}, which no destination has; use one of ${all}`;
  }
  const one = given.replaceAll(DEPLOYMENT, 'deployment');
  const [kind] = kindsWith(one);
  if (kind === undefined) return 'must be a URL such as https://hub.example/prod';
  if (/[{}]/.test(one)) return `has { or }, and only ${DEPLOYMENT} is replaced`;
  const problem = traitsOf[kind].urlProblem(one);
  if (problem !== undefined) return problem;
  const isReplaced = one !== given;
  if (deployments === '') {
    return isReplaced ? `has ${DEPLOYMENT}, and a service without --deployments has none; write its name` : undefined;
  }
  if (isReplaced || isListed || traitsOf[kind].keepsDeploymentsApart) return undefined;
  return `has no ${DEPLOYMENT}, so that the events of all deployments would be mixed; add it, or list the deployments of this URL in the file of --forward`;
}

/** @returns the members that have no meaning for a destination with this URL, whatever its kind turns out to be */
function meaningless(to: string): readonly string[] {
  const [first = [], ...others] = kindsWith(to).map((kind): readonly string[] => traitsOf[kind].withoutMembers);
  return first.filter((member) => others.every((other) => other.includes(member)));
}

/** @returns the problem of a member or a flag that has no meaning */
function noUse(to: string): string {
  return `has no meaning for a destination with the scheme ${schemeOf(to)}; leave it out`;
}

/** @returns the scheme; empty if there is none */
function schemeOf(url: string): string {
  return /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1] ?? '';
}

/** @returns the URL without a slash at its end, or for a hook the part that can be shown, and the rest */
function placeOf(url: string): Pick<DestinationSettings, 'to' | 'hookPath'> {
  return readHookUrl(url) ?? { to: url.replace(/\/+$/, '') };
}

function isProxy(value: unknown): boolean {
  return value === 'none' || readProxyUrl(value) !== undefined || (isObject(value) && isText(value['file']));
}

const VISIBLE = /^[\x21-\x7e]{1,100}$/;

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isBoolean(value: unknown): boolean {
  return typeof value === 'boolean';
}

function isLingerMs(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value <= 60_000;
}

function areAlarmKinds(value: unknown): boolean {
  const isKind = (kind: unknown) => kind === CHANGED || alarmKinds.includes(kind as AlarmKind);
  return Array.isArray(value) && value.length > 0 && value.every(isKind);
}

/** Whether `on` selected each failure or each change in version 0.3. */
function isFormer(on: unknown): boolean {
  if (!Array.isArray(on)) return false;
  return on.includes(CHANGED) || (on.includes('failed') && !on.includes('recovered'));
}

/** @returns the kinds; `changed` of version 0.3 is replaced by the kinds that it stands for */
function kindsIn(on: readonly (AlarmKind | typeof CHANGED)[]): readonly AlarmKind[] {
  return [...new Set(on.flatMap((kind): AlarmKind[] => (kind === CHANGED ? ['failed', 'recovered'] : [kind])))];
}

const CHANGED = 'changed';
/** Log message about hooks of version 0.3. */
const EACH_FAILURE =
  '"failed" now posts when a check starts to fail; for each failure leave out "on" and write "only": {"type": "check", "passed": false}';

function areDeployments(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every((name) => isText(name) && deploymentName.test(name));
}
