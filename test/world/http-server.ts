/** A server on a real socket, whose answers a test, or the model of a peer, gives. */

import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Server as NetServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import type { Scope } from '../support/program.ts';
import { contentTypeOf, type HttpRequest, type Scripted } from './http.ts';

/** A request that a scripted server received. */
export interface Got extends HttpRequest {
  readonly headers: IncomingHttpHeaders;
  /** The number of its connection, from 1. */
  readonly connection: number;
}

/** @returns undefined to end the connection without an answer */
export type Answering = (got: Got, count: number) => Scripted | undefined | Promise<Scripted | undefined>;

export interface ScriptedServer {
  /** Without a final slash. */
  readonly url: string;
  readonly port: number;
  /** All requests. */
  readonly got: Got[];
  readonly server: Server;
  /** The time before each answer. */
  delayMs: number;
  /** Like SIGKILL: answers on their way are lost, and nothing listens. */
  kill(): Promise<void>;
  /** Listens again, on the same port. */
  start(): Promise<void>;
}

interface Listening {
  readonly create?: ((listener: RequestListener) => Server) | undefined;
  readonly host?: string | undefined;
  /** One that nothing else takes while the server is killed. */
  readonly port?: number;
}

export async function startScripted(
  t: Scope,
  answer: Answering,
  { create = createServer, host = '127.0.0.1', port: wanted = 0 }: Listening = {},
): Promise<ScriptedServer> {
  const got: Got[] = [];
  let kills = 0;
  let connections = 0;
  const numbers = new WeakMap<object, number>();
  const server = create(async (request, response) => {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk);
    } catch {
      return; // the client went away
    }
    const { method, url, headers, socket } = request;
    if (!numbers.has(socket)) {
      connections += 1;
      numbers.set(socket, connections);
    }
    const bytes = Buffer.concat(chunks);
    const body = headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes;
    const one: Got = { method, url, headers, body: body.toString(), connection: numbers.get(socket)! };
    got.push(one);
    const before = kills;
    if (scripted.delayMs > 0) await sleep(scripted.delayMs);
    if (before < kills) return;
    const answered = await answer(one, got.length);
    if (answered === undefined) return void socket.destroy();
    const [status, text, more, after] = answered;
    if (after === 'ends') response.once('finish', () => socket.destroySoon());
    response.setHeader('Content-Type', contentTypeOf(text)).writeHead(status, more).end(text);
  });
  const port = await listenOn(t, server, host, wanted);
  const name = host.includes(':') ? `[${host}]` : host;
  const scripted: ScriptedServer = {
    ...{ url: `${create === createServer ? 'http' : 'https'}://${name}:${port}`, port, got, server, delayMs: 0 },
    kill: async () => {
      kills += 1;
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
    start: async () => {
      server.listen(port, host);
      await once(server, 'listening');
    },
  };
  return scripted;
}

/** @returns the port of a server that ends with the test */
export async function listenOn(t: Scope, server: Server | NetServer, host = '127.0.0.1', port = 0): Promise<number> {
  server.listen(port, host);
  await once(server, 'listening');
  t.after(() => {
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}
