/** The folder of the benchmark, and its processes: both are removed when the benchmark ends, however it ends. */

import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { endGroup } from '../support/program.ts';

const BREAKING_OFF = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export class Scratch {
  readonly folder: string;
  readonly #children = new Set<ChildProcess>();
  readonly #releases: (() => unknown)[] = [];

  constructor(parent: string) {
    mkdirSync(parent, { recursive: true });
    this.folder = mkdtempSync(join(realpathSync(parent), '.bench-'));
    for (const name of BREAKING_OFF) {
      process.once(name, () => {
        this.end();
        process.kill(process.pid, name);
      });
    }
  }

  /** Runs a function when the benchmark ends, after its processes: the last one first. */
  after(release: () => unknown): void {
    this.#releases.push(release);
  }

  newFolder(name: string): string {
    return mkdtempSync(join(this.folder, `${name}-`));
  }

  /** Starts a process that leads a group, so that its child processes end with it. */
  spawn(command: readonly string[], options: SpawnOptions): ChildProcess {
    const child = spawn(command[0] ?? '', command.slice(1), { ...options, detached: true });
    this.#children.add(child);
    child.on('exit', () => this.#children.delete(child));
    child.on('error', () => this.#children.delete(child));
    return child;
  }

  end(): void {
    for (const child of this.#children) endGroup(child, 'SIGKILL');
    for (const release of this.#releases.splice(0).reverse()) release();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Runs a measurement in a new folder in `parent`. */
export async function inScratch(parent: string, measure: (scratch: Scratch) => Promise<void>): Promise<void> {
  const scratch = new Scratch(parent);
  try {
    await measure(scratch);
  } finally {
    scratch.end();
  }
}
