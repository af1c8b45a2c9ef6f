/**
 * Messages between processes. A request is delivered to whatever listens under the name of its host, after the latency of its link.
 * Each link has faults of its own, which the plan of a life sets.
 */

import { gunzipSync } from 'node:zlib';
import { type HttpCall, type HttpClient, type HttpReply, NoReply } from '../../src/client/connection.ts';
import type { RequestKind } from '../simulation/faults.ts';
import type { Chance } from './chance.ts';
import type { Incarnation, World } from './time.ts';

/** What a gateway calls itself when it refuses a request in the place of a service. */
export const GATEWAY = 'the simulated gateway';
/** Only what is delayed, or comes twice, is on its way for longer. */
const LATE_MS = 1_000;

/** A request as it arrives. */
export interface Delivered {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly host: string;
  /** Name, value, name, value … */
  readonly headers: readonly string[];
  readonly body: Buffer;
  /** Gets each piece of a reply that takes long, for a sender that reads it as it comes. */
  readonly onPiece?: (text: string) => void;
  /** Whether its sender does not wait for the reply any more. */
  readonly isGone?: () => boolean;
  /** Whether the request came twice, which its sender does not know. */
  readonly isCopy?: boolean;
}

/** A request whose reply is read as it comes. */
export interface StreamedCall extends HttpCall {
  readonly onPiece?: (text: string) => void;
}

interface StreamingClient extends HttpClient {
  call(url: URL, call: StreamedCall): Promise<HttpReply>;
}

/** What listens under the name of a host. */
export interface Server {
  readonly process: Incarnation;
  handle(request: Delivered): Promise<HttpReply>;
}

/** What happens to the next request on a link, once. */
export type MessageFault =
  | { readonly kind: 'request lost' }
  | { readonly kind: 'reply lost' }
  | { readonly kind: 'delayed'; readonly ms: number }
  | { readonly kind: 'doubled'; readonly afterMs: number }
  /** The request arrives, and its sender soon sees the end of the connection. */
  | { readonly kind: 'reply cut' }
  | {
      /** What the reply is; `forged reply` is that of a proxy, or of something else in its place. */
      readonly kind: 'forged reply' | Exclude<RequestKind, 'reply cut'>;
      readonly reply: HttpReply;
      readonly isDelivered: boolean;
      /** Asked when it is its turn; if not, the reply is a 502. Always if it is undefined. */
      readonly mayCome?: () => boolean;
    };

/** A link from one machine to one host. */
export class Link {
  readonly chance: Chance;
  isDown = false;
  /** For the next requests, one each. */
  readonly faults: MessageFault[] = [];
  readonly #byChance: () => MessageFault | undefined;

  /** @param byChance asked about each request that has no fault of its own */
  constructor(chance: Chance, byChance: () => MessageFault | undefined) {
    this.chance = chance;
    this.#byChance = byChance;
  }

  /** @returns what happens to the request that leaves now */
  nextFault(): MessageFault | undefined {
    return this.faults.shift() ?? this.#byChance();
  }

  latencyMs(): number {
    return 0.3 + this.chance.exponentialMs(3);
  }
}

/** A request whose sender still waits. */
interface Exchange {
  readonly from: Incarnation;
  readonly link: Link;
  fail(message: string, sent: boolean): void;
}

export class Network {
  readonly #world: World;
  readonly #servers = new Map<string, Server>();
  readonly #links = new Map<string, Link>();
  /** The exchanges that a process has not replied to. */
  readonly #open = new Map<Incarnation, Set<Exchange>>();
  /** How many requests arrive later than others, and are on their way. */
  late = 0;
  /** When the last one of them arrived, in virtual time. */
  lateMs = Number.NEGATIVE_INFINITY;
  /** Called when a request leaves. */
  readonly onSent = new Set<(from: string, host: string, request: Delivered) => void>();
  /** Called when a fault has really happened. */
  readonly onFault: (kind: string) => void;
  /** Called with the name of a link for each request on it that has no fault of its own. */
  byChance: (link: string) => MessageFault | undefined = () => undefined;

  constructor(world: World, onFault: (kind: string) => void) {
    this.#world = world;
    this.onFault = onFault;
  }

  listen(host: string, server: Server): void {
    this.#servers.set(host, server);
  }

