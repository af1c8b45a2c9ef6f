/** The client protocol of NATS: frames are read from chunks of any size, and messages put into the bytes of one write. */

import type { Limits } from '../../../config/limits.ts';

/** A line that a server sends, with the message that follows it. */
export interface Frame {
  /** That of `HMSG` is `MSG` as well. */
  readonly verb: string;
  /** What the line has after the verb: `_INBOX.a.1 1 12`. */
  readonly rest: string;
  /** The headers of a message: `NATS/1.0 503` if nothing takes the subject of a request. */
  readonly headers: string;
  readonly payload: Buffer;
}

/** Reads the frames of one connection. */
export class FrameReader {
  readonly #limits: Pick<Limits, 'natsControlBytesMax' | 'natsMessageBytesMax'>;
  /** The beginning of a frame, and how many bytes it has at least: a long one is put together once, not with each chunk. */
  #chunks: Buffer[] = [];
  #neededBytes = 0;

  constructor(limits: Pick<Limits, 'natsControlBytesMax' | 'natsMessageBytesMax'>) {
    this.#limits = limits;
  }

  /** @returns the frames that a chunk completes @throws Error if this is not NATS, or longer than the limits */
  read(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk);
    this.#neededBytes -= chunk.length;
    if (this.#neededBytes > 0) return [];
    let bytes = Buffer.concat(this.#chunks);
    const frames: Frame[] = [];
    for (let found = this.#first(bytes); ; found = this.#first(bytes)) {
      if (typeof found === 'number') {
        this.#neededBytes = found - bytes.length;
        break;
      }
      frames.push(found);
      bytes = bytes.subarray(found.end);
    }
    this.#chunks = [bytes];
    return frames;
  }

  /** @returns the first frame, or how many bytes it has at least if it is not complete */
  #first(bytes: Buffer): (Frame & { readonly end: number }) | number {
    const { natsControlBytesMax, natsMessageBytesMax } = this.#limits;
    const newline = bytes.indexOf('\n');
    if ((newline === -1 ? bytes.length : newline) > natsControlBytesMax) {
      throw new Error(`a line has more than ${natsControlBytesMax} bytes`);
    }
    if (newline === -1) return bytes.length + 1;
    const [, withHeaders, verb, rest = ''] = LINE.exec(bytes.toString('utf8', 0, newline)) ?? [];
    if (verb === undefined) throw new Error('a line is not of the protocol');
    const start = newline + 1;
    if (verb !== 'MSG') return { verb, rest, headers: '', payload: NO_BYTES, end: start };
    const sizes = rest.split(/\s+/).slice(withHeaders === undefined ? -1 : -2);
    const [size = 0, headerSize = 0] = sizes.map(Number).reverse();
    if (!(0 <= headerSize && headerSize <= size && size <= natsMessageBytesMax)) {
      throw new Error(`a message has ${sizes.join(' and ')} bytes; at most ${natsMessageBytesMax} are read`);
    }
    const [body, end] = [start + headerSize, start + size + CRLF.length];
    if (bytes.length < end) return end;
    const headers = bytes.toString('latin1', start, body);
    return { verb, rest, headers, payload: bytes.subarray(body, start + size), end };
  }
}

/** A message to publish, with the subject of answers, and the block of its headers, in ASCII. */
export interface Publication {
  readonly subject: string;
  readonly reply?: string;
  readonly headers?: string;
  readonly payload: Buffer;
}

/** @returns messages as the bytes of one write */
export function publish(messages: readonly Publication[]): Buffer {
  const pieces = messages.flatMap(({ subject, reply = '', headers = '', payload }) => {
    const size = headers.length + payload.length;
    const [verb, sizes] = headers === '' ? ['PUB', size] : ['HPUB', `${headers.length} ${size}`];
    return [Buffer.from(`${verb} ${subject} ${reply} ${sizes}\r\n${headers}`), payload, CRLF];
  });
  return Buffer.concat(pieces);
}

const LINE = /^(H(?=MSG ))?(INFO|MSG|PING|PONG|\+OK|-ERR)(?:\s+(.*?))?\s*$/;
const NO_BYTES = Buffer.alloc(0);
const CRLF = Buffer.from('\r\n');
