/** The machine and its disk, on which the figures depend. */

import { spawnSync } from 'node:child_process';
import { closeSync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { cpus, loadavg, release, totalmem, type } from 'node:os';
import { join } from 'node:path';
import { encodeBatch } from '../../src/journal/line/record.ts';
import { type Mount, mountOf } from '../../src/journal/open/mount.ts';
import { encodeMembers, type PlainEvent } from '../support/plain-event.ts';
import { millisecondsText, quantile } from './figures.ts';
import type { Scratch } from './scratch.ts';

/** @returns the time of a write and an fdatasync in a plain loop */
export function loopOfSyncs(scratch: Scratch, line: Buffer, forMs: number): string {
  const folder = scratch.newFolder('syncs');
  const file = openSync(join(folder, 'lines'), 'a');
  const times: number[] = [];
  const start = performance.now();
  for (let now = start; now - start < forMs; ) {
    writeSync(file, line);
    fdatasyncSync(file);
    const after = performance.now();
    times.push(after - now);
    now = after;
  }
  closeSync(file);
  rmSync(folder, { recursive: true });
  times.sort((a, b) => a - b);
  return `median ${millisecondsText(quantile(times, 0.5))}, 99th percentile ${millisecondsText(quantile(times, 0.99))}`;
}

export function lineOf(body: string): Buffer {
  return encodeBatch([encodeMembers(eventOf(body))], { seq: 1, crc: 0 }, new Date()).bytes;
}

/** @returns the event of a report from `reportOf` */
export function eventOf(body: string): PlainEvent {
  const { asset_key: assetKey, partition, description, data_version: dataVersion, metadata } = JSON.parse(body);
  const event = { assetKey, partition, description, dataVersion, metadata: JSON.stringify(metadata) };
  return { type: 'AssetMaterialization', ...event };
}

/** @returns the mount that a folder is on; undefined off Linux */
export function mountUnder(folder: string): Mount | undefined {
  try {
    return mountOf(readFileSync('/proc/self/mountinfo', 'utf8'), folder);
  } catch {
    return undefined;
  }
}

export function machineText(scratch: Scratch, nodes: readonly string[]): string[] {
  const mount = mountUnder(scratch.folder);
  return [
    `date: ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`,
    `Node: ${nodes.map(versionOf).join(', ')}`,
    `processor: ${cpus()[0]?.model.trim() ?? 'unknown'}, ${cpus().length} logical cores, ${Math.round(totalmem() / 1024 ** 3)} GiB of memory, load average ${loadavg()[0]?.toFixed(1)} at the start`,
    `kernel: ${type()} ${release()}`,
    `file system: ${mount?.type ?? 'unknown'}${mount === undefined ? '' : ` (${mount.options.join(',')})`}`,
    `load: ${wrkVersion()}, one thread, on the same machine`,
  ];
}

/** @returns undefined if wrk is not installed */
export function wrkVersion(): string | undefined {
  const { stdout, error } = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  return error === undefined ? (/^wrk \S+/.exec(stdout)?.[0] ?? 'wrk') : undefined;
}

/** @throws Error if it is not a Node executable */
export function versionOf(node: string): string {
  const { stdout, status } = spawnSync(node, ['--version'], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${node} is not a Node that runs here; give executables with --nodes`);
  return stdout.trim();
}
