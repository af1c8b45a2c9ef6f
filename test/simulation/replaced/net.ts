/** `node:net` whose connections are those of a simulation. No service of a life listens on a socket. */

import type { Socket } from 'node:net';

type Connect = (options: { readonly host: string; readonly port: number }) => Socket;

const real = process.getBuiltinModule('node:net');

export const { BlockList, isIP, SocketAddress } = real;

let connecting: Connect | undefined;

/** @param open called for each connection that a service opens from now on */
export function connectWith(open: Connect): void {
  connecting = open;
}

export const connect: Connect = (options) => connecting?.(options) ?? refuse('connect');

export const createServer = () => refuse('createServer');

function refuse(name: string): never {
  process.stderr.write(`the simulation reached the system: node:net ${name}\n`);
  process.exit(2);
}
