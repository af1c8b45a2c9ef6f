/** Reports through the handbook's nginx: one by one, or from clients that report without a pause. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, type RequestOptions, request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { page } from './handbook.ts';
import { Load } from './load.ts';
import { type Nginx, PUBLIC_NAME, recommended, replaced, startNginx } from './nginx.ts';
import type { Scope } from './program.ts';

export const ENDPOINT = '/report_asset_materialization/';

/** Starts nginx in front of two ingesters on these ports, with the handbook's configuration for `--ack`. */
export function startBalancer(t: Scope, port: number, otherPort: number): Promise<Nginx> {
  const [next, server] = [/`(proxy_next_upstream [^`]*;)`/, /`(server 10[^`]*;)`/].map((rule) => {
    return rule.exec(page('replicate').replaceAll(/\s+/g, ' '))?.[1] ?? assert.fail(`${rule}`);
  }) as [string, string];
  const servers = [3000, otherPort].map((one) => server.replace('10.0.0.1:3000', `127.0.0.1:${one}`)).join('\n');
  const site = replaced(recommended, 'server 127.0.0.1:3000;', servers);
  return startNginx(t, port, replaced(site, 'proxy_next_upstream off;', next));
}

export interface Asked {
  readonly agent?: Agent;
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly chunked?: boolean;
}

/** @param localAddress the address to connect from; any by default */
export function agentFor(t: Scope, { certificate }: Nginx, maxSockets: number, localAddress?: string): Agent {
  const from = localAddress === undefined ? {} : { localAddress };
  const agent = new Agent({ keepAlive: true, maxSockets, ca: certificate, servername: PUBLIC_NAME, ...from });
  t.after(() => agent.destroy());
  return agent;
}

export interface Reply {
  /** 0 if the connection ended without a reply. */
  readonly status: number;
  readonly type: string | undefined;
  readonly body: string;
  readonly connection: unknown;
}

export async function ask(
  { port }: Nginx,
  { agent, method = 'POST', path, headers, body, chunked }: Asked,
): Promise<Reply> {
  const options: RequestOptions = { host: '127.0.0.1', port, method, path, ...(agent && { agent }) };
  const sent = request(options);
  sent.setHeader('Host', `${PUBLIC_NAME}:${port}`);
  for (const [name, value] of Object.entries(headers ?? {})) sent.setHeader(name, value);
  if (body !== undefined) sent.setHeader('Content-Type', 'application/json');
  if (chunked && body !== undefined) sent.write(body.slice(0, 1));
  sent.end(chunked ? body?.slice(1) : body);
  try {
    const [reply] = await once(sent, 'response');
    let text = '';
    for await (const piece of reply.setEncoding('utf8')) text += piece;
    return { status: reply.statusCode, type: reply.headers['content-type'], body: text, connection: sent.socket };
  } catch (error) {
    return { status: 0, type: undefined, body: String(error), connection: undefined };
  }
}

/** Clients that report without a pause and never send a key again, whatever the reply. */
export function startLoad(proxy: Nginx, agent: Agent, clients: number): Load {
  return new Load(clients, async (client, load) => {
    for (let count = 0; load.isRunning; count += 1) {
      const key = `${client}.${count}`;
      const { status } = await ask(proxy, { agent, path: ENDPOINT + key });
      load.add(key, status);
      if (status !== 200) await sleep(5);
    }
  });
}
