/** The client protocol of NATS. */

import type { Limits } from '../../../config/limits.ts';
import { type Line, sizeOf } from '../../../journal/look/reading.ts';

/** A line that a server sends, with the message that follows it. */
export interface Frame {
  /** `MSG`, also for `HMSG`. */
  readonly verb: string;
  /** The rest of the line after the verb: `_INBOX.a.1 1 12`. */
  readonly text: string;
  /** The headers of a message: `NATS/1.0 503` if there is no subscriber for the subject of a request. */
  readonly headers: string;
  readonly payload: Buffer;
}

/**
 * Cuts the bytes of a server into frames. No byte is examined again for each new chunk, since a chunk can be a single
 * byte.
 */
export class FrameReader {
  readonly #limits: Limits;
  /** Doubled when it is full, since a list of one-byte chunks would use 300 times as much memory. */
  #held: Buffer = Buffer.alloc(0);
  #bytes = 0;
  /** With fewer bytes the first frame is incomplete. */
  #needed = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** @returns the complete frames, each once @throws Error if the bytes are not NATS, or exceed the limits */
  *read(chunk: Buffer): Generator<Frame> {
    const before = this.#bytes;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#held.length) this.#held = Buffer.concat([this.#held.subarray(0, before)], 2 * this.#bytes);
    chunk.copy(this.#held, before);
    if (this.#bytes < this.#needed) return;
    for (let frame = this.#first(); frame !== undefined; frame = this.#first()) yield frame;
  }

  #first(): Frame | undefined {
    const { natsControlBytesMax, natsMessageBytesMax } = this.#limits;
    const bytes = this.#held.subarray(0, this.#bytes);
    const newline = bytes.indexOf('\n');
    if ((newline === -1 ? bytes.length : newline) > natsControlBytesMax) {
      throw new Error(`a line has more than ${natsControlBytesMax} bytes`);
    }
    if (newline === -1) return undefined;
    const [, withHeaders, verb, text = ''] = LINE.exec(bytes.toString('utf8', 0, newline).trimEnd()) ?? [];
    if (verb === undefined) throw new Error('a line is not of the protocol');
    const sizes = verb === 'MSG' ? text.split(/\s+/).slice(withHeaders === undefined ? -1 : -2) : [];
    const [size = 0, headerSize = 0] = sizes.map(Number).reverse();
    if (!(0 <= headerSize && headerSize <= size && size <= natsMessageBytesMax)) {
      throw new Error(`a message has ${sizes.join(' and ')} bytes; at most ${natsMessageBytesMax} are read`);
    }
    const start = newline + 1;
    const end = start + size;
    this.#needed = verb === 'MSG' ? end + CRLF.length : start;
    if (bytes.length < this.#needed) return undefined;
    this.#held = bytes.subarray(this.#needed);
    this.#bytes = this.#held.length;
    this.#needed = 0;
    const headers = bytes.toString('latin1', start, start + headerSize);
    return { verb, text, headers, payload: bytes.subarray(start + headerSize, end) };
  }
}

/**
 * @param reply the subject for the answers to the first and the last message
 * @param headersAt returns the headers of a message, in ASCII
 * @param into the buffer for the bytes, if it is long enough
 * @returns the bytes of a batch in which each message is a line
 */
export function publish(
  subject: string,
  reply: string,
  lines: readonly Line[],
  headersAt: (index: number, isLast: boolean) => string,
  into: Buffer,
): Buffer {
  // One buffer is used for all messages: separate buffers would take longer than all the other work.
  const sizeMax = sizeOf(lines) + lines.length * (subject.length + reply.length + HEAD_BYTES_MAX);
  const published = sizeMax <= into.length ? into : Buffer.allocUnsafe(sizeMax);
  let at = 0;
  lines.forEach(({ bytes, start, end }, index) => {
    const isLast = index === lines.length - 1;
    const headers = headersAt(index, isLast);
    const sizes = `${headers.length} ${headers.length + end - start}`;
    const to = index === 0 || isLast ? `${subject} ${reply}` : subject;
    at += published.write(`HPUB ${to} ${sizes}\r\n${headers}`, at, 'latin1');
    at += bytes.copy(published, at, start, end);
    at += CRLF.copy(published, at);
  });
  return published.subarray(0, at);
}

/** The most bytes of a message's head with its headers, without the subjects. */
const HEAD_BYTES_MAX = 256;
const LINE = /^(H(?=MSG ))?(INFO|MSG|PING|PONG|\+OK|-ERR)(?:\s+(.*))?$/s;
const CRLF = Buffer.from('\r\n');
