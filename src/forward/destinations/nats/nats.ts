/**
 * A stream of NATS JetStream. Each journal has its own subject there, whose messages are the journal's lines. A request is an
 * atomic batch, which the stream accepts only if the subject's last message is still the one from when the stream was asked. So
 * a batch that arrives late or twice, or from a copy of the journal, is refused completely.
 */

import { randomBytes } from 'node:crypto';
import { type Line, linesBefore } from '../../../journal/look/reading.ts';
import { type Position, START } from '../../position.ts';
import { isOlder, notSent, positionOf, readObject, recordedUpTo, type Said } from '../answers.ts';
import { Credentials } from '../credentials.ts';
import type { Again, AskableDestination, Asked, Opening, Sent, Shipment, Stopped } from '../destination.ts';
import { type EngineUrl, engineUrlOf } from '../engine-url.ts';
import { NatsConnection, NatsFailure } from './client.ts';
import { publish } from './protocol.ts';

/** @returns a stream, not connected yet. @throws TypeError if `to` is not an engine's URL */
export function openNats(opening: Opening): AskableDestination {
  return new NatsStream(opening);
}

class NatsStream implements AskableDestination {
  readonly #opening: Opening;
  readonly #url: EngineUrl;
  readonly #credentials: Credentials;
  readonly #subject: string;
  /**
   * The subjects that the stream must accept: those of one deployment, if the stream's name contains its name,
   * otherwise those of all.
   */
  readonly #subjects: string;
  #connection: NatsConnection | undefined;
  /**
   * Shared by all batches, to avoid garbage. A batch has been sent before the next one uses it: the batch, or an ask after it, was answered,
   * or its connection was closed.
   */
  readonly #buffer: Buffer;
  /** The most bytes of a message with its headers that the stream accepts. */
  #messageBytesMax = 0;
  /** Number of failures: the next connection is to the host after the one that failed. */
  #failures = 0;
  /** Sequence of the subject's last message in the stream; 0 if there is none; undefined if unknown. */
  #last: number | undefined;
  /** The most lines of the next batch. Fewer after a failure, since a large batch might not arrive in time. */
  #lines: number;

  constructor(opening: Opening) {
    const { to, deployment = '_', source, limits } = opening;
    this.#opening = opening;
    this.#url = engineUrlOf(to);
    this.#credentials = new Credentials(opening, limits);
    this.#subject = `assetlog.${deployment}.${source}`;
    this.#subjects = this.#url.path.includes(opening.deployment ?? ' ') ? `assetlog.${deployment}.>` : 'assetlog.>';
    this.#lines = limits.natsBatchLinesMax;
    this.#buffer = Buffer.allocUnsafe(2 * limits.forwardBatchBytes);
  }

  ask(signal: AbortSignal): Promise<Asked> {
    return this.#attempt(async () => ({ kind: 'at', ...(await this.#ask(signal)) }), signal);
  }

  send({ lines }: Shipment, signal: AbortSignal): Promise<Sent> {
    return this.#attempt(() => this.#send(lines, signal), signal);
  }

  haveFilesChanged(signal: AbortSignal): Promise<boolean> {
    return this.#credentials.haveChanged(signal);
  }

  close(): void {
    this.#connection?.close();
  }

