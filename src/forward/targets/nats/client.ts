/** A connection to a NATS server: TLS, login, one inbox, and one request at a time. */

import { randomBytes } from 'node:crypto';
import { connect, isIP, type Socket } from 'node:net';
import { checkServerIdentity, NoReply } from '../../../client/connection.ts';
import { version } from '../../../config/config.ts';
import { withoutToken } from '../../../telemetry/masked.ts';
import type { Again, StopKind, Stopped } from '../../target.ts';
import type { Secrets } from '../credentials.ts';
import type { EngineHost } from '../engine-url.ts';
import { quote, type TargetOptions, unreached } from '../requests.ts';
import { type Frame, readFrames } from './protocol.ts';

/** Why a request came to nothing. */
export class NatsFailure extends Error {
  readonly result: Again | Stopped;

  constructor(reason: string, why?: StopKind) {
    super(reason);
    this.result = why === undefined ? { kind: 'again', reason } : { kind: 'stopped', why, reason };
  }
}

/** A JSON object that a server sends. */
export type Said = Readonly<Record<string, unknown>>;

export interface ConnectOptions extends Secrets, EngineHost {
  /** Whether a server without TLS gets no login. At one that requires TLS it is used anyway. */
  readonly isTlsRequired: boolean;
  readonly target: TargetOptions;
}

export class Connection {
  readonly #options: ConnectOptions;
  readonly #name: string;
  readonly #inbox = `_INBOX.${randomBytes(12).toString('base64url')}`;
  #requests = 0;
  #socket: Socket;
  /** The beginning of a frame. */
  #held = NO_BYTES;
  /** What the server said of itself last. */
  info: Said = {};
  /** Why it is closed. */
  #failure: NatsFailure | undefined;
  /** Called with a frame, and with a failure, for the request at work. */
  #take: (frame: Frame) => void = () => {};
  #reject: (failure: NatsFailure) => void = () => {};

  private constructor(options: ConnectOptions) {
    const { host, port = PORT } = options;
    this.#options = options;
    this.#name = `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
    this.#socket = this.#listen(connect({ host, port, noDelay: true }));
  }

  /** @returns a connection whose login was accepted @throws NatsFailure */
  static async open(options: ConnectOptions, signal: AbortSignal): Promise<Connection> {
    const connection = new Connection(options);
    await connection.#next(({ verb }) => verb === 'INFO' || undefined, signal);
    const isTls = options.isTlsRequired || connection.info['tls_required'] === true;
    if (isTls) await connection.#secure(signal);
    connection.#logIn(isTls);
    await connection.#next(({ verb }) => verb === 'PONG' || undefined, signal);
    return connection;
  }

  get isOpen(): boolean {
    return this.#failure === undefined;
  }

