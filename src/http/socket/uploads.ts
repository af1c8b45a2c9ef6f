/** The bodies of requests: their size limits, their shared memory, and the buffers in which they are assembled. */

import type { Limits } from '../../config/limits.ts';
import { collectEach } from '../../config/memory.ts';
import { type ReceiveDecision, Refusal, type Reply, unavailable, unavailableRefusal } from '../message.ts';
import { bodyTooLarge, tooManyPieces } from '../request.ts';
import { type Connection, type Connections, type Exchange, pause } from './connections.ts';
import { ignoreFurther } from './lingering-close.ts';
import { Unpacker } from './unpacker.ts';

export interface UploadsOptions {
  readonly limits: Limits;
  readonly connections: Connections;
  readonly answer: (exchange: Exchange, reply: Reply) => void;
  /** Called each time that `limits.collectBytes` of bodies have been received. */
  readonly collectGarbage: (() => void) | undefined;
}

export const NO_BODY = Buffer.alloc(0);

/** The bodies that are being received. All connections together hold at most `limits.uploadBytesMax`. */
export class Uploads {
  readonly #options: UploadsOptions;
  /** Sum of `uploadBytes` of all connections. */
  #uploadBytes = 0;
  /** Counts bytes that become garbage, such as each chunk and the result of parsing it. */
  readonly #countGarbage: (bytes: number) => void;
  /** Free buffers in which bodies of more than one chunk are assembled. */
  readonly #spareBuffers: Buffer[] = [];
  readonly #unpacker: Unpacker;

  constructor(options: UploadsOptions) {
    this.#options = options;
    this.#unpacker = new Unpacker(options.limits);
    this.#countGarbage = collectEach(options.limits, () => options.collectGarbage?.());
  }

  /**
   * Receives the body of a request and passes it to `decision`. Replies 413 if the body is larger than its route allows or arrives
   * in too many small pieces, or 503 if there is no memory for the body.
   */
  receive(exchange: Exchange, decision: ReceiveDecision): void {
    const { limits, answer } = this.#options;
    const { bodyBytesMax, uploadBytesMax } = decision.bodyLimits;
    const { req, connection } = exchange;
    let body: Buffer = NO_BODY;
    req.onBytes = (chunk) => {
      if (chunk === null) {
        const whole = body;
        body = NO_BODY; // this closure lives until the next request on the connection
        this.#end(exchange, decision, whole);
        return;
      }
      const before = connection.uploadBytes;
      connection.uploadBytes += chunk.length;
      this.#uploadBytes += chunk.length;
      this.#countGarbage(chunk.length);
      if (this.#owesTooMuch(connection, chunk)) {
        this.release(connection);
        this.#stopParsing(exchange);
        answer(exchange, tooManyPieces(limits).reply);
      } else if (connection.uploadBytes > bodyBytesMax) {
        answer(exchange, bodyTooLarge(decision.bodyLimits).reply);
      } else if (this.#uploadBytes > uploadBytesMax && !this.#freeMemory(connection, uploadBytesMax)) {
        answer(exchange, unavailable(TOO_MUCH));
      } else if (before === 0) {
        body = chunk;
      } else {
        const appended = this.#appended(body, before, chunk, bodyBytesMax);
        if (appended === undefined) answer(exchange, unavailable(NO_MEMORY));
        else body = appended;
      }
    };
  }

