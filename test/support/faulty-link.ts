/**
 * The link between two services, as a proxy for HTTP that a test makes fail: it cuts a request or a reply after any byte, delays it,
 * delivers a request twice, answers in place of the service, or is down.
 */

import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scope } from './program.ts';

/** What happens to one request. */
export type LinkFault =
  | { readonly kind: 'passed' }
  /** Only the first bytes reach the service; then both connections are closed. */
  | { readonly kind: 'request cut'; readonly bytes: number }
  /** The service gets all of it; of its reply only the first bytes reach the client. */
  | { readonly kind: 'reply cut'; readonly bytes: number }
  | { readonly kind: 'delayed'; readonly ms: number }
  /** The service gets it two times, one after the other; the client gets the second reply. */
  | { readonly kind: 'doubled' }
  /** The service does not get it. */
  | { readonly kind: 'answered'; readonly reply: string };

/** A request on its way: `{ index: 3, line: 'PUT /forward/0193…/54 HTTP/1.1', bytes: 812 }`. */
export interface Passing {
  readonly index: number;
  readonly line: string;
  readonly bytes: number;
}

export interface FaultyLink {
  readonly url: string;
  /** The port that requests are passed on to. */
  port: number;
  /** Decides over each request. */
  faultOf: (request: Passing) => LinkFault;
  /** While it is down, connections are closed as soon as they are there. */
  isDown: boolean;
  /** How often each happened. */
  readonly counts: ReadonlyMap<LinkFault['kind'], number>;
  /** The first lines of the requests, the last 1,000. */
  readonly lines: readonly string[];
}

const LINES_MAX = 1_000;
export const PASSED: LinkFault = { kind: 'passed' };

/** A reply as a proxy gives one: `answered(502, '<html>…')`. */
export function answered(status: number, body: string, type = 'text/html', headers: readonly string[] = []): LinkFault {
  const head = [`HTTP/1.1 ${status} Of A Proxy`, `Content-Type: ${type}`, `Content-Length: ${Buffer.byteLength(body)}`];
  return { kind: 'answered', reply: `${[...head, ...headers].join('\r\n')}\r\n\r\n${body}` };
}

/** @param port that requests are passed on to, on 127.0.0.1 */
export async function startFaultyLink(t: Scope, port: number): Promise<FaultyLink> {
  const sockets = new Set<Socket>();
  const counts = new Map<LinkFault['kind'], number>();
  const lines: string[] = [];
  let index = 0;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {}); // its end is seen by `close`
    socket.on('close', () => sockets.delete(socket));
    return socket;
  };

  async function serve(client: Socket): Promise<void> {
    for await (const request of messagesOf(client)) {
      const line = request.toString('latin1', 0, request.indexOf('\r'));
      lines.push(line);
      if (lines.length > LINES_MAX) lines.shift();
      const fault = link.faultOf({ index, line, bytes: request.length });
      index += 1;
      counts.set(fault.kind, (counts.get(fault.kind) ?? 0) + 1);
      if (fault.kind === 'answered') {
        client.write(fault.reply);
        continue;
      }
      if (fault.kind === 'delayed') await sleep(fault.ms);
      const service = keep(createConnection(link.port, '127.0.0.1'));
      const end = () => service.destroy();
      client.once('close', end);
      service.once('close', () => client.off('close', end));
      if (fault.kind === 'request cut') {
        await once(service, 'connect');
        service.end(request.subarray(0, fault.bytes));
        await sleep(20); // a service that already has it whole records it
        break;
      }
      service.write(request);
      let reply = await replyOf(service);
      if (fault.kind === 'doubled' && reply !== undefined) {
        const again = keep(createConnection(link.port, '127.0.0.1'));
        again.write(request);
        reply = await replyOf(again);
        again.destroy();
      }
      service.destroy();
      if (reply === undefined) break;
      if (fault.kind === 'reply cut') {
        client.end(reply.subarray(0, fault.bytes));
        break;
      }
      client.write(reply);
    }
    client.destroySoon();
  }

  const server = createServer((client) => {
    keep(client);
    if (link.isDown) client.destroy();
    else serve(client).catch(() => client.destroy()); // one of its connections broke
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  let isDown = false;
  const link: FaultyLink = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    port,
    faultOf: () => PASSED,
    get isDown() {
      return isDown;
    },
    set isDown(now) {
      isDown = now;
      if (now) for (const socket of sockets) socket.destroy();
    },
    counts,
    lines,
  };
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return link;
}

/** The requests of a connection, each whole, without its framing changed. */
async function* messagesOf(socket: Socket): AsyncGenerator<Buffer> {
  let held = Buffer.alloc(0);
  for await (const bytes of socket.iterator({ destroyOnReturn: false })) {
    held = Buffer.concat([held, bytes]);
    for (let end = messageEnd(held, 0); end !== undefined; end = messageEnd(held, 0)) {
      yield held.subarray(0, end);
      held = held.subarray(end);
    }
  }
}

/** @returns the bytes of the next reply, or undefined if the connection ends before it has begun */
async function replyOf(socket: Socket): Promise<Buffer | undefined> {
  let held = Buffer.alloc(0);
  try {
    for await (const bytes of socket.iterator({ destroyOnReturn: false })) {
      held = Buffer.concat([held, bytes]);
      const end = messageEnd(held, Number.POSITIVE_INFINITY);
      if (end !== undefined && end <= held.length) return held.subarray(0, end);
    }
  } catch {
    return undefined; // what came of a reply is of no use to a proxy
  }
  return held.length === 0 ? undefined : held;
}

/**
 * @param bodyBytes how long a body without a length is: none for a request, up to the end of the connection for a reply
 * @returns where the first message ends, or undefined if it is not whole yet
 */
function messageEnd(bytes: Buffer, bodyBytes: number): number | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const head = bytes.toString('latin1', 0, headEnd);
  if (/^transfer-encoding: *chunked/im.test(head)) {
    const end = bytes.indexOf('\r\n0\r\n\r\n', headEnd + 2);
    return end === -1 ? undefined : end + 7;
  }
  const length = /^content-length: *(\d+)/im.exec(head)?.[1];
  const end = headEnd + 4 + (length === undefined ? bodyBytes : Number(length));
  return end <= bytes.length ? end : undefined;
}
