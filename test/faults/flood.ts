/**
 * Clients that send small requests without a pause, as a separate process so that they do not slow the test.
 * `flood.ts '{"port":…,"clients":…,"seconds":…,"target":…,"reads":…}'` prints the number of replies that they read.
 */

import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface FloodOptions {
  readonly port: number;
  readonly clients: number;
  readonly seconds: number;
  /** The target of each request: POST for the path of a report, otherwise GET. */
  readonly target: string;
  /** Whether clients read replies; otherwise they send 64 KiB each. */
  readonly reads: boolean;
}

const CHUNK_BYTES = 64 * 1024;
const RECONNECT_MS = 5;

function requestsOf(target: string): Buffer {
  const isReport = target.startsWith('/report');
  const head = `${isReport ? 'POST' : 'GET'} ${target} HTTP/1.1\r\nHost: localhost\r\n${isReport ? 'Content-Length: 0\r\n' : ''}\r\n`;
  return Buffer.from(head.repeat(Math.floor(CHUNK_BYTES / head.length)));
}

async function flood({ port, clients, seconds, target, reads }: FloodOptions): Promise<number> {
  const requests = requestsOf(target);
  const end = performance.now() + seconds * 1000;
  let replies = 0;

  async function client(): Promise<void> {
    while (performance.now() < end) {
      await new Promise<void>((resolve) => {
        const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: false }).on('error', () => {});
        const deadline = setTimeout(() => socket.destroy(), end - performance.now());
        socket.on('close', () => {
          clearTimeout(deadline);
          resolve();
        });
        if (!reads) {
          socket.pause();
          socket.write(requests);
          return;
        }
        socket.setEncoding('latin1').on('data', (text: string) => {
          replies += text.split('HTTP/1.1 ').length - 1;
        });
        const send = () => {
          while (socket.writable && socket.write(requests));
        };
        socket.on('connect', send).on('drain', send);
      });
      await sleep(RECONNECT_MS);
    }
  }

  await Promise.all(Array.from({ length: clients }, client));
  return replies;
}

console.log(await flood(JSON.parse(process.argv[2] ?? '')));