  /** After each failure the stream is examined again through the next host, without delay if a host could not be reached. */
  async #attempt<Found>(work: () => Promise<Found>, signal: AbortSignal): Promise<Found | Again | Stopped> {
    for (let left = this.#url.hosts.length - 1; ; left -= 1) {
      try {
        if (this.#connection?.flood !== undefined) throw this.#connection.flood; // otherwise an idle connection would not report this
        if (this.#connection?.failure !== null) await this.#connect(signal);
        return await work();
      } catch (error) {
        const wasReached = this.#connection !== undefined;
        this.close();
        this.#connection = undefined;
        this.#credentials.forget();
        this.#failures += 1;
        this.#last = undefined;
        if (!(error instanceof NatsFailure)) return notSent(error as Error);
        if (wasReached || left === 0 || signal.aborted || error.result.kind === 'stopped') return error.result;
      }
    }
  }

  async #connect(signal: AbortSignal): Promise<void> {
    this.#connection = undefined;
    const { hosts, scheme } = this.#url;
    const login = { ...this.#opening, ...(await this.#credentials.read(signal)), scheme };
    this.#connection = await NatsConnection.open({ ...login, ...hosts[this.#failures % hosts.length]! }, signal);
    const version = this.#connection.quoted(`${this.#connection.info['version']}`);
    if (isOlder(version, '2.12'))
      throw new NatsFailure(`is version ${version}, which has no atomic batches; 2.12 has them`, 'not set up');
    this.#checkStream(await this.#call('STREAM.INFO', {}, signal));
  }

  /** The leader of the stream answers. Any replica would answer a direct get, even one that lags behind. */
  async #ask(signal: AbortSignal): Promise<Position> {
    const said = await this.#call('STREAM.MSG.GET', { last_by_subj: this.#subject }, signal);
    const isNothing = said['error'] !== undefined;
    const message = (said['message'] ?? {}) as Said;
    const { hdrs, data } = message;
    // The stream also expects 0 after max_age removed the messages, as measured with 2.15.2.
    this.#last = isNothing ? 0 : this.#numberIn(message, 'seq');
    // `subject_delete_marker_ttl` leaves such a marker in place of removed messages.
    if (isNothing || textIn(hdrs).includes('Nats-Marker-Reason:')) return START;
    const at = positionOf(readObject(textIn(data)));
    if (at !== undefined) return at;
    const which = `message ${this.#last} of ${this.#subject}`;
    throw new NatsFailure(`has a ${which} that is not a line of a journal`, 'not understood');
  }

  async #send(lines: readonly Line[], signal: AbortSignal): Promise<Sent> {
    const [connection, last, linesMax] = [this.#connection!, this.#last, this.#lines];
    if (last === undefined) return { kind: 'elsewhere', reason: 'has not been asked yet' };
    const messageBytesMax = Math.min(this.#messageBytesMax, this.#numberIn(connection.info, 'max_payload'));
    const headersAt = headersAfter(last);
    const batch = linesBefore(lines, ({ start, end }, index) => {
      return index === linesMax || headersAt(index, true).length + end - start > messageBytesMax;
    });
    if (batch.length === 0) {
      const reason = `takes messages of ${messageBytesMax} bytes (max_payload, max_msg_size), and this one would be larger`;
      return { kind: 'refused', status: 413, reason };
    }
    this.#lines = Math.max(1, batch.length >> 1); // unless they are accepted
    const bytesFor = (reply: string) => publish(this.#subject, reply, batch, headersAt, this.#buffer);
    const said = this.#checked(await connection.request(bytesFor, signal), WRONG_LAST);
    if (said['error'] !== undefined) {
      this.#last = undefined;
      return { kind: 'elsewhere', reason: 'has another last message of this journal than before' };
    }
    // A server before 2.12 would have accepted each message separately, and acknowledged the last one.
    const count = said['count'] === undefined ? 'one' : this.#numberIn(said, 'count');
    if (count !== batch.length) throw new NatsFailure(`acknowledges ${count} of ${batch.length} events`);
    this.#last = this.#numberIn(said, 'seq');
    this.#lines = Math.min(2 * linesMax, this.#opening.limits.natsBatchLinesMax);
    return recordedUpTo(batch.at(-1)!);
  }

  /** @returns a whole number from an answer @throws NatsFailure for any other value, which can be any text */
  #numberIn(said: Said, name: string): number {
    const value = said[name];
    if (Number.isSafeInteger(value)) return value as number;
    throw new NatsFailure(
      `answers ${name} ${this.#connection!.quoted(`${JSON.stringify(value)}`)}, which is not a number`,
    );
  }

  async #call(name: string, request: object, signal: AbortSignal): Promise<Said> {
    const subject = `$JS.API.${name}.${this.#url.path}`;
    const json = JSON.stringify(request);
    const bytesFor = (reply: string) => `PUB ${subject} ${reply} ${json.length}\r\n${json}\r\n`;
    const { natsRepeatMs } = this.#opening.limits;
    return this.#checked(await this.#connection!.request(bytesFor, signal, natsRepeatMs), NO_MESSAGE);
  }

