/** Decompresses bodies with `Content-Encoding: gzip`. A body must be exactly one complete member of RFC 1952. */

import { crc32, createInflateRaw } from 'node:zlib';
import type { Limits } from '../../config/limits.ts';
import { Waiters } from '../../waiting/waiters.ts';
import { Refusal } from '../message.ts';
import { bodyTooLarge } from '../request.ts';

export class Unpacker {
  readonly #limits: Limits;
  readonly #ended = new Waiters();
  #running = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /**
   * Decompresses a body when it is its turn.
   * @param allocate called at most once, with the size of the decompressed body
   * @throws Refusal 400 for a body that is not gzip or is damaged, 413 for a body that is too large, or the error of
   * `allocate`
   */
  async unpack(
    packed: Buffer,
    limits: Pick<Limits, 'bodyBytesMax'>,
    allocate: (bytes: number) => Buffer,
  ): Promise<Buffer> {
    while (this.#running >= this.#limits.unpackingMax) await this.#ended.wait();
    this.#running += 1;
    try {
      return await unpack(packed, limits, allocate);
    } finally {
      this.#running -= 1;
      this.#ended.wakeFirst();
    }
  }
}

async function unpack(
  packed: Buffer,
  limits: Pick<Limits, 'bodyBytesMax'>,
  allocate: (bytes: number) => Buffer,
): Promise<Buffer> {
  const start = headerEnd(packed);
  const end = packed.length - TRAILER_BYTES;
  if (start > end) throw damaged('it is cut');
  const { bodyBytesMax } = limits;
  // The trailer contains the number of bytes, so they are allocated at once. The number can be wrong.
  const bytes = packed.readUInt32LE(end + 4);
  const body = bytes > bodyBytesMax ? undefined : allocate(bytes);
  const inflate = createInflateRaw({ chunkSize: Math.min(CHUNK_BYTES_MAX, Math.max(CHUNK_BYTES_MIN, bytes)) });
  inflate.end(packed.subarray(start, end));
  let at = 0;
  try {
    for await (const chunk of inflate as AsyncIterable<Buffer>) {
      if (at + chunk.length > bodyBytesMax) throw bodyTooLarge(limits, 'the decompressed body');
      if (at + chunk.length > bytes) throw damaged(NOT_ALL);
      if (body !== undefined) chunk.copy(body, at);
      at += chunk.length;
    }
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw damaged((error as NodeJS.ErrnoException).code === 'Z_BUF_ERROR' ? 'it is cut' : 'its data is wrong');
  }
  if (body === undefined || at !== bytes || inflate.bytesWritten !== end - start) throw damaged(NOT_ALL);
  if (crc32(body) !== packed.readUInt32LE(end)) throw damaged('its checksum is wrong');
  return body;
}

/** @returns the offset after the header (RFC 1952 section 2.3). @throws Refusal 400 */
function headerEnd(packed: Buffer): number {
  if (packed[0] !== 0x1f || packed[1] !== 0x8b) throw damaged('it does not start with 1f 8b');
  const flags = packed[3] ?? 0;
  if (packed[2] !== DEFLATE || (flags & RESERVED) !== 0) throw damaged('its header is wrong');
  let at = HEADER_BYTES;
  if ((flags & EXTRA) !== 0) at += 2 + (packed[at] ?? 0) + 256 * (packed[at + 1] ?? 0);
  for (const text of [NAME, COMMENT]) {
    if ((flags & text) === 0) continue;
    const zero = packed.indexOf(0, at);
    if (zero === -1) throw damaged('it is cut');
    at = zero + 1;
  }
  return (flags & HEADER_CRC) === 0 ? at : at + 2;
}

function damaged(problem: string): Refusal {
  return new Refusal(
    400,
    `the body is not one complete gzip member: ${problem}; compress it again, or send it uncompressed`,
  );
}

const NOT_ALL = 'its length differs from the one at its end, as after further bytes or members';
const DEFLATE = 8;
const HEADER_BYTES = 10;
/** CRC-32 and length of the decompressed bytes. */
const TRAILER_BYTES = 8;
const [HEADER_CRC, EXTRA, NAME, COMMENT, RESERVED] = [0x02, 0x04, 0x08, 0x10, 0xe0];
const CHUNK_BYTES_MIN = 1024;
const CHUNK_BYTES_MAX = 64 * 1024;
