/**
 * `.ci/green.json`: for each stage the commit at which it was last green, and its inputs. A stage is green if it passed and skipped
 * no test. The file is committed with a change, and is not an input of any stage.
 */

import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** By path the hash of its content in git, by tool its version. */
export type Inputs = Readonly<Record<string, string>>;

export interface Green {
  readonly commit: string;
  /** When it was green, such as `2026-11-26T21:00:00Z`. */
  readonly date: string;
  readonly seconds: number;
  readonly inputs: Inputs;
}

const FILE = '.ci/green.json';
/** Inputs of every stage: a change of the stages or of a dependency requires all stages to run. */
const SHARED = ['.ci', 'package.json', 'package-lock.json', 'tsconfig.json'];

export class Greens {
  readonly #root: string;
  readonly #path: string;
  readonly #greens: Record<string, Green>;

  constructor(root: string) {
    this.#root = root;
    this.#path = join(root, FILE);
    this.#greens = existsSync(this.#path) ? JSON.parse(readFileSync(this.#path, 'utf8')) : {};
  }

  get(stage: string): Green | undefined {
    return this.#greens[stage];
  }

  /** Replaces the entry of a stage, on disk as well. */
  set(stage: string, green: Green): void {
    this.#greens[stage] = green;
    const sorted = Object.entries(this.#greens).sort(([a], [b]) => (a < b ? -1 : 1));
    writeFileSync(this.#path, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`);
  }

  /** @returns the newest commit before HEAD at which one of the stages was green; undefined if this clone has none */
  newestCommit(stages: readonly string[]): string | undefined {
    const commits = stages.flatMap((stage) => this.#greens[stage]?.commit ?? []);
    const known = commits.filter((commit) => this.#git('merge-base', '--is-ancestor', commit, 'HEAD').status === 0);
    const ages = known.map((commit) => Number(this.#git('rev-list', '--count', `${commit}..HEAD`).stdout));
    return known[ages.indexOf(Math.min(...ages))];
  }

  #git(...args: string[]): { readonly status: number | null; readonly stdout: string } {
    return spawnSync('git', ['-C', this.#root, ...args], { encoding: 'utf8' });
  }
}

/**
 * @param paths files and folders; a missing path is an input as well
 * @returns the hash of the content of each path at HEAD, without `.ci/green.json`
 */
export function inputsOf(root: string, paths: readonly string[]): Record<string, string> {
  const hashOf = (path: string) => {
    const list = execFileSync('git', ['-C', root, 'ls-tree', '-r', 'HEAD', '--', path], {
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    });
    const lines = list.split('\n').filter((line) => !line.endsWith(`\t${FILE}`));
    return createHash('sha256').update(lines.join('\n')).digest('hex').slice(0, 12);
  };
  return Object.fromEntries([...SHARED, ...paths].map((path) => [path, hashOf(path)]));
}

/**
 * @param now without missing tools, since these have no version that could differ
 * @returns the inputs that changed since the last green run or are new
 */
export function changedInputs(then: Inputs, now: Inputs): string[] {
  return Object.keys(now).filter((name) => then[name] !== now[name]);
}

/** @returns a text such as `3 days` or `5 hours` */
export function ageText(date: string, now: number): string {
  const hours = Math.max(0, Math.floor((now - Date.parse(date)) / 3_600_000));
  const [count, unit] = hours < 48 ? [hours, 'hour'] : [Math.floor(hours / 24), 'day'];
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}
