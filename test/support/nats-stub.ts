/** A small NATS server with one stream, for answers that a real server cannot be made to give. It handles one batch at a time. */

import { createServer, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Scope } from './program.ts';
import { listenOn } from './sent-lines.ts';

export interface Published {
  readonly subject: string;
  readonly reply: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Buffer;
}

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
  port = 0;
  /** All published messages, of all connections. */
  readonly published: Published[] = [];
  /** The stored messages, by their sequence in the stream, from 1. */
  readonly stored: Published[] = [];
  /** The members of each CONNECT. */
  readonly logins: object[] = [];
  readonly sockets: Socket[] = [];
  pongs = 0;
  /** False: batches are stored without an answer. */
  answersBatches = true;
  #batch: Published[] = [];

  constructor(options: StubOptions, host: string) {
    this.#options = options;
    this.#host = host.includes(':') ? `[${host}]` : host;
  }

  get to(): string {
    return `nats://${this.#host}:${this.port}/ASSETLOG`;
  }

  /** Sends to the client that connected last. */
  say(text: string): void {
    this.sockets.at(-1)?.write(text);
  }

  accept(socket: Socket): void {
    const { info, tls } = this.#options;
    const { port } = this;
    const said = { server_id: 'S', version: '2.12.0', port, headers: true, max_payload: 1_048_576, ...info };
    this.#write(socket, `INFO ${JSON.stringify(said)}\r\n`);
    this.#serve(tls === undefined ? socket : new TLSSocket(socket, { isServer: true, ...tls }));
  }

  #serve(socket: Socket): void {
    this.sockets.push(socket);
    let bytes: Buffer = Buffer.alloc(0);
    socket.on('error', () => {}); // a client that leaves
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      for (let rest = this.#first(socket, bytes); rest !== undefined; rest = this.#first(socket, bytes)) bytes = rest;
    });
  }

  /** Handles the first frame. @returns the bytes after it; undefined if the frame is not complete */
  #first(socket: Socket, bytes: Buffer): Buffer | undefined {
    const newline = bytes.indexOf('\r\n');
    if (newline === -1 || socket.destroyed) return undefined;
    const [verb, ...rest] = bytes.toString('latin1', 0, newline).split(/ +/);
    const start = newline + 2;
    const isMessage = verb === 'PUB' || verb === 'HPUB';
    const end = isMessage ? start + Number(rest.at(-1)) + 2 : start;
    if (bytes.length < end || !this.#passes(socket, bytes.toString('latin1', 0, newline))) return undefined;
    if (verb === 'PING') this.#write(socket, 'PONG\r\n');
    if (verb === 'PONG') this.pongs += 1;
    if (verb === 'CONNECT') this.logins.push(JSON.parse(rest.join(' ')));
    if (!isMessage) return bytes.subarray(end);
    const headers = verb === 'HPUB' ? Number(rest.at(-2)) : 0;
    const lines = bytes
      .toString('latin1', start, start + headers)
      .split('\r\n')
      .slice(1, -2);
    this.#take(socket, {
      subject: rest[0]!,
      reply: rest.length > (verb === 'HPUB' ? 3 : 2) ? rest[1] : undefined,
      headers: Object.fromEntries(lines.map((line) => line.split(':') as [string, string])),
      payload: Buffer.from(bytes.subarray(start + headers, end - 2)),
    });
    return bytes.subarray(end);
  }

  #take(socket: Socket, message: Published): void {
    this.published.push(message);
    const found = this.#options.answer?.(message, this) ?? this.#answer(message);
    if (typeof found === 'string') return void this.#write(socket, found);
    if (!this.answersBatches && 'Nats-Batch-Id' in message.headers) return;
    if (message.reply !== undefined) this.#write(socket, messageOf(message.reply, JSON.stringify(found)));
  }

  #write(socket: Socket, text: string): void {
    if (text !== '' && this.#passes(socket, text)) socket.write(text);
  }

  #passes(socket: Socket, message: string): boolean {
    const passes = this.#options.passes?.(message) ?? true;
    if (!passes) socket.destroy();
    return passes;
  }

  #answer(message: Published): StubAnswer {
    const { subject, headers, payload } = message;
    if (subject.startsWith('$JS.API.STREAM.INFO.')) return { config: { ...STREAM, ...this.#options.config } };
    if (subject.startsWith('$JS.API.')) return this.#get(subject, JSON.parse(`${payload}`).last_by_subj);
    if (headers['Nats-Batch-Sequence'] === '1') this.#batch = [];
    this.#batch.push(message);
    if (headers['Nats-Batch-Commit'] === undefined) return '';
    const isWhole = this.#batch.every((one, index) => Number(one.headers['Nats-Batch-Sequence']) === index + 1);
    if (!isWhole) return errorOf(10_176, 'atomic publish batch is incomplete');
    const expected = this.#batch[0]?.headers['Nats-Expected-Last-Subject-Sequence'];
    const last = this.#lastOf(subject);
    if (expected !== undefined && Number(expected) !== last) return errorOf(10_071, `wrong last sequence: ${last}`);
    this.stored.push(...this.#batch);
    return { stream: 'ASSETLOG', seq: this.stored.length, count: this.#batch.length };
  }

  /** A direct get is answered by a replica that lags behind. */
  #get(api: string, subject: string): object {
    const isDirect = api.startsWith('$JS.API.DIRECT.');
    const seq = isDirect ? Math.min(1, this.stored.length) : this.#lastOf(subject);
    if (seq === 0) return errorOf(10_037, 'no message found', 404);
    return { message: { subject, seq, data: this.stored[seq - 1]?.payload.toString('base64') } };
  }

  #lastOf(subject: string): number {
    return this.stored.findLastIndex((message) => message.subject === subject) + 1;
  }
}

export async function startNatsStub(t: Scope, options: StubOptions = {}, host = '127.0.0.1'): Promise<NatsStub> {
  const stub = new NatsStub(options, host);
  const server = createServer((socket) => stub.accept(socket));
  stub.port = await listenOn(t, server, host);
  t.after(() => stub.sockets.map((socket) => socket.destroy()));
  return stub;
}

export function messageOf(subject: string, payload: string): string {
  return `MSG ${subject} 1 ${Buffer.byteLength(payload)}\r\n${payload}\r\n`;
}

export function errorOf(err_code: number, description: string, code = 400): object {
  return { error: { code, err_code, description } };
}

const STREAM = { subjects: ['assetlog.>'], retention: 'limits', max_msg_size: -1, sealed: false, allow_atomic: true };
