/** A connection to a NATS server: TLS, login, one inbox, and one request at a time. */

import { randomBytes } from 'node:crypto';
import { connect, isIP, type Socket } from 'node:net';
import { checkServerIdentity, NoReply } from '../../../client/connection.ts';
import { version } from '../../../config/names.ts';
import { loginHint, quoteWithout, type Said, unreached } from '../answers.ts';
import type { Secrets } from '../credentials.ts';
import type { Again, Opening, StopKind, Stopped } from '../destination.ts';
import type { EngineHost, EngineUrl } from '../engine-url.ts';
import { type Frame, FrameReader } from './protocol.ts';

/** Why a request failed. */
export class NatsFailure extends Error {
  readonly result: Again | Stopped;

  constructor(reason: string, why?: StopKind) {
    super(reason);
    this.result = why === undefined ? { kind: 'again', reason } : { kind: 'stopped', why, reason };
  }
}

export type ConnectOptions = Opening & Secrets & EngineHost & Pick<EngineUrl, 'scheme'>;

export class NatsConnection {
  readonly #options: ConnectOptions;
  readonly #inbox = `_INBOX.${randomBytes(12).toString('base64url')}`;
  #requests = 0;
  #socket: Socket;
  #reader: FrameReader;
  /** When this connection, at its permitted rate, could have sent the bytes received so far. */
  #dueMs = 0;
  /** The server's last INFO. */
  info: Said = {};
  /** Why the connection is closed; null while it is open. */
  failure: NatsFailure | null = null;
  /** Like `failure`, if the server sent too much, perhaps while nothing was expected. */
  flood: NatsFailure | undefined;
  /** Gets each frame while an answer is expected. */
  #take: (frame: Frame) => void = () => {};
  #reject: (failure: NatsFailure) => void = () => {};

  private constructor(options: ConnectOptions) {
    this.#options = options;
    this.#reader = new FrameReader(options.limits);
    this.#socket = this.#listen(connect({ host: options.host, port: options.port, noDelay: true }));
  }

  /** @returns a connection whose login was accepted @throws NatsFailure */
  static async open(options: ConnectOptions, signal: AbortSignal): Promise<NatsConnection> {
    const connection = new NatsConnection(options);
    await connection.#next(({ verb }) => verb === 'INFO' || undefined, signal, 'begin as NATS does');
    if (options.scheme === 'nats+tls' || connection.info['tls_required'] === true) connection.#secure();
    else connection.#logIn(false);
    await connection.#next(({ verb }) => verb === 'PONG' || undefined, signal);
    return connection;
  }

  /**
   * Sends messages, and waits for an answer.
   * @param bytesFor returns the messages, with this subject for answers
   * @param repeatMs interval at which they are sent again, since a stream without a leader drops requests
   * @throws NatsFailure; the connection is then closed
   */
  request(bytesFor: (reply: string) => Buffer | string, signal: AbortSignal, repeatMs?: number): Promise<Said> {
    this.#requests += 1;
    const reply = `${this.#inbox}.${this.#requests}`;
    const accept = ({ verb, text, headers, payload }: Frame) => {
      if (verb !== 'MSG' || !text.startsWith(`${reply} `)) return undefined;
      if (headers.startsWith('NATS/1.0 503'))
        this.close('answers 503: it has no JetStream, or no stream accepts the subject');
      // Each message of a batch except the last one gets an empty answer.
      return payload.length === 0 ? undefined : (JSON.parse(`${payload}`) ?? {});
    };
    this.#count(0, -ANSWER_PIECES);
    const bytes = bytesFor(reply);
    this.#socket.write(bytes);
    const repeated = repeatMs && setInterval(() => this.#socket.write(bytes), repeatMs);
    return this.#next(accept, signal).finally(() => clearInterval(repeated));
  }

  #listen(socket: Socket): Socket {
    socket.on('data', (chunk) => this.#read(chunk));
    socket.on('error', (error) => {
      const { kind, reason } = unreached(new NoReply(error, false), this.#options);
      this.close(reason, kind === 'stopped' ? 'turned away' : undefined);
    });
    return socket.on('close', () => this.close('closed the connection'));
  }

  /** TLS starts after INFO. Bytes that arrived earlier are discarded. */
  #secure(): void {
    if (this.info['tls_required'] !== true && this.info['tls_available'] !== true) {
      throw this.close('offers no TLS; set tls in its configuration', 'turned away');
    }
    this.#socket.removeAllListeners('data');
    this.#reader = new FrameReader(this.#options.limits);
    const { host, ca } = this.#options;
    const servername = isIP(host) === 0 ? host : undefined;
    const tls = process.getBuiltinModule('node:tls'); // loaded only if needed, since that takes time
    this.#socket = this.#listen(tls.connect({ socket: this.#socket, host, servername, ca, checkServerIdentity }));
    // Nothing is written before this event: Node might send it before it has checked the certificate.
    this.#socket.once('secureConnect', () => this.#logIn(true));
  }

  #logIn(isTls: boolean): void {
    const { token, user, password } = this.#options;
    const about = { name: 'assetlog', lang: 'assetlog', version, protocol: 1, headers: true, no_responders: true };
    const login = { tls_required: isTls, auth_token: token, user, pass: password };
    const options = JSON.stringify({ verbose: false, pedantic: false, ...about, ...login });
    this.#socket.write(`CONNECT ${options}\r\nSUB ${this.#inbox}.* 1\r\nPING\r\n`);
  }

