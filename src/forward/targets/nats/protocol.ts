/** The client protocol of NATS. */

import type { Limits } from '../../../config/limits.ts';
import { type Line, sizeOf } from '../../../journal/look/reading.ts';

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
  limits: Limits,
): { readonly frames: readonly Frame[]; readonly rest: Buffer } {
  const { natsControlBytesMax, natsMessageBytesMax } = limits;
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
 * @param reply the subject of the answers to the first and the last message
 * @param headersAt of a message, in ASCII
 * @param into where the bytes are written, if it is long enough
 * @returns the bytes of a batch, each message of which is a line
 */
export function publish(
  subject: string,
  reply: string,
  lines: readonly Line[],
  headersAt: (index: number, isLast: boolean) => string,
  into: Buffer,
): Buffer {
  // One buffer for all: those of each message would take longer than all else that is done for it.
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

/** Of a message with its headers, but for the subjects. */
const HEAD_BYTES_MAX = 256;
const LINE = /^(H(?=MSG ))?(INFO|MSG|PING|PONG|\+OK|-ERR)(?:\s+(.*))?$/s;
const CRLF = Buffer.from('\r\n');
