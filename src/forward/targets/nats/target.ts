/**
 * A stream of NATS JetStream. Each journal has a subject of its own there, whose messages are its lines. A request is an atomic
 * batch, which the stream takes only behind the message that was the subject's last one when the stream was asked. So a batch
 * that arrives late or twice, or from a copy of the journal, is refused whole.
 */

import { randomBytes } from 'node:crypto';
import type { Limits } from '../../../config/limits.ts';
import type { Line } from '../../../journal/look/reading.ts';
import { isId } from '../../source.ts';
import type { Again, Asked, Outgoing, Sent, Stopped, Target } from '../../target.ts';
import { Credentials } from '../credentials.ts';
import { type EngineUrl, readEngineUrl } from '../engine-url.ts';
import { quote, type TargetOptions, turnedAway } from '../requests.ts';
import { Connection, NatsFailure, type Said } from './client.ts';
import { type Message, publish } from './protocol.ts';

/** @returns a stream, not connected yet. @throws TypeError if `to` is no URL of an engine */
export function openNats(options: TargetOptions): Target {
  return new NatsTarget(options, '');
}

/** As `openNats`: lines go to a subject of their own, so that the position stays. */
export function openNatsForRetry(options: TargetOptions): Target {
  return new NatsTarget(options, AGAIN);
}

type At = Extract<Asked, { readonly kind: 'at' }>;

class NatsTarget implements Target {
  readonly #options: TargetOptions;
  readonly #url: EngineUrl;
  readonly #credentials: Credentials;
  readonly #subject: string;
  #connection: Connection | undefined;
  /** For the bytes of a batch: new ones for each would stay until the next collection. An acknowledged batch has left it. */
  #buffer: Buffer | undefined;
  /** Bytes of a message with its headers that the stream takes. */
  #messageBytesMax = 0;
  /** The next connection is to the host after the one that failed. */
  #failures = 0;
  /** Sequence of the subject's last message in the stream, 0 without one; undefined if that is not known. */
  #last: number | undefined;
  /** Most lines of the next batch: fewer after a failure, as a large batch may not arrive in time. */
  #lines: number;

  constructor(options: TargetOptions, suffix: '' | typeof AGAIN) {
    const { to, deployment = '_', source, limits } = options;
    const url = readEngineUrl(to);
    if (url === undefined) throw new TypeError(`${to} is no URL of NATS`);
    this.#options = options;
    this.#url = url;
    this.#credentials = new Credentials(options, limits);
    this.#subject = `assetlog.${deployment}.${source}${suffix}`;
    this.#lines = limits.natsBatchLinesMax;
  }

  ask(signal: AbortSignal): Promise<Asked> {
    return this.#attempt((connection) => this.#ask(connection, signal), signal);
  }

