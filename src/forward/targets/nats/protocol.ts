/** The client protocol of NATS. */

import type { Limits } from '../../../config/limits.ts';

/** A line that a server sends, with the message that follows it. */
export interface Frame {
  /** That of `HMSG` is `MSG` as well. */
  readonly verb: string;
  /** What the line has after the verb: `_INBOX.a.1 1 12`. */
  readonly text: string;
  /** The headers of a message: `NATS/1.0 503` if nothing takes the subject of a request. */
  readonly headers: string;
  readonly payload: Buffer;
}

/** @returns the frames that are complete, and the bytes after them @throws Error if this is not NATS, or longer than the limits */
export function readFrames(
  bytes: Buffer,
  { natsControlBytesMax, natsMessageBytesMax }: Pick<Limits, 'natsControlBytesMax' | 'natsMessageBytesMax'>,
): { readonly frames: readonly Frame[]; readonly rest: Buffer } {
  const frames: Frame[] = [];
  for (let rest = bytes; ; ) {
    const newline = rest.indexOf('\n');
    if ((newline === -1 ? rest.length : newline) > natsControlBytesMax) {
      throw new Error(`a line has more than ${natsControlBytesMax} bytes`);
    }
    if (newline === -1) return { frames, rest };
    const [, withHeaders, verb, text = ''] = LINE.exec(rest.toString('utf8', 0, newline).trimEnd()) ?? [];
    if (verb === undefined) throw new Error('a line is not of the protocol');
    const sizes = verb === 'MSG' ? text.split(/\s+/).slice(withHeaders === undefined ? -1 : -2) : [];
    const [size = 0, headerSize = 0] = sizes.map(Number).reverse();
    if (!(0 <= headerSize && headerSize <= size && size <= natsMessageBytesMax)) {
      throw new Error(`a message has ${sizes.join(' and ')} bytes; at most ${natsMessageBytesMax} are read`);
    }
    const start = newline + 1;
    const end = start + size;
    const next = verb === 'MSG' ? end + CRLF.length : start;
    if (rest.length < next) return { frames, rest };
    const headers = rest.toString('latin1', start, start + headerSize);
    frames.push({ verb, text, headers, payload: rest.subarray(start + headerSize, end) });
    rest = rest.subarray(next);
  }
}

/**
 * @param reply the subject of answers; empty for none
 * @param headers the whole block of them, in ASCII; empty for none
 * @returns the bytes of a message in pieces
 */
export function publish(subject: string, reply: string, headers: string, payload: Buffer): Buffer[] {
  const size = headers.length + payload.length;
  const [verb, sizes] = headers === '' ? ['PUB', size] : ['HPUB', `${headers.length} ${size}`];
  return [Buffer.from(`${verb} ${subject} ${reply} ${sizes}\r\n${headers}`), payload, CRLF];
}

const LINE = /^(H(?=MSG ))?(INFO|MSG|PING|PONG|\+OK|-ERR)(?:\s+(.*))?$/s;
const CRLF = Buffer.from('\r\n');
