/** Reads and compares forwarded events from the folders of journals. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jsonIn, runHere } from './command-output.ts';
import { startCuttingProxy, uncut } from './cutting-proxy.ts';
import { SOURCE } from './forwarding.ts';
import { eachEvent, eventsIn, newFolder, type Running, type Scope, startService } from './program.ts';
import { eventually, HANG_MS } from './tools.ts';

/** @returns the id of the journal in a folder; undefined before its first start with destinations */
export function sourceIn(data: string): string | undefined {
  const file = join(data, '.journal-id');
  return existsSync(file)
    ? /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(readFileSync(file, 'utf8'))?.[0]
    : undefined;
}

/** A line of `dead-<name>.jsonl`. */
export interface DeadLetter {
  readonly outcome: 'refused' | 'in doubt' | 'removed' | 'skipped';
  readonly status?: number;
  readonly reason: string;
  readonly line?: Record<string, unknown>;
  readonly first?: number;
  readonly last?: number;
}

export function deadLettersIn(data: string, name = 'upstream'): DeadLetter[] {
  const file = `dead-${name}.jsonl`;
  if (!readdirSync(data).includes(file)) return [];
  return jsonIn(readFileSync(join(data, file), 'utf8'));
}

/** Limits of a service that forwards, tries again and looks at its destinations without long pauses. */
export const QUICK = {
  followMs: 5,
  forwardRetryMs: 5,
  forwardRetryMsMax: 10,
  nearRetryMsMax: 50,
  forwardStateMs: 1,
  forwardCheckMs: 20,
  forwardLookMs: 20,
};

/** A hub, a link to it that a test can cut, and the options of a device that forwards over the link. */
export async function startLinkedHub(t: Scope) {
  const hub = await startService(t);
  let isDown = false;
  const { url, end } = await startCuttingProxy(t, hub.port, () =>
    isDown ? { requestBytes: 0, replyBytes: 0 } : uncut,
  );
  const setDown = (now: boolean) => {
    isDown = now;
    if (now) end();
  };
  return { hub, url, setDown, args: ['--forward-to', url] };
}

/** @returns the file with the state of a destination; undefined if it does not exist */
export function stateIn(data: string, name = 'upstream'): Record<string, unknown> | undefined {
  const path = join(data, `forward-${name}.state`);
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
}

/** Starts a device with these destinations. @returns the device, and its file for `--forward` */
export async function startForwarding(t: Scope, ...destinations: object[]) {
  const file = join(newFolder(t), 'forward.json');
  forwardFile(file, ...destinations);
  return { file, edge: await startService(t, { args: ['--forward', file] }) };
}

/** One destination in the output of `assetlog forward status --json`. */
export interface ForwardStatus {
  readonly name: string;
  readonly kind: string | null;
  readonly state: string;
  readonly reason: string;
  readonly seq: number;
  readonly last_seq: number;
  readonly lag_events: number;
  readonly dead_letters: number;
  readonly lost_events: number;
  readonly last_success: string;
}

/** Waits for the first state of the destination, which the service writes after its start. @throws if the command fails */
export async function forwardStatus(data: string, name = 'upstream'): Promise<ForwardStatus> {
  let status: ForwardStatus | undefined;
  await eventually(`a state of ${name}`, async () => {
    const { stdout, stderr } = await runHere(['forward', 'status', '--json', '--data', data]);
    assert.notEqual(stdout, '', stderr);
    const { destinations } = JSON.parse(stdout) as { destinations: ForwardStatus[] };
    status = destinations.find((one) => one.name === name);
    return status !== undefined;
  });
  return status ?? assert.fail();
}

/** Waits until a destination is stopped and needs an operator. @returns its status */
export async function stopsForwarding(data: string, name = 'upstream'): Promise<ForwardStatus> {
  let status: ForwardStatus | undefined;
  await eventually(`${name} is stopped`, async () => {
    await sleep(100);
    status = await forwardStatus(data, name);
    return status.state === 'stopped';
  });
  return status ?? assert.fail();
}

/** Waits until the hub has all events of a journal. The service of the journal can have ended. */
export async function reachesHub(hub: Pick<Running, 'url'>, data: string, seq: number): Promise<void> {
  const isThere = async () => (await watermark(hub, sourceIn(data))) >= seq; // the first start might not have made the id yet
  await eventually(`seq ${seq} of ${data} at the hub`, isThere, HANG_MS);
}

/** @returns the last seq of a source at the hub, 0 if none */
async function watermark(hub: Pick<Running, 'url'>, source: string | undefined): Promise<number> {
  const reply = await fetch(`${hub.url}/forward/${source}`).catch(() => undefined);
  const body = (await reply?.json().catch(() => undefined)) as { seq?: number } | undefined;
  return body?.seq ?? 0;
}

/** @returns the seqs of a source in the order of the hub's journal */
export function seqsAt(data: string, source = SOURCE): number[] {
  const origins = eventsIn(data).map(({ from }) => from as [string, number] | undefined);
  return origins.flatMap((from) => (from?.[0] === source ? [from[1]] : []));
}

/**
 * Compares the events of a source at a hub with the journal of the device, whose first events retention might have removed.
 * @throws AssertionError unless the hub has each event of the device once, in order, with its id and time
 */
export function assertAtHub(hub: string, device: string): void {
  const source = sourceIn(device);
  const own = new Map<number, { id: unknown; time: unknown }>();
  for (const { seq, id, recorded, time } of eachEvent(device)) own.set(seq as number, { id, time: recorded ?? time });
  const wrong: string[] = [];
  let next = 1;
  for (const event of eachEvent(hub)) {
    const [from, seq] = (event['from'] ?? []) as [string?, number?];
    if (from !== source || seq === undefined) continue;
    if (seq !== next) wrong.push(`seq ${seq} of the source is after ${next - 1}`);
    next = seq + 1;
    const sent = own.get(seq);
    if (sent === undefined) continue;
    own.delete(seq);
    if (sent.id !== event['id']) wrong.push(`seq ${seq} has the id ${event['id']}, not ${sent.id}`);
    if (sent.time !== event['recorded']) wrong.push(`seq ${seq} was recorded ${event['recorded']}, not ${sent.time}`);
  }
  for (const seq of own.keys()) wrong.push(`seq ${seq} of the source is not at the hub`);
  assert.deepEqual(wrong, [], `${device} at ${hub}`);
}

export const forwardFile = (path: string, ...destinations: object[]) =>
  writeFileSync(path, JSON.stringify({ destinations }));
