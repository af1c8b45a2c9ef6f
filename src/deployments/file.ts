/** Hosted mode: reads and watches the deployments file, which lists the deployments and the tokens of each. */

import { deploymentName } from '../config/config.ts';
import { readText } from '../config/files.ts';
import type { Invalid } from '../config/options.ts';
import { JsonError, readJson } from '../event/json.ts';
import { type Right, rights } from '../http/router.ts';
import type { DeploymentJournalsOptions } from './journals.ts';
import { type Deployments, NOT_AFTER, readNotAfter, sha256, type Token } from './tokens.ts';

/** What a deployments file without problems holds. */
interface ValidDeployments {
  readonly kind: 'valid';
  readonly deployments: Deployments;
}

/**
 * Reads a deployments file:
 *
 *     {"deployments": [{"name": "prod", "tokens": [
 *       {"name": "ci", "sha256": "<64 hex digits>", "notAfter": "2027-01-31", "may": ["report", "read"]}]}]}
 *
 * Without `may`, a token may report and not read.
 * @returns the deployments, or every problem as a clause that names line and member, such as
 *   `line 1: deployments[0].name must be …`
 */
export function readDeployments(text: string): ValidDeployments | Invalid {
  try {
    readJson(text, DEPTH_MAX);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return { kind: 'invalid', problems: [`line ${error.line}, column ${error.column}: ${error.message}`] };
  }
  const checker = new Checker(text);
  const tokensOf = checker.deployments(JSON.parse(text));
  if (checker.problems.length > 0) return { kind: 'invalid', problems: checker.problems };
  let tokensMax = 0;
  for (const { length } of tokensOf.values()) tokensMax = Math.max(tokensMax, length);
  return { kind: 'valid', deployments: { tokensOf, tokensMax } };
}

const DEPTH_MAX = 8;
/** Names that no deployment may have: paths of the service itself, under the same prefix as the deployments. */
const TAKEN: ReadonlySet<string> = new Set(['livez', 'readyz', 'metrics']);
const DIGEST = /^[0-9a-fA-F]{64}$/;
/** The digest that an operator gets by hashing an environment variable that is not set. */
const NOTHING = sha256('').toString('hex');
/** What a token without `may` may do. */
const REPORT_ONLY: readonly Right[] = ['report'];
type Members = Readonly<Record<string, unknown>>;

/** Checks the values of a deployments file, and collects the problems. */
class Checker {
  readonly problems: string[] = [];
  readonly #text: string;
  /** Line number by path. Computed at the first problem, so that reloading a valid file while requests are served stays cheap. */
  #lines: ReadonlyMap<string, number> | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  deployments(file: unknown): Map<string, readonly Token[]> {
    const tokensOf = new Map<string, readonly Token[]>();
    for (const [path, entry] of this.#entries(file, '', 'deployments')) {
      this.#known(entry, path, ['name', 'tokens']);
      const name = entry['name'];
      if (typeof name !== 'string' || !deploymentName.test(name)) {
        this.#refuse(`${path}.name`, 'must be up to 63 letters, digits, _ and -, and begin with a letter or a digit');
      } else if (TAKEN.has(name)) {
        this.#refuse(`${path}.name`, `is ${name}, which is a path of the service itself; choose another`);
      } else if (tokensOf.has(name)) {
        this.#refuse(`${path}.name`, `is ${name}, as in an earlier entry; list each deployment once`);
      } else {
        tokensOf.set(name, this.#tokens(entry, path));
      }
    }
    return tokensOf;
  }

  #tokens(deployment: Members, path: string): Token[] {
    return this.#entries(deployment, path, 'tokens').map(([at, entry]) => {
      this.#known(entry, at, ['name', 'sha256', 'notAfter', 'may']);
      const {
        name,
        sha256: digest,
        notAfter,
        may,
      } = entry as { [Name in 'name' | 'sha256' | 'notAfter' | 'may']?: unknown };
      if (typeof name !== 'string' || name === '')
        this.#refuse(`${at}.name`, 'must be a text that names the client of the token');
      if (typeof digest !== 'string' || !DIGEST.test(digest)) {
        this.#refuse(
          `${at}.sha256`,
          'must be the SHA-256 of the token as 64 hexadecimal digits; assetlog token prints one',
        );
      } else if (digest.toLowerCase() === NOTHING) {
        this.#refuse(
          `${at}.sha256`,
          'is the SHA-256 of an empty text, so an empty header would get in; assetlog token prints a good one',
        );
      }
      const notAfterMs = typeof notAfter === 'string' ? readNotAfter(notAfter) : undefined;
      if (notAfter !== undefined && notAfterMs === undefined) {
        this.#refuse(`${at}.notAfter`, `must be ${NOT_AFTER}`);
      }
      if (may !== undefined && !areRights(may))
        this.#refuse(
          `${at}.may`,
          `must be an array with at least one of ${rights.map((right) => `"${right}"`).join(', ')}`,
        );
      return {
        name: String(name),
        sha256: Buffer.from(String(digest), 'hex'),
        notAfterMs,
        may: areRights(may) ? may : REPORT_ONLY,
      };
    });
  }

  /** @returns the objects of the array member `name`, each with its path, such as `deployments[0]` */
  #entries(owner: unknown, path: string, name: string): [string, Members][] {
    const at = path === '' ? name : `${path}.${name}`;
    const list = isObject(owner) ? owner[name] : undefined;
    if (!Array.isArray(list) || list.length === 0) {
      this.#refuse(at, `must be an array with at least one of the ${name}`);
      return [];
    }
    return list.flatMap((entry: unknown, index): [string, Members][] => {
      if (isObject(entry)) return [[`${at}[${index}]`, entry]];
      this.#refuse(`${at}[${index}]`, 'must be an object');
      return [];
    });
  }

  /** Refuses unknown members. If a misspelt `notAfter` were ignored, its token would never expire. */
  #known(entry: Members, path: string, names: readonly string[]): void {
    for (const name of Object.keys(entry)) {
      if (!names.includes(name)) this.#refuse(`${path}.${name}`, `is not known here; there are ${names.join(', ')}`);
    }
  }

  /** Adds a problem with its line number. If the member is missing, the line is that of the nearest value that contains it. */
  #refuse(path: string, problem: string): void {
    this.#lines ??= linesOfValues(this.#text);
    let known = path;
    while (known !== '' && !this.#lines.has(known)) known = known.replace(/(\.[^.[\]]*|\[\d+\])$|^[^.[\]]+$/, '');
    this.problems.push(`line ${this.#lines.get(known) ?? 1}: ${path} ${problem}`);
  }
}