  send({ lines }: Outgoing, signal: AbortSignal): Promise<Sent> {
    return this.#attempt(async (connection) => {
      const { seq, event } = lines[0]!;
      // If the last retry was recorded and its answer lost, its event is the last one there.
      if (this.#subject.endsWith(AGAIN) && (await this.#ask(connection, signal)).id === event.id)
        return { kind: 'recorded', seq, id: event.id };
      return this.#send(connection, lines, signal);
    }, signal);
  }

  haveFilesChanged(): Promise<boolean> {
    return this.#credentials.haveChanged();
  }

  close(): void {
    this.#connection?.close();
    this.#connection = undefined;
    this.#buffer = undefined; // a part of it may still be on its way
  }

  /** After each failure another host is connected to, and the stream looked at anew. */
  async #attempt<Found>(
    work: (connection: Connection) => Promise<Found>,
    signal: AbortSignal,
  ): Promise<Found | Again | Stopped> {
    try {
      if (this.#connection?.isOpen !== true) await this.#connect(signal);
      return await work(this.#connection!);
    } catch (error) {
      this.close();
      this.#credentials.forget();
      this.#failures += 1;
      this.#last = undefined;
      if (error instanceof NatsFailure) return error.result;
      return turnedAway(`no request was sent: ${quote((error as Error).message)}`);
    }
  }

  /** Connects to the first host that can be reached, from the next one on. */
  async #connect(signal: AbortSignal): Promise<void> {
    const { hosts, scheme } = this.#url;
    const login = { ...(await this.#credentials.read()), isTlsRequired: scheme === 'nats+tls', target: this.#options };
    for (let left = hosts.length - 1; ; left -= 1) {
      try {
        this.#connection = await Connection.open({ ...login, ...hosts[this.#failures % hosts.length]! }, signal);
        break;
      } catch (error) {
        if (left === 0 || signal.aborted || (error as Partial<NatsFailure>).result?.kind !== 'again') throw error;
        this.#failures += 1;
      }
    }
    const { version } = this.#connection.info;
    const [major = 0, minor = 0] = `${version}`.split('.').map(Number);
    const isOld = major < 2 || (major === 2 && minor < 12);
    if (isOld) throw notSetUp(`is version ${version}, which has no atomic batches; 2.12 has them`);
    this.#checkStream(await this.#call(this.#connection, 'STREAM.INFO', {}, signal));
  }

  /** The leader of the stream answers. A direct get would be answered by any replica, also by one that lags behind. */
  async #ask(connection: Connection, signal: AbortSignal): Promise<At> {
    const subject = this.#subject;
    const said = await this.#call(connection, 'STREAM.MSG.GET', { last_by_subj: subject }, signal);
    // 0 is also what the stream expects behind messages that max_age removed, as measured with 2.15.2.
    const isNothing = codeIn(said) === NO_MESSAGE;
    const message = (said['message'] ?? {}) as Said;
    const at = isNothing ? NOTHING : positionIn(message);
    this.#last = isNothing ? 0 : (message['seq'] as number);
    if (at !== undefined) return at;
    throw new NatsFailure(`has a message ${this.#last} of ${subject} that is no line of a journal`, 'not understood');
  }

  async #send(connection: Connection, lines: readonly Line[], signal: AbortSignal): Promise<Sent> {
    const [last, linesMax, { limits }] = [this.#last, this.#lines, this.#options];
    if (last === undefined) return { kind: 'elsewhere', reason: 'has not been asked yet' };
    const messageBytesMax = Math.min(this.#messageBytesMax, Number(connection.info['max_payload']));
    const batch = batchOf(lines.slice(0, linesMax), last, messageBytesMax, limits);
    const { length: count } = batch;
    if (count === 0) {
      const reason = `takes messages of ${messageBytesMax} bytes (max_payload, max_msg_size), and this one would be larger`;
      return { kind: 'refused', status: 413, reason };
    }
    this.#lines = Math.max(1, count >> 1); // unless they are taken
    const isAnswered = (index: number) => index === 0 || index === count - 1;
    this.#buffer ??= Buffer.allocUnsafe(2 * limits.forwardBatchBytes);
    const bytesFor = (reply: string) =>
      publish(this.#subject, batch, (index) => (isAnswered(index) ? reply : ''), this.#buffer);
    const said = this.#checked(await connection.request(bytesFor, signal));
    // A server before 2.12 would have taken each message by itself, and acknowledge the last one.
    if (said['count'] !== count) throw new NatsFailure(`acknowledges ${said['count'] ?? 1} events of ${count}`);
    this.#last = said['seq'] as number;
    this.#lines = Math.min(2 * linesMax, limits.natsBatchLinesMax);
    const { seq, event } = lines[count - 1]!;
    return { kind: 'recorded', seq, id: event.id };
  }

  async #call(connection: Connection, name: string, request: object, signal: AbortSignal): Promise<Said> {
    const subject = `$JS.API.${name}.${this.#url.path}`;
    const bytes = Buffer.from(JSON.stringify(request));
    const messages = [{ headers: '', bytes, start: 0, end: bytes.length }];
    const bytesFor = (reply: string) => publish(subject, messages, () => reply);
    return this.#checked(await connection.request(bytesFor, signal, this.#options.limits.natsRepeatMs));
  }

  /** @returns an answer without an error, or that there is no message @throws NatsFailure for other errors */
  #checked(said: Said): Said {
    const code = codeIn(said);
    if (code === undefined || code === NO_MESSAGE) return said;
    const reason = `answers ${code}: ${quote(`${(said['error'] as Said | null)?.['description']}`)}`;
    if (NO_JETSTREAM.has(code)) throw notSetUp(`${reason}; add jetstream to its configuration`);
    if (code !== NO_STREAM) throw new NatsFailure(FULL.has(code) ? `${reason}; ${WHEN_FULL}` : reason);
    const options = `--subjects 'assetlog.>' --storage file --replicas 3 --allow-batch --defaults`;
    const { path: stream } = this.#url;
    throw notSetUp(`has no stream ${stream}; run: nats stream add ${stream} ${options}`);
  }

  /** @throws NatsFailure if the stream can not be used */
  #checkStream({ config = {} }: Said): void {
    const [stream, subject] = [this.#url.path, this.#subject];
    const { subjects = [], max_msg_size = -1, ...settings } = config as Said;
    const isTaken = (subjects as string[]).some((pattern) => isMatch(pattern, subject));
    const edit = `; run: nats stream edit ${stream}`;
    const problems: readonly (readonly [boolean, string])[] = [
      [settings['sealed'] === true, 'is sealed; make another one'],
      [settings['retention'] !== 'limits', 'drops what its consumers took; make another one with --retention limits'],
      [settings['no_ack'] === true, `acknowledges nothing${edit} --ack`],
      [settings['subject_transform'] !== undefined, `changes subjects${edit} --no-transform`],
      [!isTaken, `does not take ${subject}${edit} --subjects 'assetlog.>'`],
      [settings['allow_atomic'] !== true, `takes no atomic batches${edit} --allow-batch`],
    ];
    const [, problem] = problems.find(([isThere]) => isThere) ?? [];
    if (problem !== undefined) throw notSetUp(`has a stream ${stream} that ${problem}`);
    this.#messageBytesMax = max_msg_size === -1 ? Number.POSITIVE_INFINITY : Number(max_msg_size);
  }
}

/** @returns as many lines as fit a batch behind the message `last`; none if the first one does not fit */
function batchOf(
  lines: readonly Line[],
  last: number,
  messageBytesMax: number,
  { forwardBatchBytes }: Limits,
): Message[] {
  const begin = `NATS/1.0\r\nNats-Batch-Id:${randomBytes(12).toString('base64url')}\r\nNats-Batch-Sequence:`;
  // No space after a colon: headers are stored with each message.
  const headersAt = (index: number, isEnd: boolean) => {
    const expected = index === 0 ? `Nats-Expected-Last-Subject-Sequence:${last}\r\n` : '';
    return `${begin}${index + 1}\r\n${expected}${isEnd ? 'Nats-Batch-Commit:1\r\n' : ''}\r\n`;
  };
  let bytes = 0;
  const beyond = lines.findIndex(({ start, end }, index) => {
    bytes += end - start;
    return (index > 0 && bytes > forwardBatchBytes) || headersAt(index, true).length + end - start > messageBytesMax;
  });
  const chosen = beyond === -1 ? lines : lines.slice(0, beyond);
  return chosen.map(({ bytes, start, end }, index) => {
    return { headers: headersAt(index, index === chosen.length - 1), bytes, start, end };
  });
}

/** @returns which line the last message of a subject is; undefined if it is none */
function positionIn({ data, hdrs }: Said): At | undefined {
  // What `subject_delete_marker_ttl` leaves of messages that max_age removed.
  if (`${Buffer.from(`${hdrs}`, 'base64')}`.includes('Nats-Marker-Reason:')) return NOTHING;
  try {
    const { seq, id } = JSON.parse(`${Buffer.from(`${data}`, 'base64')}`);
    return Number.isSafeInteger(seq) && isId(id) ? { kind: 'at', seq, id } : undefined;
  } catch {
    return undefined;
  }
}

/** @returns the `err_code` of an answer; undefined if it has no error */
function codeIn({ error }: Said): unknown {
  return error === undefined ? undefined : ((error as Said | null)?.['err_code'] ?? 0);
}

/** Whether a pattern such as `assetlog.>` has a subject. */
function isMatch(pattern: string, subject: string): boolean {
  const [parts, tokens] = [pattern.split('.'), subject.split('.')];
  if (parts.at(-1) === '>' ? parts.length > tokens.length : parts.length !== tokens.length) return false;
  return parts.every((part, index) => part === '*' || part === '>' || part === tokens[index]);
}

function notSetUp(reason: string): NatsFailure {
  return new NatsFailure(reason, 'not set up');
}

/** What the subject of events that are sent again ends with. */
const AGAIN = '.again';
const NOTHING: At = { kind: 'at', seq: 0, id: null };
const NO_MESSAGE = 10_037;
const NO_STREAM = 10_059;
const NO_JETSTREAM: ReadonlySet<unknown> = new Set([10_039, 10_076]);
/** The stream, the account or the disk is full. */
const FULL: ReadonlySet<unknown> = new Set([10_002, 10_023, 10_028, 10_047, 10_077]);
const WHEN_FULL = 'let the stream drop old messages (nats stream edit --discard old), or raise its limits';
