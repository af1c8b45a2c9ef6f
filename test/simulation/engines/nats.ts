/**
 * The model of NATS as a cluster with three nodes that sync always. A batch is stored once two nodes have it, and then acknowledged. A
 * leader that ends forgets what it alone had: nothing that it had acknowledged.
 */

import type { Socket } from 'node:net';
import type { HttpReply } from '../../../src/client/connection.ts';
import { type JournalLine, readLine } from '../../world/journal-line.ts';
import { errorOf, framesIn, infoOf, messageOf, NatsStream, noResponders, type Published } from '../../world/nats.ts';
import type { Delivered, MessageFault } from '../../world/network.ts';
import { SimulatedSocket } from '../../world/simulated-socket.ts';
import { theWorld } from '../replaced/globals.ts';
import { Engine, type EngineFault } from './engine.ts';

const NODES = 3;
const FIRST_PORT = 4222;
/** Less than the longest lines of a life have with their headers. */
const MESSAGE_BYTES_MAX = 820;
const UNAVAILABLE = errorOf(10_008, 'system temporarily unavailable');
const WRONG_LAST = 10_071;
const SUBJECT = /^assetlog\._\.([\w-]+)$/;

/** How an answer gets to the client. */
type Answer = (payload: object) => void;

export class Nats extends Engine {
  readonly isTable = false;
  readonly #stream = new NatsStream({ max_msg_size: MESSAGE_BYTES_MAX });
  /** Counts the leaders. */
  #term = 0;
  #leader = 0;
  /** Until then there is no leader, and requests are dropped. */
  #electedMs = 0;
  /** By node: until when it is down. */
  readonly #downMs = Array.from({ length: NODES }, () => 0);
  readonly #sockets = new Map<SimulatedSocket, number>();