  /** @returns an answer without an error, or with one of these errors @throws NatsFailure for other errors */
  #checked(said: Said, errors: readonly unknown[]): Said {
    const { error, ...others } = said;
    if (error === undefined || error === null) return others;
    const { err_code: code = 0, description } = error as Said;
    if (errors.includes(code)) return said;
    const reason = `answers ${this.#connection!.quoted(`${code}: ${description}`)}`;
    if (NO_JETSTREAM.has(code)) throw new NatsFailure(`${reason}; add jetstream to its configuration`, 'not set up');
    const edit = `or let the stream drop old messages: nats stream edit ${this.#url.path}`;
    if (code === FULL) throw new NatsFailure(`${reason}; raise that, ${edit} --discard old --no-discard-per-subject`);
    if (NO_SPACE.has(code)) throw new NatsFailure(`${reason}; let account and server have more, ${edit} --max-bytes N`);
    if (code !== NO_STREAM) throw new NatsFailure(reason);
    const replicas = this.#connection!.info['cluster'] === undefined ? 1 : 3; // the number that a single server accepts
    const add = `${this.#url.path} --subjects '${this.#subjects}' --storage file --replicas ${replicas} --allow-batch --defaults`;
    throw new NatsFailure(`has no stream ${this.#url.path}; run: nats stream add ${add}`, 'not set up');
  }

  /** @throws NatsFailure if the stream cannot be used */
  #checkStream({ config }: Said): void {
    const { subjects = [], ...settings }: Said = { max_msg_size: -1, ...(config as Said) };
    if (!Array.isArray(subjects)) {
      throw new NatsFailure(
        `answers subjects ${this.#connection!.quoted(JSON.stringify(subjects))}, which is not a list`,
      );
    }
    const isTaken = subjects.some((pattern) => isMatch(`${pattern}`, this.#subject));
    const messageBytesMax = this.#numberIn(settings, 'max_msg_size');
    const edit = `; run: nats stream edit ${this.#url.path}`;
    const problems: readonly (readonly [boolean, string])[] = [
      [settings['sealed'] === true, 'is sealed; create another one'],
      [
        settings['retention'] !== 'limits',
        'drops messages that its consumers have received; create another one with --retention limits',
      ],
      [settings['no_ack'] === true, `acknowledges nothing${edit} --ack`],
      [settings['subject_transform'] !== undefined, `changes subjects${edit} --no-transform`],
      [!isTaken, `does not take ${this.#subject}${edit} --subjects '${this.#subjects}'`],
      [settings['allow_atomic'] !== true, `takes no atomic batches${edit} --allow-batch`],
    ];
    const [, problem] = problems.find(([isThere]) => isThere) ?? [];
    if (problem !== undefined) throw new NatsFailure(`has a stream ${this.#url.path} that ${problem}`, 'not set up');
    this.#messageBytesMax = messageBytesMax === -1 ? Number.POSITIVE_INFINITY : messageBytesMax;
  }
}

/** @returns the headers of a batch that the stream accepts only after the message `last` */
function headersAfter(last: number): (index: number, isLast: boolean) => string {
  // No space after a colon: headers are stored with each message.
  const begin = `NATS/1.0\r\nNats-Batch-Id:${randomBytes(12).toString('base64url')}\r\nNats-Batch-Sequence:`;
  return (index, isLast) => {
    const expected = index === 0 ? `Nats-Expected-Last-Subject-Sequence:${last}\r\n` : '';
    return `${begin}${index + 1}\r\n${expected}${isLast ? 'Nats-Batch-Commit:1\r\n' : ''}\r\n`;
  };
}

function textIn(base64: unknown): string {
  return `${Buffer.from(`${base64}`, 'base64')}`;
}

/** Whether a pattern such as `assetlog.>` matches a subject. */
function isMatch(pattern: string, subject: string): boolean {
  const [parts, tokens] = [pattern.split('.'), subject.split('.')];
  if (parts.at(-1) === '>' ? parts.length > tokens.length : parts.length !== tokens.length) return false;
  return parts.every((part, index) => part === '*' || part === '>' || part === tokens[index]);
}

const NO_MESSAGE = [10_037];
const WRONG_LAST = [10_071, 10_164];
const NO_STREAM = 10_059;
const NO_JETSTREAM: ReadonlySet<unknown> = new Set([10_039, 10_076]);
const FULL = 10_077;
const NO_SPACE: ReadonlySet<unknown> = new Set([10_002, 10_023, 10_028, 10_047]);
