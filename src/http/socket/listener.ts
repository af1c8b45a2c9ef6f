/** The listening sockets: binds them, connects the events of `node:http` to an `App`, and closes them gracefully. */

import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { Limits } from '../../config/limits.ts';
import type { App } from '../message.ts';
import type { ClientError } from './client-error.ts';
import { Exchanges, type ExchangesOptions } from './exchanges.ts';
import { createRawServer, type RawServer, takeTimeouts } from './node-classes.ts';

/** An IP address and a port (0 for any free one), or the file descriptor of a listening socket that another process opened. */
export type ListenAt =
  | {
      readonly kind: 'address';
      readonly host: string;
      readonly port: number;
      /** A second IP address, for the same port. It is left out if this machine does not have it. */
      readonly alsoHost?: string;
    }
  | { readonly kind: 'passed socket'; readonly fd: number };

export interface ListenerOptions extends ExchangesOptions {
  readonly at: ListenAt;
  /** Called once, with the address that the listener is bound to. */
  readonly createApp: (address: string) => App;
  readonly limits: Limits;
}

/** Bound sockets that serve requests. */
export interface Listener {
  /** The bound IP address. */
  readonly address: string;
  /** The second bound IP address, if any. */
  readonly alsoAddress?: string | undefined;
  /** The bound port, never 0. */
  readonly port: number;
  /**
   * Stops accepting connections and answers the requests that have arrived or are being received. Resolves when all connections
   * are closed, after at most `limits.drainMs` (10,000 ms).
   */
  close(): Promise<void>;
}

/** The type of {@link listen}, which simulations replace. */
export type Listen = (options: ListenerOptions) => Promise<Listener>;

/** Binds the sockets and serves requests. @throws the error of `listen`, with its `code` and `address`, such as `EADDRINUSE` */
export async function listen(options: ListenerOptions): Promise<Listener> {
  const { server, bound, also } = await bind(options);
  const servers = also === undefined ? [server] : [server, also];
  if (options.background) for (const one of servers) one.unref();
  // This is the same turn of the event loop as 'listening' of each, so no 'connection' event was missed.
  const checkRequests = takeTimeouts(server);
  const exchanges = new Exchanges({ ...options, checkRequests }, options.createApp(bound.address));
  const { connections } = exchanges;
  options.metrics.connections = connections;
  let accepted = 0;
  server.on('connection', (socket) => {
    accepted += 1;
    connections.add(socket);
  });
  server.on('request', (req, res) => exchanges.onRequest(req, res, false));
  server.on('checkContinue', (req, res) => exchanges.onRequest(req, res, true));
  server.on('checkExpectation', (req, res) => exchanges.onRequest(req, res, false));
  server.on('connect', (req, socket) => exchanges.onConnect(req, socket as Socket));
  server.on('clientError', (error: ClientError, socket) => exchanges.onClientError(error, socket as Socket));
  // From here on, 'error' means that a connection could not be accepted. Without a handler it would end the process.
  const onError = ({ message }: Error) =>
    connections.notAccepted('a connection could not be accepted', { problem: message });
  for (const one of servers) one.on('error', onError);
  return {
    address: bound.address,
    alsoAddress: (also?.address() as AddressInfo | undefined)?.address,
    port: bound.port,
    close: async () => {
      exchanges.drain();
      // Reads arrived requests first: Node closes idle connections immediately, and the kernel resets unaccepted connections.
      const untilMs = performance.now() + options.limits.firstByteMs;
      for (let before = -1; before !== accepted && performance.now() < untilMs; ) {
        before = accepted;
        await waitTurn();
      }
      const closed = Promise.all(servers.map((one) => once(one, 'close')));
      for (const one of servers) one.close();
      await connections.drain(closed);
    },
  };
}

interface Bound {
  readonly server: RawServer;
  readonly bound: AddressInfo;
  /** Listens on the second address, and passes its connections to `server`. */
  readonly also: Server | undefined;
}

async function bind({ at, limits }: ListenerOptions): Promise<Bound> {
  for (let attempt = 1; ; attempt += 1) {
    const server = createRawServer(limits);
    server.listen(at); // Node reads `host` and `port`, or `fd`
    await once(server, 'listening');
    const bound = server.address();
    try {
      if (bound === null || typeof bound === 'string') throw new Error('it is not a TCP socket');
      return { server, bound, also: await bindAlso(server, at, bound.port) };
    } catch (error) {
      server.close();
      // The free port of one address can be another program's on the second one.
      const isOther = isAnyPort(at) && (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      if (!isOther || attempt === ANY_PORT_ATTEMPTS) throw error;
    }
  }
}

async function bindAlso(server: RawServer, at: ListenAt, port: number): Promise<Server | undefined> {
  if (at.kind !== 'address' || at.alsoHost === undefined) return undefined;
  // The options that `node:http` has for its own connections.
  const also = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket));
  also.listen(port, at.alsoHost);
  try {
    await once(also, 'listening');
    return also;
  } catch (error) {
    const isMissing = ['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes((error as NodeJS.ErrnoException).code ?? '');
    if (isMissing) return undefined;
    throw error;
  }
}

const isAnyPort = (at: ListenAt): boolean => at.kind === 'address' && at.port === 0;
const ANY_PORT_ATTEMPTS = 20;

/**
 * Resolves after a whole turn of the event loop, which reads all connections, and accepts at least one if any waits.
 */
function waitTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}
