/**
 * Checks a trace against the promise of a 200: the line and the entry of its file were written and synced before. A file that a
 * start puts in place holds lines that were acknowledged earlier, so it is synced before.
 *
 * Pure: its only knowledge of the disk is from the calls and their results. A line is on the disk after its write has
 * returned to a descriptor that was opened with O_DSYNC, or after a sync of its file has returned 0 that started after the
 * write had returned; an entry, after such a sync of the folder.
 */

import { bytesOf, type Call, openOn } from './strace.ts';

/** The calls to trace. A question mark: not every machine has the call. */
export const ORDER_CALLS = [
  ...['read', 'write', 'writev', 'sendto', 'sendmsg', 'openat', 'pwrite64', 'pwritev', 'ftruncate'],
  ...['fdatasync', 'fsync', '?rename', '?renameat', '?renameat2'],
];

export interface Order {
  /** One sentence for each line that was acknowledged or put in place too early. */
  readonly violations: string[];
  readonly acknowledged: Set<string>;
  readonly files: Set<string>;
}

interface Line {
  file: string;
  readonly end: number;
  synced: boolean;
}

interface Connection {
  /** Received and not yet parsed. */
  text: string;
  /** The keys of requests without a reply; undefined for a request that is not a report. */
  readonly waiting: (string | undefined)[];
}

interface State extends Order {
  readonly data: string;
  /** By the key of the report. */
  readonly lines: Map<string, Line>;
  /** Journal files whose entry a power cut can remove. */
  readonly entries: Set<string>;
  /** Descriptors whose writes are syncs. */
  readonly syncing: Set<number>;
  readonly connections: Map<string, Connection>;
  /** The lines and entries that become durable if a sync in progress returns 0. */
  readonly syncs: Map<Call, { readonly lines: readonly string[]; readonly entries: readonly string[] }>;
}

/** @param data the journal's folder, as passed to the program */
export function checkOrder(calls: readonly Call[], data: string): Order {
  const state: State = {
    ...{ violations: [], acknowledged: new Set(), files: new Set(), data },
    ...{ lines: new Map(), entries: new Set(), syncing: new Set(), connections: new Map(), syncs: new Map() },
  };
  const moments = calls.flatMap((call) => [
    { line: call.startLine, call, act: AT_START[call.name] },
    { line: call.endLine, call, act: AT_END[call.name] },
  ]);
  // The sort is stable: a call that returned on its own line started before.
  for (const { call, act } of moments.sort((one, other) => one.line - other.line)) act?.(call, state);
  return state;
}

type Act = (call: Call, state: State) => void;

/** A reply counts from the start of its write. */
const AT_START: Record<string, Act> = {
  ...{ write: reply, writev: reply, sendto: reply, sendmsg: reply },
  ...{ fdatasync: startSync, fsync: startSync },
};

/** A write or sync counts only after it has returned. */
const AT_END: Record<string, Act> = {
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

function replace({ args, startLine, result }: Call, state: State): void {
  const [from = '', to = ''] = [...args.matchAll(/"([^"]*)"/g)].map(([, path = '']) => path);
  if (result !== 0 || !isJournal(to, state)) return;
  state.entries.delete(from);
  state.entries.add(to);
  for (const [key, line] of state.lines) {
    if (line.file !== from) continue;
    line.file = to;
    if (!line.synced)
      state.violations.push(`${key} was put in place on line ${startLine + 1}: its line was not synced`);
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

function startSync(call: Call, state: State): void {
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
    // The system forgets a failed write: a later sync that returns 0 proves nothing about it.
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
    const tooEarly = (what: string) => state.violations.push(`200 for ${key} on line ${call.startLine + 1}: ${what}`);
    if (line === undefined) tooEarly('its line was not written, or did not survive');
    else if (!line.synced) tooEarly('its line was not synced');
    else if (state.entries.has(line.file)) tooEarly(`the entry of ${line.file} was not synced`);
  }
}

/** A journal file, or a file that becomes one. */
function isJournal(path: string, { data }: State): boolean {
  return path.startsWith(`${data}/events-`);
}
