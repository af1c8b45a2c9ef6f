/** The listening socket: binds it, connects the events of `node:http` to an `App`, and closes it gracefully. */

import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { Limits } from '../../config/limits.ts';
import type { App } from '../message.ts';
import type { ClientError } from './client-error.ts';
import { Exchanges, type ExchangesOptions } from './exchanges.ts';
import { createRawServer, takeTimeouts } from './node-classes.ts';

/** An IP address and a port (0 for any free one), or the file descriptor of a listening socket that another process opened. */
export type ListenAt =
  | { readonly kind: 'address'; readonly host: string; readonly port: number }
  | { readonly kind: 'passed socket'; readonly fd: number };

export interface ListenerOptions extends ExchangesOptions {
  readonly at: ListenAt;
  /** Called once, with the address that the listener is bound to. */
  readonly createApp: (address: string) => App;
  readonly limits: Limits;
}

/** A bound socket that serves requests. */
export interface Listener {
  /** The bound IP address. */
  readonly address: string;
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

/** Binds the socket and serves requests. @throws the error of `listen`, with its `code`, such as `EADDRINUSE` */
export async function listen(options: ListenerOptions): Promise<Listener> {
  const server = createRawServer(options.limits);
  server.listen(options.at); // Node reads `host` and `port`, or `fd`
  await once(server, 'listening');
  const bound = server.address();
  if (bound === null || typeof bound === 'string') {
    server.close();
    throw new Error('it is not a TCP socket');
  }
  if (options.background) server.unref();
  // This is the same turn of the event loop as 'listening', so no 'connection' event was missed.
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
  server.on('error', ({ message }) =>
    connections.notAccepted('a connection could not be accepted', { problem: message }),
  );
  return {
    address: bound.address,
    port: bound.port,
    close: async () => {
      exchanges.drain();
      // Reads arrived requests first: Node closes idle connections immediately, and the kernel resets unaccepted connections.
      const untilMs = performance.now() + options.limits.firstByteMs;
      for (let before = -1; before !== accepted && performance.now() < untilMs; ) {
        before = accepted;
        await waitTurn();
      }
      const closed = once(server, 'close');
      server.close();
      await connections.drain(closed);
    },
  };
}

/**
 * Resolves after a whole turn of the event loop, which reads all connections, and accepts at least one if any waits.
 */
function waitTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}
