/** Destinations of a benchmark: a hub and a plain upstream that take their time, and nothing else. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface SlowDestination {
  readonly url: string;
  /** Events that it took so far. */
  events(): number;
  /** While it is held, it answers no request. */
  isHeld: boolean;
  close(): void;
}

const POLL_MS = 10;

/** @param delayMs before each reply */
export async function startSlowDestination(kind: 'hub' | 'plain', delayMs: number): Promise<SlowDestination> {
  const at = new Map<string, { seq: number; id: string }>();
  let events = 0;
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    for (let waitedMs = 0; waitedMs < delayMs || destination.isHeld; waitedMs += POLL_MS) await sleep(POLL_MS);
    const [, , source = ''] = (request.url ?? '').split('/');
    const reply = (type: string, text: string) => response.writeHead(200, { 'content-type': type }).end(text);
    if (request.method === 'GET' && kind === 'plain') return void reply('text/html', '<html></html>');
    if (request.method === 'PUT') {
      const text = Buffer.concat(pieces).toString();
      const last = JSON.parse(text.slice(text.lastIndexOf('\n', text.length - 2) + 1));
      events += last.seq - (at.get(source)?.seq ?? 0);
      at.set(source, { seq: last.seq, id: last.id });
    } else if (request.method === 'POST') {
      events += 1;
      return void reply('application/json', '{}');
    }
    reply('application/json', JSON.stringify({ ...(at.get(source) ?? { seq: 0, id: null }), via: [] }));
  }
  const server = createServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy()); // the client went away
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const destination: SlowDestination = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    events: () => events,
    isHeld: false,
    close: () => {
      destination.isHeld = false;
      server.closeAllConnections();
      server.close();
    },
  };
  return destination;
}
