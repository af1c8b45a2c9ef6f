/** The model of NATS on real sockets, for answers that a real server cannot be made to give. */

import { createServer, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Scope } from '../support/program.ts';
import { listenOn } from './http-server.ts';
import { type ClientFrame, framesIn, infoOf, messageOf, NatsStream, type Published } from './nats.ts';

/** An answer as JSON, or raw bytes in its place; an empty text is silence. */
export type StubAnswer = object | string;

export interface StubOptions {
  /** Members of INFO in addition to the members of a current server. */
  readonly info?: object;
  /** Settings of the stream in addition to the right ones. */
  readonly config?: object;
  /** @returns the answer to a message; undefined: the answer of the stream */
  readonly answer?: (message: Published, stub: NatsStub) => StubAnswer | undefined;
  /** Called with each message, of either side. @returns false to end the connection instead of passing the message */
  readonly passes?: (message: string) => boolean;
  /** TLS starts after INFO. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

export class NatsStub {
  readonly #options: StubOptions;
  readonly #host: string;
  readonly #stream: NatsStream;
  port = 0;
  /** All published messages, of all connections. */
  readonly published: Published[] = [];
  /** The members of each CONNECT. */
  readonly logins: object[] = [];
  readonly sockets: Socket[] = [];
  pongs = 0;

  constructor(options: StubOptions, host: string) {
    this.#options = options;
    this.#host = host.includes(':') ? `[${host}]` : host;
    this.#stream = new NatsStream(options.config);
  }

  get to(): string {
    return `nats://${this.#host}:${this.port}/ASSETLOG`;
  }

  get stored(): readonly Published[] {
    return this.#stream.stored;
  }

  /** Sends to the client that connected last. */
  say(text: string): void {
    this.sockets.at(-1)?.write(text);
  }

  accept(plain: Socket): void {
    const { info, tls } = this.#options;
    this.#write(plain, infoOf({ port: this.port, ...info }));
    const socket = tls === undefined ? plain : new TLSSocket(plain, { isServer: true, ...tls });
    this.sockets.push(socket);
    let bytes: Buffer = Buffer.alloc(0);
    socket.on('error', () => {}); // a client that leaves
    socket.on('data', (chunk) => {
      let end = 0;
      bytes = Buffer.concat([bytes, chunk]);
      for (const frame of framesIn(bytes)) {
        if (socket.destroyed || !this.#passes(socket, frame.line)) return;
        this.#hear(socket, frame);
        end = frame.end;
      }
      bytes = bytes.subarray(end);
    });
  }

  #hear(socket: Socket, { line, message }: ClientFrame): void {
    if (line === 'PING') this.#write(socket, 'PONG\r\n');
    if (line === 'PONG') this.pongs += 1;
    if (line.startsWith('CONNECT ')) this.logins.push(JSON.parse(line.slice('CONNECT '.length)));
    if (message === undefined) return;
    this.published.push(message);
    const found = this.#options.answer?.(message, this) ?? this.#stream.take(message) ?? '';
    if (typeof found === 'string') this.#write(socket, found);
    else if (message.reply !== undefined) this.#write(socket, messageOf(message.reply, JSON.stringify(found)));
  }

  #write(socket: Socket, text: string): void {
    if (text !== '' && this.#passes(socket, text)) socket.write(text);
  }

  #passes(socket: Socket, message: string): boolean {
    const passes = this.#options.passes?.(message) ?? true;
    if (!passes) socket.destroy();
    return passes;
  }
}

export async function startNatsStub(t: Scope, options: StubOptions = {}, host = '127.0.0.1'): Promise<NatsStub> {
  const stub = new NatsStub(options, host);
  const server = createServer((socket) => stub.accept(socket));
  stub.port = await listenOn(t, server, host);
  t.after(() => stub.sockets.map((socket) => socket.destroy()));
  return stub;
}