function areRights(value: unknown): value is Right[] {
  return Array.isArray(value) && value.length > 0 && value.every((word) => rights.includes(word));
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @param text valid JSON. @returns the line on which each value begins, from 1, by its path such as `deployments[0].name` */
function linesOfValues(text: string): Map<string, number> {
  const lines = new Map<string, number>();
  const open: { path: string; index: number; name: string | undefined; isArray: boolean }[] = [];
  let line = 1;
  const pathHere = () => {
    const inside = open.at(-1);
    if (inside === undefined) return '';
    if (inside.isArray) return `${inside.path}[${inside.index}]`;
    return inside.path === '' ? (inside.name ?? '') : `${inside.path}.${inside.name}`;
  };
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]:,\n]|[^\s"{}[\]:,]+/g)) {
    const inside = open.at(-1);
    if (token === '\n') line += 1;
    else if (token === '}' || token === ']') open.pop();
    else if (token === ',' && inside !== undefined) [inside.index, inside.name] = [inside.index + 1, undefined];
    else if (token === ',' || token === ':') continue;
    else if (inside !== undefined && !inside.isArray && inside.name === undefined) inside.name = JSON.parse(token);
    else {
      const path = pathHere();
      lines.set(path, line);
      if (token === '{' || token === '[') open.push({ path, index: 0, name: undefined, isArray: token === '[' });
    }
  }
  return lines;
}

/** A deployments file that is read again when it changes: `file.current.tokensOf.get('prod')` has the tokens of `prod`. */
export interface DeploymentsFile {
  /** The deployments of the last valid version of the file. */
  readonly current: Deployments;
  /**
   * Reads the file again. Resolves when a read that began after this call has taken effect. Never rejects: an invalid file is
   * logged, and `current` stays as it was.
   */
  reload(): Promise<void>;
  /** Ends the checks for changes. A read that is under way may still take effect. */
  stop(): void;
}

/**
 * Reads the deployments file, and reads it again every `limits.deploymentsCheckMs` to find changes.
 * @param path of the file, such as `/etc/deployments.json`
 * @param onChange called with the deployments of each valid new version, but not with the first ones
 * @throws Error if the first read fails; its message has one line for each problem of an invalid file:
 *   `/etc/deployments.json, line 1: deployments[0].name must be …`
 */
export async function watchDeployments(
  path: string,
  { limits, notices }: Pick<DeploymentJournalsOptions, 'limits' | 'notices'>,
  onChange: (deployments: Deployments) => void,
): Promise<DeploymentsFile> {
  const readFile = () => readText(path, limits.deploymentsBytesMax);
  const parse = (now: string): Deployments => {
    const found = readDeployments(now);
    if (found.kind === 'valid') return found.deployments;
    throw new Error(found.problems.map((problem) => `${path}, ${problem}`).join('\n'));
  };
  let text = await readFile();
  let current = parse(text);
  let loggedProblem = '';

  async function read(): Promise<void> {
    try {
      const now = await readFile();
      loggedProblem = '';
      if (now === text) return;
      text = now; // also an invalid one: its problems are logged once
      current = parse(now);
      onChange(current);
      notices.info('the deployments were read again', { count: current.tokensOf.size });
    } catch (error) {
      const problem = (error as Error).message;
      if (problem !== loggedProblem)
        notices.error('the deployments file is refused; the deployments that were read before stay in effect', {
          problem,
        });
      loggedProblem = problem;
    }
  }

  // One read at a time: if two overlapped, the older text could be applied last and make a revoked token valid again.
  let reading = Promise.resolve();
  let next: Promise<void> | undefined;
  function reload(): Promise<void> {
    if (next !== undefined) return next; // a read that has not begun sees the newest text
    next = reading.then(() => {
      next = undefined;
      return read();
    });
    reading = next;
    return next;
  }

  const timer = setInterval(() => void reload(), limits.deploymentsCheckMs).unref();
  return {
    get current() {
      return current;
    },
    reload,
    stop: () => clearInterval(timer),
  };
}