  /** As `connect` of `node:net`. */
  connect({ port }: { readonly port: number }): Socket {
    const process = theWorld().current!;
    const [machine] = process.name.split('#') as [string];
    const link = this.network.link(machine, this.name);
    const node = port - FIRST_PORT;
    const faults = new Map<Buffer, MessageFault>();
    const leaves = (bytes: Buffer) => {
      const published = publishedIn(bytes);
      if (published.length > 0) this.network.leaves(machine, { ...requestOf(published), host: this.name });
      const fault = published.length > 0 ? link.nextFault() : undefined;
      if (fault === undefined) return 0;
      this.network.onFault(fault.kind);
      if (fault.kind === 'request lost') return undefined;
      faults.set(bytes, fault);
      return fault.kind === 'delayed' ? fault.ms : 0;
    };
    const arrives = (bytes: Buffer) => this.#arrives(socket, node, bytes, faults.get(bytes));
    const socket = new SimulatedSocket({ world: this.world, link, process, leaves, arrives });
    if (link.isDown) this.network.onFault('link down');
    if (link.isDown) socket.refuse('EHOSTUNREACH');
    else if (this.#downMs[node]! > this.world.nowMs) socket.refuse('ECONNREFUSED');
    else {
      this.#sockets.set(socket, node);
      socket.say(infoOf());
    }
    return socket as unknown as Socket;
  }

  linesIn({ target, body }: Delivered): JournalLine[] {
    return SUBJECT.test(target) ? body.toString().split('\n').map(readLine) : [];
  }

  #arrives(socket: SimulatedSocket, node: number, bytes: Buffer, fault: MessageFault | undefined): void {
    // What it had received before it ended it may have passed on.
    if (this.#downMs[node]! > this.world.nowMs) return;
    if (bytes.includes('\r\nPING\r\n')) socket.say('PONG\r\n');
    const published = publishedIn(bytes);
    const [first] = published;
    if (first === undefined) return;
    const { reply = '' } = first;
    const isForged = fault !== undefined && 'reply' in fault;
    if (isForged) {
      socket.say(forged(reply, fault.reply));
      if (!fault.isDelivered) return;
    }
    if (fault?.kind === 'reply cut') socket.end();
    const isSilent = fault?.kind === 'reply lost' || isForged;
    const answer = (said: object) => isSilent || socket.say(messageOf(reply, JSON.stringify(said)));
    const take = () => this.#take(published, answer, socket);
    this.world.plan(0, `takes ${first.subject}`, take, this.process);
    if (fault?.kind === 'doubled') this.world.plan(fault.afterMs, `takes ${first.subject} again`, take, this.process);
  }

  /** A request at the stream. @param socket of its client */
  #take(published: readonly Published[], answer: Answer, socket: SimulatedSocket): void {
    if (this.#electedMs > this.world.nowMs) return;
    const [first] = published as [Published];
    if (first.subject.startsWith('$JS.API.STREAM.INFO.')) answer(this.#stream.take(first)!);
    else if (first.subject.startsWith('$JS.API.')) this.#get(JSON.parse(`${first.payload}`).last_by_subj, answer);
    else this.#propose(published, answer, socket, this.nextFault());
  }

  #get(subject: string, answer: Answer): void {
    const { chance } = this.process;
    // Else those of a batch would be used up by the asks that follow one.
    const fault = chance.happens(0.5) ? this.nextFault() : 'none';
    if (fault === 'before') this.#loseLeader();
    else if (fault === 'after' && chance.happens(0.5)) answer(UNAVAILABLE);
    else {
      // A leader that does not know yet that another one was elected.
      const isStale = this.#stream.count(subject) > 3 && (fault === 'after' || chance.happens(0.3));
      if (isStale) this.met('nats stale');
      answer(this.#stream.get(subject, isStale ? chance.integer(1, 3) : 0));
    }
  }

  /** The leader sends a batch to the other nodes. Once one of them has it, it is stored. */
  #propose(batch: readonly Published[], answer: Answer, socket: SimulatedSocket, fault: EngineFault): void {
    const { chance } = this.process;
    const term = this.#term;
    const commit = () => {
      if (term === this.#term) this.#commit(batch, fault === 'after' ? this.#troubled(answer, socket) : answer);
      else this.met('nats forgotten');
    };
    if (fault === 'before') {
      const [refuse, close, fail] = [() => answer(UNAVAILABLE), () => socket.end(), () => this.#loseLeader()];
      const effect = chance.oneOf([refuse, close, fail]);
      this.world.plan(effect === fail ? chance.exponentialMs(3) : 0, 'ends', effect, this.process);
      if (effect !== fail) return;
    }
    this.world.plan(chance.exponentialMs(5), 'stores', commit, this.process);
  }

  #commit(batch: readonly Published[], answer: Answer): void {
    const before = this.#stream.stored.length;
    const said = batch.map((message) => this.#stream.take(message)).at(-1)!;
    if (this.#stream.stored.length > before) {
      const [, source] = SUBJECT.exec(batch[0]!.subject) ?? [];
      if (source !== undefined) this.store(source, batch.map(lineOf));
      this.met('nats stored');
    } else if (said.error?.err_code === WRONG_LAST) this.met('nats wrong last');
    answer(said);
  }

  /** @returns an answer that gets lost, also with its connection, or comes twice or late */
  #troubled(answer: Answer, socket: SimulatedSocket): Answer {
    const { chance } = this.process;
    const late = (payload: object) =>
      void this.world.plan(chance.exponentialMs(8_000), 'answers late', () => answer(payload), this.process);
    const twice = (payload: object) => {
      answer(payload);
      answer(payload);
    };
    return chance.oneOf([() => {}, () => socket.end(), twice, late]);
  }

  /** The node that leads ends. Another one is elected, which has what was acknowledged, and not what only that node had. */
  #loseLeader(): void {
    const { chance } = this.process;
    const { nowMs } = this.world;
    this.#term += 1;
    this.met('nats new leader');
    this.#downMs[this.#leader] = nowMs + chance.exponentialMs(3_000);
    for (const [socket, node] of this.#sockets) {
      if (node !== this.#leader) continue;
      socket.end();
      this.#sockets.delete(socket);
    }
    this.#leader = (this.#leader + chance.integer(1, NODES - 1)) % NODES;
    this.#electedMs = nowMs + chance.exponentialMs(1_000);
  }
}

/** @returns the messages in what a client wrote at once, which are whole */
function publishedIn(bytes: Buffer): Published[] {
  return [...framesIn(bytes)].flatMap(({ message }) => (message === undefined ? [] : [message]));
}

function lineOf({ payload }: Published): JournalLine {
  return readLine(`${payload}`);
}

/** @returns what is published, as far as a request over HTTP says it */
function requestOf(published: readonly Published[]): Omit<Delivered, 'host'> {
  const [{ subject }] = published as [Published];
  const body = Buffer.from(published.map(({ payload }) => payload).join('\n'));
  return { method: 'PUB', target: subject, headers: [], body };
}

/** @returns what a server says that is not well, by what a proxy would say */
function forged(reply: string, { status }: HttpReply): string {
  switch (status) {
    case 401:
      return "-ERR 'Authorization Violation'\r\n";
    case 200:
      return messageOf(reply, JSON.stringify(errorOf(10_059, 'stream not found')));
    case 503:
      return noResponders(reply);
    default:
      return "-ERR 'Stale Connection'\r\n";
  }
}
