/** A connection of a service, as far as the client of NATS uses one. Bytes arrive in order, or none any more. */

import { EventEmitter } from 'node:events';
import type { Link } from './network.ts';
import { systemError } from './simulated-disk.ts';
import type { Incarnation, World } from './time.ts';

export interface SocketParts {
  readonly world: World;
  readonly link: Link;
  /** Who has opened it. */
  readonly process: Incarnation;
  /** Called with each write of the client that arrives, also after the client has closed it. */
  readonly arrives: (bytes: Buffer) => void;
  /** Called when the client writes. @returns how much longer than others these bytes take; undefined if they get lost */
  readonly leaves: (bytes: Buffer) => number | undefined;
}

export class SimulatedSocket extends EventEmitter {
  readonly writableNeedDrain = false;
  readonly #parts: SocketParts;
  #isClosed = false;
  /** Something was lost: nothing after it arrives. */
  #isCut = false;
  #arrivesMs = 0;
  #repliesMs = 0;

  constructor(parts: SocketParts) {
    super();
    this.#parts = parts;
  }

  write(bytes: Buffer | string): boolean {
    const { world, link, arrives, leaves } = this.#parts;
    this.#isCut ||= link.isDown;
    if (this.#isClosed || this.#isCut) return true;
    const whole = Buffer.from(bytes);
    const delayMs = leaves(whole);
    if (delayMs === undefined) return true;
    this.#arrivesMs = Math.max(this.#arrivesMs, world.nowMs + link.latencyMs() + delayMs);
    world.plan(this.#arrivesMs - world.nowMs, 'arrives', () => arrives(whole), null);
    return true;
  }

  destroy(): void {
    this.#isClosed = true;
  }

  /** The server writes. */
  say(text: string): void {
    const { world, link, process } = this.#parts;
    this.#isCut ||= link.isDown;
    if (this.#isClosed || this.#isCut) return;
    this.#repliesMs = Math.max(this.#repliesMs, world.nowMs + link.latencyMs());
    const heard = () => this.#isClosed || this.emit('data', Buffer.from(text));
    world.plan(this.#repliesMs - world.nowMs, `hears ${text.slice(0, 4).trim()}`, heard, process);
  }

  /** The server closes it. */
  end(): void {
    const { world, link, process } = this.#parts;
    const closed = () => this.#isClosed || this.emit('close');
    if (!this.#isCut) world.plan(link.latencyMs(), 'closed', closed, process);
    this.#isCut = true;
  }

  /** No process listens, or the host cannot be reached. */
  refuse(code: 'ECONNREFUSED' | 'EHOSTUNREACH'): void {
    const { world, link, process } = this.#parts;
    const refused = () => this.#isClosed || this.emit('error', systemError(code, 'connect'));
    world.plan(link.latencyMs(), 'refused', refused, process);
    this.#isCut = true;
  }
}
