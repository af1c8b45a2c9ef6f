/** One HTTP request and its reply, for commands that talk to a service. Nothing is asked twice: that is for who calls. */

import http, { type IncomingHttpHeaders } from 'node:http';
import type { Limits } from '../config/limits.ts';

export interface Call {
  readonly method: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** For the connection at most this long; then from it, or from the request on one that stands, to the end of the reply. */
  readonly replyMs: number;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Its first `limits.replyBytesMax` bytes. */
  readonly body: string;
}

/** Thrown where no whole reply came. */
export class NoReply extends Error {
  /** A connection stood, so the request may have arrived. */
  readonly sent: boolean;
  readonly code: string | undefined;

  constructor(error: NodeJS.ErrnoException, sent: boolean) {
    // Where every address of a name failed, the errors are inside, and the message is empty.
    const [first] = (error as Partial<AggregateError>).errors ?? [];
    super(error.message || first?.message || error.code);
    this.sent = sent;
    this.code = error.code;
  }
}

/** One connection at a time, kept for the next call. */
export interface Client {
  /** @throws NoReply */
  call(url: URL, call: Call): Promise<Answer>;
  close(): void;
}

/** @param protocol of every URL that is called: `http:` or `https:` */
export function openClient(protocol: string, limits: Pick<Limits, 'keptMs' | 'connectMs' | 'replyBytesMax'>): Client {
  // TLS takes a while to load, and few need it.
  const { Agent, request } = protocol === 'https:' ? process.getBuiltinModule('node:https') : http;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let lastMs = 0;

  function call(url: URL, { method, headers = {}, body, replyMs }: Call): Promise<Answer> {
    // The other side may just be closing a connection that idled, and then nobody knows what became of the request.
    if (performance.now() - lastMs > limits.keptMs) agent.destroy();
    return new Promise<Answer>((resolve, reject) => {
      let sent = false;
      // Settles by itself: what a request emits when it is destroyed depends on how far it got, and on the version of Node.
      const late = (ms: number, what: string) =>
        setTimeout(() => {
          const error = new Error(`${what} within ${ms / 1000} s`);
          failed(error);
          asked.destroy(error);
        }, ms);
      const connected = () => {
        sent = true;
        clearTimeout(timer);
        timer = late(replyMs, 'no whole reply came');
      };
      const failed = (error: Error) => {
        clearTimeout(timer);
        reject(new NoReply(error, sent));
      };
      const closed = () => failed(new Error('the connection was closed before the whole reply'));
      const asked = request(url, { method, headers, agent }, (reply) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        const done = () => {
          clearTimeout(timer);
          lastMs = performance.now();
          const body = Buffer.concat(chunks).toString('utf8', 0, limits.replyBytesMax);
          resolve({ status: reply.statusCode ?? 0, headers: reply.headers, body });
        };
        asked.off('close', closed); // the reply says more exactly what went wrong with it
        reply.on('error', failed);
        reply.on('close', closed);
        reply.on('end', done);
        reply.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes <= limits.replyBytesMax) return;
          done();
          reply.destroy();
        });
      });
      let timer = late(Math.min(limits.connectMs, replyMs), 'no connection stood');
      asked.on('socket', (socket) => {
        if (asked.reusedSocket) connected();
        else socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', connected);
      });
      asked.on('error', failed);
      // Any 101, and then nothing else but 'close' is emitted: what follows on the connection is not HTTP.
      asked.on('upgrade', ({ statusCode = 0, headers }, socket) => {
        clearTimeout(timer);
        socket.destroy();
        resolve({ status: statusCode, headers, body: '' });
      });
      asked.on('close', closed);
      asked.end(body);
    });
  }

  return { call, close: () => agent.destroy() };
}
