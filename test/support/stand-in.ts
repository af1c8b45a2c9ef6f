/** A service of `serve --test`, as a process. */

import assert from 'node:assert/strict';
import { newFolder, type Running, type Scope, startService } from './program.ts';
import { post, Wire, type WireReply } from './wire.ts';

const JSON_HEAD = { 'Content-Type': 'application/json' };

export interface StandIn extends Running {
  /** A request to the service, with JSON both ways. */
  call(method: string, path: string, body?: unknown): Promise<{ status: number; json: Record<string, unknown> }>;
  faults(...faults: readonly object[]): Promise<void>;
  /** How many reports met each fault. */
  met(): Promise<number[]>;
  keys(): unknown[];
}

export async function standIn(t: Scope, args: readonly string[] = ['--test'], data = newFolder(t)): Promise<StandIn> {
  const service = await startService(t, { args, data });
  const call = async (method: string, path: string, body?: unknown) => {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = { Accept: 'application/json', ...(body !== undefined && JSON_HEAD) };
    const reply = await fetch(`${service.url}${path}`, { method, headers, ...sent });
    return { status: reply.status, json: (await reply.json()) as Record<string, unknown> };
  };
  return {
    ...service,
    call,
    faults: async (...faults) => {
      const { status, json } = await call('PUT', '/test/faults', { seed: 7, faults });
      assert.equal(status, 200, JSON.stringify(json));
    },
    met: async () => {
      const { json } = await call('GET', '/test/faults');
      return (json['faults'] as { met: number }[]).map(({ met }) => met);
    },
    keys: () => service.events().map((event) => event['asset_key']),
  };
}

/** Reports on a new connection. @returns the reply, or what happened to the connection */
export async function report(service: Running, target: string, body?: string): Promise<WireReply | 'reset' | 'closed'> {
  const wire = await Wire.open(service.port);
  let isReset = false;
  wire.socket.on('error', ({ code }: NodeJS.ErrnoException) => {
    isReset = code === 'ECONNRESET';
  });
  wire.send(post(target, body));
  const reply = await wire.reply();
  wire.close();
  return reply ?? (isReset ? 'reset' : 'closed');
}

export async function statusOf(service: Running, target: string, body?: string): Promise<number | string> {
  const reply = await report(service, target, body);
  return typeof reply === 'string' ? reply : reply.status;
}
