/**
 * Clients that only read, in ways with different costs for the service, as a separate process so that they do not slow the test.
 * `readers.ts '{"port":…,"seconds":…,"aborting":8,"deaf":256,"waiting":256}'` prints the replies by kind and status as JSON.
 */

import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface ReadersOptions {
  readonly port: number;
  readonly seconds: number;
  /** Clients that ask for a page, and soon close their connection. */
  readonly aborting: number;
  /** Clients that ask for pages, streams, assets and refusals but read nothing. */
  readonly deaf: number;
  /** Clients that wait for events, and read them. */
  readonly waiting: number;
}

/** Replies by status, such as `{"200":12}`; 0 counts connections that ended without a reply. */
export type Statuses = Record<number, number>;
export interface ReadersSeen {
  readonly deaf: Statuses;
  readonly waiting: Statuses;
}

const ABORT_MS = 20;
const PAUSE_MS = 50;
const DEAF_TARGETS = [
  ['/events?limit=1000', 'application/x-ndjson'],
  ['/events?limit=1000', 'application/json'],
  ['/events?after_seq=0', 'text/event-stream'],
  ['/events?limit=1000', 'application/x-ndjson'],
  ['/assets', 'application/json'],
  ['/refusals', 'application/json'],
] as const;

const { port, seconds, aborting, deaf, waiting } = JSON.parse(process.argv[2] ?? '') as ReadersOptions;
const endMs = performance.now() + seconds * 1000;
const sockets = new Set<Socket>();

function open(target: string, accept: string): Socket {
  const socket = connect({ port, host: '127.0.0.1' }).on('error', () => {});
  sockets.add(socket);
  socket.once('close', () => sockets.delete(socket));
  socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nAccept: ${accept}\r\nConnection: close\r\n\r\n`);
  return socket;
}

async function abortPages(): Promise<void> {
  while (performance.now() < endMs) {
    const socket = open('/events?limit=1000', 'application/x-ndjson');
    await sleep(ABORT_MS);
    socket.destroy();
  }
}

async function readNothing(number: number, statuses: Statuses): Promise<void> {
  const [target, accept] = DEAF_TARGETS[number % DEAF_TARGETS.length]!;
  while (performance.now() < endMs) {
    const socket = open(target, accept);
    const head = await new Promise<Buffer | undefined>((resolve) => {
      socket.once('close', () => resolve(undefined));
      socket.once('readable', () => resolve(socket.read(12) ?? undefined)); // it never reads more, except into Node's buffer
    });
    const status = Number(head?.toString('latin1', 9, 12) ?? 0);
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (status === 200) await waitUntilClosed(socket);
    socket.destroy();
    await sleep(PAUSE_MS);
  }
}

async function wait(newest: number, statuses: Statuses): Promise<void> {
  for (let after = newest; performance.now() < endMs; ) {
    const { status, next } = await readPage(`after_seq=${after}&wait=30`);
    if (performance.now() >= endMs) return;
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (status === 200) after = next ?? after;
    else await sleep(20 * PAUSE_MS);
  }
}

async function readPage(query: string): Promise<{ status: number; next: number | undefined }> {
  const { status, text } = await readWhole(open(`/events?${query}`, 'application/json'));
  const next = /"next_after_seq":(\d+)}/.exec(text)?.[1];
  return { status, next: next === undefined ? undefined : Number(next) };
}

/** Keeps only the end of the reply, since long lines would need much memory. */
async function readWhole(socket: Socket): Promise<{ status: number; text: string }> {
  let head = '';
  let text = '';
  socket.setEncoding('latin1').on('data', (more: string) => {
    head ||= more;
    text = (text + more).slice(-100);
  });
  await waitUntilClosed(socket);
  return { status: Number(head.slice(9, 12)), text };
}

function waitUntilClosed(socket: Socket): Promise<unknown> {
  return new Promise((resolve) => (socket.destroyed ? resolve(undefined) : socket.once('close', resolve)));
}

const seen: ReadersSeen = { deaf: {}, waiting: {} };
const { next: newest = 0 } = await readPage('last=1');
setTimeout(() => {
  for (const socket of sockets) socket.destroy();
}, seconds * 1000);
await Promise.all([
  ...Array.from({ length: aborting }, abortPages),
  ...Array.from({ length: deaf }, (_, number) => readNothing(number, seen.deaf)),
  ...Array.from({ length: waiting }, () => wait(newest, seen.waiting)),
]);
console.log(JSON.stringify(seen));
