/** Lines of a journal for a test of a sender, and a server with scripted answers. */

import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Server as NetServer } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { encodeBatch } from '../../src/journal/line/record.ts';
import { Line } from '../../src/journal/look/reading.ts';
import { encodeMembers, type PlainEvent } from './plain-event.ts';
import type { Scope } from './program.ts';

/** @returns these events as journal lines, in one chunk of the file */
export function linesOf(
  events: readonly PlainEvent[],
  firstSeq = 1,
  crc = 0,
  time = '2026-11-20T15:19:45.266Z',
): Line[] {
  const members = events.map(encodeMembers);
  const { bytes } = encodeBatch(members, { seq: firstSeq, crc }, new Date(time));
  const lines: Line[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(0x0a, start);
    lines.push(new Line(bytes, start, end, firstSeq + lines.length));
    start = end + 1;
  }
  return lines;
}

/** A request that a scripted server received. */
export interface Got {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Unpacked. */
  readonly body: string;
  /** The number of its connection, from 1. */
  readonly connection: number;
}

/** An answer of a scripted server: `[200, '{}']`, with further headers if needed. */
export type Scripted = readonly [status: number, body: string, headers?: Readonly<Record<string, string>>];

/** @returns the URL of a server, without a final slash, and all requests to it */
export async function startScripted(
  t: Scope,
  answer: (got: Got, count: number) => Scripted,
  create: (listener: RequestListener) => Server = createServer,
  host = '127.0.0.1',
): Promise<{ readonly url: string; readonly got: Got[]; readonly server: Server }> {
  const got: Got[] = [];
  let connections = 0;
  const numbers = new WeakMap<object, number>();
  const server = create(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    let connection = numbers.get(request.socket);
    if (connection === undefined) {
      connections += 1;
      connection = connections;
      numbers.set(request.socket, connection);
    }
    const { method, url, headers } = request;
    const bytes = Buffer.concat(chunks);
    const body = headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes;
    const one: Got = { method, url, headers, body: body.toString(), connection };
    got.push(one);
    const [status, text, more = {}] = answer(one, got.length);
    response
      .writeHead(status, { 'Content-Type': text.startsWith('{') ? 'application/json' : 'text/html', ...more })
      .end(text);
  });
  const port = await listenOn(t, server, host);
  const name = host.includes(':') ? `[${host}]` : host;
  return { url: `${create === createServer ? 'http' : 'https'}://${name}:${port}`, got, server };
}

/** @returns the port of a server that ends with the test */
export async function listenOn(t: Scope, server: Server | NetServer, host = '127.0.0.1'): Promise<number> {
  server.listen(0, host);
  await once(server, 'listening');
  t.after(() => {
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}