  #read(chunk: Buffer): void {
    try {
      this.#count(chunk.length);
      for (const frame of this.#reader.read(chunk)) {
        this.#count(0);
        if (this.failure !== null) return;
        if (frame.verb === 'INFO') this.info = JSON.parse(frame.text) ?? {};
        // A server that sends PING and does not read gets no further PONG.
        if (frame.verb === 'PING' && !this.#socket.writableNeedDrain) this.#socket.write('PONG\r\n');
        if (frame.verb === '-ERR') this.#refuse(frame.text);
        this.#take(frame);
      }
    } catch (error) {
      this.close(`does not speak NATS as expected: ${this.quoted((error as Error).message)}`);
    }
  }

  /** Closes the connection if the server exceeds its limit, since unrequested data would delay reports. */
  #count(bytes: number, pieces = 1): void {
    const { natsSecondBytesMax, natsPieceBytes } = this.#options.limits;
    const nowMs = performance.now();
    this.#dueMs = Math.max(nowMs, this.#dueMs) + (1000 * (bytes + pieces * natsPieceBytes)) / natsSecondBytesMax;
    if (this.#dueMs <= nowMs + 1000) return;
    const most = `${natsSecondBytesMax} bytes or ${Math.floor(natsSecondBytesMax / natsPieceBytes)} lines in a second`;
    this.flood = this.close(`sends data that was not requested, more than ${most}; check which server it is`);
  }

  /**
   * @returns a text of the server for use in a reason, without the secrets of the login, which the server might include
   */
  readonly quoted = (text: string): string => quoteWithout(this.#options, text);

  /** `-ERR` is about the login, a permission or the connection. */
  #refuse(text: string): void {
    const reason = `answers ${this.quoted(text)}`;
    const isLogin = /^'(\w{1,9} )?Auth[a-z]* (Violation|Expired|Revoked)/.test(text);
    const hint = loginHint(this.#options, 'a token file, or a user and a password file');
    if (isLogin) this.close(`${reason}; ${hint}`, 'turned away');
    else if (/^'Permissions/.test(text)) this.close(`${reason}; check what this login may do`, 'turned away');
    else this.close(reason);
  }

  /** @returns the first result of `accept` that is not undefined @throws NatsFailure, also after `natsAnswerMs` */
  #next<Found>(accept: (frame: Frame) => Found | undefined, signal: AbortSignal, what = 'answer'): Promise<Found> {
    const { natsAnswerMs } = this.#options.limits;
    const late = setTimeout(() => this.close(`does not ${what} within ${natsAnswerMs / 1000} s`), natsAnswerMs);
    const aborted = () => this.close('has not answered before the request was given up');
    signal.addEventListener('abort', aborted);
    if (signal.aborted) aborted();
    return new Promise<Found>((resolve, reject) => {
      this.#reject = reject;
      this.#take = (frame) => {
        const found = accept(frame);
        if (found === undefined) return;
        this.#take = () => {}; // an answer that arrives twice is ignored
        resolve(found);
      };
      if (this.failure !== null) reject(this.failure);
    }).finally(() => {
      clearTimeout(late);
      signal.removeEventListener('abort', aborted);
    });
  }

  /** @returns the failure with which it was first closed */
  close(problem = 'is no longer used', why?: StopKind): NatsFailure {
    this.failure ??= new NatsFailure(`${this.#options.name} ${problem}`, why);
    this.#socket.destroy();
    this.#reject(this.failure);
    return this.failure;
  }
}

/** A request gets an empty answer and another one. Each of their lines can arrive in its own chunk. */
const ANSWER_PIECES = 4;
