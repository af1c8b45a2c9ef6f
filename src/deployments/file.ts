/** Hosted mode: reads and watches the deployments file, which lists the deployments and the tokens of each. */

import { type Checker, isObject, type JsonObject, readJsonFile } from '../config/json-file.ts';
import type { Limits } from '../config/limits.ts';
import { deploymentName } from '../config/names.ts';
import { type Invalid, size } from '../config/options.ts';
import { LEAST_KEPT_BYTES, retainedDays } from '../config/options-of-service.ts';
import { type Platform, platform } from '../config/platform.ts';
import { type WatchedFile, watchFile } from '../config/watched-file.ts';
import { type Right, rights } from '../http/router.ts';
import type { Notices } from '../telemetry/log.ts';
import type { JournalLimits } from './limits-of-journals.ts';
import { type Deployments, NOT_AFTER, readNotAfter, sha256, type Token } from './tokens.ts';

/**
 * Reads a deployments file:
 *
 *     {"recordTokens": true, "deployments": [{"name": "prod", "tokens": [
 *       {"name": "ci", "sha256": "<64 hex digits>", "notAfter": "2027-01-31", "may": ["report", "read"]}]}]}
 *
 * Without `may`, a token may report and forward, but not read.
 * @returns the deployments, or every problem as a clause that names line and member, such as
 *   `line 1: deployments[0].name must be …`
 */
export function readDeployments(
  text: string,
  system: Platform = platform,
): { readonly kind: 'valid'; readonly value: Deployments } | Invalid {
  return readJsonFile(text, (file, checker) => {
    if (isObject(file)) checker.known(file, '', ['deployments', 'recordTokens']);
    const { recordTokens = false } = isObject(file) ? file : {};
    if (typeof recordTokens !== 'boolean') checker.refuse('recordTokens', 'must be true or false');
    const { tokensOf, limitsOf } = readEntries(file, checker, { system, isRecorded: recordTokens === true });
    let tokensMax = 0;
    for (const { length } of tokensOf.values()) tokensMax = Math.max(tokensMax, length);
    return { tokensOf, tokensMax, recordTokens: recordTokens === true, limitsOf };
  });
}

