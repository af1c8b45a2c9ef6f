/** Loaded before a process that shall take its system for macOS: there, no socket is reached through /proc, and none is abstract. */

import { Server, Socket } from 'node:net';

Object.defineProperty(process, 'platform', { value: 'darwin' });

/** @param args of `listen` and `connect`: a path, an object with one, or what `connect` made of them */
function refuseLinux(args: readonly unknown[]): void {
  for (const arg of args.flat()) {
    const path = typeof arg === 'string' ? arg : (arg as { path?: unknown } | null | undefined)?.path;
    if (/^(\/proc\/|\0)/.test(String(path))) throw new Error(`macOS has no socket at ${path}`);
  }
}

for (const [type, name] of [
  [Server, 'listen'],
  [Socket, 'connect'],
] as const) {
  const own = Reflect.get(type.prototype, name);
  Reflect.set(type.prototype, name, function (this: unknown, ...args: unknown[]) {
    refuseLinux(args);
    return Reflect.apply(own, this, args);
  });
}