  /** Requests that arrive from now on are refused; those that arrived before are still answered. */
  stopListening(host: string, process: Incarnation): void {
    if (this.#servers.get(host)?.process === process) this.#servers.delete(host);
  }

  /** The senders that wait for a reply of the process see a reset. */
  close(host: string, process: Incarnation): void {
    this.stopListening(host, process);
    for (const exchange of this.#open.get(process) ?? []) {
      this.#world.plan(exchange.link.latencyMs(), 'reset', () => exchange.fail('read ECONNRESET', true), exchange.from);
    }
    this.#open.delete(process);
  }

  link(from: string, host: string): Link {
    const name = `${from} to ${host}`;
    const link = this.#links.get(name) ?? new Link(this.#world.chance(`link ${name}`), () => this.byChance(name));
    this.#links.set(name, link);
    return link;
  }

  /** @returns the links to a host that had a request */
  linksTo(host: string): Link[] {
    return [...this.#links].flatMap(([name, link]) => (name.endsWith(` to ${host}`) ? [link] : []));
  }

  links(): Link[] {
    return [...this.#links.values()];
  }

  /** A machine sends a request. */
  leaves(from: string, request: Delivered): void {
    for (const sent of this.onSent) sent(from, request.host, request);
  }

  /** @returns a client of one process, as `openClient` returns one */
  clientOf(process: Incarnation, machine: string): StreamingClient {
    const open = new Set<Exchange>();
    return {
      call: (url, call) => {
        this.leaves(machine, requestOf(url, call));
        return this.#call(process, this.link(machine, url.hostname), url, call, open);
      },
      close: () => {
        for (const exchange of open) exchange.fail('the connection was closed', true);
      },
    };
  }

  #call(from: Incarnation, link: Link, url: URL, call: StreamedCall, own: Set<Exchange>): Promise<HttpReply> {
    const world = this.#world;
    const fault = link.isDown ? undefined : link.nextFault();
    return new Promise((resolve, reject) => {
      let isGone = false;
      let pieceAtMs = 0;
      /** Set when a piece was lost: nothing after it arrives. */
      let isCut = false;
      const settled = () => {
        isGone = true;
        own.delete(exchange);
        late.isCancelled = true;
        call.signal?.removeEventListener('abort', aborted);
      };
      const exchange: Exchange = {
        from,
        link,
        fail: (message, sent) => {
          settled();
          reject(new NoReply(new Error(message), sent));
        },
      };
      // A link that is down now refuses before that; one that goes down later had taken the request.
      const late = world.plan(call.timeoutMs, 'timeout', () => exchange.fail('no complete reply in time', true), from);
      const aborted = () => exchange.fail('the request was given up', true);
      call.signal?.addEventListener('abort', aborted, { once: true });
      own.add(exchange);
      const answer = (reply: HttpReply) => {
        if (link.isDown || isCut) return;
        if (fault?.kind === 'reply lost') return this.onFault('reply lost');
        world.plan(
          Math.max(pieceAtMs - world.nowMs, link.latencyMs()),
          `reply ${reply.status}`,
          () => {
            settled();
            resolve(reply);
          },
          from,
        );
      };
      if (call.signal?.aborted) return exchange.fail('the request was given up', false);
      if (link.isDown) {
        this.onFault('link down');
        world.plan(link.latencyMs(), 'refused', () => exchange.fail('connect EHOSTUNREACH', false), from);
        return;
      }
      const { onPiece } = call;
      const passOn = (text: string) => {
        isCut ||= link.isDown || fault?.kind === 'reply lost';
        if (isCut) return;
        pieceAtMs = Math.max(pieceAtMs, world.nowMs + link.latencyMs());
        world.plan(pieceAtMs - world.nowMs, 'piece', () => isGone || onPiece!(text), from);
      };
      const request = { ...requestOf(url, call), ...(onPiece && { onPiece: passOn, isGone: () => isGone }) };
      const delayMs = link.latencyMs() + (fault?.kind === 'delayed' ? fault.ms : 0);
      if (fault !== undefined && fault.kind !== 'reply lost') this.onFault(fault.kind);
      if (fault?.kind === 'request lost') return;
      if (fault?.kind === 'reply cut') {
        world.plan(2 * delayMs, 'reset', () => exchange.fail('read ECONNRESET', true), from);
        this.#deliver(exchange, request, delayMs, () => {});
        return;
      }
      if (fault !== undefined && 'reply' in fault) {
        const reply = (fault.mayCome?.() ?? true) ? fault.reply : { ...fault.reply, status: 502 };
        world.plan(2 * delayMs, 'forged reply', () => answer(reply), null);
        if (fault.isDelivered) this.#deliver(exchange, request, delayMs, () => {});
        return;
      }
      this.#deliver(exchange, request, delayMs, answer);
      if (fault?.kind !== 'doubled') return;
      this.#deliver(exchange, { ...request, isCopy: true }, delayMs + fault.afterMs, () => {});
    });
  }

  #deliver(exchange: Exchange, request: Delivered, delayMs: number, answer: (reply: HttpReply) => void): void {
    const world = this.#world;
    const isLate = delayMs > LATE_MS;
    if (isLate) this.late += 1;
    // Whatever listens when the request arrives gets it, which may have started meanwhile.
    const arrive = () => {
      if (isLate) {
        this.late -= 1;
        this.lateMs = world.nowMs;
      }
      const server = this.#servers.get(request.host);
      if (server === undefined || !server.process.isAlive) {
        world.plan(
          exchange.link.latencyMs(),
          'refused',
          () => exchange.fail('connect ECONNREFUSED', false),
          exchange.from,
        );
        return;
      }
      const { process } = server;
      const open = this.#open.get(process) ?? new Set();
      this.#open.set(process, open.add(exchange));
      const handle = () => {
        const cut = () => exchange.fail('read ECONNRESET', true);
        void server.handle(request).then(
          (reply) => {
            open.delete(exchange);
            answer(reply);
          },
          () => {
            open.delete(exchange);
            world.plan(exchange.link.latencyMs(), 'reset', cut, exchange.from);
          },
        );
      };
      world.plan(0, `${request.method} ${request.target}`, handle, process);
    };
    world.plan(delayMs, 'arrives', arrive, null);
  }
}

function requestOf(url: URL, { method, headers = {}, token, body = '' }: HttpCall): Delivered {
  // `http/socket/unpacker.ts` does the same in threads, which have no place in virtual time.
  const bytes = headers['Content-Encoding'] === 'gzip' ? gunzipSync(body) : Buffer.from(body);
  const sent: Record<string, string> = { Host: url.host, ...headers };
  if (token !== undefined) sent[token.name] = token.token;
  if (bytes.length > 0 || method !== 'GET') sent['Content-Length'] = String(bytes.length);
  return {
    method,
    target: `${url.pathname}${url.search}`,
    host: url.hostname,
    headers: Object.entries(sent).flat(),
    body: bytes,
  };
}