/** Names that no deployment can have: paths of the service itself, under the same prefix as the deployments. */
const TAKEN: ReadonlySet<string> = new Set(['livez', 'readyz', 'server_info', 'metrics']);
/** Names that Windows reserves for devices, in upper or lower case. */
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)$/i;
/** The form of a name that is recorded in lines: it needs no escapes. */
const RECORDED_NAME = /^[^"\\\p{Cc}\p{Cs}\p{Zl}\p{Zp}]{1,100}$/u;
const DIGEST = /^[0-9a-fA-F]{64}$/;
/** The rights of a token without `may`. */
const STANDARD_RIGHTS: readonly Right[] = ['report', 'forward'];

interface Rules {
  readonly system: Platform;
  /** Whether the names of tokens are recorded. */
  readonly isRecorded: boolean;
}

function readEntries(
  file: unknown,
  checker: Checker,
  { system, isRecorded }: Rules,
): Pick<Required<Deployments>, 'tokensOf' | 'limitsOf'> {
  const tokensOf = new Map<string, readonly Token[]>();
  const limitsOf = new Map<string, JournalLimits>();
  /** Names by their folders. */
  const folders = new Map<string, string>();
  const folderOf = (name: string) => (system.ignoresCase ? name.toLowerCase() : name);
  for (const [path, entry] of checker.entries(file, '', 'deployments')) {
    checker.known(entry, path, ['name', 'tokens', 'retainBytes', 'retainDays', 'maxBytes']);
    const name = entry['name'];
    if (typeof name !== 'string' || !deploymentName.test(name)) {
      checker.refuse(`${path}.name`, 'must be up to 63 letters, digits, _ and -, and begin with a letter or a digit');
    } else if (TAKEN.has(name)) {
      checker.refuse(`${path}.name`, `is ${name}, which is a path of the service itself; choose another`);
    } else if (system.isWindows && DEVICE.test(name)) {
      checker.refuse(`${path}.name`, `is ${name}, which is a device on Windows; choose another`);
    } else if (tokensOf.has(name)) {
      checker.refuse(`${path}.name`, `is ${name}, as in an earlier entry; list each deployment once`);
    } else if (folders.has(folderOf(name))) {
      const other = folders.get(folderOf(name));
      checker.refuse(
        `${path}.name`,
        `is ${name}, whose folder is that of ${other}, since this system ignores case; choose another`,
      );
    } else {
      folders.set(folderOf(name), name);
      tokensOf.set(name, readTokens(entry, path, checker, isRecorded));
      const limits = readLimits(entry, path, checker);
      if (limits !== undefined) limitsOf.set(name, limits);
    }
  }
  return { tokensOf, limitsOf };
}

/** @returns undefined if there are none */
function readLimits(entry: JsonObject, path: string, checker: Checker): JournalLimits | undefined {
  const read = (name: keyof JournalLimits, problem: string, parse: (text: string) => number) => {
    const value = entry[name];
    if (value === undefined) return undefined;
    try {
      return parse(typeof value === 'string' || typeof value === 'number' ? String(value) : '');
    } catch {
      checker.refuse(`${path}.${name}`, problem);
      return undefined;
    }
  };
  const readBytes = (name: keyof JournalLimits) =>
    read(name, `must be a size from ${LEAST_KEPT_BYTES} bytes on, such as "300MB"`, (text) =>
      size(text, LEAST_KEPT_BYTES, Number.MAX_SAFE_INTEGER),
    );
  const limits = {
    retainBytes: readBytes('retainBytes'),
    retainDays: read('retainDays', 'must be a whole number of days from 1 to 36500', retainedDays),
    maxBytes: readBytes('maxBytes'),
  };
  return Object.values(limits).some((limit) => limit !== undefined) ? limits : undefined;
}

function readTokens(deployment: JsonObject, path: string, checker: Checker, isRecorded: boolean): Token[] {
  return checker.entries(deployment, path, 'tokens', 0).map(([at, entry]) => {
    checker.known(entry, at, ['name', 'sha256', 'notAfter', 'may']);
    const {
      name,
      sha256: digest,
      notAfter,
      may,
    } = entry as { [Name in 'name' | 'sha256' | 'notAfter' | 'may']?: unknown };
    const wrongName = problemWithName(name, isRecorded);
    if (wrongName !== undefined) checker.refuse(`${at}.name`, wrongName);
    if (typeof digest !== 'string' || !DIGEST.test(digest)) {
      checker.refuse(
        `${at}.sha256`,
        'must be the SHA-256 of the token as 64 hexadecimal digits; assetlog token prints one',
      );
    } else if (digest.toLowerCase() === sha256('').toString('hex')) {
      // The result of hashing an environment variable that is not set.
      checker.refuse(
        `${at}.sha256`,
        'is the SHA-256 of an empty text, so an empty header would get in; assetlog token prints a good one',
      );
    }
    const notAfterMs = typeof notAfter === 'string' ? readNotAfter(notAfter) : undefined;
    if (notAfter !== undefined && notAfterMs === undefined) {
      checker.refuse(`${at}.notAfter`, `must be ${NOT_AFTER}`);
    }
    if (may !== undefined && !areRights(may))
      checker.refuse(
        `${at}.may`,
        `must be an array with at least one of ${rights.map((right) => `"${right}"`).join(', ')}`,
      );
    return {
      name: String(name),
      sha256: Buffer.from(String(digest), 'hex'),
      notAfterMs,
      may: areRights(may) ? may : STANDARD_RIGHTS,
    };
  });
}

function problemWithName(name: unknown, isRecorded: boolean): string | undefined {
  if (typeof name !== 'string' || name === '') return 'must be a text that names the client of the token';
  if (!isRecorded || RECORDED_NAME.test(name)) return undefined;
  return 'is recorded, so it must have at most 100 characters and no ", \\ or control character; or leave out recordTokens';
}

function areRights(value: unknown): value is Right[] {
  return Array.isArray(value) && value.length > 0 && value.every((word) => rights.includes(word));
}

/** A deployments file that is read again when it changes. */
export type DeploymentsFile = WatchedFile<Deployments>;

interface WatchOptions {
  readonly limits: Limits;
  readonly notices: Notices;
  /** See `FileUse.refused`. */
  readonly refusedFiles?: Set<string>;
}

/**
 * Reads the deployments file, and reads it again every `limits.deploymentsCheckMs` to find changes.
 * @param onChange called with the deployments of each valid new version, but not of the first one
 * @throws Error if the first read fails; its message has one line for each problem of an invalid file:
 *   `/etc/deployments.json, line 1: deployments[0].name must be …`
 */
export function watchDeployments(
  path: string,
  { limits, notices, refusedFiles }: WatchOptions,
  onChange: (deployments: Deployments) => void,
): Promise<DeploymentsFile> {
  return watchFile(path, limits, {
    option: '--deployments',
    read: readDeployments,
    changed: (current) => {
      onChange(current);
      notices.info('the deployments were read again', { count: current.tokensOf.size });
    },
    failed: (problem) =>
      notices.error('the deployments file is refused; the previous deployments stay in effect', {
        problem,
      }),
    refused: refusedFiles,
  });
}
