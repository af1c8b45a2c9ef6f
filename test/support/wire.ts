/** One TCP connection, byte by byte: for requests that no client library would send, and raw replies. */

import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface WireReply {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

const REPLY_MS = 60_000;

export class Wire {
  readonly socket: Socket;
  #text = '';
  #ended = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (text) => {
      this.#text += text;
    });
    for (const event of ['end', 'close', 'error']) {
      socket.on(event, () => {
        this.#ended = true;
      });
    }
  }

  /** @param localAddress the address to connect from; any by default */
  static async open(port: number, host = '127.0.0.1', localAddress?: string): Promise<Wire> {
    const from = localAddress === undefined ? {} : { localAddress };
    const socket = connect({ port, host, noDelay: true, allowHalfOpen: true, ...from });
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return new Wire(socket);
  }

  /** Text is sent as latin1: a character is a byte. */
  send(bytes: string | Buffer): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }

  /**
   * @param bodiless the reply answers a HEAD: its length is the length of a body that is not sent
   * @returns the next reply; undefined if the connection ends without one
   */
  async reply(bodiless = false): Promise<WireReply | undefined> {
    for (const late = performance.now() + REPLY_MS; performance.now() < late; await sleep(2)) {
      const found = takeReply(this.#text, bodiless, this.#ended);
      if (found !== undefined) {
        this.#text = found.rest;
        return found.reply;
      }
      if (this.#ended) return undefined;
    }
    throw new Error(`no reply within ${REPLY_MS} ms; so far ${JSON.stringify(this.#text.slice(0, 300))}`);
  }

  /** Whether the service ends the connection in time without sending more. */
  async ends(withinMs = REPLY_MS): Promise<boolean> {
    for (const late = performance.now() + withinMs; performance.now() < late && !this.#ended; ) await sleep(5);
    return this.#ended && this.#text === '';
  }

  /** The received text that is not part of a reply yet. */
  get text(): string {
    return this.#text;
  }

  get ended(): boolean {
    return this.#ended;
  }

  close(): void {
    this.socket.destroy();
  }
}

/** Sends bytes on a new connection and returns the one reply. */
export async function ask(port: number, bytes: string | Buffer): Promise<WireReply> {
  const wire = await Wire.open(port);
  try {
    wire.send(bytes);
    const reply = await wire.reply();
    if (reply === undefined) throw new Error('the connection ended without a reply');
    return reply;
  } finally {
    wire.close();
  }
}

export function post(target: string, body?: string, headers: readonly string[] = []): string {
  const lines = [`POST ${target} HTTP/1.1`, 'Host: localhost', ...headers];
  if (body === undefined) return `${lines.join('\r\n')}\r\nContent-Length: 0\r\n\r\n`;
  const bytes = Buffer.from(body).toString('latin1');
  return `${lines.join('\r\n')}\r\nContent-Type: application/json\r\nContent-Length: ${bytes.length}\r\n\r\n${bytes}`;
}

export function get(target: string, ...headers: readonly string[]): string {
  return `${[`GET ${target} HTTP/1.1`, 'Host: localhost', ...headers].join('\r\n')}\r\n\r\n`;
}

/** The text of the error, or the whole body if there is no error. A failure in another form fails the test. */
export function errorOf(reply: { readonly body: string } | undefined): string {
  if (reply === undefined) return 'no reply';
  return readFailure(reply.body)?.error ?? reply.body;
}

export interface Failed {
  readonly error: string;
  readonly requestId: string;
}

/** @returns undefined for a body without an error. @throws for an error that does not have the form of every failure */
export function readFailure(body: string): Failed | undefined {
  const { error, errors = [], request_id: requestId, ...more } = JSON.parse(body);
  if (error === undefined) return undefined;
  assert.match(error, /^.+$/, 'an error is one line');
  assert.match(requestId, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, body);
  const { reason: _, seq: __, id: ___, ...others } = more; // of a 409 of a hub
  assert.deepEqual(others, {}, body);
  for (const { item, error: problem } of errors) assert.ok(item >= 1 && /^.+$/.test(problem), 'an item and its error'); // of a batch
  return { error, requestId };
}

/** The reply without what can differ between two replies that reveal nothing: time, id, and whether the connection is kept. */
export function withoutChance({ status, headers, body }: WireReply): string {
  const byChance = ['date', 'connection', 'keep-alive', 'content-length'];
  const others = [...headers].filter(([name]) => !byChance.includes(name));
  return JSON.stringify([status, others, errorOf({ body })]);
}

function takeReply(text: string, bodiless: boolean, ended: boolean): { reply: WireReply; rest: string } | undefined {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const [statusLine = '', ...lines] = text.slice(0, headEnd).split('\r\n');
  const headers = new Map(
    lines.map(
      (line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()] as const,
    ),
  );
  const status = Number(statusLine.split(' ')[1]);
  if (headers.has('transfer-encoding') && !bodiless) {
    const taken = takeChunks(text, headEnd + 4);
    return taken && { reply: { status, headers, body: taken.body }, rest: text.slice(taken.end) };
  }
  const length = bodiless || status < 200 ? '0' : headers.get('content-length');
  if (length === undefined && !ended) return undefined; // the end of the connection is the end of the body
  const bodyEnd = length === undefined ? text.length : headEnd + 4 + Number(length);
  if (text.length < bodyEnd) return undefined;
  const body = Buffer.from(text.slice(headEnd + 4, bodyEnd), 'latin1').toString();
  return { reply: { status, headers, body }, rest: text.slice(bodyEnd) };
}

/** Reads chunks from an offset; undefined while some are missing. */
function takeChunks(text: string, start: number): { body: string; end: number } | undefined {
  let body = '';
  for (let at = start; ; ) {
    const lineEnd = text.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const length = Number.parseInt(text.slice(at, lineEnd), 16);
    const end = lineEnd + 2 + length + 2;
    if (text.length < end) return undefined;
    assert.equal(text.slice(end - 2, end), '\r\n');
    if (length === 0) return { body: Buffer.from(body, 'latin1').toString(), end };
    body += text.slice(lineEnd + 2, end - 2);
    at = end;
  }
}
