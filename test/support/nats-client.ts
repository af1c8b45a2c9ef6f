/** A NATS client for tests, which shares no code with the client of the program. */

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

const REPLY_MS = 60_000;
const PART = { batch: 500, no_wait: true };

/** Members of CONNECT, and a CA if the server has TLS. */
export interface Login {
  readonly user?: string;
  readonly pass?: string;
  readonly auth_token?: string;
  readonly ca?: string;
}

interface Received {
  readonly subject: string;
  /** The subject for a reply; for a message of a consumer, its numbers. */
  readonly reply: string | undefined;
  readonly headers: string;
  readonly payload: string;
}

export interface Stored {
  readonly seq: number;
  readonly subject: string;
  readonly payload: string;
}

export interface Answered {
  readonly error?: { readonly code: number; readonly err_code?: number; readonly description: string };
  readonly [member: string]: unknown;
}

export class NatsClient {
  readonly #socket: Socket;
  readonly #inbox = `_INBOX.${process.pid}${Math.random().toString(36).slice(2)}`;
  readonly #replyMs: number;
  readonly #waiting = new Map<string, (received: Received) => void>();
  #bytes = Buffer.alloc(0);
  #requests = 0;
  /** Why the connection ended, such as `-ERR 'Authorization Violation'`. */
  ended = '';

  private constructor(socket: Socket, replyMs: number) {
    this.#socket = socket;
    this.#replyMs = replyMs;
    socket.on('data', (bytes) => this.#take(bytes));
    socket.on('error', (error) => {
      this.ended ||= String(error);
    });
    socket.on('close', () => {
      this.ended ||= 'closed';
    });
  }

  static async open(port: number, { ca, ...login }: Login = {}, replyMs = REPLY_MS): Promise<NatsClient> {
    const plain = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(plain, 'data'); // INFO
    const socket = ca === undefined ? plain : connectTls({ socket: plain, ca, host: '127.0.0.1' });
    if (ca !== undefined) await once(socket, 'secureConnect');
    const client = new NatsClient(socket, replyMs);
    const options = { verbose: false, pedantic: false, headers: true, no_responders: true, lang: 'test', ...login };
    socket.write(`CONNECT ${JSON.stringify(options)}\r\nSUB ${client.#inbox}.* 1\r\n`);
    return client;
  }

  /** @returns the reply; a status without a payload, such as 503, becomes an error in the form of JetStream */
  async request(
    subject: string,
    payload: unknown = '',
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answered> {
    this.#requests += 1;
    const reply = `${this.#inbox}.${this.#requests}`;
    const replied = this.#next(reply);
    this.publish(subject, payload, { headers, reply });
    const received = await replied;
    if (received.payload !== '') return JSON.parse(received.payload) as Answered;
    return { error: { code: Number(received.headers.split(/\s/)[1]), description: received.headers } };
  }

  /** @throws Error with the description of an error */
  async api(subject: string, payload: unknown = ''): Promise<Answered> {
    const answered = await this.request(`$JS.API.${subject}`, payload);
    if (answered.error !== undefined) throw new Error(`${subject}: ${JSON.stringify(answered.error)}`);
    return answered;
  }

  publish(
    subject: string,
    payload: unknown,
    { headers = {}, reply }: { headers?: Readonly<Record<string, string>>; reply?: string } = {},
  ): void {
    const body = Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload));
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const head = lines.length === 0 ? '' : `NATS/1.0\r\n${lines.join('')}\r\n`;
    const to = `${subject} ${reply === undefined ? '' : `${reply} `}`;
    const verb = head === '' ? `PUB ${to}` : `HPUB ${to}${head.length} `;
    this.#socket.write(Buffer.concat([Buffer.from(`${verb}${head.length + body.length}\r\n${head}`), body, CRLF]));
  }

  async messages(stream: string): Promise<Stored[]> {
    const { state } = (await this.api(`STREAM.INFO.${stream}`)) as unknown as { state: { messages: number } };
    if (state.messages === 0) return [];
    this.#requests += 1;
    const deliver = `${this.#inbox}.deliver${this.#requests}`;
    this.#socket.write(`SUB ${deliver} 2\r\n`);
    const config = { ack_policy: 'none', deliver_policy: 'all', mem_storage: true, num_replicas: 1 };
    const { name } = await this.api(`CONSUMER.CREATE.${stream}`, { stream_name: stream, config });
    // In parts: the server would disconnect a client that is slower than its disk.
    const askForMore = () => this.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${name}`, PART, { reply: deliver });
    const stored: Stored[] = [];
    await new Promise<void>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${stored.length} messages, and no more`)), this.#replyMs);
      this.#waiting.set(deliver, ({ subject, reply, headers, payload }) => {
        if (/^NATS\/1.0 (404|503)/.test(headers)) setTimeout(askForMore, 100); // the consumer is not ready yet
        if (reply === undefined) return;
        // $JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<number>.<time>.<left>
        const [seq = 0, left = 0] = [reply.split('.')[5], reply.split('.')[8]].map(Number);
        stored.push({ seq, subject, payload });
        late.refresh();
        if (left === 0) {
          clearTimeout(late);
          resolve();
        } else if (stored.length % PART.batch === 0) askForMore();
      });
      this.#socket.once('close', () => reject(new Error(this.ended)));
      askForMore();
    });
    this.#waiting.delete(deliver);
    return stored;
  }

  close(): void {
    this.#socket.destroy();
  }

  #next(subject: string): Promise<Received> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(
        () => reject(new Error(`no reply within ${this.#replyMs} ms; ${this.ended}`)),
        this.#replyMs,
      );
      const closed = () => reject(new Error(this.ended));
      this.#socket.once('close', closed);
      this.#waiting.set(subject, (received) => {
        clearTimeout(late);
        this.#socket.off('close', closed);
        this.#waiting.delete(subject);
        resolve(received);
      });
    });
  }

  #take(bytes: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, bytes]);
    for (let end = this.#bytes.indexOf(CRLF); end !== -1; end = this.#bytes.indexOf(CRLF)) {
      const [verb = '', ...words] = this.#bytes.toString('latin1', 0, end).split(' ');
      let next = end + 2;
      if (verb === 'MSG' || verb === 'HMSG') {
        const sizes = words.splice(verb === 'MSG' ? -1 : -2).map(Number);
        const size = sizes.at(-1) ?? 0;
        if (this.#bytes.length < next + size + 2) return;
        const [subject = '', sid, reply] = words;
        const head = verb === 'MSG' ? 0 : (sizes[0] ?? 0);
        const headers = this.#bytes.toString('utf8', next, next + head);
        const payload = this.#bytes.toString('utf8', next + head, next + size);
        next += size + 2;
        this.#deliver(sid === '1' ? subject : undefined, { subject, reply, headers, payload });
      }
      if (verb === 'PING') this.#socket.write('PONG\r\n');
      if (verb === '-ERR') this.ended = `${verb} ${words.join(' ')}`;
      this.#bytes = this.#bytes.subarray(next);
    }
  }

  /** @param inbox undefined for a message of a consumer, whose subject is the subject of the stream's message */
  #deliver(inbox: string | undefined, received: Received): void {
    const key = inbox ?? [...this.#waiting.keys()].find((waiting) => waiting.includes('deliver'));
    this.#waiting.get(key ?? '')?.(received);
  }
}

const CRLF = Buffer.from('\r\n');
