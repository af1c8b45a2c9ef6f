/** JSON files that an operator wrote. Every mistake is reported with its line and its member. */

import { readJson } from '../event/json.ts';
import { JsonError } from '../event/json-mistakes.ts';
import { didYouMean } from '../event/nearest.ts';
import type { Invalid } from './options.ts';

const DEPTH_MAX = 8;

export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * @param read checks the parsed file and returns its value; it passes each mistake to the checker
 * @returns the value of `read`, or every problem as a clause: `line 1: deployments[0].name must be …`
 */
export function readJsonFile<Value>(
  text: string,
  read: (file: unknown, checker: Checker) => Value,
): { readonly kind: 'valid'; readonly value: Value } | Invalid {
  try {
    readJson(text, DEPTH_MAX);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return { kind: 'invalid', problems: [`line ${error.line}, column ${error.column}: ${error.message}`] };
  }
  const checker = new Checker(text);
  const value = read(JSON.parse(text), checker);
  return checker.problems.length > 0 ? { kind: 'invalid', problems: checker.problems } : { kind: 'valid', value };
}

/** Collects the problems of one file. */
export class Checker {
  /** Each problem includes its line and member: `line 3: a[0].b must be a text`. */
  readonly problems: string[] = [];
  readonly #text: string;
  /** Line number by path. Computed at the first problem, so that reloading a valid file stays cheap. */
  #lines: ReadonlyMap<string, number> | undefined;

  /** @param text valid JSON */
  constructor(text: string) {
    this.#text = text;
  }

  /**
   * @param least the smallest number of entries
   * @returns the objects of the array member `name`, each with its path: `deployments[0]`
   */
  entries(owner: unknown, path: string, name: string, least: 0 | 1 = 1): [string, JsonObject][] {
    const at = path === '' ? name : `${path}.${name}`;
    const list = isObject(owner) ? owner[name] : undefined;
    if (!Array.isArray(list) || list.length < least) {
      this.refuse(at, `must be an array with ${least === 0 ? '' : 'at least one of '}the ${name}`);
      return [];
    }
    return list.flatMap((entry: unknown, index): [string, JsonObject][] => {
      if (isObject(entry)) return [[`${at}[${index}]`, entry]];
      this.refuse(`${at}[${index}]`, 'must be an object');
      return [];
    });
  }

  /** Refuses unknown members: if a misspelt `notAfter` were ignored, its token would never expire. */
  known(entry: JsonObject, path: string, names: readonly string[]): void {
    for (const name of Object.keys(entry)) {
      if (names.includes(name)) continue;
      this.refuse(
        path === '' ? name : `${path}.${name}`,
        `is unknown; use one of ${names.join(', ')}${didYouMean(name, names)}`,
      );
    }
  }

  /**
   * Adds a problem with its line number. A missing member has the line of the nearest value around it.
   * @param path such as `deployments[0].name`
   */
  refuse(path: string, problem: string): void {
    this.#lines ??= linesOfValues(this.#text);
    let known = path;
    while (known !== '' && !this.#lines.has(known)) known = known.replace(/(\.[^.[\]]*|\[\d+\])$|^[^.[\]]+$/, '');
    this.problems.push(`line ${this.#lines.get(known) ?? 1}: ${path} ${problem}`);
  }
}

/** Arrays are not objects here. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @returns the members of a JSON object; undefined for any other text, such as the page of a proxy */
export function readObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** @param text valid JSON. @returns the line on which each value starts, from 1, by its path such as `deployments[0].name` */
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