  /** @param buffer the body is in its first bytes */
  #end(exchange: Exchange, decision: ReceiveDecision, buffer: Buffer): void {
    const { limits, answer } = this.#options;
    const { connection } = exchange;
    exchange.received = true;
    if (connection.unpaidPieces > limits.unpaidPiecesMax / 2) exchange.final = true; // a later body would be refused
    if (exchange.final) ignoreFurther(connection);
    const whole = buffer.subarray(0, connection.uploadBytes);
    this.release(connection);
    if ((decision.isPacked && whole.length > 0) || connection.unpacking !== undefined)
      this.receiveInTurn(exchange, decision, Buffer.from(whole));
    else decision.receive(whole, (reply) => answer(exchange, reply));
    this.#keepSpare(buffer);
  }

  /**
   * Discards the rest of a refused upload, at most `limits.discardBytesMax` (4 MiB) and at most a limited number of pieces, so that
   * the client can read its reply.
   */
  discard(exchange: Exchange): void {
    const { req, connection } = exchange;
    let bytes = 0;
    req.onBytes = (chunk) => {
      bytes += chunk?.length ?? 0;
      this.#countGarbage(chunk?.length ?? 0);
      if (chunk !== null && this.#owesTooMuch(connection, chunk)) return this.#stopParsing(exchange);
      if (chunk !== null && bytes <= this.#options.limits.discardBytesMax) return;
      exchange.received = true;
      if (chunk !== null) pause(connection); // its reply might wait for the replies to earlier requests
      connection.uploadEnded();
    };
  }

  /**
   * Decompresses a body, and handles its request after the earlier requests on its connection. Until then both forms of the body
   * are counted.
   */
  receiveInTurn(exchange: Exchange, decision: ReceiveDecision, body: Buffer): void {
    const { answer } = this.#options;
    const { connection } = exchange;
    const before = connection.unpacking;
    let heldBytes = body.length;
    this.#uploadBytes += heldBytes;
    const { uploadBytesMax } = decision.bodyLimits;
    const hold = (bytes: number): boolean => {
      this.#uploadBytes += bytes;
      heldBytes += bytes;
      this.#countGarbage(bytes);
      const isAlone = this.#uploadBytes === heldBytes; // the two forms of a single body can exceed the limit of a small service
      return isAlone || this.#uploadBytes <= uploadBytesMax || this.#freeMemory(connection, uploadBytesMax);
    };
    const handle = async () => {
      const unpacked = decision.isPacked && body.length > 0 ? await this.#unpacked(body, decision, hold) : body;
      await before;
      this.#uploadBytes -= heldBytes;
      if (connection.unpacking === handled) connection.unpacking = undefined;
      if (Buffer.isBuffer(unpacked)) decision.receive(unpacked, (reply) => answer(exchange, reply));
      else answer(exchange, unpacked);
    };
    const handled: Promise<void> = handle();
    connection.unpacking = handled;
  }

  /** @param hold counts bytes before they are allocated, and returns whether there is memory for them. Never rejects. */
  async #unpacked(
    packed: Buffer,
    { bodyLimits }: ReceiveDecision,
    hold: (bytes: number) => boolean,
  ): Promise<Buffer | Reply> {
    const allocate = (bytes: number): Buffer => {
      const buffer = hold(bytes) ? this.#allocated(bytes) : undefined;
      if (buffer === undefined) throw unavailableRefusal(TOO_MUCH);
      return buffer;
    };
    try {
      return await this.#unpacker.unpack(packed, bodyLimits, allocate);
    } catch (error) {
      return error instanceof Refusal ? error.reply : unavailable(NO_MEMORY);
    }
  }

  /** Counts a piece of a body. @returns whether the connection exceeds its limit of small pieces */
  #owesTooMuch(connection: Connection, piece: Buffer): boolean {
    const { bodyPieceBytes, unpaidPiecesMax } = this.#options.limits;
    connection.unpaidPieces = Math.max(0, connection.unpaidPieces + 1 - piece.length / bodyPieceBytes);
    return connection.unpaidPieces > unpaidPiecesMax;
  }

  /** Ends an upload early: further bytes of its client are discarded before the parser, once the reply is sent. */
  #stopParsing(exchange: Exchange): void {
    const { req, connection } = exchange;
    req.onBytes = ignore; // Node parses the rest of what it has read
    exchange.received = true;
    exchange.overrun = true;
    pause(connection);
    connection.uploadEnded();
  }

  /** Releases the memory of an upload that is complete, refused or cut off. */
  release(connection: Connection): void {
    this.#uploadBytes -= connection.uploadBytes;
    connection.uploadBytes = 0;
  }

  /**
   * Appends a chunk to a body. The first chunk is kept without a copy. Further chunks are copied into one buffer, so that a body
   * of a million chunks uses no more memory than a body of one.
   * @returns undefined if the memory for the body could not be allocated
   */
  #appended(body: Buffer, bytes: number, chunk: Buffer, bytesMax: number): Buffer | undefined {
    const { bodyBytesMax } = this.#options.limits;
    const neededBytes = bytes + chunk.length;
    let buffer: Buffer | undefined = body;
    if (buffer.length < bodyBytesMax || buffer.length < neededBytes) {
      const isLarge = neededBytes > bodyBytesMax; // a route can allow larger bodies than reports
      buffer = isLarge ? this.#allocated(bytesMax) : (this.#spareBuffers.pop() ?? this.#allocated(bodyBytesMax));
      if (buffer === undefined) return undefined;
      body.copy(buffer, 0, 0, bytes);
      if (isLarge) this.#keepSpare(body);
    }
    chunk.copy(buffer, bytes);
    return buffer;
  }

  /**
   * Allocates a buffer. Its pages use no memory until they are written.
   * @returns undefined if the allocation failed, since no caller would catch an error: this runs in a callback of the
   * parser
   */
  #allocated(bytes: number): Buffer | undefined {
    try {
      return Buffer.allocUnsafeSlow(bytes);
    } catch (error) {
      this.#options.connections.notAccepted('a body could not be received and gets 503; is memory short?', {
        problem: (error as Error).message,
      });
      return undefined;
    }
  }

  /** Keeps the buffer for another body: freed memory returns to the system late, and large bodies arrive in bursts. */
  #keepSpare(buffer: Buffer): void {
    const { bodyBytesMax, spareBuffersMax } = this.#options.limits;
    if (buffer.length === bodyBytesMax && this.#spareBuffers.length < spareBuffersMax) this.#spareBuffers.push(buffer);
  }

  /** Refuses the longest stalled uploads until the others fit. @returns whether they fit */
  #freeMemory(newest: Connection, uploadBytesMax: number): boolean {
    const { limits, connections, answer } = this.#options;
    const { stalledUploadMs } = limits;
    while (this.#uploadBytes > uploadBytesMax) {
      const stalled = connections.findLongestIdle(stalledUploadMs, (one) => one.uploadBytes > 0 && one !== newest);
      if (stalled?.last === undefined) return false;
      answer(stalled.last, STALLED);
    }
    return true;
  }
}

const ignore = () => {};

const TOO_MUCH = 'too much is being received at once; send the report again later';
const NO_MEMORY = 'the service is short of memory; send the report again later';

const STALLED = new Refusal(408, 'the body stalled while others needed its memory; send it without a pause').reply;
