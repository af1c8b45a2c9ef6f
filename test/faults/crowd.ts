/**
 * Many clients that send large bodies, as a separate process so that they do not slow the process that measures.
 * `crowd.ts '{"port":…,"clients":…,"seconds":…,"bodies":[…]}'` prints the replies as JSON.
 */

import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { post } from '../support/wire.ts';

export interface CrowdOptions {
  readonly port: number;
  readonly clients: number;
  readonly seconds: number;
  /** The kinds of bodies, distributed over the clients. */
  readonly bodies: readonly Kind[];
}

export type Kind = keyof typeof bodies;

export interface CrowdSeen {
  /** The keys of the reports that got a 200. */
  readonly acknowledged: readonly string[];
  /** Replies by status; 0 counts connections that ended without a reply. */
  readonly statuses: Readonly<Record<number, number>>;
  /** The number of 503 replies without `Retry-After`. */
  readonly withoutRetryAfter: number;
}

const MIB = 1024 * 1024;
/** Less than a second, so that the crowd keeps up the pressure; not zero, so that the service can do other work. */
const PAUSE_MS = 100;
const REPLY_MS = 40_000;

/** The kinds of bodies, most of almost 1 MiB. Each kind has another cost for the service. */
const bodies = {
  text: () => ({ metadata: { text: 'x'.repeat(MIB - 100) } }),
  'two-byte text': () => ({ metadata: { text: 'ж'.repeat(MIB / 2 - 100) } }),
  'one wide character': () => ({ metadata: { text: `\u4e2d${'x'.repeat(MIB - 100)}` } }),
  'many members': () => Object.fromEntries(Array.from({ length: 70_000 }, (_, at) => [`m${at}`, at])),
  'little of it recorded': () => ({ metadata: { text: 'x'.repeat(100) }, ignored: 'x'.repeat(MIB - 300) }),
  'small chunks': () => ({ metadata: { text: 'x'.repeat(MIB - 100) } }),
  // Almost the 64 KiB of one read, so such a body is never assembled from several reads.
  'one chunk': () => ({ metadata: { text: 'x'.repeat(60 * 1024) } }),
  small: () => ({ metadata: { rows: 10 } }),
  'no key': () => ({ metadata: { text: 'x'.repeat(MIB - 100) } }),
} as const;

const CHUNK_BYTES = 256;

function chunked(body: Buffer): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length; at += CHUNK_BYTES) {
    const piece = body.subarray(at, at + CHUNK_BYTES);
    pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
  }
  return Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')]);
}

/** The body of a kind, shared by all clients. */
interface Upload {
  readonly body: Buffer;
  readonly framing: string;
  readonly hasKey: boolean;
}

function uploadOf(kind: Kind): Upload {
  const plain = Buffer.from(JSON.stringify(bodies[kind]()));
  const hasKey = kind !== 'no key';
  return kind === 'small chunks'
    ? { body: chunked(plain), framing: 'Transfer-Encoding: chunked', hasKey }
    : { body: plain, framing: `Content-Length: ${plain.length}`, hasKey };
}

async function crowd({ port, clients, seconds, bodies: kinds }: CrowdOptions): Promise<CrowdSeen> {
  const uploads = kinds.map(uploadOf);
  const acknowledged: string[] = [];
  const statuses: Record<number, number> = {};
  let withoutRetryAfter = 0;
  const end = performance.now() + seconds * 1000;

  async function client(number: number): Promise<void> {
    const { body, framing, hasKey } = uploads[number % uploads.length]!;
    let socket: Socket | undefined;
    for (let count = 0; performance.now() < end; count += 1) {
      const key = hasKey ? `${number}.${count}` : '';
      socket ??= connect({ port, host: '127.0.0.1' }).on('error', () => {});
      socket.write(headOf(key, framing));
      socket.write(body);
      const reply = await replyOn(socket);
      const status = Number(reply.slice(9, 12));
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status === 200) acknowledged.push(key);
      if (status === 503 && !/^retry-after: [1-9]/im.test(reply)) withoutRetryAfter += 1;
      if (status === 0 || /^connection: close/im.test(reply)) {
        socket.destroy();
        socket = undefined;
      }
      if (status !== 200) await sleep(PAUSE_MS);
    }
    socket?.destroy();
  }

  await Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
  return { acknowledged, statuses, withoutRetryAfter };
}

function headOf(key: string, framing: string): string {
  const [line = ''] = post(`/report_asset_materialization/${key}`).split('\r\n', 1);
  return `${line}\r\nHost: localhost\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`;
}

/** @returns the next reply as text; empty if the connection ends without one */
function replyOn(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const take = (chunk: Buffer) => {
      text += chunk.toString('latin1');
      if (text.includes('\r\n\r\n') && text.endsWith('}')) finish();
    };
    const finish = () => {
      clearTimeout(deadline);
      socket.off('data', take).off('close', finish).off('end', finish);
      resolve(text.endsWith('}') ? text : '');
    };
    const deadline = setTimeout(finish, REPLY_MS);
    socket.on('data', take).on('close', finish).on('end', finish);
  });
}

console.log(JSON.stringify(await crowd(JSON.parse(process.argv[2] ?? ''))));
