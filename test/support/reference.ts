/**
 * The other implementation of the specification, dagster-webserver, as a process, and its recorded events. The executable is named
 * by ASSETLOG_TEST_REFERENCE, or found in the PATH.
 */

import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { endGroup, freePort, isRunning, type Scope } from './program.ts';
import { HANG_MS, pythonText } from './tools.ts';

export const referenceExecutable = process.env['ASSETLOG_TEST_REFERENCE'] ?? findOnPath('dagster-webserver');

/** Why tests with the reference are skipped; false if it is there. */
export const withoutReference =
  referenceExecutable === undefined &&
  'dagster-webserver is missing; name it in ASSETLOG_TEST_REFERENCE or put it on the PATH (pip install dagster-webserver)';

export type Side = 'reference' | 'assetlog';
export type Member =
  | 'type'
  | 'asset_key'
  | 'partition'
  | 'description'
  | 'data_version'
  | 'check_name'
  | 'passed'
  | 'severity'
  | 'metadata'
  | 'event_time';

/** The JSON text of each member; equal numbers have equal texts. */
export type Members = Readonly<Record<Member, string>>;

const STOP_MS = 3_000;
const BREAKING_OFF = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export interface Reference {
  readonly port: number;
  readonly home: string;
  /** Kills it and its code server with SIGKILL. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/**
 * Starts the reference on a free port and a new folder; both end with the test.
 * @param storage more lines for its `dagster.yaml`; without any it uses SQLite
 */
export async function startReference(t: Scope, executable: string, storage = ''): Promise<Reference> {
  const home = mkdtempSync(join(tmpdir(), 'assetlog-reference-'));
  writeFileSync(join(home, 'dagster.yaml'), `telemetry:\n  enabled: false\n${storage}`);
  writeFileSync(join(home, 'defs.py'), 'import dagster\n\ndefs = dagster.Definitions()\n');
  const port = await freePort(t);
  let child: ChildProcess | undefined;
  const start = async () => {
    child = await launchReference(executable, { home, port });
  };
  const kill = async () => {
    if (child === undefined || !isRunning(child)) return;
    const exited = once(child, 'exit');
    endGroup(child, 'SIGKILL');
    await exited;
  };
  // A test run that is interrupted never reaches its end, and the signal does not reach another process group.
  const onSignal = (name: NodeJS.Signals) => {
    if (child !== undefined) endGroup(child, 'SIGKILL');
    rmSync(home, { recursive: true, force: true, maxRetries: 3 });
    process.kill(process.pid, name);
  };
  for (const name of BREAKING_OFF) process.once(name, onSignal);
  t.after(async () => {
    for (const name of BREAKING_OFF) process.off(name, onSignal);
    if (child !== undefined) await endReference(child);
    rmSync(home, { recursive: true, force: true, maxRetries: 3 });
  });
  await start();
  return { port, home, kill, start };
}

async function launchReference(
  executable: string,
  { home, port }: Pick<Reference, 'home' | 'port'>,
): Promise<ChildProcess> {
  // It starts a code server, so it leads a process group, which can be ended as a whole.
  const child = spawn(executable, ['-f', 'defs.py', '-h', '127.0.0.1', '-p', String(port)], {
    cwd: home,
    detached: true,
    env: { ...process.env, DAGSTER_HOME: home },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      log = `${log}${text}`.slice(-10_000);
    });
  }
  child.on('error', (error) => {
    log += String(error);
  });
  for (const late = performance.now() + HANG_MS; performance.now() < late; ) {
    await sleep(100);
    assert.ok(isRunning(child), `${executable} ended: ${log}`);
    const reply = await fetch(`http://127.0.0.1:${port}/server_info`).catch(() => undefined);
    if ((await reply?.text().catch(() => undefined)) !== undefined && reply?.status === 200) return child;
  }
  endGroup(child, 'SIGKILL');
  throw new Error(`${executable} is not ready after ${HANG_MS} ms: ${log}`);
}

const RECORDED = `query ($path: [String!]!) {
  assetOrError(assetKey: { path: $path }) {
    ... on Asset {
      assetMaterializations(limit: 10000) { partition }
      assetObservations(limit: 10000) { partition }
    }
  }
}`;

