/**
 * A NATS server with one stream, as far as a sender relies on it: what its clients write, and what it answers. It has neither
 * connections nor time: `nats-server.ts` puts it on real sockets, `simulation/engines/nats.ts` makes a cluster of it in virtual time.
 * Faults are theirs.
 */

export interface Published {
  readonly subject: string;
  readonly reply: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Buffer;
  /** Bytes of headers and payload. */
  readonly size: number;
}

/** A line of a client, with the message that follows a PUB or HPUB. */
export interface ClientFrame {
  readonly line: string;
  readonly message: Published | undefined;
  /** Where the next one begins. */
  readonly end: number;
}

/** The frames that are there as a whole. */
export function* framesIn(bytes: Buffer): Generator<ClientFrame> {
  for (let at = 0; ; ) {
    const newline = bytes.indexOf('\r\n', at);
    if (newline === -1) return;
    const line = bytes.toString('latin1', at, newline);
    const [verb, subject = '', ...rest] = line.split(/ +/);
    const hasHeaders = verb === 'HPUB';
    const isMessage = hasHeaders || verb === 'PUB';
    const start = newline + 2;
    const size = isMessage ? Number(rest.at(-1)) : 0;
    const end = isMessage ? start + size + 2 : start;
    if (end > bytes.length) return;
    const payloadAt = start + (hasHeaders ? Number(rest.at(-2)) : 0);
    const headerLines = bytes.toString('latin1', start, payloadAt).split('\r\n').slice(1, -2);
    const message = {
      subject,
      reply: rest.length > (hasHeaders ? 2 : 1) ? rest[0] : undefined,
      headers: Object.fromEntries(headerLines.map((one) => one.split(':') as [string, string])),
      payload: Buffer.from(bytes.subarray(payloadAt, start + size)),
      size,
    };
    yield { line, message: isMessage ? message : undefined, end };
    at = end;
  }
}

/** @param own members in addition to those of a current server */
export function infoOf(own: object = {}): string {
  const info = { server_id: 'S', version: '2.12.0', headers: true, max_payload: 1_048_576, ...own };
  return `INFO ${JSON.stringify(info)}\r\n`;
}

export function messageOf(subject: string, payload: string): string {
  return `MSG ${subject} 1 ${Buffer.byteLength(payload)}\r\n${payload}\r\n`;
}

/** Nothing takes the subject of a request. */
export function noResponders(subject: string): string {
  const headers = 'NATS/1.0 503\r\n\r\n';
  return `HMSG ${subject} 1 ${headers.length} ${headers.length}\r\n${headers}\r\n`;
}

export interface Said {
  readonly error?: { readonly err_code: number; readonly description: string; readonly code: number };
  readonly [member: string]: unknown;
}

export function errorOf(err_code: number, description: string, code = 400): Said {
  return { error: { code, err_code, description } };
}

const RIGHT = { subjects: ['assetlog.>'], retention: 'limits', max_msg_size: -1, sealed: false, allow_atomic: true };

/** A stream that takes atomic batches, one at a time. */
export class NatsStream {
  /** By their sequence, from 1. */
  readonly stored: Published[] = [];
  readonly #config: typeof RIGHT;
  /** The sequences of each subject. */
  readonly #sequences = new Map<string, number[]>();
  #batch: Published[] = [];

  /** @param config settings in addition to the right ones */
  constructor(config: object = {}) {
    this.#config = { ...RIGHT, ...config };
  }

  /** @returns the answer; undefined for a message of a batch that is not the last one */
  take(message: Published): Said | undefined {
    const { subject, payload, headers } = message;
    if (subject.startsWith('$JS.API.STREAM.INFO.')) return { config: this.#config };
    // A direct get is answered by a replica that lags behind.
    const behind = Number(subject.startsWith('$JS.API.DIRECT.'));
    if (subject.startsWith('$JS.API.')) return this.get(JSON.parse(`${payload}`).last_by_subj, behind);
    if (headers['Nats-Batch-Sequence'] === '1') this.#batch = [];
    this.#batch.push(message);
    return headers['Nats-Batch-Commit'] === undefined ? undefined : this.#commit(this.#batch);
  }

  /** @param behind so many messages of the subject have come after the one that is said to be its last */
  get(subject: string, behind = 0): Said {
    const seq = this.#sequences.get(subject)?.at(-1 - behind);
    if (seq === undefined) return errorOf(10_037, 'no message found', 404);
    return { message: { subject, seq, data: this.stored[seq - 1]!.payload.toString('base64') } };
  }

  count(subject: string): number {
    return this.#sequences.get(subject)?.length ?? 0;
  }

  /** A batch is stored as a whole, or not at all. */
  #commit(batch: readonly Published[]): Said {
    const [{ subject, headers }] = batch as [Published];
    const isWhole = batch.every((one, index) => Number(one.headers['Nats-Batch-Sequence']) === index + 1);
    if (!isWhole) return errorOf(10_176, 'atomic publish batch is incomplete');
    const { max_msg_size: sizeMax } = this.#config;
    if (sizeMax !== -1 && batch.some(({ size }) => size > sizeMax))
      return errorOf(10_054, 'message size exceeds maximum allowed');
    const expected = headers['Nats-Expected-Last-Subject-Sequence'];
    const sequences = this.#sequences.get(subject) ?? [];
    const last = sequences.at(-1) ?? 0;
    if (expected !== undefined && Number(expected) !== last) return errorOf(10_071, `wrong last sequence: ${last}`);
    this.#sequences.set(subject, sequences);
    for (const message of batch) sequences.push(this.stored.push(message));
    return { stream: 'ASSETLOG', seq: this.stored.length, count: batch.length };
  }
}