  /**
   * Sends messages, and waits for an answer.
   * @param bytesFor @returns the bytes of the messages, with this subject of answers
   * @param repeatMs interval at which they are sent again, since a stream without a leader drops requests
   * @throws NatsFailure, and then the connection is closed
   */
  request(bytesFor: (reply: string) => Buffer, signal: AbortSignal, repeatMs?: number): Promise<Said> {
    this.#requests += 1;
    const reply = `${this.#inbox}.${this.#requests}`;
    const accept = ({ verb, text, headers, payload }: Frame) => {
      if (verb !== 'MSG' || !text.startsWith(`${reply} `)) return undefined;
      if (headers.startsWith('NATS/1.0 503')) this.#fail('answers 503: it has no JetStream, or none takes the subject');
      // Each message of a batch but the last one gets an empty answer.
      return payload.length === 0 ? undefined : readObject(`${payload}`);
    };
    const bytes = bytesFor(reply);
    this.#socket.write(bytes);
    const repeated = repeatMs && setInterval(() => this.#socket.write(bytes), repeatMs);
    return this.#next(accept, signal).finally(() => clearInterval(repeated));
  }

  close(): void {
    this.#fail('is not used any more');
  }

  #listen(socket: Socket): Socket {
    socket.on('data', (chunk) => this.#read(chunk));
    socket.on('error', (error) => {
      const { kind, reason } = unreached(new NoReply(error, false), this.#options.target);
      this.#fail(reason, kind === 'stopped' ? 'turned away' : undefined);
    });
    return socket.on('close', () => this.#fail('closed the connection'));
  }

  /** TLS begins after INFO. What else came before is forgotten. */
  async #secure(signal: AbortSignal): Promise<void> {
    const { host, ca } = this.#options;
    if (this.info['tls_required'] !== true && this.info['tls_available'] !== true) {
      throw this.#fail('offers no TLS; set tls in its configuration', 'turned away');
    }
    const tls = process.getBuiltinModule('node:tls'); // loaded only if needed, since that takes time
    this.#socket.removeAllListeners('data');
    this.#held = NO_BYTES;
    const options = { ...(isIP(host) === 0 && { servername: host }), ...(ca !== undefined && { ca }) };
    const socket = tls.connect({ socket: this.#socket, host, checkServerIdentity, ...options });
    this.#socket = this.#listen(socket);
    // Before that nothing is written: Node might send it before it has checked the certificate.
    socket.once('secureConnect', () => this.#take({ verb: 'TLS', text: '', headers: '', payload: NO_BYTES }));
    await this.#next(({ verb }) => verb === 'TLS' || undefined, signal);
  }

  #logIn(isTls: boolean): void {
    const { token, password, target } = this.#options;
    const about = { name: 'assetlog', lang: 'assetlog', version, protocol: 1, headers: true, no_responders: true };
    const login = { tls_required: isTls, auth_token: token, user: target.user, pass: password };
    const options = JSON.stringify({ verbose: false, pedantic: false, ...about, ...login });
    this.#socket.write(`CONNECT ${options}\r\nSUB ${this.#inbox}.* 1\r\nPING\r\n`);
  }

  #read(chunk: Buffer): void {
    try {
      const { frames, rest } = readFrames(Buffer.concat([this.#held, chunk]), this.#options.target.limits);
      this.#held = rest;
      for (const frame of frames) {
        if (frame.verb === 'INFO') this.info = readObject(frame.text);
        // A server that sends PING and reads nothing gets no further PONG.
        if (frame.verb === 'PING' && !this.#socket.writableNeedDrain) this.#socket.write('PONG\r\n');
        if (frame.verb === '-ERR') this.#refuse(frame.text);
        this.#take(frame);
      }
    } catch (error) {
      this.#fail(`does not speak NATS as expected: ${quote((error as Error).message)}`);
    }
  }

  /** `-ERR` is about the login, a permission or the connection. */
  #refuse(text: string): NatsFailure {
    const { token = '', password = '', target } = this.#options;
    const reason = `answers ${quote(withoutToken(withoutToken(text, token), password))}`;
    if (/^'Permissions/.test(text)) return this.#fail(`${reason}; check what this login may do`, 'turned away');
    if (!/^'(\w{1,9} )?Auth[a-z]* (Violation|Expired|Revoked)/.test(text)) return this.#fail(reason);
    const file = target.tokenFile ?? target.passwordFile;
    const hint = file === undefined ? 'name a token file, or a user and a password file' : `check ${file}`;
    return this.#fail(`${reason}; ${hint}`, 'turned away');
  }

  /** @returns the first result of `accept` that is not undefined @throws NatsFailure, also after `natsAnswerMs` */
  async #next<Found>(accept: (frame: Frame) => Found | undefined, signal: AbortSignal): Promise<Found> {
    const { natsAnswerMs } = this.#options.target.limits;
    const late = setTimeout(() => this.#fail(`does not answer within ${natsAnswerMs / 1000} s`), natsAnswerMs);
    const aborted = () => this.#fail('has not answered before the request was given up');
    signal.addEventListener('abort', aborted);
    try {
      return await new Promise<Found>((resolve, reject) => {
        this.#reject = reject;
        this.#take = (frame) => {
          const found = accept(frame);
          if (found !== undefined) resolve(found);
        };
        if (signal.aborted) aborted();
        if (this.#failure !== undefined) reject(this.#failure);
      });
    } finally {
      clearTimeout(late);
      signal.removeEventListener('abort', aborted);
    }
  }

  /** Closes the connection. @returns why it was closed first */
  #fail(problem: string, why?: StopKind): NatsFailure {
    this.#failure ??= new NatsFailure(`${this.#name} ${problem}`, why);
    this.#socket.destroy();
    this.#reject(this.#failure);
    return this.#failure;
  }
}

/** @throws SyntaxError */
function readObject(json: string): Said {
  return JSON.parse(json) ?? {};
}

const PORT = 4222;
const NO_BYTES: Buffer = Buffer.alloc(0);
