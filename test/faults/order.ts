/**
 * Holds a trace against the promise of a 200: the line was written and synced before, and so was the entry of its file.
 *
 * What a start puts in place of a file holds lines that were acknowledged once: they are synced before.
 *
 * Pure: what it knows of the disk, it knows from the calls and what they returned. A line is on the disk once its write has
 * returned to a descriptor that was opened with O_DSYNC, or a sync of its file has returned 0 that began after the write had
 * returned; an entry, once such a sync of the folder has.
 */

import { bytesOf, type Call, openOn } from './strace.ts';

/** What has to be traced. A question mark: not every machine has it. */
export const ORDER_CALLS = [
  ...['read', 'write', 'writev', 'sendto', 'sendmsg', 'openat', 'pwrite64', 'pwritev', 'ftruncate'],
  ...['fdatasync', 'fsync', '?rename', '?renameat', '?renameat2'],
];

export interface Order {
  /** What was acknowledged or put in place too early, one sentence for each. */
  readonly violations: string[];
  /** The keys of the requests that got a 200. */
  readonly acknowledged: Set<string>;
  /** The journal files that were made. */
  readonly files: Set<string>;
}

interface Line {
  file: string;
  /** Where it ends in its file. */
  readonly end: number;
  synced: boolean;
}

interface Connection {
  /** Read, and not yet understood. */
  text: string;
  /** The keys of requests without a reply; undefined for a request that is no report. */
  readonly waiting: (string | undefined)[];
}

interface State extends Order {
  readonly data: string;
  /** By the key of the report. */
  readonly lines: Map<string, Line>;
  /** Journal files whose entry a power cut may take. */
  readonly entries: Set<string>;
  /** Descriptors whose every write is a sync of what it writes as well. */
  readonly syncing: Set<number>;
  readonly connections: Map<string, Connection>;
  /** What a sync that is on its way will have made durable when it returns 0. */
  readonly syncs: Map<Call, { readonly lines: readonly string[]; readonly entries: readonly string[] }>;
}

/** @param data the journal's folder, as it was given to the program */
export function checkOrder(calls: readonly Call[], data: string): Order {
  const state: State = {
    ...{ violations: [], acknowledged: new Set(), files: new Set(), data },
    ...{ lines: new Map(), entries: new Set(), syncing: new Set(), connections: new Map(), syncs: new Map() },
  };
  const moments = calls.flatMap((call) => [
    { line: call.began, call, act: BEGAN[call.name] },
    { line: call.ended, call, act: ENDED[call.name] },
  ]);
  // The sort is stable: a call that returned on its own line began before.
  for (const { call, act } of moments.sort((one, other) => one.line - other.line)) act?.(call, state);
  return state;
}

type Act = (call: Call, state: State) => void;

/** A reply counts from the moment its write begins. */
const BEGAN: Record<string, Act> = {
  ...{ write: reply, writev: reply, sendto: reply, sendmsg: reply },
  ...{ fdatasync: beginSync, fsync: beginSync },
};

/** Everything that gives safety counts only once it has returned. */
const ENDED: Record<string, Act> = {
  ...{ read: request, openat: create, pwrite64: writeLines, pwritev: writeLines, ftruncate: cut },
  ...{ fdatasync: endSync, fsync: endSync, rename: replace, renameat: replace, renameat2: replace },
};

function create({ args, result }: Call, state: State): void {
  const [, path = '', flags = ''] = /"([^"]*)", ([A-Z_|]+)/.exec(args) ?? [];
  if (!(result >= 0)) return;
  if (flags.split('|').includes('O_DSYNC')) state.syncing.add(result);
  else state.syncing.delete(result);
  if (!flags.includes('O_CREAT') || !isJournal(path, state)) return;
  state.files.add(path);
  state.entries.add(path);
}

function replace({ args, began, result }: Call, state: State): void {
  const [from = '', to = ''] = [...args.matchAll(/"([^"]*)"/g)].map(([, path = '']) => path);
  if (result !== 0 || !isJournal(to, state)) return;
  state.entries.delete(from);
  state.entries.add(to);
  for (const [key, line] of state.lines) {
    if (line.file !== from) continue;
    line.file = to;
    if (!line.synced) state.violations.push(`${key} was put in place on line ${began + 1}: its line was not synced`);
  }
}

function writeLines(call: Call, state: State): void {
  const file = openOn(call);
  if (!(call.result > 0) || !isJournal(file, state)) return;
  const [, offset = ''] = /, (\d+)$/.exec(call.args) ?? [];
  const written = bytesOf(call).slice(0, call.result);
  const synced = state.syncing.has(Number.parseInt(call.args, 10));
  let end = Number(offset);
  for (const line of written.split('\n').slice(0, -1)) {
    end += line.length + 1;
    const [, key] = /"asset_key":\["([^"]+)"\]/.exec(line) ?? [];
    if (key !== undefined) state.lines.set(key, { file, end, synced });
  }
}

function cut(call: Call, state: State): void {
  const [, length = ''] = /, (\d+)$/.exec(call.args) ?? [];
  for (const [key, line] of state.lines)
    if (line.file === openOn(call) && line.end > Number(length)) state.lines.delete(key);
}

function beginSync(call: Call, state: State): void {
  const path = openOn(call);
  state.syncs.set(call, {
    lines: [...state.lines].filter(([, { file, synced }]) => file === path && !synced).map(([key]) => key),
    entries: path === state.data && call.name === 'fsync' ? [...state.entries] : [],
  });
}

function endSync(call: Call, state: State): void {
  const { lines = [], entries = [] } = state.syncs.get(call) ?? {};
  for (const key of lines) {
    const line = state.lines.get(key);
    if (call.result === 0 && line !== undefined) line.synced = true;
    // The system forgets what it could not write: a later sync that returns 0 says nothing about it.
    if (call.result !== 0) state.lines.delete(key);
  }
  if (call.result === 0) for (const path of entries) state.entries.delete(path);
}

function request(call: Call, state: State): void {
  const socket = openOn(call);
  if (!(call.result > 0) || !socket.startsWith('socket:')) return;
  const connection = state.connections.get(socket) ?? { text: '', waiting: [] };
  state.connections.set(socket, connection);
  connection.text += bytesOf(call).slice(0, call.result);
  let end = 0;
  for (const head of connection.text.matchAll(/[A-Z]+ \/(?:report_asset_\w+\/)?(\S*) HTTP\/1\.1\r\n/g)) {
    connection.waiting.push(head[0].startsWith('POST ') ? head[1] : undefined);
    end = head.index + head[0].length;
  }
  connection.text = connection.text.slice(end);
}

function reply(call: Call, state: State): void {
  const connection = state.connections.get(openOn(call));
  if (connection === undefined) return;
  for (const [, status] of bytesOf(call).matchAll(/HTTP\/1\.1 (\d{3}) /g)) {
    const key = connection.waiting.shift();
    if (key === undefined || status !== '200') continue;
    state.acknowledged.add(key);
    const line = state.lines.get(key);
    const tooEarly = (what: string) => state.violations.push(`200 for ${key} on line ${call.began + 1}: ${what}`);
    if (line === undefined) tooEarly('its line was not written, or did not survive');
    else if (!line.synced) tooEarly('its line was not synced');
    else if (state.entries.has(line.file)) tooEarly(`the entry of ${line.file} was not synced`);
  }
}

/** A journal file, or what is going to be one. */
function isJournal(path: string, { data }: State): boolean {
  return path.startsWith(`${data}/events-`);
}
