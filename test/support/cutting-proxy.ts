/** A TCP proxy that closes connections after a number of bytes, so that requests and replies are cut anywhere. */

import { createConnection, createServer, type Socket } from 'node:net';
import { listenOn } from '../world/http-server.ts';
import type { Scope } from './program.ts';

/** The number of bytes that a connection passes on, each way, before both ends are closed. */
export interface Cut {
  readonly requestBytes: number;
  readonly replyBytes: number;
}

export const uncut: Cut = { requestBytes: Number.POSITIVE_INFINITY, replyBytes: Number.POSITIVE_INFINITY };

export interface CuttingProxy {
  readonly url: string;
  /** The port for later connections. */
  port: number;
  connections(): number;
  /** All bytes that clients sent. */
  sent(): string;
  end(): void;
}

/** @param cutOf returns the limits of the n-th connection, from 0 */
export async function startCuttingProxy(t: Scope, port: number, cutOf: (index: number) => Cut): Promise<CuttingProxy> {
  let connections = 0;
  const ends = new Set<() => void>();
  const sent: Buffer[] = [];
  const server = createServer((client) => {
    const cut = cutOf(connections);
    connections += 1;
    const service = createConnection(proxy.port, '127.0.0.1');
    const end = () => {
      client.destroy();
      service.destroy();
      ends.delete(end);
    };
    ends.add(end);
    for (const socket of [client, service]) socket.on('error', end).on('close', end);
    client.on('data', (bytes) => sent.push(bytes));
    pass(client, service, cut.requestBytes, end);
    pass(service, client, cut.replyBytes, end);
  });
  const url = `http://127.0.0.1:${await listenOn(t, server)}`;
  const endAll = () => {
    for (const end of ends) end();
  };
  t.after(endAll);
  const proxy = { url, port, connections: () => connections, sent: () => Buffer.concat(sent).toString(), end: endAll };
  return proxy;
}

function pass(from: Socket, to: Socket, bytesMax: number, end: () => void): void {
  let left = bytesMax;
  from.on('data', (bytes) => {
    const part = bytes.subarray(0, Math.min(left, bytes.length));
    left -= bytes.length;
    if (left >= 0) to.write(part);
    else to.end(part, end);
  });
}