/**
 * Asks the reference, over GraphQL, for the materializations and observations of an asset.
 * @param path the asset key, such as `['warehouse', 'orders']`
 * @returns the partition of each, such as `['1', '2', '2']`; at most 10,000 of each kind, the limit of the reference
 */
export async function partitionsAtReference(port: number, path: readonly string[]): Promise<string[]> {
  const { assetOrError } = await askReference(port, RECORDED, { path });
  const { assetMaterializations = [], assetObservations = [] } = assetOrError;
  return [...assetMaterializations, ...assetObservations].map(({ partition }: { partition: string }) => partition);
}

/** Every member of every type of metadata that both the oldest and the newest version show. */
const ENTRIES = `metadataEntries {
  __typename label
  ... on TextMetadataEntry { text } ... on JsonMetadataEntry { jsonString } ... on UrlMetadataEntry { url }
  ... on PathMetadataEntry { path } ... on NotebookMetadataEntry { path } ... on MarkdownMetadataEntry { mdStr }
  ... on IntMetadataEntry { intValue intRepr } ... on FloatMetadataEntry { floatValue }
  ... on BoolMetadataEntry { boolValue } ... on TimestampMetadataEntry { timestamp }
  ... on PipelineRunMetadataEntry { runId } ... on AssetMetadataEntry { assetKey { path } }
  ... on TableMetadataEntry { table { records schema { columns { name type } } } }
  ... on TableSchemaMetadataEntry { schema { columns { name type constraints { nullable unique other } } } }
  ... on TableColumnLineageMetadataEntry { lineage { columnName columnDeps { assetKey { path } columnName } } }
}`;
const EVENT = `timestamp partition description tags { key value } ${ENTRIES}`;
const HISTORY = `query ($path: [String!]!, $check: String!) {
  assetOrError(assetKey: { path: $path }) {
    ... on Asset { assetMaterializations(limit: 100) { ${EVENT} } assetObservations(limit: 100) { ${EVENT} } }
  }
  assetCheckExecutions(assetKey: { path: $path }, checkName: $check, limit: 100) {
    status timestamp evaluation { severity ${ENTRIES} }
  }
}`;

/**
 * Asks the reference, over GraphQL, for the history of an asset, with each member that its pages show.
 * @returns its materializations, observations and results of a check. @throws if the reference cannot show them
 */
export async function historyAtReference(
  port: number,
  path: readonly string[],
  check: string,
): Promise<readonly (readonly unknown[])[]> {
  const { assetOrError, assetCheckExecutions } = await askReference(port, HISTORY, { path, check });
  const evaluations = assetCheckExecutions.map(({ evaluation }: { evaluation: unknown }) => evaluation);
  return [assetOrError.assetMaterializations ?? [], assetOrError.assetObservations ?? [], evaluations];
}

async function askReference(port: number, query: string, variables: object) {
  const reply = await fetch(`http://127.0.0.1:${port}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  });
  const text = await reply.text();
  const { data, errors } = reply.ok ? JSON.parse(text) : assert.fail(`${reply.status} ${text}`);
  assert.equal(errors, undefined, text);
  return data;
}

async function endReference(child: ChildProcess): Promise<void> {
  const exited = isRunning(child) ? once(child, 'exit') : undefined;
  endGroup(child, 'SIGTERM');
  // The reference stops its code server and removes its sockets; after a moment the rest of the group is killed.
  if (child.pid !== undefined) await Promise.race([exited, sleep(STOP_MS, undefined, { ref: false })]);
  endGroup(child, 'SIGKILL');
}

export interface Recorded {
  readonly side: Side;
  readonly marker: string;
  readonly members: Members;
}

/**
 * Reads the events of both sides with one reader, so that equal values are equal texts. Python's integers are exact at any size; a
 * number of assetlog that a double cannot hold stays a text, since the reference does not keep it.
 */
const READ_EVENTS = pythonText('read-reference.py');

/** The Python that has the packages of the reference. */
export function pythonOf(executable: string): string {
  return join(dirname(realpathSync(executable)), 'python');
}

export async function readEvents(executable: string, home: string, journal: string): Promise<Recorded[]> {
  const { stdout } = await promisify(execFile)(pythonOf(executable), ['-c', READ_EVENTS, journal], {
    env: { ...process.env, DAGSTER_HOME: home },
    maxBuffer: 64 * 1024 * 1024,
  });
  const lines = stdout.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line));
}

function findOnPath(name: string): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
